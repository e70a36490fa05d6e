"""Guarding: the guards of a whole study, which make those of each run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trimtab.systems import Stack
from trimtab.trial.guard import GuardLimits, Guardrails, Yardstick, shortage
from trimtab.trial.stop import KillSwitch
from trimtab.trial.watch import Watch

__all__ = ["Guarding"]


class Guarding:
    """What a study allows its trials to do to the targets.

    Attributes:
        limits: see `GuardLimits`.
        switch: the kill switch.
        yardstick: what the baseline shows; kept up to date by whoever runs the study.
    """

    def __init__(self, limits: GuardLimits, stop_file: Path) -> None:
        self.limits = limits
        self.switch = KillSwitch(stop_file)
        self.yardstick: Yardstick | None = None

    def watch(self, stack: Stack, *, is_baseline: bool, max_error_rate: float, has_profile: bool = False) -> Watch:
        """The guards of one run; alive inside the `with` block of what is returned. Where the load changes over a run
        (`has_profile`), its first seconds may well show less than all of the baseline's."""
        source = stack.watch if stack.watch.sees else None
        limits = replace(self.limits, throughput_factor=0.0) if has_profile else self.limits
        return Watch(
            Guardrails(limits, max_error_rate=max_error_rate, yardstick=self.yardstick, is_baseline=is_baseline),
            source,
            self.limits.interval_s,
        )

    def shortage(self, stack: Stack) -> str:
        """Why no config may be applied now; "" when one may."""
        if not stack.watch.sees:
            return ""
        try:
            return shortage(stack.watch.vitals(), self.limits)
        finally:
            stack.watch.unwatch()
