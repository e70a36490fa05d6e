"""Keeper: writes what sessions do into the history, many at a time: one commit serves everybody who waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeAlias

from trimtab.errors import HistoryError, InternalError, TrimtabError
from trimtab.history import Event, History, RefusedError, UnusableError
from trimtab.records import Trial, Verdict
from trimtab.session.refusal import ConflictError

__all__ = ["Failed", "Keeper", "require_kept"]

Ending: TypeAlias = tuple[str, Verdict]
Failed: TypeAlias = Mapping[int, TrimtabError]
"""Study id -> why something of it could not be kept."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Row:
    """Something to be kept, by its study."""

    study_id: int
    value: Trial | Event | Ending


class Keeper:
    """One thread that writes, in the order in which it was given.

    What nobody waits for (which points went out) is written after a moment, so that a crash loses little of it. What could not be
    written (a full disk) stays at the head of the queue and is tried again; whoever waited for it is told. So it is with a row
    that cannot be stored and with an error that nobody foresaw, a bug: the rows of the studies that it does not concern are kept.
    Of a commit whose answer was lost on the way nothing is written a second time.

    What is written survives the end of this process at once. A disk takes 5 to 20 ms to have it for good, so with `sync_s`
    above 0 nobody waits for that: the disk is asked for it at most `sync_s` later, once for all that came in between. Only a
    loss of power takes that much with it; sessions then go on from what is there, and those points are measured again.

    Args:
        history: where it is kept.
        sync_s: see above; 0: every commit waits for the disk.

    Attributes:
        linger_s: how long something may wait for somebody to ask for it.
        refused: study id -> why nothing more is written of it: another server has written a trial of the same number.
    """

    def __init__(self, history: History, sync_s: float = 1.0) -> None:
        self.linger_s = 0.05
        self._sync_s = sync_s
        self._unsynced_since: float | None = None
        self.refused: dict[int, ConflictError] = {}
        self._history = history
        self._logged: set[int] = set()
        self._doubtful: set[int] = set()
        self._rows: deque[_Row] = deque()
        self._flush: Future[Failed] | None = None
        self._is_writing = False
        self._is_asleep = False
        self._changed = threading.Condition()
        self._is_closed = self._is_over = False
        self._thread = threading.Thread(target=self._run, name="trimtab-keeper", daemon=True)
        self._thread.start()

    def add(self, study_id: int, *values: Trial | Event | Ending) -> None:
        """Takes something to be kept; written with the next `flush`, or after `linger_s`, and all of it by one commit."""
        with self._changed:
            self._rows.extend(_Row(study_id, value) for value in values)
            if self._is_asleep:
                self._changed.notify()

    def flush(self) -> Future[Failed]:
        """Done when everything added before is kept, or could not be; it says what could not.

        Whoever asks before the writing begins is given the same one.
        """
        with self._changed:
            if self._flush is None:
                flush: Future[Failed] = Future()
                if self._is_over or (not self._rows and not self._is_writing):
                    flush.set_result(self._left())
                    return flush
                self._flush = flush
                self._changed.notify()
            return self._flush

    def wait(self, study_id: int | None = None) -> None:
        """Returns when everything added before is kept.

        Args:
            study_id: whose errors are of interest; None: everybody's.

        Raises:
            TrimtabError: why something is not.
        """
        require_kept(self.flush().result(), study_id)

    @property
    def n_waiting(self) -> int:
        """Rows that are not kept yet."""
        return len(self._rows)

    def close(self) -> None:
        """Writes what is left and ends the thread. Idempotent. What is added later is not kept, and `flush` says so at once."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._linger()
                rows, flush = list(self._rows), self._flush
                self._rows, self._flush, self._is_writing = deque(), None, True
                is_last = self._is_closed
            self._keep(rows, flush)
            self._sync(is_last)
            if is_last:
                self._end()
                return

    def _end(self) -> None:
        """Whoever has asked since the last commit began is told; nobody else writes."""
        with self._changed:
            self._is_over, flush, self._flush, left = True, self._flush, None, self._left()
        if flush is not None:
            flush.set_result(left)

    def _left(self) -> Failed:
        """Why rows that are still there when the thread has ended are not kept; empty where there are none. The lock is held."""
        why = HistoryError(
            "the server ended before this was kept", hint="send it again when the server is started again"
        )
        return dict.fromkeys((row.study_id for row in self._rows), why)

    def _linger(self) -> None:
        """Until somebody waits for what is there, or it has been there for a while, or the disk is to be asked.

        As long as something comes in it looks by itself, so that `add` need not wake it: that would cost more than the writing.
        """
        is_idle = False
        while self._flush is None and not self._is_closed:
            if self._rows or not is_idle:
                self._changed.wait(self.linger_s)
                if self._rows:
                    return
                is_idle = True
            else:
                left_s = self._unsynced_left_s()
                if left_s == 0:
                    return
                self._is_asleep = True
                self._changed.wait(left_s)
                self._is_asleep = False

    def _unsynced_left_s(self) -> float | None:
        """Seconds until the disk is to be asked; None when there is nothing that it lacks."""
        since = self._unsynced_since
        return None if since is None else max(0.0, since + self._sync_s - time.monotonic())

    def _sync(self, is_last: bool) -> None:
        """Once for all commits of the last `sync_s`; a disk that refuses is asked again."""
        left_s = self._unsynced_left_s()
        if left_s is None or (left_s > 0 and not is_last):
            return
        self._unsynced_since = None
        try:
            self._history.sync()
        except Exception as error:  # noqa: BLE001 - a thread of all sessions: whatever it is, they are told
            self._unsynced_since = time.monotonic()
            if not isinstance(error, HistoryError):
                _log.exception("a bug: the disk cannot be asked to keep what was written")

    def _keep(self, rows: Sequence[_Row], flush: Future[Failed] | None) -> None:
        failed = self._write(rows)
        with self._changed:
            again = [row for row in rows if row.study_id in failed and row.study_id not in self.refused]
            self._rows.extendleft(reversed(again))
            self._is_writing = False
        if flush is not None:
            flush.set_result(failed)

    def _write(self, rows: Sequence[_Row]) -> Failed:
        """What could not be written; the rows of the other studies are."""
        parts: dict[int, list[_Row]] = {}
        failed: dict[int, TrimtabError] = {}
        for row in rows:
            if row.study_id in self.refused:
                failed[row.study_id] = self.refused[row.study_id]
            else:
                parts.setdefault(row.study_id, []).append(row)
        try:
            self._write_all(parts)
        except UnusableError as error:
            return {**failed, **dict.fromkeys(parts, error)}
        except Exception:  # noqa: BLE001 - a row, or a bug: the study that it concerns is found below
            pass
        else:
            return failed
        tried = [(study_id, self._write_one(study_id, part)) for study_id, part in parts.items()]
        return {**failed, **{study_id: error for study_id, error in tried if error is not None}}

    def _write_one(self, study_id: int, rows: Sequence[_Row]) -> TrimtabError | None:
        """Why they could not be written; tried again unless the study is refused."""
        try:
            self._write_all({study_id: rows})
        except RefusedError as error:
            self.refused[study_id] = ConflictError(
                f"another process has written trials of study_id={study_id}: {error.message}",
                hint="end one of the two servers; this one goes on with the session after it is started again",
            )
            return self.refused[study_id]
        except HistoryError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a thread of all sessions: whatever it is, they are told
            if study_id not in self._logged:
                self._logged.add(study_id)
                _log.exception("a bug: rows of study_id=%d cannot be written and will be tried again", study_id)
            return InternalError(
                f"what was reported of study_id={study_id} cannot be kept: {type(error).__name__}: {error}"
            )
        return None

    def _write_all(self, parts: Mapping[int, Sequence[_Row]]) -> None:
        """Writes the rows of each study, all of them or none."""
        rows = [row for study_id, part in parts.items() for row in self._unwritten(study_id, part)]
        trials = [(row.study_id, row.value) for row in rows if isinstance(row.value, Trial)]
        events = [(row.study_id, row.value) for row in rows if isinstance(row.value, Event)]
        endings = [(row.study_id, *row.value) for row in rows if isinstance(row.value, tuple)]
        if rows:
            self._doubtful.update(parts)
            is_synced = self._sync_s <= 0 or bool(endings)
            self._history.add_many(trials, events, endings, is_synced=is_synced)
            if not is_synced and self._unsynced_since is None:
                self._unsynced_since = time.monotonic()
        self._doubtful.difference_update(parts)

    def _unwritten(self, study_id: int, part: Sequence[_Row]) -> Sequence[_Row]:
        """Those that no earlier commit has written: of one that has failed it may be the answer that was lost.

        Then the newest events of the history are the first of these; no trial comes without one after it, and an ending may be
        written twice.
        """
        own = [(at, row.value) for at, row in enumerate(part) if isinstance(row.value, Event)]
        if study_id not in self._doubtful or not own:
            return part
        kept = self._history.events(study_id, newest=len(own))
        for n in range(len(own), 0, -1):
            if kept[-n:] == [event for _, event in own[:n]]:
                return part[own[n - 1][0] + 1 :]
        return part


def require_kept(failed: Failed, study_id: int | None = None) -> None:
    """Raises why something of that study is not kept; None: of any."""
    error = next(iter(failed.values()), None) if study_id is None else failed.get(study_id)
    if error is not None:
        raise error
