"""On which host a study was made: machines may share a history."""

from __future__ import annotations

import platform

from trimtab.records import Machine

__all__ = ["host_of", "is_same_host"]


def host_of(machine: Machine) -> str:
    """Name of the host; of this one where the machine's name, such as "localhost" or a socket's path, means whoever says it."""
    return platform.node() if _is_relative(machine.hostname) else machine.hostname


def is_same_host(known: str, here: str) -> bool:
    """Whether a study of host `known` may be one of host `here`.

    So it is where the names are equal, or one is the other without its domain; and where the study does not tell its host.
    """
    a, b = known.lower(), here.lower()
    return _is_relative(known) or a == b or a == b.partition(".")[0] or b == a.partition(".")[0]


def _is_relative(name: str) -> bool:
    return name in ("", "localhost", "::1") or name.startswith(("/", "127."))
