"""TrialListener: who wants to see a trial while it runs; and what its steps cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from trimtab.workload import Frame

__all__ = ["Costs", "Silent", "TrialListener"]


class TrialListener(Protocol):
    """Who wants to see a trial while it runs."""

    def step(self, name: str) -> None: ...
    def second(self, frame: Frame) -> None: ...


class Silent:
    """A listener that does not care."""

    def step(self, name: str) -> None:
        pass

    def second(self, frame: Frame) -> None:
        pass


@dataclass(slots=True)
class Costs:
    """Seconds by step."""

    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, step: str, seconds: float) -> None:
        self.seconds[step] = self.seconds.get(step, 0.0) + seconds
