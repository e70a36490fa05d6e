"""What the program of a server says of a config or of its files, without starting a server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from trimtab.host import CommandResult
from trimtab.systems.reach import Place

__all__ = ["may_ask", "program_says"]

_TIMEOUT_S = 30.0


def may_ask(reach: Place) -> bool:
    """Whether this user may run programs as the server's user."""
    return reach.account is not None and (reach.account.is_me or os.geteuid() == 0)


def program_says(
    reach: Place,
    argv: Sequence[str],
    environment: Mapping[str, str] = MappingProxyType({}),
    *,
    folder: Path = Path("/"),
) -> CommandResult | None:
    """Runs the server's program as the server's user, with nothing of this user's; None where it is unknown, or may not be run.

    Args:
        reach: the way to the server.
        argv: the program, and what it is asked.
        environment: what it finds there beside a plain PATH.
        folder: where it is run.

    Raises:
        TargetError: it cannot be run, or takes too long.
    """
    account = reach.account
    if not argv or account is None or not may_ask(reach):
        return None
    return reach.host.run(
        argv,
        timeout_s=_TIMEOUT_S,
        user=None if account.is_me else account.uid,
        group=None if account.is_me else account.gid,
        env={**environment, "PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        folder=folder,
    )
