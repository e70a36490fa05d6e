"""DatabaseSystem: a server that tells its knobs itself, and that is logged in to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

from trimtab.records import Context, Play
from trimtab.space import SafetyClass
from trimtab.systems.base import KnobState, Snapshot
from trimtab.systems.knobs import Reading, Sight, knob_states
from trimtab.systems.plays import fitting_plays, play_facts, shipped_plays
from trimtab.systems.reach import ServerReach
from trimtab.systems.selection import select
from trimtab.systems.server_catalog import ServerCatalog
from trimtab.systems.settings import DatabaseSettings, read_table
from trimtab.systems.system import System
from trimtab.systems.ways import Ways

__all__ = ["DatabaseSystem"]

S = TypeVar("S", bound=DatabaseSettings)
R = TypeVar("R", bound=ServerReach)


class _Facts(Protocol):
    """What decides whether knobs may be changed, beside their readings."""

    def sight(self, readings: Mapping[str, Reading]) -> Sight: ...


class DatabaseSystem(System[S, R]):
    """See `System`.

    Args:
        name: of the table in the study file.
        settings: the table, checked.
        state_dir: for the lock file.
        found: what `describe` of the reach has kept of a server that may be down; {} in a study.

    Attributes:
        SETTINGS: model of the table.
        WAYS: the ways to such a server.
        PASSWORD_FILE: where a password can stand that another process finds, for people.
    """

    catalog: ServerCatalog
    SETTINGS: ClassVar[type[Any]]
    WAYS: ClassVar[Ways]
    PASSWORD_FILE: ClassVar[str]

    def __init__(self, name: str, settings: S, state_dir: Path, found: Mapping[str, Any] | None = None) -> None:
        super().__init__(name, settings, self.WAYS.reach(name, settings, found or {}))

    @classmethod
    def from_settings(
        cls, name: str, settings: Mapping[str, Any], *, state_dir: Path, directory: Path | None = None
    ) -> Self:
        """A target from its [target.NAME] table, whose paths are relative to `directory`; touches nothing.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        return cls(name, read_table(cls.SETTINGS, name, settings, directory), state_dir)

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, *, state_dir: Path) -> Self:
        """The target that a journalled snapshot came from, ready for `restore`; needs neither study file nor `open`.

        The journal holds no password: it comes from the environment or a file, or from the tuner (see `credentials`).
        """
        table = read_table(cls.SETTINGS, snapshot.target, snapshot.reach["settings"])
        return cls(snapshot.target, table, state_dir, snapshot.reach)

    @abstractmethod
    def _look(self) -> tuple[Mapping[str, Reading], Any]:
        """Every knob as the server shows it, and the facts that lock some.

        Raises:
            TargetError: it cannot be looked at, or is of an unknown version.
        """

    def states(self) -> Mapping[str, KnobState]:
        """Every knob of the live server, by name."""
        return self._states_of(*self._look())

    def _states_of(self, readings: Mapping[str, Reading], facts: _Facts) -> Mapping[str, KnobState]:
        bounds = self._bounds_with(float(readings["max_connections"].value))
        return knob_states(facts.sight(readings), self.catalog, bounds, self.settings, self._reach.no_restart)

    def _names_of(self, states: Mapping[str, KnobState], context: Context) -> tuple[str, ...]:
        """The knobs of `states` that the settings ask to tune."""
        self._require_changeable(states)
        reads_only = context.read_share == 1.0
        return select(self.settings.knobs, states, self.catalog, reads_only=reads_only, skips_absent=self.SKIPS_ABSENT)

    def plays(self, context: Context, latency_s: float) -> tuple[Play, ...]:
        """What an expert would try here (see `trimtab.systems.plays`)."""
        states, known = self.states(), self.catalog.knob
        facts = play_facts(context, self.machine(), self._bounds(states), latency_s=latency_s)
        locked = frozenset(name for name, knob in known.items() if knob.safety is not SafetyClass.PERFORMANCE)
        return fitting_plays(shipped_plays(self.catalog.kind, frozenset(known), locked), states, facts)

    def notes(self) -> tuple[str, ...]:
        """What to tell before the first change: that `recover` could not log in later, where that is so."""
        if self._reach.no_later_login() != "url":
            return ()
        return (
            "the password is only in url: after a power cut `trimtab recover` and `rollback` could not log in."
            f" Put it into {self.PASSWORD_FILE} as well (the dead-man has it, and restores after a kill)",
        )
