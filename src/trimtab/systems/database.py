"""DatabaseSystem: a server that tells its knobs itself, and that is logged in to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from trimtab.records import Context, Play
from trimtab.space import SafetyClass
from trimtab.systems.base import KnobState
from trimtab.systems.knobs import Reading, Sight, knob_states
from trimtab.systems.plays import fitting_plays, play_facts, shipped_plays
from trimtab.systems.reach import ServerReach
from trimtab.systems.selection import select
from trimtab.systems.server_catalog import ServerCatalog
from trimtab.systems.settings import ServerSettings
from trimtab.systems.system import System

__all__ = ["DatabaseSystem"]

S = TypeVar("S", bound=ServerSettings)
R = TypeVar("R", bound=ServerReach)


class _Facts(Protocol):
    """What decides whether knobs may be changed, beside their readings."""

    def sight(self, readings: Mapping[str, Reading]) -> Sight: ...


class DatabaseSystem(System[S, R]):
    """See `System`.

    Attributes:
        PASSWORD_FILE: where a password can stand that another process finds, for people.
    """

    catalog: ServerCatalog
    PASSWORD_FILE: ClassVar[str]

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
