"""System: the one `Target`: check, write, take effect, read back, health; rescue and evidence, the same for every kind."""

from __future__ import annotations

import errno
import hashlib
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pydantic import SecretStr

from trimtab.errors import ApplyError, ForeignChangeError, LockedError, NoRestartError, RestoreError, TargetError
from trimtab.host import FileLock
from trimtab.records import Endpoint, Fault
from trimtab.redact import redact
from trimtab.space import Config, Knob, RestartClass, Value
from trimtab.systems.base import Applied, Own, Restarts, Snapshot, Undone, always
from trimtab.systems.capabilities import Disturbance, Evidence, Vitals
from trimtab.systems.catalogued import Catalogued
from trimtab.systems.channel import Change
from trimtab.systems.embedded import EmbeddedServer
from trimtab.systems.evidence import Forensics
from trimtab.systems.fragment import fragment_text
from trimtab.systems.gate import check_config
from trimtab.systems.left_alone import is_left_alone
from trimtab.systems.parts import Parts
from trimtab.systems.picture import Sentry
from trimtab.systems.reach import ServerReach
from trimtab.systems.session import LoginRefusedError, NotYetError
from trimtab.systems.settings import ServerSettings, read_table
from trimtab.systems.undo import take_back
from trimtab.systems.vitals import Watch

__all__ = ["LOG_LINES", "System"]

_RECOVERY_S = 60.0
"""How long a system that says that it starts or recovers is waited for."""
_POLL_S = 0.05

LOG_LINES = 20
"""Of the server's log, shown after a failure."""

_FAULTS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EIO, errno.ENOENT), Fault.ENVIRONMENT),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), Fault.RESOURCE),
}
"""Why a file could not be written -> whose fault it is; that the kernel refuses a value (EINVAL) is the config's."""

S = TypeVar("S", bound=ServerSettings)
R = TypeVar("R", bound=ServerReach)


