"""How a PostgreSQL server is undone: the kind's part of `trimtab.systems.undo`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.errors import TargetError
from trimtab.systems.base import Own, Restarts, Snapshot
from trimtab.systems.knobs import Reading
from trimtab.systems.postgresql.autoconf import change_entries, read_entries, reload_and_wait
from trimtab.systems.postgresql.catalogue import read_rows
from trimtab.systems.postgresql.entries import still_ours
from trimtab.systems.postgresql.foreign import who_answers
from trimtab.systems.postgresql.pending import starts_with, unsettled
from trimtab.systems.postgresql.reach import AUTO_CONF, Reach
from trimtab.systems.postgresql.rescue import (
    bring_back,
    entries_back_by_spare,
    read_rows_somehow,
    require_parsable,
    wanted_entries,
)
from trimtab.systems.postgresql.values import is_same
from trimtab.systems.session import LoginRefusedError, StatementError
from trimtab.systems.undo import BY_FILES, Standing, Way
from trimtab.units import format_value

__all__ = ["Undo"]


class Undo:
    """See `Undoing`. An entry is ours while it reads, letter by letter, as we wrote it.

    Args:
        reach: the way to the server.
    """

    noun = "server"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._rows: Mapping[str, Reading] = {}
        self._waiting: frozenset[str] = frozenset()
        self._starts: Mapping[str, bool] = {}

    def who(self, snapshot: Snapshot) -> Mapping[str, Any]:
        """Identifier, role and timeline."""
        return who_answers(self._reach)

    def by_hand(self, snapshot: Snapshot, own: Own) -> str:
        """What a person would do."""
        if snapshot.files:
            return f"by hand: {BY_FILES}"
        found: Mapping[str, str] = snapshot.reach["entries"]
        words = [
            f"ALTER SYSTEM SET {name} = '{found[name]}'" if name in found else f"ALTER SYSTEM RESET {name}"
            for name in sorted(own.texts)
        ]
        return f"by hand: {'; '.join((*words, 'SELECT pg_reload_conf()'))}"

    def bring_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> bool:
        """By the files; by SQL alone where they cannot be reached."""
        if snapshot.files:
            return bring_back(self._reach, snapshot, own, restarts)
        self._by_sql(snapshot, own)
        return False

    def _by_sql(self, snapshot: Snapshot, own: Own) -> None:
        reach = self._reach
        try:
            # a tuner may have died between its change and its reload; without rights on the files only loaded entries are seen
            require_parsable(reach)
            reload_and_wait(reach.connect)
        except TargetError:
            if reach.spare is None:
                raise
            entries_back_by_spare(reach, reach.spare, snapshot, own)
            return
        with reach.connect() as connection:
            now = read_entries(connection)
            wanted = wanted_entries(now, snapshot, own)
            change_entries(connection, now, wanted)
        if now != wanted:
            reload_and_wait(reach.connect)

    def standing(self, snapshot: Snapshot, own: Own) -> Mapping[str, Standing] | None:
        """What the server shows after its files are right; None where nobody lets us in and it has read its file since."""
        still = self._look(snapshot, own)
        if still is not None and any(self._is_unread(snapshot, own, name) for name in own.texts):
            # a restorer may have died between the file and the reload
            reload_and_wait(self._reach.connect)
            still = self._look(snapshot, own)
        if still is None:
            return None
        known = [name for name in own.texts if name in self._rows and name in snapshot.values]
        return {name: self._standing(snapshot, own, name, still) for name in known}

    def _look(self, snapshot: Snapshot, own: Own) -> set[str] | None:
        """Our knobs whose entries still stand in the file."""
        try:
            with self._reach.connect() as connection:
                self._rows = read_rows(connection)
                late = {n: snapshot.values[n] for n in own.late if n in self._rows and n in snapshot.values}
                self._waiting = frozenset(unsettled(connection, self._rows))
                self._starts = starts_with(connection, self._rows, late)
                return still_ours(read_entries(connection), snapshot.reach["entries"], own)
        except (LoginRefusedError, StatementError):
            if snapshot.files:
                return None
            self._rows, self._waiting, self._starts = read_rows_somehow(self._reach), frozenset(), {}
            return set()

    def _standing(self, snapshot: Snapshot, own: Own, name: str, still: set[str]) -> Standing:
        row = self._rows[name]
        now, found = (format_value(value, row.unit) for value in (row.value, snapshot.values[name]))
        if is_same(row.value, snapshot.values[name]):
            return Standing(Way.FOUND, now)
        if name in own.late and row.is_pending:
            return Standing(Way.WAITING, now, found, is_written=name in still)
        return Standing(Way.OURS if name in still else Way.THEIRS, now, found)

    def _is_unread(self, snapshot: Snapshot, own: Own, name: str) -> bool:
        """Whether the server may not have read its file yet: it uses our value, and waits for nothing."""
        if name not in self._rows or name not in snapshot.values:
            return False
        row = self._rows[name]
        if row.source != "configuration file" or (row.file and not row.file.endswith(f"/{AUTO_CONF}")):
            return False  # somebody has written the same value somewhere else
        is_ours = any(is_same(row.value, each) for each in own.values.get(name, ()))
        return is_ours and not row.is_pending and not is_same(row.value, snapshot.values[name])

    def why_not_restart(self, snapshot: Snapshot, own: Own, names: list[str]) -> str:
        """Why a restart is not made for `names`; "" when it is."""
        if self._reach.no_restart:
            return "this study has no restart command"
        wrong = {name for name in names if not self._starts.get(name, True)}
        others = sorted((self._waiting - set(own.texts)) | wrong)
        return f"it would bring changes of somebody else's into force ({', '.join(others)})" if others else ""

    def restart_for(self, snapshot: Snapshot, own: Own) -> None:
        """A restart."""
        self._reach.restart()
