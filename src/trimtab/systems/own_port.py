"""OwnPort: that it is the program itself which answers on its port, and no other one that took it while the program was away."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from trimtab.errors import TargetError
from trimtab.host import listeners, process_name, process_parent
from trimtab.systems.http_probe import is_http

__all__ = ["OwnPort"]


class OwnPort:
    """The port of a health address. Only once the program was seen to listen there itself is that asked for: a proxy, or a system
    that hands out the sockets, may answer for it as well.

    Args:
        address: of the health check.
    """

    def __init__(self, address: str) -> None:
        self._port = _port_of(address) if is_http(address) else None
        self._is_own = False

    def learn(self, pid: int | None) -> None:
        """Looks whether the program with this process listens there now, while all is well."""
        self._is_own = self._port is not None and pid is not None and _is_of(listeners(self._port), pid)

    def require(self, pid: int | None) -> None:
        """That nobody else listens there now.

        Raises:
            TargetError: another program does.
        """
        if not self._is_own or self._port is None or pid is None:
            return
        others = listeners(self._port)
        if others and not _is_of(others, pid):
            other = min(others)
            raise TargetError(
                f"port={self._port} is taken by another program: pid={other} ({process_name(other)!r})",
                hint="stop that one; the program cannot serve there until then",
            )


def _port_of(address: str) -> int | None:
    parts = urlsplit(address)
    try:
        return parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None


def _is_of(holders: Collection[int], pid: int) -> bool:
    """Whether one of `holders` is the process, or was started by it or by one that it has started."""
    return any(pid in _line(holder) for holder in holders)


def _line(pid: int) -> list[int]:
    """A process and those that have started it."""
    found: list[int] = []
    above: int | None = pid
    while above and above not in found:
        found.append(above)
        above = process_parent(above)
    return found
