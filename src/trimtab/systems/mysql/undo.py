"""Undo: what is ours taken back out of a MySQL or MariaDB server, and nothing else.

While nobody else has written our option file since, it has its found bytes again; otherwise only our own lines go. SET GLOBAL
gives a variable its found value only while it still has ours. A restart is made only for a knob of ours that is in effect and
must go back, and that brings no change of somebody else's into force; what others have set by SET GLOBAL outlives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trimtab.errors import RestoreError, TargetError
from trimtab.host import FileCopy
from trimtab.space import Value
from trimtab.systems.base import Own, Restarts, Snapshot, Undone
from trimtab.systems.files import file_digest, file_from_json, told_left
from trimtab.systems.mysql.change import GROUP, HEADS, Catalogue, set_dynamic
from trimtab.systems.mysql.foreign import files_as_left, who_answers
from trimtab.systems.mysql.options import given_options, start_values
from trimtab.systems.mysql.pending import lost_by_restart, unsettled
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.rescue import bring_up
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.values import is_same, option_text
from trimtab.systems.mysql.variables import Variable, parse_text

__all__ = ["take_back"]

_ROUNDING = 2.0
"""A server may round what was asked for, and the tuner die before it has seen to what: at most by this factor."""


def take_back(reach: Reach, catalogue: Catalogue, snapshot: Snapshot, own: Own, restarts: Restarts) -> Undone:
    """Takes `own` back to `snapshot`; `catalogue` holds the variables of the snapshot. Idempotent.

    Raises:
        RestoreError: something of ours still stands, or it cannot be seen whether it does.
    """
    try:
        _require_same_server(reach, catalogue, snapshot, own)
        _file_back(reach, snapshot, own)
        is_as_left = _file_as_found(reach, snapshot) and files_as_left(
            reach, (own.picture or snapshot.picture).get("files", {})
        )
        if not is_as_left and own.is_whole and _was_stopped(reach):
            left = "the server is down, and its option files were changed by somebody else since: start it when that is ready"
            return Undone(put_back=tuple(sorted(own.texts)), left=(left,))
        restarted = bring_up(reach, snapshot, own, restarts)
        with reach.connect() as session:
            _values_back(session, catalogue, snapshot, own, also_found=restarted, is_as_left=is_as_left)
            variables: Mapping[str, Variable] = catalogue.read(session)
            waiting = {name for name in own.late if _is_in_effect(variables, snapshot, own, name)}
            held = ""
            if waiting:
                held = _why_not_restart(session, reach, variables, snapshot, own, is_as_left=is_as_left)
        if waiting and not held:
            variables = _restarted(reach, catalogue, snapshot, own, restarts)
            restarted = True
        return _told(variables, snapshot, own, waiting if held else set(), held, restarted=restarted)
    except TargetError as error:
        if isinstance(error, RestoreError):
            raise
        raise RestoreError(
            f"the server could not be put back as it was found: {error.message}",
            hint="; ".join(filter(None, (error.hint, _by_hand(snapshot, own)))),
        ) from error


def _was_stopped(reach: Reach) -> bool:
    """Whether the server is down by somebody's will, and could be started: one that has died leaves its pid file behind."""
    if reach.is_up() or reach.no_restart:
        return False
    return reach.pid_file is None or not reach.pid_file.exists()


def _by_hand(snapshot: Snapshot, own: Own) -> str:
    if snapshot.files:
        return "by hand: `trimtab recover --extract DIR` writes the files as found, and how to put them back"
    words = [
        f"SET GLOBAL {name} = {option_text(snapshot.values[name])}"
        for name in sorted(own.texts)
        if name in snapshot.values
    ]
    return f"by hand: {'; '.join(words)}"


def _require_same_server(reach: Reach, catalogue: Catalogue, snapshot: Snapshot, own: Own) -> None:
    """That the server that answers is the one that we changed, in the same role; one that does not answer may be.

    Raises:
        RestoreError: it is another one; nothing was touched.
    """
    left = own.picture or snapshot.picture
    try:
        with reach.connect() as session:
            now = who_answers(session, catalogue.read(session))
    except TargetError:
        return
    for key in ("identifier", "role"):
        if key not in left or left[key] == now[key] or (key == "identifier" and not (left[key] and now[key])):
            continue
        knobs = ", ".join(f"{name}={texts[-1]}" for name, texts in sorted(own.texts.items()))
        raise RestoreError(
            f"{knobs}: not touched, because it is not known to be the server that was tuned:"
            f" {key}={now[key] or 'takes writes'}, it was {left[key] or 'takes writes'}",
            hint="check where the url leads; `trimtab recover --show` lists what is open and what you can do",
        )


def _file_back(reach: Reach, snapshot: Snapshot, own: Own) -> None:
    path = reach.include_file
    for text, table in snapshot.files.items():
        if path is None or str(path) != text:
            raise RestoreError(f"the snapshot's file={text!r} is not this server's", hint="use the study's own target")
        reach.host.remove_leftover(path)
        now, found = reach.host.read_file(path), file_from_json(table)
        goal = _file_without(now, found, own, own.picture.get("files", {}).get(text, ""))
        if goal == now:
            continue
        if goal is None:
            reach.host.remove_file(path)
        else:
            reach.host.write_file(path, goal)


def _file_as_found(reach: Reach, snapshot: Snapshot) -> bool:
    """Whether our option file, with our lines out of it, holds what it held before; else somebody else has written it too."""
    return all(
        _content(reach.host.read_file(Path(text))) == _content(file_from_json(t)) for text, t in snapshot.files.items()
    )


def _content(copy: FileCopy | None) -> bytes:
    """What a server reads of it: of a file that is not there as much as of an empty one."""
    return copy.content if copy is not None else b""


