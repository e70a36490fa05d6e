"""Changes that a restart of ours would bring about by itself, found before anything is changed.

Option files that hold other values than the server uses, and values of SET GLOBAL that stand in no file and that we would
not know to put back: no restore could take either back.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.systems.knobs import Reading, parse_text
from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.options import given_options, option_files, start_values
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.session import Session, uptime_s
from trimtab.systems.mysql.values import is_same

__all__ = ["lost_by_restart", "require_settled", "starts_so", "unsettled"]

_SLACK_S = 2.0
_LIVE = ("SET GLOBAL", "command line", "mysqld-auto.cnf", "environment variable")


def require_settled(
    session: Session, reach: Reach, variables: Mapping[str, Reading], ours: frozenset[str], *, can_restart: bool
) -> None:
    """That a restart, where we can make one, changes nothing by itself; `ours` are put back by us after a restart.

    Raises:
        TargetError: it would; nothing was changed.
    """
    if not can_restart:
        return
    waiting = unsettled(session, reach, variables)
    if waiting:
        raise TargetError(
            f"the option files hold changes that wait for a restart: {', '.join(waiting)}",
            hint="restart the server, or undo them, and start again; or set allow_restart = false",
        )
    differing = lost_by_restart(reach, variables, ours)
    if differing:
        raise TargetError(
            f"a restart would lose values that were set by SET GLOBAL and are in no file: {', '.join(differing)}",
            hint="write them into the server's option file, or undo them, and start again; or set allow_restart = false",
        )


def lost_by_restart(reach: Reach, variables: Mapping[str, Reading], ours: frozenset[str]) -> list[str]:
    """Variables outside `ours` that SET GLOBAL has given a value that stands in no file."""
    lost = [
        name
        for name, variable in variables.items()
        if variable.source == "SET GLOBAL" and name not in ours and not name.startswith(CATALOG.restless)
    ]
    # MySQL has no table of defaults, and calls a variable set after SET SESSION, too.
    start = start_values(reach) if any(variables[name].default is None for name in lost) else {}
    return [name for name in lost if not starts_so(variables[name], start)]


def starts_so(variable: Reading, start: Mapping[str, str]) -> bool:
    """Whether the running value of a variable that some SET has set is also that after a restart, as far as can be told."""
    if variable.default is not None:
        return variable.text == variable.default
    if not start:
        return False
    if variable.name in start:
        return _means(variable, start[variable.name])
    return CATALOG.at_start.get(variable.name, variable.text) == variable.text


def unsettled(session: Session, reach: Reach, variables: Mapping[str, Reading]) -> list[str]:
    """Variables that would have another value after a restart; those of texts and lists are not looked at.

    Only when an option file, or the folder of one, was written since the server's start: what the server itself makes of
    an unchanged file (a clamped number) is no change. Empty when the files or the program cannot be read here.
    """
    if not _has_newer_file(session, reach):
        return []
    given, start = given_options(reach), start_values(reach)
    if given is None or not start:
        return []
    return [
        name
        for name, variable in variables.items()
        if (name in given or variable.source == "configuration file")
        and variable.source not in _LIVE
        and name not in CATALOG.adjusted
        and name in start
        and not _means(variable, start[name])
    ]


def _has_newer_file(session: Session, reach: Reach) -> bool:
    started_at = time.time() - uptime_s(session) - _SLACK_S
    files = option_files(reach)
    return any(_changed_at(path) > started_at for path in {*files, *(path.parent for path in files)})


def _changed_at(path: Path) -> float:
    """By the inode: a copied file may bear an old date."""
    try:
        return path.stat().st_ctime
    except OSError:
        return 0.0


def _means(variable: Reading, text: str) -> bool:
    """Whether `text` stands for the running value; True where that cannot be told."""
    if variable.kind == "text" or not text or text.startswith("("):
        return True
    value = parse_text(text, variable.kind)
    return (isinstance(value, str) and variable.kind != "choice") or is_same(value, variable.value)
