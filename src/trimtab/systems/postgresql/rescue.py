"""Rescue of a PostgreSQL server: its file by hand, or by the server itself; read again by SQL, or by a signal.

Started with our knobs as found on the command line (see `trimtab.systems.rescue`), it puts its own file right, and is restarted
without them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trimtab.errors import RestoreError, TargetError
from trimtab.space import Value
from trimtab.systems.base import Own, Snapshot
from trimtab.systems.files import digest_at, files_back
from trimtab.systems.knobs import Reading
from trimtab.systems.postgresql.autoconf import change_entries, file_faults, read_entries, reload_and_wait
from trimtab.systems.postgresql.catalogue import read_rows
from trimtab.systems.postgresql.entries import file_without, still_ours
from trimtab.systems.postgresql.reach import AUTO_CONF, Reach
from trimtab.systems.postgresql.recovery import PID_FILE, Recovery, servers_in
from trimtab.systems.postgresql.session import Connection, FullError
from trimtab.systems.rescue import UnwritableError
from trimtab.systems.server_change import ServerChannel
from trimtab.systems.session import LoginRefusedError, NotYetError, StatementError

__all__ = ["ServerRescue", "read_rows_somehow"]

_LOGIN_S = 10.0
_SPARE_S = 0.5
"""Until a session that runs has seen a reload."""
_POLL_S = 0.05


class ServerRescue(ServerChannel[Reach]):
    """See `Rescue`."""

    LETS_REFUSE = True
    _has_moved = False
    """Whether it was just found to listen where no login of ours goes."""

    def _pids(self) -> Sequence[int] | None:
        return servers_in(self._reach.data_dir) if self._reach.data_dir is not None else None

    def _text(self, value: Value) -> str:
        """In the server's own unit, as pg_settings shows it."""
        return ("on" if value else "off") if isinstance(value, bool) else str(value)

    def _was_stopped(self, was_up: bool) -> bool:
        folder = self._reach.data_dir
        return not was_up and folder is not None and not (folder / PID_FILE).exists()

    def _changed_since(self, snapshot: Snapshot, own: Own) -> str:
        left = (own.picture or snapshot.picture).get("files", {})
        others = {path: digest for path, digest in left.items() if Path(path).name != AUTO_CONF}
        now = {path: digest_at(self._reach.host, path) or digest for path, digest in others.items()}
        return next((f"file={path!r} was" for path in others if now[path] != others[path]), "")

    def _files_back(self, snapshot: Snapshot, own: Own) -> bool:
        folder = self._reach.data_dir
        path = folder / AUTO_CONF if folder is not None else None
        try:
            return files_back(self._reach.host, snapshot, own, path, file_without)
        except RestoreError:
            raise
        except TargetError as error:
            if "cannot be parsed" in error.message:
                raise
            raise UnwritableError(error.message, hint=error.hint) from error

    def _files_back_by_server(self, snapshot: Snapshot, own: Own) -> bool:
        try:
            with self._reach.connect() as connection:
                entries_back(connection, snapshot, own)
        except TargetError:
            return False
        return True

    def _is_well(self, own: Own, changed: bool) -> bool:
        """Whether it answers and has read its file, or needs no login for that.

        Raises:
            LoginRefusedError: it does not let us in, and nothing of ours can be the reason.
            TargetError: its files cannot be parsed; or it listens elsewhere now, and a restart is needed, which could not be seen
                to work.
        """
        if super()._is_well(own, changed) and (not changed or self._reloads()):
            return True
        if where := self._reach.moved_to():
            self._has_moved = self._signal()
            if own.late or not self._has_moved:
                raise TargetError(
                    f"no login works where the url leads, and no restart was made: the server serves at {where} now",
                    hint="restart it by hand, or let it listen at the old address again and run the command again",
                )
            return True
        if not changed:
            return False
        if self._answers_after_signal():
            return True
        try:
            self._reach.health()
        except LoginRefusedError:
            return not own.late  # it has read the file; only a knob that needs a restart would still be ours
        except TargetError:
            return False
        return True

    def _answers(self, own: Own, changed: bool) -> bool:
        """Whether a login works: a server process may be there and hang.

        Raises:
            LoginRefusedError: it does not let us in, and nothing of ours can be the reason.
        """
        try:
            self._reach.health()
        except FullError:
            if changed or own.late:
                return False
            raise
        except NotYetError:
            return self._answers_once_up()
        except LoginRefusedError:
            if changed:
                return False
            raise
        except TargetError:
            return False
        return True

    def _answers_once_up(self) -> bool:
        """The same of a server that starts or stops. One that replays its log is waited for as long as it gets on: a restart
        would have it begin anew."""
        recovery = Recovery(self._reach.pid or 0, _LOGIN_S)
        while not self._answers_within(_LOGIN_S):
            if recovery.has_stalled() or not recovery.is_under_way():
                return False
        return True

    def _reloads(self) -> bool:
        """Whether the server has read its files again.

        Raises:
            TargetError: they cannot be parsed: no restart would help.
        """
        with self._reach.visit():
            try:
                trouble = self._unparsable()
            except TargetError:  # a time-out of ours may cut off whoever asks
                return False
            if trouble is not None:
                raise trouble
            try:
                reload_and_wait(self._reach.connect)
            except TargetError:
                return False
        return True

    def _unparsable(self) -> TargetError | None:
        """Why the server cannot read its configuration files, as far as this user may see it; None when it can.

        Raises:
            TargetError: it cannot be asked.
        """
        with self._reach.connect() as connection:
            faults = file_faults(connection)
        if not faults:
            return None
        return TargetError(
            f"the configuration files cannot be parsed ({faults[0]})",
            hint="repair that line, then run `trimtab recover`",
        )

    def _answers_after_signal(self) -> bool:
        return self._signal() and self._answers_within(self.WAKE_S)

    def _signal(self) -> bool:
        """Lets the server read its files again without a login; enough for settings that a reload makes effective."""
        pid = self._reach.pid
        if pid is None or pid not in (self._pids() or ()):
            return False
        try:
            os.kill(pid, signal.SIGHUP)
        except OSError:
            return False
        return True

    def _by_hand_started(self, snapshot: Snapshot, own: Own, first: TargetError) -> None:
        """It puts its own file right, and is restarted without what its command line says."""
        with self._reach.connect() as connection:
            entries_back(connection, snapshot, own)
        with suppress(TargetError):
            self._files_back(snapshot, own)
        self._reach.restart()

    def _back_by_spare(self, spare: Connection, snapshot: Snapshot, own: Own) -> None:
        """By a connection from better times, where no new login works: entries as found, and back when a login works.

        Raises:
            TargetError: that connection is gone too, or nobody can log in afterwards.
        """
        try:
            entries_back(spare, snapshot, own)
            spare.rows("SELECT pg_reload_conf()")
        except StatementError as error:
            raise TargetError(
                f"no new login works, and the spare connection is gone: {error.message}",
                hint="let somebody with access to the server's files restore them",
            ) from error
        deadline = time.monotonic() + _LOGIN_S
        while True:
            try:
                return self._reach.connect().close()
            except LoginRefusedError:
                return time.sleep(_SPARE_S)  # it runs; that it keeps everybody out has another reason than our entries
            except TargetError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_S)


def entries_back(connection: Connection, snapshot: Snapshot, own: Own) -> bool:
    """The server's own entries with those that are ours as they were found; whether any had to be changed."""
    now, found = read_entries(connection), snapshot.reach["entries"]
    still = still_ours(now, found, own)
    wanted = {name: text for name, text in now.items() if name not in still}
    wanted |= {name: found[name] for name in still if name in found}
    change_entries(connection, now, wanted)
    return now != wanted


def read_rows_somehow(reach: Reach) -> Mapping[str, Reading]:
    """By a new login; where none works any more, by the connection from better times."""
    try:
        with reach.connect() as connection:
            return read_rows(connection)
    except LoginRefusedError:
        if reach.spare is None or reach.spare.closed:
            raise
        return read_rows(reach.spare)