class System(Catalogued[S, R]):
    """See `Target`. A kind of system makes its channel, sentry and lock, and says what its health is.

    Attributes:
        kind: of the target.
        SETTINGS: model of the table.
        FRAGMENT_HEAD: lines that its configuration file needs before a setting.
    """

    kind: str
    SETTINGS: ClassVar[type[Any]]
    FRAGMENT_HEAD: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, settings: S, reach: R, state_dir: Path) -> None:
        super().__init__(name, settings, reach)
        self._known: dict[str, Knob] = {}
        self._watch: Watch | None = None
        parts = self._parts(state_dir)
        self._channel, self._lock = parts.channel, parts.lock
        self._sentry = Sentry(Forensics(reach, parts.log, parts.noun), parts.identity, parts.troubles)

    @abstractmethod
    def _parts(self, state_dir: Path) -> Parts:
        """What it is made of; `state_dir` is for a lock file."""

    @classmethod
    def from_settings(
        cls, name: str, settings: Mapping[str, Any], *, state_dir: Path, directory: Path | None = None
    ) -> Self:
        """A target from its [target.NAME] table, whose paths are relative to `directory`; touches nothing.

        Raises:
            UsageError: an unknown key, a wrong value, or a catalogue of the user's with a fault.
        """
        return cls._made(name, cls._table(name, settings, directory), state_dir, {})

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, *, state_dir: Path) -> Self:
        """The target that a journalled snapshot came from, ready for `restore`; needs neither study file nor `open`.

        The journal holds no password: it comes from the environment or a file, or from the tuner (see `credentials`).
        """
        table = read_table(cls.SETTINGS, snapshot.target, snapshot.reach["settings"], is_kept=True)
        return cls._made(snapshot.target, table, state_dir, snapshot.reach)

    @classmethod
    def full_paths(cls, name: str, settings: Mapping[str, Any], directory: Path) -> Mapping[str, Any]:
        """What of a [target.NAME] table depends on the folder of its study file, as it may stand in a file of any folder.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        here, there = (
            read_table(cls.SETTINGS, name, settings, each).model_dump() for each in (directory, directory / "elsewhere")
        )
        found = {key: value for key, value in here.items() if value != there[key]}
        return {k: v.get_secret_value() if isinstance(v, SecretStr) else v for k, v in found.items()}

    @classmethod
    def _table(cls, name: str, settings: Mapping[str, Any], directory: Path | None) -> Any:
        """The table of a study file, checked."""
        return read_table(cls.SETTINGS, name, settings, directory)

    @classmethod
    @abstractmethod
    def _made(cls, name: str, table: Any, state_dir: Path, kept: Mapping[str, Any]) -> Self:
        """The target of a table; `kept`: what a snapshot holds of its place, {} in a study."""

    def _lock_file(self, state_dir: Path) -> FileLock:
        reach: object = self._reach
        if isinstance(reach, EmbeddedServer):
            return reach.owner
        digest = hashlib.sha256((self.settings.safe_url or "").encode()).hexdigest()[:16]
        return FileLock(state_dir / "locks" / f"{self.kind}-{digest}.lock")

    @property
    def private_folder(self) -> Path | None:
        """Where everything of a server of our own lies; None for another one."""
        found = self._reach.describe().get("folder")
        return Path(str(found)) if found else None

    def health(self) -> None:
        """That it serves: a login and a query, or a command; one that says that it starts or recovers is waited for.

        Raises:
            TargetError: it does not.
        """
        until = time.monotonic() + _RECOVERY_S
        while True:
            try:
                return self._reach.health()
            except NotYetError:
                if time.monotonic() > until:
                    raise
            time.sleep(_POLL_S)

    def _failing(self, error: TargetError) -> None:
        """What is to be waited for before the server's log is read after `error`."""

    def _told(self, error: TargetError) -> TargetError:
        """The failure of a change, in other words where the kind knows better ones."""
        return error

    def open(self) -> None:
        """Reaches the server (an embedded one is started) and checks its version; changes nothing.

        Raises:
            TargetError: it cannot be reached, or is of an unknown version.
        """
        try:
            self._reach.open()
        except TargetError as error:
            excerpt = self._reach.log_excerpt(LOG_LINES)
            raise type(error)("\n".join(filter(None, (error.message, excerpt))), hint=error.hint) from error
        self._look()

    def close(self) -> None:
        """Gives the locks back; stops an embedded server."""
        self._lock.release()
        self._reach.close()

    def endpoint(self) -> Endpoint:
        """How a load connects."""
        return self._reach.endpoint()

    def snapshot(self) -> Snapshot:
        """The configuration as it is; later applies count from here.

        Raises:
            TargetError: the files hold changes that the system does not use yet.
        """
        with self._visit():
            files, values, more = self._channel.saved(can_restart=self._can_restart)
            reach = {**self._reach.describe(), "settings": self.settings.public(), **more}
            found = Snapshot(target=self.name, kind=self.kind, reach=reach, files=files, values=values)
            self._base, self._known = replace(found, picture=self._sentry.begin()), {}
        return self._base

    @property
    def _can_restart(self) -> bool:
        """Whether a restart of ours may happen."""
        return self.settings.allow_restart and not self._reach.no_restart

    def announce(self, config: Config) -> Own:
        """What will be ours once `config` is applied."""
        if not set(config) <= set(self._known):
            self._known = {name: state.knob for name, state in self.states().items()}
        knobs = {name: self._known[name] for name in config if name in self._known}
        return Own(
            texts={name: self._channel.texts(knob, config[name]) for name, knob in knobs.items()},
            values={name: (config[name],) for name in knobs},
            late=tuple(sorted(name for name, knob in knobs.items() if knob.restart is not RestartClass.RELOAD)),
            units={name: knob.unit for name, knob in knobs.items() if knob.unit},
        )

    def apply(self, config: Config, *, stays: bool = False) -> Applied:
        """Sets exactly `config` over the last snapshot (taken now when there is none), all or nothing.

        Raises:
            ApplyError: the server refused it or did not come back with it; what was changed is taken back.
            NoRestartError: it cannot be restarted, whatever the config; what was changed is taken back.
            ForeignChangeError: somebody else changed it meanwhile; what is still ours is taken back.
            RestoreError: it could not even be taken back.
        """
        base, is_touched = self._base if self._base is not None else self.snapshot(), False
        try:
            with self._visit():
                states = self.states()
                check_config(config, states)
                if stays:
                    self.require_lasting(config)
                own = self.announce(config)
                self._sentry.changing(own)
                is_touched = True
                change, started = self._channel.change(config, states, base, stays=stays), time.monotonic()
                _write(change)
            applied = self._settled(change, started)
            with self._visit():
                self.health()
                own = self._sentry.changed(_completed(own, applied.effective), change.require_ours)
            self._lock.renew()
        except TargetError as error:
            if isinstance(error, ApplyError) and not is_touched:
                raise
            self._failing(error)
            excerpt = self._reach.log_excerpt(LOG_LINES)
            self._sentry.failed()
            self._take_back(base, self._sentry.own, always)
            found = self._tried_as_found(error)
            self._sentry.restored()
            self._renew_if_up()
            if isinstance(found, LockedError | ForeignChangeError | NoRestartError):
                raise
            raise _apply_error(self._told(found), excerpt, self._channel.trouble) from error
        return replace(applied, own=own)

    def _tried_as_found(self, error: TargetError) -> TargetError:
        """`error`, once all is as found: a restart command that left the system as it was may have looked at the files first."""
        if not is_left_alone(error):
            return error
        try:
            self._reach.restart()
        except TargetError:
            return error
        text = f"{error.message}; with the settings as found the same command restarts it"
        return ApplyError(text, hint=error.hint, fault=Fault.CONFIG)

    def require_lasting(self, config: Config) -> None:
        """See `LastingTarget`."""
        if why := self._channel.fleeting(config.keys()):
            what, _, hint = why.partition("; ")
            raise ApplyError(f"the config cannot be made to stay: {what}", hint=hint)

    def _settled(self, change: Change, started: float) -> Applied:
        """What was written takes effect, by a restart where a value cannot show otherwise, and is read back.

        Raises:
            ApplyError: the system does not use it. It is left as it is: the caller rescues it.
            ForeignChangeError: somebody else has changed it before it could be read.
        """
        change.take_effect()
        restarted = change.must_restart()
        if restarted:
            self._reach.restart()
            change.take_effect()
        try:
            change.check()
        except ApplyError:
            change.require_ours()
            raise
        return Applied(effective=change.effective(), restarted=restarted, duration_s=time.monotonic() - started)

    def restore(self, snapshot: Snapshot, own: Own | None = None, *, restarts: Restarts = always) -> Undone:
        """Takes back what is ours and still stands; works on a closed target and a server that is down. Idempotent.

        Raises:
            RestoreError: something of ours still stands; the hint says how to do it by hand.
        """
        self._sentry.restoring()
        done = self._take_back(snapshot, self._sentry.own if own is None else own, restarts)
        self._base = snapshot
        self._sentry.restored()
        self._renew_if_up()
        return done

    def _renew_if_up(self) -> None:
        """After a way back that holds: our login may be revoked, or the server down for others to start; the next change asks."""
        try:
            self._lock.renew()
        except LockedError:
            raise
        except TargetError:
            pass

    def _take_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> Undone:
        """See `take_back`; of a system that does not come back, its own words of why are told."""
        try:
            return take_back(self._channel, snapshot, own, restarts)
        except RestoreError as error:
            why = self._sentry.last_words()
            if not why or why in error.message:
                raise
            raise type(error)(f"{error.message}: {why}", hint=error.hint) from error

    @property
    def no_restart(self) -> str:
        """Why it cannot be restarted; "" when it can."""
        return self._reach.no_restart

    def restart(self, snapshot: Snapshot) -> None:
        """Restarts it as it is, because one that it needs was restarted; see `RestartableTarget`.

        Raises:
            TargetError: it cannot be restarted, or does not come back.
        """
        own = self._sentry.own
        self._sentry.changing(own)
        self._channel.restart_for(snapshot, own)
        self.health()
        self._sentry.changed(own)
        self._lock.renew()

    def where(self) -> Mapping[str, str]:
        """Which server it is, which files are changed, and what restarts it, for people."""
        found = {"server": self.settings.safe_url or str(getattr(self._reach, "folder", self.name))}
        found["files"] = ", ".join(str(path) for path in self._channel.files) or "none: by SQL"
        found["restart"] = redact(self.settings.restart or self._reach.no_restart or "its own program")
        return found

    def evidence(self) -> Evidence:
        """What is known of the last failure."""
        return self._sentry.evidence()

    def disturbances(self) -> tuple[Disturbance, ...]:
        """What somebody else did to the server since we last left it.

        Raises:
            TargetError: it does not answer.
        """
        return self._sentry.disturbances()

    def vitals(self) -> Vitals:
        """What the system and its machine use now; see `Watchable`."""
        return self._watched.vitals()

    def data_bytes(self) -> int | None:
        """What its files occupy; None when they cannot be seen."""
        return self._watched.data_bytes()

    def unwatch(self) -> None:
        """Gives back what `vitals` keeps open."""
        if self._watch is not None:
            self._watch.unwatch()

    @property
    def _watched(self) -> Watch:
        if self._watch is None:
            self._watch = self._make_watch()
        return self._watch

    def _make_watch(self) -> Watch:
        return Watch(self._reach, self._folders, self._watched_bytes())

    def _watched_bytes(self) -> int | None:
        """The memory that the system's processes may have: the budget of all memory knobs; None when unknown."""
        try:
            return self.budget_bytes
        except TargetError:
            return None  # on another machine: nothing there is watched either

    def _folders(self) -> Iterator[Path]:
        """What the system writes to, where that can be seen."""
        if self._reach.data_dir is not None:
            yield self._reach.data_dir

    def fragment(self, config: Config) -> str:
        """`config` as text ready for the system's own configuration file: a comment and a setting for each knob."""
        return fragment_text(config, self._states_as_found(), self._file_text, self.FRAGMENT_HEAD)

    def _file_text(self, knob: Knob, value: Value) -> str:
        """As a person would write it in that file."""
        return self._channel.texts(knob, value)[-1]

    def log_excerpt(self, n_lines: int = LOG_LINES) -> str:
        """The last lines of the server's own log, "" when it cannot be read."""
        return self._reach.log_excerpt(n_lines)

    @contextmanager
    def lock(self, holder: str) -> Iterator[None]:
        """One tuner per server.

        Raises:
            LockedError: another one holds it; the message names it.
        """
        self._lock.acquire(holder)
        try:
            yield
        finally:
            self._lock.release()


