"""Draft: a trial while it is made; what is known of it before, and what it has cost so far."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.measure import Measurement
from trimtab.records import Context, Fault, Role, Status, Trial
from trimtab.space import Config, Value
from trimtab.trial.listener import Costs

__all__ = ["Draft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What becomes a trial when it has ended.

    Attributes:
        number, role, config, context, searcher, started_at: as of the trial.
        costs: seconds by step, counted up meanwhile.
    """

    number: int
    role: Role
    config: Config
    context: Context
    searcher: str
    started_at: float = field(default_factory=time.time)
    costs: Costs = field(default_factory=Costs)

    def ended(
        self,
        status: Status,
        reason: str,
        fault: Fault,
        *,
        effective: Mapping[str, Value] | None = None,
        measurement: Measurement | None = None,
        excess: float = 0.0,
    ) -> Trial:
        """The trial, with the costs up to now."""
        return Trial(
            number=self.number,
            role=self.role,
            config=self.config,
            context=self.context,
            status=status,
            effective=effective or {},
            reason=reason,
            measurement=measurement,
            excess=excess,
            cost_s=dict(self.costs.seconds),
            started_at=self.started_at,
            searcher=self.searcher,
            fault=fault,
        )