def _file_without(now: FileCopy | None, found: FileCopy | None, own: Own, left_digest: str) -> FileCopy | None:
    """As found when nobody else has written it; else what it is now without our lines, letter by letter."""
    if now == found or (now is not None and file_digest(now) == left_digest):
        return found
    if now is None:
        return None
    ours = {line for name, texts in own.texts.items() for text in texts for line in f"{name} = {text}".splitlines()}
    text, old = now.content.decode("latin-1"), found.content.decode("latin-1") if found is not None else ""
    old += "" if not old or old.endswith("\n") else "\n"
    lines = text.splitlines()
    if not ours & set(lines):
        return now
    added = text[len(old) :].splitlines() if text.startswith(old) else None
    if added is not None and set(added) <= ours | set(HEADS.values()) | {GROUP}:
        return found
    # the group's head stays, for what follows it
    kept = [line for line in text.splitlines(keepends=True) if line.rstrip("\n") not in ours | set(HEADS.values())]
    return replace(now, content="".join(kept).encode("latin-1"))


def _values_back(
    session: Session, catalogue: Catalogue, snapshot: Snapshot, own: Own, *, also_found: bool, is_as_left: bool
) -> None:
    """Found values by SET GLOBAL; `also_found`: after a start, what had been set so before we came, and is in no file."""
    now = catalogue.variables(session)
    ours = {name for name in own.texts if name in now and _is_ours(now[name], own, name)}
    others = set(now) - set(own.texts)
    lost = {name for name in others if is_as_left or now[name].source != "configuration file"} if also_found else set()
    wanted = {name: snapshot.values[name] for name in ours | lost if name in snapshot.values}
    set_dynamic(session, {name: variable for name, variable in now.items() if name in wanted}, wanted)


def _is_ours(variable: Variable, own: Own, name: str) -> bool:
    """Whether it has a value of ours; of a change that was not finished also one near it, for the server may round."""
    mine = own.values.get(name, ())
    if any(is_same(variable.value, value) for value in mine):
        return True
    return not own.is_whole and any(_is_rounded(variable.value, value) for value in mine)


def _is_rounded(value: Value, asked: Value) -> bool:
    numbers = (value, asked)
    if any(isinstance(each, bool | str) for each in numbers) or not all(float(each) > 0 for each in numbers):
        return False
    return 1 / _ROUNDING <= float(value) / float(asked) <= _ROUNDING


def _is_in_effect(variables: Mapping[str, Variable], snapshot: Snapshot, own: Own, name: str) -> bool:
    """Whether a value of ours stays in force until a restart."""
    variable = variables.get(name)
    if variable is None or variable.is_dynamic or name not in snapshot.values:
        return False
    return not is_same(variable.value, snapshot.values[name]) and _is_ours(variable, own, name)


def _why_not_restart(
    session: Session,
    reach: Reach,
    variables: Mapping[str, Variable],
    snapshot: Snapshot,
    own: Own,
    *,
    is_as_left: bool,
) -> str:
    """Why a restart is not made; "" when it would bring about what was found, and nothing that somebody else has done."""
    if reach.no_restart:
        return "this study has no restart command"
    lost = lost_by_restart(reach, variables, frozenset(snapshot.values))
    if lost:
        return f"it would lose what somebody else has set by SET GLOBAL ({', '.join(lost)})"
    if is_as_left:
        return ""
    start = start_values(reach)
    if not start:
        return "somebody else has changed the option files, and the server's program cannot be asked what it would start with"
    given = given_options(reach) or {}
    others = set(unsettled(session, reach, variables)) - set(own.texts)
    for name in set(own.texts) & set(given) & set(start) & set(variables) & set(snapshot.values):
        kind = variables[name].kind
        if kind != "text" and not is_same(parse_text(start[name], kind), snapshot.values[name]):
            others.add(name)
    return f"it would bring changes of somebody else's into force ({', '.join(sorted(others))})" if others else ""


def _restarted(
    reach: Reach, catalogue: Catalogue, snapshot: Snapshot, own: Own, restarts: Restarts
) -> Mapping[str, Variable]:
    """The server's variables after a restart that loses nothing of what others have set by SET GLOBAL."""
    with reach.connect() as session:
        live = {name: variable.value for name, variable in catalogue.variables(session).items() if variable.is_dynamic}
    restarts()
    reach.restart()
    with reach.connect() as session:
        set_dynamic(session, catalogue.variables(session), live)
        return catalogue.read(session)


def _told(
    variables: Mapping[str, Variable], snapshot: Snapshot, own: Own, waiting: set[str], held: str, *, restarted: bool
) -> Undone:
    """Knob by knob.

    Raises:
        RestoreError: a value of ours is still in use.
    """
    back, left, wrong = [], [], []
    for name in sorted(own.texts):
        if name not in variables or name not in snapshot.values:
            continue
        value, found = option_text(variables[name].value), snapshot.values[name]
        if is_same(variables[name].value, found):
            back.append(f"{name}={value}")
        elif name in waiting:
            left.append(f"{name}={value}: waits for a restart, which was not made because {held}")
        elif any(is_same(variables[name].value, each) for each in own.values[name]) and variables[name].is_dynamic:
            wrong.append(f"{name}={value}")
        else:
            left.append(told_left(name, value, own.texts[name][-1], option_text(found)))
    if wrong:
        raise RestoreError(
            f"after the restore the server still uses values that Trimtab set: {', '.join(wrong)}",
            hint=_by_hand(snapshot, own),
        )
    return Undone(put_back=tuple(back), left=tuple(left), restarted=restarted)