def _write(change: Change) -> None:
    """Writes; that this user may not write a file, or that its disk is full, says nothing of the config.

    Raises:
        ApplyError, ForeignChangeError: see `Change`; with what is at fault where a file cannot be written.
        TargetError: something else is in the way.
    """
    try:
        change.write()
    except TargetError as error:
        fault = _FAULTS.get(error.__cause__.errno or 0) if isinstance(error.__cause__, OSError) else None
        if fault is None or isinstance(error, ApplyError | ForeignChangeError):
            raise
        raise ApplyError(error.message, hint=error.hint, fault=fault) from error


def _completed(own: Own, effective: Mapping[str, Value]) -> Own:
    """With what the server made of the values."""
    made = {name: (*own.values[name], effective[name]) for name in own.values if name in effective}
    return replace(own, values={**own.values, **made})


def _apply_error(error: TargetError, log_excerpt: str, trouble: str) -> ApplyError:
    """What stood in the way of an apply, as a result for the trial room; `trouble` was in the way of the way back, too."""
    fault = error.fault if isinstance(error, ApplyError) else ""
    if isinstance(error, LoginRefusedError) or (trouble and not fault):
        fault = Fault.ENVIRONMENT
    message = f"{error.message}; {trouble}" if trouble else error.message
    return ApplyError(message, hint=error.hint, log_excerpt=log_excerpt, fault=fault)
