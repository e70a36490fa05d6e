"""Trial: one config evaluated, with everything that was seen; frozen values only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from trimtab.measure import Measurement
from trimtab.space import Config, Value

__all__ = ["Context", "Role", "Status", "Trial"]


class Status(StrEnum):
    """How a trial ended (DESIGN law 4)."""

    OK = "ok"
    INFEASIBLE = "infeasible"
    """Broke a constraint of the space; the target was not touched."""
    REJECTED = "rejected"
    """The target's own pre-flight or the target refused a value; nothing changed."""
    CRASHED = "crashed"
    """The target did not start, died, or could not be logged in to with this config."""
    TIMED_OUT = "timed_out"
    STOPPED_EARLY = "stopped_early"
    """Clearly worse than the incumbent; the measurement is valid but short."""
    FAILED_LOAD = "failed_load"
    """The load ran with too many errors or a wrong answer, or (where latency counts) its open loop was not kept up with."""
    INFRASTRUCTURE = "infrastructure"
    """Not the config's fault, for instance a load generator that was the bottleneck; retried, and teaches nothing."""

    @property
    def is_measured(self) -> bool:
        """Whether a trial of this status has a valid measurement."""
        return self in (Status.OK, Status.STOPPED_EARLY)

    @property
    def is_config_fault(self) -> bool:
        """Whether the config is to blame, so that feasibility can be learned from it."""
        return self in (Status.INFEASIBLE, Status.REJECTED, Status.CRASHED, Status.TIMED_OUT, Status.FAILED_LOAD)


class Role(StrEnum):
    """Why a trial was made."""

    BASELINE = "baseline"
    ADVICE = "advice"
    SEARCH = "search"
    REPEAT = "repeat"
    ABLATION = "ablation"
    PROOF_BASELINE = "proof_baseline"
    PROOF_CANDIDATE = "proof_candidate"
    PROOF_ADVICE = "proof_advice"
    BENCH = "bench"


@dataclass(frozen=True, slots=True)
class Context:
    """What the workload looks like: the input to contextual search.

    Attributes:
        workload: short text such as "tpch 4Q6+4Q9+4Q13 scale 0.1".
        clients: connections that the load keeps busy.
        read_share: share of operations that only read, in [0, 1].
        features: further numbers by name (query shares, scale, ...).
    """

    workload: str
    clients: int
    read_share: float = 1.0
    features: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One config, evaluated.

    Attributes:
        number: counts from 0 within a study, in the order of starting.
        role: why it was made.
        config: the values of the study's knobs that were asked for.
        effective: what the target said it really uses (empty when it was never applied).
        context: the workload it was measured under.
        status, reason: how it ended, with the target's own log lines when it failed.
        measurement: None unless `status.is_measured`.
        loss: log-ratio against the drift-corrected baseline, less is better (see `Objective`); None unless measured.
        loss_se: standard error of `loss`; None when unknown.
        excess: how far the objective's constraints were missed (0: all met).
        cost_s: seconds by step: "preflight", "apply", "reset", "warmup", "measure", "other", "failed", "restore", "ask".
        started_at: seconds since the epoch.
        searcher: name of the searcher that asked for it; "" for none.
    """

    number: int
    role: Role
    config: Config
    context: Context
    status: Status
    effective: Mapping[str, Value] = field(default_factory=dict)
    reason: str = ""
    measurement: Measurement | None = None
    loss: float | None = None
    loss_se: float | None = None
    excess: float = 0.0
    cost_s: Mapping[str, float] = field(default_factory=dict)
    started_at: float = 0.0
    searcher: str = ""

    @property
    def is_feasible(self) -> bool:
        """Measured, finite, and with all constraints of the objective met."""
        return self.status.is_measured and self.excess == 0.0 and self.loss is not None and math.isfinite(self.loss)
