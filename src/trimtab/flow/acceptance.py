"""The acceptance rule: everything that must hold before a candidate may be called better, looked at after each pair.

A gain alone is not enough: a config that is faster and answers its slowest clients later, fails more often, or is fast on
one run and slow on the next, is not better. Each condition is a test that stays valid however often one looks; those
that speak against the candidate are one-sided and quick, the one that speaks for it is strict (safety.md B5).

    conditions    gain, baseline, constraints, latency_mean, latency_p99, throughput, error_rate, memory, disk, swap, stability,
                  durability
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimtab.flow.bounded import Bounded
from trimtab.measure import (
    Interval,
    Looks,
    Measurement,
    NoisePool,
    PairedSequence,
    anytime_interval,
    beside_neighbours,
    observations_needed,
    relative_range,
    spread_evidence,
    spread_p_value,
    spread_ratio,
    usual_sd,
)
from trimtab.measure.quantile import t_quantile
from trimtab.records import Condition, MetricConstraint, Objective, Trial
from trimtab.units import format_figure, format_percent

__all__ = ["GUARDED", "Acceptance", "AcceptanceRule", "Condition", "Sample", "metrics_beside"]

_QUOTABLE = 1.25
"""A proven gain is measured on, with what the budget leaves after all else, until its interval's ends are within this factor."""

_ALPHA = 0.05
"""Of each condition that speaks against the candidate, one-sided."""

_LEVEL = 1 - 2 * _ALPHA

_LEAST_OPERATIONS = 300
"""Operations of a run whose p99 is looked at: fewer do not bound it from above."""

_ERROR_TOLERANCE = 0.001
_DISK_TOLERANCE = 0.01
_STEADY_SD = 0.05
"""Scatter from run to run, and from second to second twice that, which harms nobody however little the baseline scatters."""

_UNSTABLE_RANGE = 0.30
"""Range of a config's runs beyond which it is not deployable (TUNA, EuroSys 2025), when the baseline's own is smaller."""

_ODD_PAIRS = 8
"""Pairs after which a baseline that seems to vary too much is no longer thought to have had one odd run."""

_CLEARLY_BETTER = 2.0
"""A candidate whose worst run is this many times as fast as the baseline's best may vary from run to run; so may one whose
worst run would stay better than the baseline's best if it were worse once more by the whole range of its runs."""

