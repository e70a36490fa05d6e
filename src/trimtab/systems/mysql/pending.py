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
from trimtab.systems.mysql.persisted import auto_file
from trimtab.systems.mysql.pool import as_started
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.session import Session, uptime_s
from trimtab.systems.mysql.values import is_same
from trimtab.systems.mysql.variables import persisted_text

__all__ = ["lost_by_restart", "require_settled", "starts_so", "trouble", "unsettled"]

_SLACK_S = 2.0
_AUTO = "mysqld-auto.cnf"
_LIVE = ("SET GLOBAL", "command line", _AUTO, "environment variable")
_OPTIONS = {"time_zone": "default_time_zone"}
"""Variable -> the option of another name that gives it at a start."""


def require_settled(
    session: Session, reach: Reach, variables: Mapping[str, Reading], ours: frozenset[str], *, can_restart: bool
) -> None:
    """That a restart, where we can make one, changes nothing by itself; `ours` are put back by us after a restart.

    Raises:
        TargetError: it would; nothing was changed.
    """
    if can_restart and (found := trouble(session, reach, variables, ours)) is not None:
        raise TargetError(found[0], hint=f"{found[1]}, and start again; or set allow_restart = false")


def trouble(
    session: Session, reach: Reach, variables: Mapping[str, Reading], ours: frozenset[str]
) -> tuple[str, str] | None:
    """What a restart would change by itself, and what to do; None for nothing."""
    if waiting := unsettled(session, reach, variables):
        text = f"the option files hold changes that wait for a restart: {', '.join(waiting)}"
        return text, "restart the server, or undo them"
    if differing := lost_by_restart(reach, variables, ours):
        text = f"a restart would lose values that were set by SET GLOBAL and are in no file: {', '.join(differing)}"
        return text, "write them into the server's option file, or undo them"
    return None


def lost_by_restart(reach: Reach, variables: Mapping[str, Reading], ours: frozenset[str]) -> list[str]:
    """Variables outside `ours` that SET GLOBAL has given a value that stands in no file; SET PERSIST has written its own."""
    lost = [
        name
        for name, variable in variables.items()
        if variable.source == "SET GLOBAL" and name not in ours and not name.startswith(CATALOG.restless)
    ]
    # MySQL has no table of defaults, and calls a variable set after SET SESSION, too.
    start = start_values(reach) if any(variables[name].text != variables[name].default for name in lost) else {}
    return [name for name in lost if not starts_so(variables[name], start)]


def starts_so(variable: Reading, start: Mapping[str, str]) -> bool:
    """Whether the running value of a variable that some SET has set is also that after a restart, as far as can be told."""
    if (persisted := persisted_text(variable)) is not None:
        return _is_given(variable, persisted)
    told = start.get(_OPTIONS.get(variable.name, variable.name), "(")
    has_value = not told.startswith("(")
    if variable.default is not None:
        return variable.text == variable.default or (has_value and _is_given(variable, told))
    if not start:
        return False
    if variable.name in start:
        return _means(variable, told)
    return (told if has_value else CATALOG.at_start.get(variable.name, variable.text)) == variable.text


def unsettled(session: Session, reach: Reach, variables: Mapping[str, Reading]) -> list[str]:
    """Variables that would have another value after a restart; texts and lists are looked at in mysqld-auto.cnf alone.

    Only when an option file, or the folder of one, was written since the server's start: what the server itself makes of
    an unchanged file (a clamped number) is no change. Of option files nothing when they or the program cannot be read here.
    """
    started_at, auto = time.time() - uptime_s(session) - _SLACK_S, auto_file(reach)
    has_new_auto = auto is not None and _changed_at(auto) > started_at
    found = [name for name, variable in variables.items() if _is_overruled(variable, has_new_auto=has_new_auto)]
    is_newer = _has_newer_file(reach, started_at)
    looked_at = [variable for variable in variables.values() if is_newer or _was_reset(variable)]
    if not looked_at:
        return found
    given, start = given_options(reach), as_started(start_values(reach), variables)
    if given is None or not start:
        return found
    return found + [
        variable.name
        for variable in looked_at
        if (_was_reset(variable) or (_is_of_file(variable, given) and persisted_text(variable) is None))
        and variable.name not in CATALOG.adjusted
        and variable.name in start
        and not _means(variable, start[variable.name])
    ]


def _is_of_file(variable: Reading, given: Mapping[str, str]) -> bool:
    """Whether an option file decides what it is after a restart."""
    return (variable.name in given or variable.source == "configuration file") and variable.source not in _LIVE


def _is_overruled(variable: Reading, *, has_new_auto: bool) -> bool:
    """Whether SET PERSIST_ONLY has given it another value for the next start. `has_new_auto`: whether its file was written since
    the server's start; else the server itself has made of what it read there what it uses."""
    persisted, is_from_there = persisted_text(variable), variable.source == _AUTO
    if persisted is None or variable.source == "SET GLOBAL" or variable.name in CATALOG.adjusted:
        return False
    if is_from_there and (variable.kind == "text" or not has_new_auto):
        return False
    return not _is_given(variable, persisted)


def _is_given(variable: Reading, told: str) -> bool:
    """Whether what a file or a program tells is the running value; a text there is mostly as the server shows it."""
    return variable.text.lower() == told.lower() or (variable.kind != "text" and _means(variable, told))


def _was_reset(variable: Reading) -> bool:
    """Whether RESET PERSIST has taken from its file what it has from there."""
    return variable.source == _AUTO and persisted_text(variable) is None


def _has_newer_file(reach: Reach, started_at: float) -> bool:
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
