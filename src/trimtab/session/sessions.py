"""Sessions: those that are served from one history, by name; begun, found again after a restart, ended."""

from __future__ import annotations

import json
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from trimtab.errors import HistoryError, InternalError, LockedError, TrimtabError
from trimtab.flow import Task
from trimtab.history import Event, History, StudyQuery, StudyRecord, StudySummary, is_same_host, space_to_json
from trimtab.history.rows import UNREADABLE, is_damage
from trimtab.host import FileLock, read_limits
from trimtab.records import Machine, Verdict
from trimtab.session.held import SHORT_S, Door, Held
from trimtab.session.journal import Journal, Nowhere
from trimtab.session.keeper import Keeper
from trimtab.session.layer import Setting
from trimtab.session.members import Client, Timer
from trimtab.session.refusal import ConflictError, StuckError, UnknownError
from trimtab.session.session import Session
from trimtab.session.spec import SessionSpec, read_spec
from trimtab.session.view import summary_of

__all__ = ["KIND", "Sessions"]

KIND = "session"
"""Kind of the target of a study that clients measure."""

T = TypeVar("T")

_MOST_RUNNING = 1000


class Sessions:
    """Every session of one history. Threads may share it.

    A session that runs is served by one of all servers that share the history, from when it is first asked for there until that
    server ends.

    Args:
        history: where they are kept.
        state_dir: for the lock that keeps a second server out, and for files of layers.
        clock: seconds since the epoch, for what people are shown.
        timer: seconds that no step of that clock changes, for leases and costs.
        most: sessions that may run at once.
        sync_s: how long a report may be kept before it survives a loss of power, see `Keeper`.
        is_measuring: whether the clients run on this machine, and go on with sessions of this machine only.

    Attributes:
        past: study id -> what people are shown of a session that has ended and is in memory no more.

    Raises:
        LockedError: another server serves from this folder.
    """

    def __init__(
        self,
        history: History,
        state_dir: Path,
        *,
        clock: Timer = time.time,
        timer: Timer = time.monotonic,
        most: int = _MOST_RUNNING,
        sync_s: float = 1.0,
        is_measuring: bool = False,
    ) -> None:
        self._lock_file = FileLock(state_dir / "sessions.lock")
        if not self._lock_file.acquire("sessions"):
            raise LockedError(
                f"another Trimtab serves sessions from state={str(state_dir)!r}",
                hint="end it, use it (`trimtab exec --server URL`), or give another --state",
            )
        self.history = history
        self.keeper = Keeper(history, sync_s)
        self._folder, self._most, self._is_measuring = state_dir / "logs", most, is_measuring
        self._clock, self._timer = clock, timer
        self._timers: tuple[Timer, Timer] = (time.perf_counter, time.thread_time)
        self._held: dict[str, Held] = {}
        self.past: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._doors: dict[str, Door] = {}

    def close(self) -> None:
        """Writes what is left, and lets another server in. Idempotent."""
        self.keeper.close()
        for session in self.live():
            self.history.let_go(session.study_id)
        self._lock_file.release()

    def begin(self, spec: SessionSpec, *, again: bool = False) -> tuple[Session, bool]:
        """A new session, or the one of that name that was begun in the same way; and whether it is new.

        Args:
            spec: what is asked for.
            again: a new one even when there is one that has ended, or one that cannot go on (here); or, on this machine alone,
                one that was interrupted, which is ended.

        Raises:
            ConflictError: another one has that name, another server serves it, or too many run.
            StuckError: the one of that name cannot go on.
            UsageError, SpaceError: something in `spec` is not legal.
        """
        with self._alone(spec.name):
            try:
                known = self._known(spec, again)
            except StuckError as error:
                if not again:
                    raise
                spec.require_provable()
                self._tried(spec)
                self._given_up(spec.name, error.message)
                known = None
            if known is not None:
                return known, False
            spec.require_provable()
            n_running = sum(1 for each in self.summaries() if each.status == "running")
            if n_running >= self._most:
                raise ConflictError(
                    f"n_sessions={n_running} run already", hint="end some (`stop`), or begin this one later"
                )
            return self._new(spec), True

    def _known(self, spec: SessionSpec, again: bool) -> Session | None:
        """The session that `spec` means; None when a new one is to begin."""
        found = self._record(spec.name)
        if found is None:
            return None
        if KIND not in found.settings:
            raise ConflictError(f"name={spec.name!r} is that of a study of another kind", hint="give another name")
        if self._is_measuring:
            _require_this_host(found)
        self._forget_older(spec.name)
        is_same, is_running = spec.is_that_of(found.fingerprint, found.settings[KIND]), found.status == "running"
        if is_running and again and self._is_measuring:  # nobody else makes its trials
            raise StuckError("its user has begun it again")
        if is_same and (is_running or not again):
            return self._get(spec.name).session
        if is_running:
            raise ConflictError(
                f"session={spec.name!r} runs already and was begun otherwise",
                hint="give the options that it was begun with, or another --name; --again ends it and begins a new one"
                if self._is_measuring
                else "join it, give another name, or end it first",
            )
        return None

    def _tried(self, spec: SessionSpec) -> Task:
        """Its task; whatever is wrong with searcher, layers and prior shows here, before anything is kept, or ended."""
        setting = Setting(spec.name, 0, spec.task(), self._folder)
        Session(spec, 0, setting, Nowhere(), self._clock, self._timer).try_out()
        return setting.task

    def _new(self, spec: SessionSpec, clients: dict[str, Client] | None = None) -> Session:
        """One that begins from nothing; `clients`: those that it has already."""
        task = self._tried(spec)
        limits = read_limits()
        record = self.history.create_study(
            name=spec.name,
            settings={KIND: spec.model_dump(mode="json"), "target": {KIND: {"kind": KIND}}},
            space=space_to_json(task.space),
            objective=str(task.objective),
            baseline=task.baseline,
            machine=Machine(cores=limits.cores, memory_bytes=limits.memory_bytes, hostname=platform.node()),
            context=task.context,
            fingerprint=spec.fingerprint,
            created_at=self._clock(),
        )
        self._hold(spec.name, record.id)
        made = self._made(spec, record.id)
        made.members.by_id = {} if clients is None else clients  # before anybody can ask for it
        return self._put(spec.name, made).session

    def _hold(self, name: str, study_id: int) -> None:
        """Raises ConflictError while another server, or `exec`, goes on with that session."""
        if not self.history.hold(study_id):
            raise ConflictError(
                f"session={name!r} is served by another process, perhaps on another machine that shares this history",
                hint="use that server, or end it: this one goes on with the session then; or give another name",
            )

    def _put(self, name: str, session: Session) -> Held:
        """Keeps a session in memory, instead of the one of that name that has ended."""
        held = Held(session)
        with self._lock:
            self._drop_ended()
            before, self._held[name] = self._held.get(name), held
        if before is not None:
            self.history.let_go(before.session.study_id)
        return held

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """For what may take long of one session: those of other names go on meanwhile."""
        with self._lock:
            door = self._doors.setdefault(name, Door())
            door.n += 1
        try:
            with door.lock:
                yield
        finally:
            with self._lock:
                door.n -= 1
                if door.n == 0:
                    del self._doors[name]

    def _made(self, spec: SessionSpec, study_id: int) -> Session:
        setting = Setting(spec.name, study_id, spec.task(), self._folder)
        return Session(spec, study_id, setting, Journal(self.keeper, study_id, self._clock), self._clock, self._timer)

    @contextmanager
    def use(self, name: str) -> Iterator[Session]:
        """The session of that name, for one thread at a time.

        Raises:
            UnknownError: there is none.
            ConflictError: another server serves it, or has gone on with it.
            StuckError: it cannot go on.
            HistoryError: the history cannot be read.
        """
        with self._taken(name) as held:
            yield held.session

    def is_in_memory(self, name: str) -> bool:
        """Whether using the session of that name reads nothing from the history first."""
        return name in self._held

    def call(self, name: str, call: Callable[[Session], T]) -> T:
        """What `call` gives of the session of that name; for one thread at a time.

        Raises:
            As `use`.
        """
        with self._taken(name) as held:
            return held.call(call, self._timers)

    @contextmanager
    def _taken(self, name: str) -> Iterator[Held]:
        """The session with its lock; another one of that name where it was restarted, or let go of, while it was waited for."""
        while True:
            held = self._get(name)
            with held.lock:
                if self._held.get(name) is held:
                    self._require_own(held)
                    yield held
                    return

    def call_now(self, name: str, call: Callable[[Session], T]) -> T | None:
        """The same where it takes no time: the session is in memory, nobody uses it and its calls of late were short.

        None when `call`, which gives something else, was not called.

        Raises:
            ConflictError: as `use`.
        """
        held = self._held.get(name)
        if held is None or held.long_s > SHORT_S or not held.lock.acquire(blocking=False):
            return None
        try:
            if self._held.get(name) is not held:
                return None
            self._require_own(held)
            return held.call(call, self._timers)
        finally:
            held.lock.release()

    def _require_own(self, held: Held) -> None:
        refused = self.keeper.refused.get(held.session.study_id)
        if refused is not None:
            raise ConflictError(refused.message, hint=refused.hint)

    def _get(self, name: str) -> Held:
        held = self._held.get(name)
        if held is None:
            with self._alone(name):
                held = self._held.get(name) or self._put(name, self._loaded(name))
        return held

    def _drop_ended(self) -> None:
        """Lets go of sessions that nobody asks for any more: the history has them. The lock is held."""
        over = [(name, held) for name, held in self._held.items() if held.session.is_forgotten]
        unkept = {**self.keeper.flush().result(), **self.keeper.refused} if over else {}
        for name, held in over:
            if held.session.study_id not in unkept and held.lock.acquire(blocking=False):
                if held.session.is_forgotten:
                    self.past[held.session.study_id] = summary_of(held.session)
                    del self._held[name]
                    self.history.let_go(held.session.study_id)
                held.lock.release()

    def _forget_older(self, name: str) -> None:
        """Lets go of one that has ended and that another process has begun again since: its name means that one now."""
        held = self._held.get(name)
        if held is None or held.session.state != "ended":
            return
        if any(each.name == name and each.id > held.session.study_id for each in self.summaries()):
            with self._lock:
                self._held.pop(name, None)
            self.history.let_go(held.session.study_id)

    def _record(self, name: str) -> StudyRecord | None:
        """The newest study of that name.

        Raises:
            StuckError: its row is damaged.
        """
        with _going_on(name):
            return self.history.find_study(name, is_own=True)

    def _spec(self, name: str) -> tuple[SessionSpec, StudyRecord]:
        """How a session of the history was begun, and its study."""
        record = self._record(name)
        if record is None or KIND not in record.settings:
            raise UnknownError(f"no session is called {name[:80]!r}", hint="`GET /api/v1/sessions` lists them")
        with _going_on(name):
            return read_spec(json.dumps(record.settings[KIND])), record

    def _loaded(self, name: str) -> Session:
        """A session of the history; one that runs is told again what its journal says."""
        spec, record = self._spec(name)
        if record.status != "running":
            return self._told_again(name, spec, record)
        self._hold(name, record.id)
        try:
            record = self.history.study(record.id)  # another one may have ended it meanwhile
            return self._told_again(name, spec, record)
        except BaseException:
            self.history.let_go(record.id)
            raise

    def _told_again(self, name: str, spec: SessionSpec, record: StudyRecord) -> Session:
        with _going_on(name):
            session = self._made(spec, record.id)
            trials, events = self.history.trials(record.id), self.history.events(record.id)
            if record.status != "running":
                session.ended(record.verdict, trials, _why_failed(events))
                return session
            by_number = {trial.number: trial for trial in trials}
            for event in events:
                session.replay(event.kind, event.text, by_number)
            session.restored(by_number)
        return session

    def restart(self, name: str, *, request: str = "") -> Session:
        """Ends the session and begins it again, from nothing, under its name; its clients stay. It is done once for each
        `request` ("": not known) of a client, who sends it again where its answer was lost.

        Raises:
            UnknownError: there is none.
            StuckError: not even how it was begun can be read; it is ended.
        """
        with self._alone(name):
            if self.stop_stuck(name):
                new = self._new(self._spec(name)[0])
            else:
                with self.use(name) as old:
                    if request and old.request == request:
                        return old
                    old.stop("restarted by a client")
                    self.keeper.wait(old.study_id)
                    new = self._new(old.spec, old.members.by_id)
            new.request = request
            return new

    def stop_stuck(self, name: str) -> bool:
        """Ends the session in the history if it cannot go on, and whether that was so; any other is left alone.

        Raises:
            UnknownError: there is none.
        """
        with self._alone(name):
            self._forget_older(name)
            try:
                self._get(name)
            except StuckError as error:
                self._given_up(name, error.message)
                return True
            return False

    def _given_up(self, name: str, why: str) -> None:
        """Without reading more than its name and status: the row may be what is damaged."""
        for each in self.summaries():
            if each.name == name and each.status == "running":
                self._hold(name, each.id)
                verdict = Verdict(result="interrupted", stop_reason=why, objective=each.objective)
                self.history.update_study(each.id, status="stopped", verdict=verdict)
                self.history.let_go(each.id)

    def summaries(self) -> list[StudySummary]:
        """The sessions of the history, oldest first, without their trials: quick for thousands."""
        return [each for each in self.history.summaries(StudyQuery(target=KIND, is_own=True)) if each.target == KIND]

    def live(self) -> list[Session]:
        """Those that are in memory."""
        with self._lock:
            return [held.session for held in self._held.values()]


