"""DatabaseSystem: a server that tells its knobs itself, and that is logged in to."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

from trimtab.records import Context, DataRights, Fault, Play
from trimtab.space import Config, SafetyClass, Value, amount
from trimtab.systems.base import KnobState
from trimtab.systems.capabilities import FoundServer
from trimtab.systems.channel import Channel
from trimtab.systems.counters import read_counters
from trimtab.systems.discovery import found_servers, own_server
from trimtab.systems.disk import check_disk, low_disk
from trimtab.systems.doctor import (
    Line,
    denial_lines,
    disk_lines,
    knob_line,
    later_login_notes,
    recover_line,
    restart_line,
)
from trimtab.systems.grants import DEFAULT_ROLE
from trimtab.systems.knobs import Reading, Sight, knob_states
from trimtab.systems.lock import ServerLock
from trimtab.systems.parts import Parts
from trimtab.systems.picture import Picture
from trimtab.systems.plays import fitting_plays, play_facts, shipped_plays
from trimtab.systems.reach import DatabaseReach
from trimtab.systems.selection import select
from trimtab.systems.server_catalog import Denial, ServerCatalog
from trimtab.systems.settings import DatabaseSettings
from trimtab.systems.system import System
from trimtab.systems.vitals import Lag, Watch
from trimtab.systems.ways import Ways

__all__ = ["DatabaseSystem"]

S = TypeVar("S", bound=DatabaseSettings)
R = TypeVar("R", bound=DatabaseReach)


class _Facts(Protocol):
    """What decides whether knobs may be changed, beside their readings; `is_admin`: whether this user may change any."""

    @property
    def is_admin(self) -> bool: ...
    def with_rights(self) -> Any: ...
    def sight(self, readings: Mapping[str, Reading]) -> Sight: ...


class DatabaseSystem(System[S, R]):
    """See `System`.

    Args:
        name: of the table in the study file.
        settings: the table, checked.
        state_dir: for the lock file.
        found: what `describe` of the reach has kept of a server that may be down; {} in a study.

    Attributes:
        WAYS: the ways to such a server.
        PASSWORD_FILE: where a password can stand that another process finds, for people.
    """

    catalog: ServerCatalog
    WAYS: ClassVar[Ways]
    PASSWORD_FILE: ClassVar[str]
    _is_permitted = False

    def __init__(self, name: str, settings: S, state_dir: Path, found: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, settings, self.WAYS.reach(name, settings, found or {}), state_dir)

    @classmethod
    def _made(cls, name: str, table: Any, state_dir: Path, kept: Mapping[str, Any]) -> Self:
        return cls(name, table, state_dir, kept)

    def _parts(self, state_dir: Path) -> Parts:
        return Parts(
            channel=self._make_channel(),
            identity=self._picture,
            lock=ServerLock(self._lock_file(state_dir), self.catalog.lock, lambda: self._reach.connect()),
            log=self.catalog.log,
            troubles=self._troubles,
        )

    @abstractmethod
    def _make_channel(self) -> Channel:
        """Where this kind's values are written."""

    @abstractmethod
    def _picture(self) -> Picture:
        """The server as it is now; see `Parts`."""

    @abstractmethod
    def _look(self) -> tuple[Mapping[str, Reading], Any]:
        """Every knob as the server shows it, and the facts that lock some.

        Raises:
            TargetError: it cannot be looked at, or is of an unknown version.
        """

    def _shared(self) -> AbstractContextManager[None]:
        return self._reach.visit()

    def states(self) -> Mapping[str, KnobState]:
        """Every knob of the live server, by name."""
        states = self._states_of(*self._look())
        return self._without_denials(states) if self._is_permitted else states

    def permitted(self) -> Self:
        """See `RestrictedTarget`."""
        if self._denial(self.states()) is None:
            return self
        seen = copy.copy(self)
        seen._is_permitted = True
        return seen

    def _without_denials(self, states: Mapping[str, KnobState]) -> Mapping[str, KnobState]:
        denied = [name for name, state in states.items() if self.catalog.is_denial(state.lock_reason)]
        return {**states, **{name: replace(states[name], lock_reason="") for name in denied}}

    def _denial(self, states: Mapping[str, KnobState]) -> Denial | None:
        """Why nothing at all may be changed here; None where something may."""
        return self.catalog.denial(_locks(states))

    def _states_of(self, readings: Mapping[str, Reading], facts: _Facts) -> Mapping[str, KnobState]:
        bounds = self._bounds_with(float(readings["max_connections"].value))
        return knob_states(facts.sight(readings), self.catalog, bounds, self.settings, self._reach.no_restart)

    def _names_of(self, states: Mapping[str, KnobState], context: Context) -> tuple[str, ...]:
        """The knobs of `states` that the settings ask to tune."""
        self._require_changeable(states)
        reads_only, unfelt = context.read_share == 1.0, self._unfelt(context)
        choice, skips_absent = self.settings.knobs, self.SKIPS_ABSENT
        return select(choice, states, self.catalog, reads_only=reads_only, skips_absent=skips_absent, unfelt=unfelt)

    def plays(self, context: Context, latency_s: float) -> tuple[Play, ...]:
        """What an expert would try here (see `trimtab.systems.plays`)."""
        states, known = self.states(), self.catalog.knob
        facts = play_facts(context, self.machine(), self._bounds(states), latency_s=latency_s)
        locked = frozenset(name for name, knob in known.items() if knob.safety is not SafetyClass.PERFORMANCE)
        return fitting_plays(shipped_plays(self.catalog.kind, frozenset(known), locked).play, states, facts)

    @classmethod
    def found_servers(cls) -> Sequence[FoundServer]:
        """Those that run on this machine."""
        texts = cls.catalog.discover
        return found_servers(cls.kind, texts, cls._ask) if texts is not None else ()

    @classmethod
    def embedded_server(cls) -> FoundServer | None:
        """One that Trimtab would run; None when no program is installed."""
        texts = cls.catalog.discover
        return own_server(cls.kind, texts, cls.has_program) if texts is not None else None

    @classmethod
    @abstractmethod
    def has_program(cls, which: str) -> bool:
        """Whether the program of an embedded server is installed."""

    @classmethod
    def _ask(cls, url: str) -> tuple[str, str]:
        """Version and place of the server at `url`."""
        target = cls.from_settings(cls.kind, {"kind": cls.kind, "url": url}, state_dir=Path())
        place = cls.catalog.discover.place if cls.catalog.discover is not None else ""
        with target._reach.connect() as session:
            return target._version(), str(session.value(place) or "") if place else ""

    def _require_changeable(self, states: Mapping[str, KnobState]) -> None:
        self.catalog.require_changeable(_locks(states))

    def _check(self, config: Config, states: Mapping[str, KnobState]) -> None:
        check_disk(self.catalog.disk, config, states, self._reach, self._disk_facts)

    def _disk_facts(self) -> Mapping[str, Value]:
        """What the catalogue's disk model may refer to beside knobs."""
        return {}

    def _troubles(self) -> Iterator[tuple[Fault, str]]:
        """What makes a measurement worthless now."""
        full = low_disk(amount(self.catalog.least_disk, {}), self._volumes(), self._reach.host)
        if full:
            yield Fault.RESOURCE, full

    def _volumes(self) -> Sequence[Path]:
        """Folders that the server must be able to write to, where they can be seen."""
        return [] if self._reach.data_dir is None else [self._reach.data_dir]

    def counters(self) -> Mapping[str, float]:
        """What the server has counted of its own work (see `read_counters`)."""
        with self._reach.connect() as session:
            return read_counters(session, self.catalog, self._major(session))

    def _major(self, session: Any) -> int:
        """The version that the catalogue's statements depend on."""
        return 0

    def _make_watch(self) -> Watch:
        lag = Lag(self._reach.connect, self.catalog.lag) if self.catalog.lag is not None else None
        return Watch(self._reach, self._folders, self._watched_bytes(), lag)

    def grant_sql(self, context: Context, rights: DataRights | None, *, role: str) -> tuple[str, bool]:
        """What an administrator runs once, for the knobs that the settings ask to tune; see `GrantingTarget`.

        Raises:
            TargetError: the server cannot be reached.
            UsageError: a named knob is unknown or locked for another reason than a missing right.
        """
        readings, facts = self._look()
        permitted = {name: replace(reading, is_permitted=True) for name, reading in readings.items()}
        names = self._names_of(self._states_of(permitted, facts.with_rights()), context)
        role = role or (DEFAULT_ROLE if facts.is_admin else self._reach.endpoint().user)
        return self._granted(facts, names, rights, role)

    @abstractmethod
    def _granted(self, facts: Any, names: Sequence[str], rights: DataRights | None, role: str) -> tuple[str, bool]:
        """The statements for `role` to tune `names`, and whether they suffice."""

    def doctor(self) -> Sequence[Line]:
        """(check, is_fine, explanation) lines, in the order in which to read them; changes nothing."""
        states = self.states()
        return [
            *self._server_lines(states),
            *denial_lines(self._denial(states)),
            restart_line(self._reach.no_restart, self.settings.restart),
            recover_line(self._reach.no_later_login(), self.PASSWORD_FILE),
            *self._memory_lines(states),
            *disk_lines(self._reach.host, self._reach.data_dir),
            knob_line(states),
        ]

    @abstractmethod
    def _server_lines(self, states: Mapping[str, KnobState]) -> list[Line]:
        """Which server it is, its role, this user's rights, and its files."""

    def notes(self) -> tuple[str, ...]:
        """What to tell before the first change: that `recover` could not log in later, where that is so."""
        return later_login_notes(self._reach.no_later_login(), self.PASSWORD_FILE)


def _locks(states: Mapping[str, KnobState]) -> Collection[str]:
    """The lock reasons of the curated knobs."""
    return {state.lock_reason for state in states.values() if state.is_curated}