GUARDED = {"throughput": "throughput", "latency_mean": "mean latency", "latency_p99": "p99"}
"""Metrics that may not become worse beside the objective, and what people call them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRule:
    """What a candidate must reach.

    Attributes:
        metric, is_maximised: the objective.
        delta: share by which the gain's lower bound must exceed 1: the smallest gain worth claiming.
        tolerance: share by which another metric may be shown to be worse.
        noise_sd: scatter of the baseline from run to run, relative.
        pool: what runs before the proof showed of the noise of one pair; it counts where it helps.
        earlier: logarithms of the baseline's runs before the proof, in their order.
        max_noise: scatter of the baseline, odd runs left out, above which nothing can be claimed.
        locked: knobs of a locked safety class that the candidate changes.
        opened: the same of classes that the user has opened.
        level: confidence of the gain's interval, over all looks together.
        looks: when the gain is looked at, settled before the first pair; the proof may have as many pairs.
        constraints: of the objective. The candidate owes them on average over the pairs, the baseline does not.
        needs_gain: whether a candidate without a gain is refused even when it meets a constraint that the baseline misses.
    """

    metric: str
    is_maximised: bool
    delta: float = 0.02
    tolerance: float = 0.05
    noise_sd: float = 0.0
    pool: NoisePool = field(default_factory=NoisePool)
    earlier: tuple[float, ...] = ()
    max_noise: float = 0.2
    locked: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    level: float = 0.95
    looks: Looks = field(default_factory=lambda: Looks(24))
    constraints: tuple[MetricConstraint, ...] = ()
    needs_gain: bool = False

    @property
    def usual_noise(self) -> float:
        """As `noise_sd`, without odd runs where there are enough to tell."""
        return usual_sd(self.earlier, self.noise_sd)

    @property
    def least(self) -> float:
        """Share by which the gain's estimate must exceed 1: a gain smaller than the noise without odd runs is not claimed."""
        return max(self.delta, self.usual_noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one run of a proof shows.

    Attributes:
        value: of the objective.
        metrics: "throughput", "latency_mean", "latency_p99" as far as they are known and finite.
        bounded: values of the metrics in the objective's constraints, in their order.
        error_rate: share of failed operations.
        unsteadiness: standard deviation of the seconds inside the window, relative; NaN when unknown.
        memory_share, swap_share: of the memory budget; NaN when they cannot be seen.
        disk_growth_share: of the target's volumes, during the run; NaN when it cannot be seen.
    """

    value: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    bounded: tuple[float, ...] = ()
    error_rate: float = 0.0
    unsteadiness: float = math.nan
    memory_share: float = math.nan
    swap_share: float = math.nan
    disk_growth_share: float = math.nan

    @classmethod
    def of(cls, trial: Trial, objective: Objective) -> Sample:
        """From a measured trial.

        Raises:
            ValueError: it has no measurement.
        """
        m = trial.measurement
        if m is None:
            raise ValueError(f"trial {trial.number} has no measurement")
        budget = trial.peaks.get("memory_limit_bytes", math.nan)
        return cls(
            value=objective.value(m).estimate,
            metrics=metrics_beside(m),
            bounded=tuple(constraint.value(m) for constraint in objective.constraints),
            error_rate=m.error_rate,
            unsteadiness=_unsteadiness(m),
            memory_share=trial.peaks.get("memory_bytes", math.nan) / budget,
            swap_share=trial.peaks.get("swap_bytes", math.nan) / budget,
            disk_growth_share=trial.peaks.get("disk_growth_share", math.nan),
        )


def metrics_beside(m: Measurement) -> dict[str, float]:
    """Of the `GUARDED` ones those that are known, positive and finite; p99 from 300 operations on."""
    found = {"throughput": m.throughput.estimate, "latency_mean": m.latency_mean_ms.estimate}
    if m.n_ok >= _LEAST_OPERATIONS and "p99" in m.latency_ms:
        found["latency_p99"] = m.latency_ms["p99"].estimate
    return {name: value for name, value in found.items() if 0 < value < math.inf}


def _unsteadiness(m: Measurement) -> float:
    low, high = (int(end) for end in m.window_s)
    seconds = np.array(m.series_per_s[low:high], dtype=np.float64)
    return float(seconds.std(ddof=1) / seconds.mean()) if len(seconds) >= 3 and seconds.mean() > 0 else math.nan


class Acceptance:
    """The pairs of one proof against a rule; every question may be asked after each pair."""

    def __init__(self, rule: AcceptanceRule) -> None:
        self._rule = rule
        self._gain = PairedSequence(
            is_maximised=rule.is_maximised, level=rule.level, pool=rule.pool, is_hedged=True, looks=rule.looks
        )
        self._pairs: list[tuple[Sample, Sample]] = []
        self._earlier = beside_neighbours(np.asarray(rule.earlier, dtype=np.float64))
        self._bounded = [Bounded(constraint, rule.level, rule.looks) for constraint in rule.constraints]

    def add(self, baseline: Sample, candidate: Sample) -> None:
        """Takes one more pair.

        Raises:
            LoadError: a value of the objective is not positive and finite.
            ValueError: there are as many pairs as the rule allows.
        """
        if len(self) == self._rule.looks.most:
            raise ValueError(f"the proof was made for most={self._rule.looks.most}")
        self._gain.add(baseline.value, candidate.value)
        self._pairs.append((baseline, candidate))
        for bounded, before, after in zip(self._bounded, baseline.bounded, candidate.bounded, strict=True):
            bounded.add(before, after)

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def gain(self) -> PairedSequence:
        """The pairs' values of the objective."""
        return self._gain

    @property
    def is_accepted(self) -> bool:
        """Whether every condition holds."""
        return all(condition.is_met for condition in self._each())

    def is_decided(self) -> bool:
        """Whether more pairs would hardly change the answer: harm is shown, a gain is out of reach, or it is there and nothing
        looks worse than it may be."""
        unmet = {condition.name for condition in self.conditions() if not condition.is_met} - {"gain"}
        if self._may_comply:  # what then speaks against it would be no harm
            unmet -= set(GUARDED)
        if unmet - {"baseline"}:
            return True
        if unmet:
            return not self.may_steady or self._is_hopeless
        if self._is_gain_met:
            return not self._is_doubtful()
        return self._is_hopeless and (self._complies or not self._may_comply)

    def is_settled(self) -> bool:
        """Whether it is decided and, where the answer is "better", the gain is known well enough to be quoted."""
        if not self.is_decided():
            return False
        ratio = self._gain.ratio
        return not self.is_accepted or ratio.high <= _QUOTABLE * ratio.low

    @property
    def may_steady(self) -> bool:
        """Whether the baseline seems to vary too much, and more pairs may show that one of its runs was odd."""
        return not self._baseline_condition().is_met and len(self) < _ODD_PAIRS

    @property
    def is_one_pair_short(self) -> bool:
        """Whether nothing is missing but the proof of the gain, and one more pair like these is expected to bring it."""
        ratio, n = self._gain.ratio, len(self)
        unmet = [condition.name for condition in self.conditions() if not condition.is_met]
        if unmet != ["gain"] or not math.isfinite(ratio.se) or not ratio.estimate > 1 + self._rule.least:
            return False
        effect = math.log(ratio.estimate / (1 + self._rule.delta))
        sd, rule = ratio.se * math.sqrt(n), self._rule
        needed = (
            observations_needed(effect, sd, n + 2, rule.level, rule.pool, rule.looks) if n < rule.looks.most else n + 2
        )
        return needed <= n + 1

    @property
    def is_by_constraints(self) -> bool:
        """Whether the candidate is accepted for a constraint that it meets and the baseline misses, and not for a gain."""
        return self.is_accepted and not self._is_gain_met

    @property
    def _may_comply(self) -> bool:
        """Whether the baseline misses a constraint, on average, and the candidate none."""
        bounds = self._bounded if len(self) and not self._rule.needs_gain else []
        return any(not each.is_met_before for each in bounds) and all(each.is_met_after for each in bounds)

    @property
    def _complies(self) -> bool:
        """Whether that is proven of every constraint that the baseline misses."""
        return self._may_comply and all(each.is_proven for each in self._bounded if not each.is_met_before)

    def _is_doubtful(self) -> bool:
        return any(self._worsening(name).estimate > math.log1p(self._rule.tolerance) for name in self._guarded())

    def conditions(self) -> tuple[Condition, ...]:
        """Every condition, those first that decide most."""
        return tuple(self._each())

    def _each(self) -> Iterator[Condition]:
        yield self._gain_condition()
        yield self._baseline_condition()
        yield from self._constraints()
        yield from map(self._metric_condition, self._guarded())
        yield self._errors()
        yield from self._resources()
        yield self._stability()
        yield self._durability()

    @property
    def _is_hopeless(self) -> bool:
        """Whether even a lucky view of the pairs shows less than what is needed: to give up early claims nothing, so a plain
        one-sided t bound (97.5 %) will do."""
        ratio, n = self._gain.ratio, len(self)
        if n < 2 or not math.isfinite(ratio.se):
            return False
        return math.log(ratio.estimate) + t_quantile(0.975, n - 1) * ratio.se < math.log1p(self._rule.least)

    @property
    def _is_gain_met(self) -> bool:
        is_better = self._gain.verdict(self._rule.delta) == "better"
        return is_better and self._gain.ratio.estimate > 1 + self._rule.least

    def _gain_condition(self) -> Condition:
        ratio, rule = self._gain.ratio, self._rule
        text = f"{format_figure(ratio.estimate, 3)} times, at least {format_figure(ratio.low, 3)}; "
        text += f"needed: more than {1 + rule.delta:.3g}"
        if rule.least > rule.delta:
            text += f", and {1 + rule.least:.3g} in the mean, because of the noise from run to run"
            text += " without odd runs" if rule.usual_noise < rule.noise_sd else ""
        if not self._is_gain_met and self._complies:
            text += ", but not of a config that meets a constraint which yours misses"
        return Condition("gain", self._is_gain_met or self._complies, text)

    def _baseline_condition(self) -> Condition:
        """A baseline that varies that much cannot be compared with: its own luck would be claimed as a gain."""
        sd, usual, most = self.baseline_noise, self._usual_noise, self._rule.max_noise
        text = f"the baseline varies by {format_percent(sd)} from run to run"
        text += f", and without odd runs by {format_percent(usual)}" if usual <= most < sd else ""
        return Condition("baseline", usual <= most, f"{text} (at most {format_percent(most)} for any claim)")

    def _constraints(self) -> Iterator[Condition]:
        """Of the objective, one condition for all of them: on average, since one run may miss what the next one meets."""
        texts = [each.text for each in self._bounded]
        is_met = all(each.is_met_after for each in self._bounded)
        if texts:
            yield Condition("constraints", is_met, "; ".join(texts))

    @property
    def baseline_noise(self) -> float:
        """Relative standard deviation of the baseline from run to run: the larger of what was known before and of what the
        pairs show, by successive differences, so that a slow drift does not count (von Neumann 1941)."""
        logs = self._logs(0)
        here = math.sqrt(float((np.diff(logs) ** 2).mean()) / 2) if len(logs) >= 3 else 0.0
        return max(here, self._rule.noise_sd)

    @property
    def _usual_noise(self) -> float:
        """As `baseline_noise`, without odd runs, by those before the proof and in its pairs."""
        return usual_sd((*self._rule.earlier, *self._logs(0)), self.baseline_noise)

    def _logs(self, arm: int) -> NDArray[np.float64]:
        return np.asarray(np.log([pair[arm].value for pair in self._pairs]), dtype=np.float64)

    def _guarded(self) -> Sequence[str]:
        """Metrics beside the objective that every run of the pairs has."""
        return [
            name
            for name in GUARDED
            if name != self._rule.metric
            and self._pairs
            and all(name in sample.metrics for pair in self._pairs for sample in pair)
        ]

    def _worsening(self, name: str) -> Interval:
        """log of how many times worse the candidate is, by the pairs."""
        sign = -1.0 if name == "throughput" else 1.0
        logs = [sign * math.log(c.metrics[name] / b.metrics[name]) for b, c in self._pairs]
        return anytime_interval(np.array(logs), _LEVEL)

    def _metric_condition(self, name: str) -> Condition:
        worse = self._worsening(name)
        # What may pass as noise in the objective may not count as harm in another metric.
        tolerance = max(self._rule.tolerance, self._rule.least)
        change = math.expm1(-worse.estimate if name == "throughput" else worse.estimate)
        least = (
            f", surely at least {_percent(math.expm1(worse.low))} worse" if worse.low > math.log1p(tolerance) else ""
        )
        return Condition(name, not least or self._complies, f"{GUARDED[name]} {_percent(change, sign=True)}{least}")

    def _errors(self) -> Condition:
        more = anytime_interval(np.array([c.error_rate - b.error_rate for b, c in self._pairs]), _LEVEL)
        rates = [
            float(np.mean([pair[arm].error_rate for pair in self._pairs])) if self._pairs else 0.0 for arm in (0, 1)
        ]
        text = f"errors {_percent(rates[0])} before, {_percent(rates[1])} after"
        return Condition("error_rate", not more.low > _ERROR_TOLERANCE, text)

    def _resources(self) -> list[Condition]:
        """Only what was seen in every run. More memory is no harm in itself: going beyond the budget is."""
        found = []
        for name, share, is_difference, tolerance, words in (
            ("memory", "memory_share", False, 1.0, "of the memory budget used"),
            ("swap", "swap_share", True, _DISK_TOLERANCE, "of the memory budget in swap"),
            ("disk", "disk_growth_share", True, _DISK_TOLERANCE, "of the volume newly used by a run"),
        ):
            rows = np.array([[getattr(sample, share) for sample in pair] for pair in self._pairs]).reshape(-1, 2)
            if not len(rows) or not np.isfinite(rows).all():
                continue
            judged = rows[:, 1] - rows[:, 0] if is_difference else rows[:, 1]
            before, after = rows.mean(axis=0)
            text = f"{_percent(before)} {words} before, {_percent(after)} after"
            found.append(Condition(name, not anytime_interval(judged, _LEVEL).low > tolerance, text))
        return found

    def _stability(self) -> Condition:
        """The candidate's scatter from run to run, and from second to second, beside the baseline's."""
        baseline, candidate = self._logs(0), self._logs(1)
        ranges, times = (relative_range(baseline), relative_range(candidate)), spread_ratio(baseline, candidate)
        text = f"runs range over {_percent(ranges[0])} before, {_percent(ranges[1])} after"
        if math.isfinite(times):
            text += f" (scatter {format_figure(times, 2)} times)"
        is_unsteady = self._scatters_more(baseline)
        if is_unsteady and len(self._earlier) and not self._scatters_more(every := self._all_before(baseline)):
            text += (
                f"; before the proof runs of your settings had such a range, too ({_percent(relative_range(every))})"
            )
            is_unsteady = False
        sign = 1 if self._rule.is_maximised else -1
        worst = math.exp(float((sign * candidate).min() - (sign * baseline).max())) if len(candidate) else 0.0
        if is_unsteady and worst >= min(_CLEARLY_BETTER, (1 + ranges[1]) * (1 + self._rule.least)):
            text += f"; its worst run is still {format_figure(worst, 3)} times as fast as the best one before"
            is_unsteady = False
        return Condition("stability", not (is_unsteady or self._is_jumpier()), text)

    def _all_before(self, baseline: NDArray[np.float64]) -> NDArray[np.float64]:
        """The baseline's runs in the pairs and before the proof, in which it may have had odd runs as well; without drift."""
        return np.concatenate([self._earlier, baseline - np.median(baseline)])

    def _scatters_more(self, baseline: NDArray[np.float64]) -> bool:
        """Whether the candidate's runs differ clearly more from each other than those of the baseline do."""
        candidate = self._logs(1)
        sd = float(candidate.std(ddof=1)) if len(candidate) > 1 else 0.0
        if sd > _STEADY_SD and spread_evidence(baseline, candidate) >= 1 / _ALPHA:
            return True
        # At 10 % noise every sixth proof has such ranges by chance (docs/measurements/statistics.md). The test is of one look,
        # and taken after each pair: the range, which must be wide as well, keeps its errors rare.
        width = relative_range(candidate)
        is_wide = width > _UNSTABLE_RANGE and width > 1.5 * relative_range(baseline)
        return is_wide and spread_p_value(baseline, candidate, self._rule.noise_sd) < _ALPHA

    def _is_jumpier(self) -> bool:
        rows = np.array([[sample.unsteadiness for sample in pair] for pair in self._pairs]).reshape(-1, 2)
        if not len(rows) or not np.isfinite(rows).all() or not (rows > 0).all() or rows[:, 1].mean() <= 2 * _STEADY_SD:
            return False
        return anytime_interval(np.log(rows[:, 1] / rows[:, 0]), _LEVEL).low > math.log1p(self._rule.tolerance)

    def _durability(self) -> Condition:
        """Speed that was bought with durability, security or meaning is no gain, unless the user has said that it may be."""
        rule = self._rule
        if rule.locked:
            return Condition("durability", False, f"changes {', '.join(rule.locked)}, whose safety class is locked")
        return Condition(
            "durability", True, f"lowered as you allow: {', '.join(rule.opened)}" if rule.opened else "unchanged"
        )


def _percent(share: float, *, sign: bool = False) -> str:
    return format_percent(share, 1, sign=sign)
