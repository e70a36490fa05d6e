"""How a MySQL or MariaDB server is undone: the kind's part of `trimtab.systems.undo`.

SET GLOBAL gives a variable its found value only while it still has ours; what others have set by it outlives a restart of ours.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trimtab.host import FileCopy
from trimtab.space import Value
from trimtab.systems.base import Own, Restarts, Snapshot
from trimtab.systems.files import file_digest, file_from_json, files_back
from trimtab.systems.knobs import Reading, parse_text
from trimtab.systems.mysql.foreign import files_as_left, instance_of, who_answers
from trimtab.systems.mysql.options import given_options, start_values
from trimtab.systems.mysql.pending import lost_by_restart, unsettled
from trimtab.systems.mysql.pool import as_started
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.rescue import ServerRescue
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.set_global import Catalogue, set_dynamic
from trimtab.systems.mysql.values import is_same, option_text
from trimtab.systems.mysql.variables import POOL, told_live_range, waits
from trimtab.systems.undo import Way

__all__ = ["GROUP", "HEADS", "Undo"]

HEADS = {
    False: "# Written by Trimtab while it tunes; removed or put back afterwards.",
    True: "# Written by `trimtab apply`, to stay; `trimtab rollback` takes it out again.",
}
"""The first line of ours, by whether the config stays."""
GROUP = "[mysqld]"

_STOP_S, _STOP_POLL_S = 10.0, 0.02
"""How long a server that has removed its pid file is waited for, and how often it is looked at."""

_ENDED = re.compile(r"[^\n]*\n|[^\n]+")

_ROUNDING = 2.0
"""A server may round what was asked for, and the tuner die before it has seen to what: at most by this factor."""


class Undo(ServerRescue):
    """See `Undoing`.

    Args:
        reach: the way to the server.
        read: reads its variables.
        resize_s: what its buffer pool is given to take another size.
    """

    def __init__(self, reach: Reach, read: Callable[[Session], dict[str, Reading]], resize_s: float) -> None:
        super().__init__(reach)
        self._read = read
        self._resize_s = resize_s
        self._found: Mapping[str, Value] = {}
        self._is_as_left = True
        self._refused: frozenset[str] = frozenset()
        """Ours that get their found values at a start only, for another one of ours stands until then."""

    def _who(self, session: Session) -> Mapping[str, Any]:
        return who_answers(session, self._read(session))

    def _statement(self, snapshot: Snapshot, name: str) -> str:
        return f"SET GLOBAL {name} = {option_text(snapshot.values[name])}" if name in snapshot.values else ""

    def bring_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> bool:
        """Found values by SET GLOBAL, too."""
        restarted = super().bring_back(snapshot, own, restarts)
        with self._reach.connect() as session:
            self._values_back(session, snapshot, own, was_restarted=restarted)
        return restarted

    def _may_have_lost(self, snapshot: Snapshot, own: Own) -> bool:
        """Whether a restart that our unfinished change has ordered may have lost what had been set by SET GLOBAL before we came:
        the server answers, and is not the process that it was."""
        left, now = (own.picture or snapshot.picture).get("instance", ""), instance_of(self._reach)
        return not own.is_whole and bool(left) and bool(now) and now != left

    def _files_back(self, snapshot: Snapshot, own: Own) -> bool:
        changed = files_back(self._reach.host, snapshot, own, self._reach.include_file, _file_without)
        left = (own.picture or snapshot.picture).get("files", {})
        self._is_as_left = self._is_file_as_found(snapshot) and files_as_left(self._reach, left)
        return changed

    def _changed_since(self, snapshot: Snapshot, own: Own) -> str:
        return "its option files were"

    def _was_stopped(self, was_up: bool) -> bool:
        if self._is_as_left or self._reach.no_restart:
            return False
        self._await_stop()
        if self._reach.is_up():
            return False
        return self._reach.pid_file is None or not self._reach.pid_file.exists()

    def _await_stop(self) -> None:
        """A server that is being stopped removes its pid file a moment before it ends."""
        file, until = self._reach.pid_file, time.monotonic() + _STOP_S
        while file is not None and not file.exists() and self._reach.is_up() and time.monotonic() < until:
            time.sleep(_STOP_POLL_S)

    def _is_file_as_found(self, snapshot: Snapshot) -> bool:
        """Whether our option file, with our lines out of it, holds what it held before; else somebody else has written it."""
        read = self._reach.host.read_file
        return all(_content(read(Path(text))) == _content(file_from_json(t)) for text, t in snapshot.files.items())

    def _changeable(self, session: Session, snapshot: Snapshot) -> dict[str, Reading]:
        """The variables that are ours to change, as they are now."""
        return Catalogue(self._read, frozenset(snapshot.values)).variables(session)

    def _values_back(self, session: Session, snapshot: Snapshot, own: Own, *, was_restarted: bool) -> None:
        """Found values by SET GLOBAL; after a start also what had been set so before we came, and is in no file."""
        now = self._changeable(session, snapshot)
        ours = {name for name in own.texts if name in now and _is_ours(now[name], own, name)}
        others = set(now) - set(own.texts) if was_restarted else set()
        if not was_restarted and self._may_have_lost(snapshot, own):
            # What has been set since that start is not lost.
            others = {name for name, variable in now.items() if variable.source != "SET GLOBAL"}
        lost = {name for name in others if self._is_as_left or now[name].source != "configuration file"}
        wanted = {name: snapshot.values[name] for name in ours | lost if name in snapshot.values}
        mine = {name: variable for name, variable in now.items() if name in wanted}
        is_due = any(
            variable.is_late
            and name in own.late
            and _is_ours(variable, own, name)
            and not is_same(variable.value, found)
            for name, variable in now.items()
            if (found := snapshot.values.get(name)) is not None
        )
        self._refused = set_dynamic(session, mine, wanted, resize_s=self._resize_s, is_restart_due=is_due)

    def _look(self, snapshot: Snapshot, own: Own) -> bool:
        with self._reach.connect() as session:
            self._now = self._read(session)
        self._found = snapshot.values
        return True

    def _same(self, now: Reading, snapshot: Snapshot) -> tuple[bool, str, str]:
        found = snapshot.values[now.name]
        is_found = is_same(now.value, found) and not self._has_other_live_range(now, snapshot)
        return is_found, option_text(now.value), option_text(found)

    def _has_other_live_range(self, now: Reading, snapshot: Snapshot) -> bool:
        """Whether a start with a buffer pool of ours has moved what SET GLOBAL gives of it; another start takes that back."""
        if (
            now.name != POOL
            or "pool_live_range" not in snapshot.reach
            or not self._is_as_left
            or self._reach.no_restart
        ):
            return False
        return bool(told_live_range(now) != snapshot.reach["pool_live_range"])

    def _way(self, name: str, own: Own) -> Way:
        variable = self._now[name]
        if variable.is_late:
            return Way.WAITING if name in own.late and _is_ours(variable, own, name) else Way.THEIRS
        if is_same(variable.value, self._found[name]):
            return Way.WAITING  # for the start that takes back what SET GLOBAL gives of it
        if name in self._refused:
            return Way.WAITING
        if waits(variable, self._found[name]):
            return Way.WAITING if _is_ours(variable, own, name) else Way.THEIRS
        return Way.OURS if any(is_same(variable.value, each) for each in own.values[name]) else Way.THEIRS

    def _harm(self, snapshot: Snapshot, own: Own, names: list[str]) -> str:
        reach, variables = self._reach, self._now
        lost = lost_by_restart(reach, variables, frozenset(snapshot.values))
        if lost:
            return f"it would lose what somebody else has set by SET GLOBAL ({', '.join(lost)})"
        if self._is_as_left:
            return ""
        start = as_started(start_values(reach), variables)
        if not start:
            return "somebody else has changed the option files, and the server's program cannot be asked what it would start with"
        given = given_options(reach) or {}
        with reach.connect() as session:
            others = set(unsettled(session, reach, variables)) - set(own.texts)
        for name in set(own.texts) & set(given) & set(start) & set(variables) & set(snapshot.values):
            kind = variables[name].kind
            if kind != "text" and not is_same(parse_text(start[name], kind), snapshot.values[name]):
                others.add(name)
        return f"it would bring changes of somebody else's into force ({', '.join(sorted(others))})" if others else ""

    def restart_for(self, snapshot: Snapshot, own: Own) -> None:
        """A restart that loses nothing of what others have set by SET GLOBAL."""
        with self._reach.connect() as session:
            now = self._changeable(session, snapshot)
        live = {name: variable.value for name, variable in now.items() if not variable.is_late}
        if POOL in live and waits(now[POOL], snapshot.values[POOL]) and _is_ours(now[POOL], own, POOL):
            live[POOL] = snapshot.values[POOL]  # what could not be set before
        live |= {name: snapshot.values[name] for name in self._refused & live.keys()}
        self._refused = frozenset()
        self._reach.restart()
        with self._reach.connect() as session:
            set_dynamic(session, self._changeable(session, snapshot), live, resize_s=self._resize_s)


def _content(copy: FileCopy | None) -> bytes:
    """What a server reads of it: of a file that is not there as much as of an empty one."""
    return copy.content if copy is not None else b""


def _file_without(now: FileCopy | None, found: FileCopy | None, own: Own, left_digest: str) -> FileCopy | None:
    """As found when nobody else has written it; else what it is now without our lines, letter by letter."""
    if now == found or (now is not None and file_digest(now) == left_digest):
        return found
    if now is None:
        return None
    ours = {line for name, texts in own.texts.items() for text in texts for line in _lines(f"{name} = {text}")}
    text, old = now.content.decode("latin-1"), found.content.decode("latin-1") if found is not None else ""
    old += "" if not old or old.endswith("\n") else "\n"
    lines = _lines(text)
    if not ours & set(lines):
        return now
    added = _lines(text[len(old) :]) if text.startswith(old) else None
    if added is not None and set(added) <= ours | set(HEADS.values()) | {GROUP}:
        return found
    # the group's head stays, for what follows it
    kept = [line for line in _ENDED.findall(text) if line.removesuffix("\n") not in ours | set(HEADS.values())]
    return replace(now, content="".join(kept).encode("latin-1"))


def _lines(text: str) -> list[str]:
    """As the server ends them: of other characters that Python breaks lines at, some are bytes of letters."""
    return [line.removesuffix("\n") for line in _ENDED.findall(text)]


def _is_ours(variable: Reading, own: Own, name: str) -> bool:
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
