"""Withdraw: our own changes taken back out of a configuration that somebody else has changed meanwhile.

A restore gives back the very bytes that were found, and with them would overwrite what somebody else has written since.
Withdrawing takes only our own lines out of our option file, sets back only what still has the value that we gave it, and
restarts nothing that would bring a change of somebody else's into force. What is left is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from trimtab.errors import TargetError
from trimtab.space import Value
from trimtab.target.base import Snapshot
from trimtab.target.files import file_from_json
from trimtab.target.forensic import Withdrawal
from trimtab.target.mysql.change import HEAD
from trimtab.target.mysql.options import given_options, start_values
from trimtab.target.mysql.pending import unsettled
from trimtab.target.mysql.reach import Reach
from trimtab.target.mysql.session import Session
from trimtab.target.mysql.values import is_same, option_text, sql_literal
from trimtab.target.mysql.variables import Variable, parse_text

__all__ = ["Ours", "withdraw"]

Read = Callable[[Session], Mapping[str, Variable]]
Ours = Mapping[str, tuple[Value, Value]]
"""Knob -> (what we asked for, what the server made of it)."""


def withdraw(reach: Reach, read: Read, snapshot: Snapshot, ours: Ours, *, is_file_ours: bool) -> Withdrawal:
    """Takes `ours` back to `snapshot`; never raises.

    Args:
        reach: the server, of which is known that it is the right one.
        read: reads its variables.
        snapshot: as found.
        ours: what we have set and not taken back yet.
        is_file_ours: whether our option file is, byte by byte, as we left it; it is then put back as found.
    """
    if not ours and not is_file_ours:
        return Withdrawal()
    try:
        _file_back(reach, snapshot, ours, is_file_ours=is_file_ours)
        with reach.connect() as session:
            _values_back(session, read(session), snapshot, ours)
            variables = read(session)
            waiting = {name for name in ours if _waits(variables, snapshot, ours, name)}
            is_held = bool(waiting) and not _may_restart(session, reach, variables, snapshot, ours)
        if waiting and not is_held:
            reach.restart()
            with reach.connect() as session:
                variables = read(session)
        return _told(variables, snapshot, ours, held=waiting if is_held else set())
    except TargetError as error:
        return Withdrawal(
            left=tuple(f"{name}={option_text(asked)}: {error.message}" for name, (asked, _) in sorted(ours.items()))
        )


def _file_back(reach: Reach, snapshot: Snapshot, ours: Ours, *, is_file_ours: bool) -> None:
    path = reach.include_file
    if path is None or str(path) not in snapshot.files:
        return
    now, found = reach.host.read_file(path), file_from_json(snapshot.files[str(path)])
    if now is None or now == found:
        return
    if is_file_ours:
        reach.host.remove_file(path) if found is None else reach.host.write_file(path, found)
        return
    rest = _without(now.content.decode("latin-1"), ours)
    reach.host.write_file(path, replace(now, content=rest.encode("latin-1")))


def _without(text: str, ours: Ours) -> str:
    """`text` without the lines that are ours, letter by letter; the group's head stays, for what follows it."""
    mine = {f"{name} = {option_text(asked)}" for name, (asked, _) in ours.items()} | {HEAD.splitlines()[0]}
    return "".join(line for line in text.splitlines(keepends=True) if line.rstrip("\n") not in mine)


def _values_back(session: Session, now: Mapping[str, Variable], snapshot: Snapshot, ours: Ours) -> None:
    for name, (_, effective) in ours.items():
        variable = now.get(name)
        if variable is None or name not in snapshot.values or not variable.is_dynamic:
            continue
        if is_same(variable.value, effective) and not is_same(effective, snapshot.values[name]):
            session.execute(f"SET GLOBAL `{name}` = {sql_literal(snapshot.values[name])}")


def _may_restart(
    session: Session, reach: Reach, variables: Mapping[str, Variable], snapshot: Snapshot, ours: Ours
) -> bool:
    """Whether a restart would bring about what was found, and nothing that somebody else has written."""
    if reach.no_restart:
        return False
    start = start_values(reach)
    if not start:
        return False  # the program cannot read its own files any more, or cannot be asked
    given = given_options(reach) or {}
    for name in set(ours) & set(given) & set(start) & set(variables) & set(snapshot.values):
        kind = variables[name].kind
        if kind != "text" and not is_same(parse_text(start[name], kind), snapshot.values[name]):
            return False
    return not set(unsettled(session, reach, variables)) - set(ours)


def _waits(variables: Mapping[str, Variable], snapshot: Snapshot, ours: Ours, name: str) -> bool:
    """Whether a value of ours stays in force until a restart."""
    variable = variables.get(name)
    if variable is None or variable.is_dynamic or name not in snapshot.values:
        return False
    return is_same(variable.value, ours[name][1]) and not is_same(variable.value, snapshot.values[name])


def _told(variables: Mapping[str, Variable], snapshot: Snapshot, ours: Ours, *, held: set[str]) -> Withdrawal:
    back, left = [], []
    for name in sorted(ours):
        if name not in variables or name not in snapshot.values:
            continue
        value = option_text(variables[name].value)
        if is_same(variables[name].value, snapshot.values[name]):
            back.append(f"{name}={value}")
        elif name in held:
            reason = "a restart, which was not made because it would bring changes of somebody else's into force"
            left.append(f"{name}={value}: waits for {reason}")
        else:
            left.append(f"{name}={value}: somebody else has set it meanwhile")
    return Withdrawal(put_back=tuple(back), left=tuple(left))
