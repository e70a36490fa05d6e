"""How a PostgreSQL server is undone: the kind's part of `trimtab.systems.undo`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.errors import TargetError
from trimtab.systems.base import Own, Restarts, Snapshot
from trimtab.systems.knobs import Reading
from trimtab.systems.postgresql.autoconf import read_entries, reload_and_wait
from trimtab.systems.postgresql.catalogue import read_rows
from trimtab.systems.postgresql.entries import still_ours
from trimtab.systems.postgresql.foreign import identifier_in_files, who_answers
from trimtab.systems.postgresql.pending import starts_with, unsettled
from trimtab.systems.postgresql.reach import AUTO_CONF, Reach
from trimtab.systems.postgresql.rescue import ServerRescue, entries_back, read_rows_somehow
from trimtab.systems.postgresql.session import Connection
from trimtab.systems.postgresql.values import is_same
from trimtab.systems.session import LoginRefusedError, StatementError
from trimtab.systems.undo import Way
from trimtab.units import format_value

__all__ = ["Undo"]


class Undo(ServerRescue):
    """See `Undoing`. An entry is ours while it reads, letter by letter, as we wrote it."""

    THEN = "SELECT pg_reload_conf()"

    def __init__(self, reach: Reach) -> None:
        super().__init__(reach)
        self._still: set[str] = set()
        self._waiting: frozenset[str] = frozenset()
        self._starts: Mapping[str, bool] = {}

    def _who(self, session: Connection) -> Mapping[str, Any]:
        return who_answers(session)

    def _who_by_files(self) -> Mapping[str, Any]:
        return identifier_in_files(self._reach)

    def _statement(self, snapshot: Snapshot, name: str) -> str:
        found: Mapping[str, str] = snapshot.reach["entries"]
        return f"ALTER SYSTEM SET {name} = '{found[name]}'" if name in found else f"ALTER SYSTEM RESET {name}"

    def bring_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> bool:
        """By the files; by SQL alone where they cannot be reached."""
        self._has_moved = False
        if snapshot.files:
            return super().bring_back(snapshot, own, restarts)
        if not own:
            return False  # a user who may only look has nothing to take back, and may not reload
        reach = self._reach
        try:
            # a tuner may have died between its change and its reload; without rights on the files only loaded entries are seen
            if (trouble := self._unparsable()) is not None:
                raise trouble
            reload_and_wait(reach.connect)
        except TargetError:
            if reach.spare is None:
                raise
            self._back_by_spare(reach.spare, snapshot, own)
            return False
        with reach.connect() as connection:
            is_changed = entries_back(connection, snapshot, own)
        if is_changed:
            reload_and_wait(reach.connect)
        return False

    def _look(self, snapshot: Snapshot, own: Own) -> bool:
        if self._has_moved:
            return False
        try:
            is_seen = self._read(snapshot, own)
        except TargetError:
            # A time-out of ours may still cut logins off, now and then: one of them has worked.
            if not (snapshot.files and self._answers_after_signal()):
                raise
            is_seen = self._read(snapshot, own)
        if is_seen and any(self._is_unread(snapshot, own, name) for name in own.texts):
            # a restorer may have died between the file and the reload
            reload_and_wait(self._reach.connect)
            is_seen = self._read(snapshot, own)
        return is_seen

    def _read(self, snapshot: Snapshot, own: Own) -> bool:
        try:
            with self._reach.connect() as connection:
                self._now = read_rows(connection)
                late = {n: snapshot.values[n] for n in own.late if n in self._now and n in snapshot.values}
                self._waiting = frozenset(unsettled(connection, self._now))
                self._starts = starts_with(connection, self._now, late)
                self._still = still_ours(read_entries(connection), snapshot.reach["entries"], own)
        except (LoginRefusedError, StatementError):
            if snapshot.files:
                return False
            self._now, self._waiting, self._starts = read_rows_somehow(self._reach), frozenset(), {}
            self._still = set()
        return True

    def _same(self, now: Reading, snapshot: Snapshot) -> tuple[bool, str, str]:
        found = snapshot.values[now.name]
        return is_same(now.value, found), format_value(now.value, now.unit), format_value(found, now.unit)

    def _way(self, name: str, own: Own) -> Way:
        if name in own.late and self._now[name].is_pending:
            return Way.WAITING
        return Way.OURS if name in self._still else Way.THEIRS

    def _is_written(self, name: str) -> bool:
        return name in self._still

    def _is_unread(self, snapshot: Snapshot, own: Own, name: str) -> bool:
        """Whether the server may not have read its file yet: it uses our value, and waits for nothing."""
        if name not in self._now or name not in snapshot.values:
            return False
        row = self._now[name]
        if row.source != "configuration file" or (row.file and not row.file.endswith(f"/{AUTO_CONF}")):
            return False  # somebody has written the same value somewhere else
        is_ours = any(is_same(row.value, each) for each in own.values.get(name, ()))
        return is_ours and not row.is_pending and not is_same(row.value, snapshot.values[name])

    def _harm(self, snapshot: Snapshot, own: Own, names: list[str]) -> str:
        wrong = {name for name in names if not self._starts.get(name, True)}
        others = sorted((self._waiting - set(own.texts)) | wrong)
        return f"it would bring changes of somebody else's into force ({', '.join(others)})" if others else ""
