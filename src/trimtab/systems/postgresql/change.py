"""ALTER SYSTEM: the channel of a PostgreSQL server, all or nothing, read back every time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab.errors import ApplyError, ForeignChangeError
from trimtab.space import Config, Knob, Value
from trimtab.systems.base import KnobState, Own, Restarts, Snapshot
from trimtab.systems.picture import STOPPED
from trimtab.systems.postgresql.autoconf import (
    change_entries,
    file_entries,
    file_faults,
    read_entries,
    reload_and_wait,
)
from trimtab.systems.postgresql.catalogue import is_kept, read_rows
from trimtab.systems.postgresql.pending import require_settled
from trimtab.systems.postgresql.preload import Preload
from trimtab.systems.postgresql.reach import AUTO_CONF, Reach
from trimtab.systems.postgresql.rescue import read_rows_somehow
from trimtab.systems.postgresql.session import Connection, ConnectionLostError
from trimtab.systems.postgresql.undo import Undo
from trimtab.systems.postgresql.values import is_same, quoted_name, setting_text, shown_real
from trimtab.systems.server_change import ServerChange
from trimtab.units import format_value

__all__ = ["AlterSystem"]


class AlterSystem(Undo):
    """See `Channel`. Entries of postgresql.auto.conf, seen and changed through the server."""

    preload: Preload | None = None
    """Our own library, which every change has the server's sessions load that does not stay; undone with the rest."""
    left: Mapping[str, str] | None = None
    """The entries as our last change left them; None when there is none, or it was undone."""
    NO_LINK = "ALTER SYSTEM would put a plain file in its place; make it one, or tune where it is managed"

    @property
    def files(self) -> Sequence[Path]:
        """The one that the server itself writes; none where it cannot be reached."""
        return [self._reach.data_dir / AUTO_CONF] if self._reach.data_dir is not None else []

    def fleeting(self, names: Collection[str]) -> str:
        """ "": what ALTER SYSTEM sets stays."""
        return ""

    def texts(self, knob: Knob, value: Value) -> tuple[str, ...]:
        """As ALTER SYSTEM writes it, and as `read_entries` gives it where only what is in use is seen."""
        text = setting_text(value, knob.unit)
        if isinstance(value, float):
            return tuple(dict.fromkeys((setting_text(shown_real(value), knob.unit), text)))
        return (quoted_name(text), text) if isinstance(value, str) else (text,)

    def _saved(self, session: Connection, *, can_restart: bool) -> tuple[Mapping[str, Value], Mapping[str, Any]]:
        self.left, entries, rows = None, read_entries(session), read_rows(session)
        require_settled(session, rows, can_restart=can_restart)
        return {name: row.value for name, row in rows.items() if is_kept(row)}, {"entries": entries}

    def change(self, config: Config, states: Mapping[str, KnobState], base: Snapshot, *, stays: bool) -> _Change:
        """See `Change`."""
        return _Change(self, config, states, base, None if stays else self.preload)

    def bring_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> bool:
        """See `Undoing`."""
        self.left = None
        return super().bring_back(snapshot, own, restarts)


class _Change(ServerChange[Reach]):
    def __init__(
        self,
        channel: AlterSystem,
        config: Config,
        states: Mapping[str, KnobState],
        base: Snapshot,
        preload: Preload | None,
    ) -> None:
        super().__init__(channel._reach, config, base)
        self._channel = channel
        self._states = states
        self._preload = preload
        self._is_checked = False
        self._texts = {name: setting_text(value, states[name].knob.unit) for name, value in config.items()}
        self._wanted = {**base.reach["entries"], **self._texts}
        self._before: dict[str, str] = {}
        self._is_read = True

    def write(self) -> None:
        self._before, faults = self._set_entries()
        if faults:
            raise ApplyError(f"the server cannot use its configuration files: {'; '.join(faults)}")
        loads_more = self._loads_more()
        self._is_read = self._before == self._wanted and not loads_more

    def _loads_more(self) -> bool:
        """Whether new sessions, or the next start, load our library because of this very change."""
        if self._preload is None:
            return False
        with self._reach.connect() as connection:
            return self._preload.set(connection)

    def _set_entries(self) -> tuple[dict[str, str], list[str]]:
        """The entries before, and faults of the files after; a lost connection is made again once, to read what stands."""
        before: dict[str, str] | None = None
        while True:
            is_second = before is not None
            try:
                with self._reach.connect() as connection:
                    now = read_entries(connection)
                    if before is None:
                        self._require_known(now)
                        before = now
                    change_entries(connection, now, self._wanted)
                    return before, file_faults(connection)
            except ConnectionLostError:
                if is_second:
                    raise

    def _require_known(self, now: Mapping[str, str]) -> None:
        """That the entries are those that were found or that we left: what somebody else has set since would be reset.

        Raises:
            ForeignChangeError: they are not.
        """
        found, left = self._base.reach["entries"], self._channel.left
        if now in (found, left):
            return
        known = found if left is None else left
        theirs = sorted(name for name in {*now, *known} if now.get(name) != known.get(name))
        raise ForeignChangeError(
            f"{AUTO_CONF} was changed by somebody else since Trimtab last read it: {', '.join(theirs)}", hint=STOPPED
        )

    def take_effect(self) -> None:
        if not self._is_read:
            reload_and_wait(self._reach.connect)
            self._is_read = True
        self._now = read_rows_somehow(self._reach)

    def _values(self) -> dict[str, Value]:
        """Every knob that we have touched, and the value that it should have."""
        touched = sorted({*self._before, *self._wanted} & set(self._base.values))
        return {name: self._config.get(name, self._base.values[name]) for name in touched}

    def must_restart(self) -> bool:
        waits = self._preload is not None and self._now[self._preload.name].is_pending
        return waits or any(
            self._now[name].is_pending and not is_same(self._now[name].value, value)
            for name, value in self._values().items()
        )

    def check(self) -> None:
        """A special value (-1) shows as what the server made of it."""
        for name, value in self._values().items():
            row, knob = self._now[name], self._states[name].knob
            # a knob that is not named may be one that the server derives from others (wal_buffers from shared_buffers)
            is_derived = self._config.get(name, knob.default) in knob.special
            if is_same(row.value, value) or (is_derived and not row.is_pending):
                continue
            raise ApplyError(
                f"the server uses {name}={format_value(row.value, row.unit)} ({row.where}),"
                f" not {format_value(value, row.unit)}",
                hint="another source wins over postgresql.auto.conf, or the server rounds the value",
            )
        self._is_checked = True

    def require_ours(self) -> None:
        """The entries are read once more; the next change may find them so."""
        with self._reach.connect() as connection:
            in_file = file_entries(connection)
            now = read_entries(connection) if in_file is None else in_file
        stands = self._stands if in_file is not None else self._seems_to_stand
        theirs = sorted(name for name in {*now, *self._wanted} if not stands(name, now.get(name)))
        if theirs:
            raise ForeignChangeError(
                f"{AUTO_CONF} was changed by somebody else while Trimtab changed it: {', '.join(theirs)}", hint=STOPPED
            )
        self._channel.left = now

    def _stands(self, name: str, text: str | None) -> bool:
        wanted = self._wanted.get(name)
        return text == wanted or (name in self._texts and text == quoted_name(self._texts[name]))

    def _seems_to_stand(self, name: str, text: str | None) -> bool:
        """The same where only values in use are seen, in other words: those of ours were compared by `check`, and one that
        follows another one of ours may have changed with it."""
        if name in self._texts:
            return self._is_checked or self._stands(name, text)
        return text is None or name in self._wanted
