"""Cycle: contexts that follow each other and repeat, such as the hours of a day; frozen values.

The fields of the summaries are those of their JSON; docs/reference/history.md describes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.records.gain import GainInterval
from trimtab.records.trial import Context
from trimtab.space import Config

__all__ = ["ContextResult", "Cycle", "CycleSummary", "Visit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One place of a cycle.

    Attributes:
        name: for people.
        context: what the workload looks like meanwhile.
        iterations: search trials of one visit; 0: as many as fit into `duration_s`.
        duration_s: seconds of one visit, restarts and warm-up included; 0: as `iterations` says.
    """

    name: str
    context: Context
    iterations: int = 0
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """Visits in their order, one or more.

    Attributes:
        visits: one round of them.
        most: rounds after which the search ends; 0: when the budget does.
    """

    visits: tuple[Visit, ...]
    most: int = 0

    @property
    def contexts(self) -> tuple[Context, ...]:
        """Every context once, in the order of its first visit."""
        found: list[Context] = []
        for visit in self.visits:
            if visit.context not in found:
                found.append(visit.context)
        return tuple(found)

    @property
    def names(self) -> tuple[str, ...]:
        """Of `contexts`, by the first visit of each."""
        return tuple(next(v.name for v in self.visits if v.context == context) for context in self.contexts)

    def share(self, context: Context) -> float:
        """Share of the visits that a context has, in (0, 1]: what it counts in the mean over a cycle."""
        return sum(visit.context == context for visit in self.visits) / len(self.visits)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextResult:
    """What a study found for one context of its cycle.

    Attributes:
        name, context: of it.
        trials, failed: search trials made under it, and those that gave no value.
        cost_s: seconds of all its trials; `apply_s` of them for changing configs, restarts included.
        baseline: mean of the objective under the config as found; None when it was never measured.
        config: what its best config changes; empty when nothing beat the baseline.
        gain: of that config, proven in pairs under this context; None when no proof was made.
        is_proven: whether it met every condition.
        reason: why not; "" when it did.
        search_gain: how many times better than the baseline it looked in the search; None when nothing did.
        shared: gain of the config for the whole cycle under this context, by its proof here; None when not measured.
        best: by cycle, how many times better than the baseline the best trial so far was; None before the first.
        mean: by cycle, how many times better than the baseline its trials were on average (geometric).
        regret: by cycle, how much slower than this context's own best its trials were on average (0.1: 10 %).
    """

    name: str
    context: Context
    trials: int
    failed: int
    cost_s: float
    apply_s: float
    baseline: float | None
    config: Config
    gain: GainInterval | None
    is_proven: bool
    reason: str
    search_gain: float | None
    shared: GainInterval | None
    best: tuple[float | None, ...]
    mean: tuple[float | None, ...]
    regret: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSummary:
    """A study over a cycle: its contexts, rounds begun, the searcher that it used, and knobs whose best values differ."""

    contexts: tuple[ContextResult, ...]
    cycles: int
    searcher: str
    differing: tuple[str, ...]