def _require_this_host(record: StudyRecord) -> None:
    """Raises StuckError for a session that was measured on another machine: its figures are none of this one."""
    there, here = record.machine.hostname, platform.node()
    if not is_same_host(there, here):
        raise StuckError(
            f"session={record.name!r} was measured on host={there!r}, and this is host={here!r}",
            hint="give the one of this host another name (--name), or begin a new one with --again, which ends that one; "
            "a host that has only been renamed, or a container, goes on with it under its old host name",
        )


@contextmanager
def _going_on(name: str) -> Iterator[None]:
    """Whatever keeps a session of the history from going on becomes a StuckError; a history that cannot be used now does not."""
    try:
        with _bugs_told():
            yield
    except (TrimtabError, *UNREADABLE) as error:
        if isinstance(error, HistoryError) and not is_damage(error):
            raise
        reason = error.message if isinstance(error, TrimtabError) else f"it is damaged: {type(error).__name__}: {error}"
        raise StuckError(
            f"session={name[:80]!r} cannot go on: {reason}",
            hint="begin it again (`restart`; with `trimtab exec`: --again) or end it (`stop`); its trials are kept",
        ) from error


@contextmanager
def _bugs_told() -> Iterator[None]:
    """What nobody foresaw, in a flow, a searcher or a layer, becomes an InternalError: else the session could never be ended."""
    try:
        yield
    except (TrimtabError, MemoryError, *UNREADABLE):
        raise
    except Exception as error:
        raise InternalError(f"a bug in Trimtab: {type(error).__name__}: {error}") from error


def _why_failed(events: Sequence[Event]) -> str:
    return next((event.text for event in reversed(events) if event.kind == "failed"), "")
