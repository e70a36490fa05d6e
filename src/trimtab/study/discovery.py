"""Discovery over all kinds of targets: what `trimtab init` can write a study file for."""

from __future__ import annotations

from trimtab import plugins
from trimtab.errors import UsageError
from trimtab.target import DiscoverableTarget, FoundServer

__all__ = ["embedded_server", "found_servers"]

_DEFAULT = "postgresql"


def _classes(kind: str | None) -> list[type[DiscoverableTarget]]:
    """The target classes that can look around, PostgreSQL's first; each once, however many names it has."""
    names = plugins.names("targets") if kind is None else (kind,)
    ordered = sorted(names, key=lambda name: (name != _DEFAULT, name))
    loaded = dict.fromkeys(plugins.load("targets", name) for name in ordered)
    return [each for each in loaded if isinstance(each, type) and issubclass(each, DiscoverableTarget)]


def found_servers(kind: str | None = None) -> list[FoundServer]:
    """The servers that run on this machine, of one kind or of all.

    Raises:
        UsageError: there is no such kind.
    """
    return [server for each in _classes(kind) for server in each.found_servers()]


def embedded_server(kind: str | None = None) -> FoundServer:
    """A server that Trimtab starts itself; PostgreSQL where no kind is named.

    Raises:
        UsageError: there is no such kind, or it has none that can be started here.
    """
    for each in _classes(kind or _DEFAULT):
        server = each.embedded_server()
        if server is not None:
            return server
    raise UsageError(
        f"no server of kind={kind or _DEFAULT!r} can be started here",
        hint="install its package (for mysql: apt-get install mariadb-server), or start your server and run this again",
    )
