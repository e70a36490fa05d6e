"""Trial: one config evaluated, with everything that was seen; frozen values only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from trimtab.measure import Measurement
from trimtab.redact import hide_literals
from trimtab.space import Config, Value

__all__ = ["Context", "Fault", "Role", "Status", "Trial", "seconds_of"]


class Status(StrEnum):
    """How a trial ended (DESIGN law 4)."""

    OK = "ok"
    INFEASIBLE = "infeasible"
    """Broke a constraint of the space; the target was not touched."""
    REJECTED = "rejected"
    """The target's own pre-flight or the target refused a value; nothing changed."""
    CRASHED = "crashed"
    """The target did not start, died, or could not be logged in to with this config, or a guard stopped it before that."""
    TIMED_OUT = "timed_out"
    STOPPED_EARLY = "stopped_early"
    """Clearly worse than the incumbent, or beyond a guard's limit; the measurement is valid but short."""
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


class Fault(StrEnum):
    """What failed in a trial that gave no measurement; the class of the cause, not the verdict about the config (`Status`)."""

    NONE = ""
    CONFIG = "config"
    """The target refuses these values, does not start or crashes with them, and runs well with the last good ones."""
    RESOURCE = "resource"
    """Memory or disk ran out. Status CRASHED: by the target's own demand; INFRASTRUCTURE: by others', or not known."""
    ENVIRONMENT = "environment"
    """Somebody or something else: a kill or restart from outside, the network, the file system, other software."""
    LOAD = "load"
    """The target is well; the load was not served, was answered wrongly, or could not be run."""


class Role(StrEnum):
    """Why a trial was made."""

    BASELINE = "baseline"
    ADVICE = "advice"
    PLAY = "play"
    """One of the catalogue's plays: a bundle of settings that an expert would try."""
    SEARCH = "search"
    DESIGN = "design"
    """A run of an experimental design, made to rank knobs."""
    REPEAT = "repeat"
    ABLATION = "ablation"
    PROOF_BASELINE = "proof_baseline"
    PROOF_CANDIDATE = "proof_candidate"
    PROOF_ADVICE = "proof_advice"
    BENCH = "bench"


BASELINE_ROLES = (Role.BASELINE, Role.PROOF_BASELINE)
"""Trials of the settings as found, which are never blamed."""


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

    @property
    def has_lasting_sessions(self) -> bool:
        """Whether the sessions are an application's own and outlive trials: what a session takes when it begins, it keeps."""
        return self.features.get("lasting_sessions", 0.0) > 0.0


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
        cost_s: seconds by step: "preflight", "apply", "reset", "warmup", "measure", "other", "failed", "restore", "ask";
            of a stack, "apply.NAME" for each of its targets, and "warmup.NAME" where the warm-up was as long as it was because
            that target had been restarted.
        started_at: seconds since the epoch.
        searcher: name of the searcher that asked for it; "" for none.
        fault: what failed; NONE when nothing did, and in trials stored before there was this field.
        counters_before, counters_after: what the target counts of its own work ("database.blks_read"), when the load that was
            measured began and when it had ended; empty when the target counts nothing.
        seed: of the load's operations; None in trials stored before there was this field.
        peaks: largest use of the target's resources while the load ran ("memory_bytes", "swap_bytes", "disk_share",
            "disk_growth_share", "lag_s"; "memory_limit_bytes" is the budget); empty when they cannot be seen.
        versions: what measured it, by name ("trimtab", "workload"); empty when not known.
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
    fault: Fault = Fault.NONE
    counters_before: Mapping[str, float] = field(default_factory=dict)
    counters_after: Mapping[str, float] = field(default_factory=dict)
    seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    peaks: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Log lines may quote statements and their values: a trial holds none, wherever it comes from."""
        if self.reason and isinstance(self.reason, str):  # an imported one may be anything until it is checked
            object.__setattr__(self, "reason", hide_literals(self.reason))

    @property
    def is_feasible(self) -> bool:
        """Measured, finite, and with all constraints of the objective met."""
        return self.status.is_measured and self.excess == 0.0 and self.loss is not None and math.isfinite(self.loss)


def seconds_of(cost_s: Mapping[str, float], step: str) -> float:
    """What a step cost, over all targets of a stack."""
    return sum(seconds for name, seconds in cost_s.items() if name == step or name.startswith(f"{step}."))
