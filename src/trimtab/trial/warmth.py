"""Warmth: what the next run finds warm, and how long it must warm up for that.

Caches are cold after a restart and with fresh data; the series of a run shows when they are full again (`SteadyDetector`). What
a tier compiles while it runs, as Java does, is lost with a restart alone, and the series may look steady long before it is back:
such a tier shows what it has compiled (`CompilingTarget`), or says how many seconds of load it needs (`WarmingTarget`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from trimtab.systems import CompilingTarget, WarmingTarget
from trimtab.trial.compiling import Compiling
from trimtab.workload import ProfiledWorkload, arrivals_s

if TYPE_CHECKING:
    from trimtab.systems import Tier
    from trimtab.trial.load import MeasurePlan
    from trimtab.workload import Workload

__all__ = ["WARMUP", "Warmth"]

WARMUP = "warmup"
"""Step of a trial's costs; of a stack, with the name of the tier for which it was longer than the plan asks for."""


class Warmth:
    """That of the tiers of one stack; all are cold at first, for nobody knows what ran before.

    Args:
        tiers: of the stack.
    """

    def __init__(self, tiers: Sequence[Tier]) -> None:
        self._slow = [(tier, tier.target) for tier in tiers if isinstance(tier.target, WarmingTarget)]
        self._loaded_s: dict[tuple[str, str], float] = {}
        """(tier, workload) -> seconds of that load since the tier was restarted: another load runs other code."""
        self._compiling = [(t, t.target) for t in tiers if isinstance(t.target, CompilingTarget) and t.target.compiles]
        self._compiled: set[tuple[str, str]] = set()
        """(tier, workload) whose code is compiled since the tier was restarted."""
        self._warm_for: str | None = None
        """The workload whose last run has left the caches as the next one needs them."""

    def lost(self) -> None:
        """Nothing is known any more: all may have been restarted."""
        self._warm_for = None
        self._loaded_s.clear()
        self._compiled.clear()

    def restarted(self, names: Collection[str]) -> None:
        """These tiers were restarted; without any, a change leaves all as warm as it was."""
        if names:
            self._warm_for = None
        self._loaded_s = {(tier, load): s for (tier, load), s in self._loaded_s.items() if tier not in names}
        self._compiled = {(tier, load) for tier, load in self._compiled if tier not in names}

    def has_fresh_data(self) -> None:
        """The data were made afresh: no cache holds them."""
        self._warm_for = None

    def has_compiled(self, load: Workload) -> None:
        """All code of a load is compiled."""
        self._compiled |= {(tier.name, load.context.workload) for tier, _ in self._compiling}

    def ran(self, load: Workload, seconds: float, *, is_compiled: bool = True) -> None:
        """So many seconds of a load have passed; whether all of its code is compiled."""
        workload = load.context.workload
        self._warm_for = workload if is_compiled else None
        if is_compiled:
            self.has_compiled(load)
        for tier, _ in self._slow:
            key = tier.name, workload
            self._loaded_s[key] = self._loaded_s.get(key, 0.0) + seconds

    def plan(self, plan: MeasurePlan, load: Workload) -> tuple[MeasurePlan, str]:
        """How the next run of a load is measured, and the step under which its warm-up counts.

        The cap of `plan` stands: no tier makes a warm-up longer than that, and none is shorter where the load changes over a run.
        """
        workload = load.context.workload
        used, step = (plan.warm(arrivals_s(load)) if self._warm_for == workload else plan), WARMUP
        for tier in self._cold(workload):
            step = tier.full_step(WARMUP)
        for tier, target in self._slow:
            missing_s = min(target.warmup_floor_s - self._loaded_s.get((tier.name, workload), 0.0), plan.warmup_cap_s)
            if missing_s > used.warmup_floor_s:
                used = replace(plan, warmup_floor_s=missing_s)
                step = tier.full_step(WARMUP)
        is_profiled = isinstance(load, ProfiledWorkload) and load.has_profile
        return (plan.fixed if is_profiled else used), step

    def compiling(self, load: Workload) -> Compiling | None:
        """The tiers whose code for a load is not known to be compiled, where that shows; None: there are none."""
        cold = self._cold(load.context.workload)
        return Compiling(cold) if cold else None

    def _cold(self, workload: str) -> list[Tier]:
        left = [each for each in self._compiling if (each[0].name, workload) not in self._compiled]
        return [tier for tier, target in left if target.compile_s() is not None]
