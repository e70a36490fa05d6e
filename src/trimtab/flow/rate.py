"""rate: the highest rate of an open loop at which the server still keeps a promise about its latency (an SLO).

The rate is raised threefold until the promise breaks, then the bracket is halved on the logarithmic scale. Near the edge
chance decides single probes: there, two of three count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from trimtab.errors import LoadError, UsageError
from trimtab.flow.ask import Ask, Steps
from trimtab.flow.score import Scorer
from trimtab.measure import Measurement
from trimtab.records import Fault, MetricConstraint, Objective, Role, Status, Trial
from trimtab.space import Config
from trimtab.units import format_figure

__all__ = ["START_PER_S", "Probe", "RateResult", "Slo", "rate_search", "search_rate"]

START_PER_S = 100.0
_LEAST_PER_S = 1.0
_MOST_PER_S = 5_000_000.0
_RAISE = 3.0
_PRECISION = 0.05
"""The bracket's relative width at which the search ends."""

_NEAR = 1.5
"""Ratio of the bracket's ends below which a rate needs two votes of three."""

_HINT = "write it as in: p99 <= 20ms, or p99 <= 20ms and latency_mean <= 2ms"


@dataclass(frozen=True, slots=True)
class Slo:
    """A promise about latency: all `bounds` hold."""

    text: str
    bounds: tuple[MetricConstraint, ...]

    @classmethod
    def parse(cls, text: str) -> Slo:
        """Reads "p99 <= 20ms" or "p99 <= 20ms and p50 <= 2ms".

        Raises:
            UsageError: it is none, or does not bound latencies from above.
        """
        try:
            bounds = Objective.parse(f"throughput where {text}").constraints
        except UsageError as error:
            raise UsageError(f"cannot read the SLO {text!r}", hint=_HINT) from error
        if not bounds:
            raise UsageError(f"cannot read the SLO {text!r}", hint=_HINT)
        for bound in bounds:
            if not bound.metric.startswith("latency_") or bound.at_least or bound.bound <= 0:
                raise UsageError(f"the SLO {text!r} does not bound a latency from above", hint=_HINT)
        return cls(" and ".join(map(str, bounds)), bounds)

    def broken_by(self, measurement: Measurement) -> str:
        """What breaks it in `measurement`; "" when it is kept. Point estimates count."""
        if measurement.overload:
            return f"overloaded: {measurement.overload}"
        missed = [bound for bound in self.bounds if bound.excess(measurement) > 0]
        values = ((b.metric, Objective(b.metric).value(measurement).estimate) for b in missed)
        return ", ".join(f"{metric}={format_figure(value)} ms" for metric, value in values)


@dataclass(frozen=True, slots=True)
class Probe:
    """One measured rate.

    Attributes:
        rate_per_s: that was offered.
        is_kept: whether the SLO held.
        reason: why it did not; "" when it did.
        by_generator: whether the generator, and not the server, was at its end.
        measurement: None when there was none to be trusted.
    """

    rate_per_s: float
    is_kept: bool
    reason: str = ""
    by_generator: bool = False
    measurement: Measurement | None = None

    def __str__(self) -> str:
        m = self.measurement
        figures = "" if m is None else f", {format_figure(m.throughput.estimate)}/s done, " + ", ".join(
            f"{name} {format_figure(value.estimate)} ms" for name, value in m.latency_ms.items()
        )  # fmt: skip
        return f"{format_figure(self.rate_per_s)}/s: {'kept' if self.is_kept else f'not kept ({self.reason})'}{figures}"


@dataclass(frozen=True, slots=True)
class RateResult:
    """What the search found.

    Attributes:
        slo: that was to be kept.
        rate_per_s: the highest rate at which it was.
        broken_at_per_s: the lowest rate above it at which it was not; inf when none was found.
        limit: what broke there: the server, or the generator (the true rate may be higher), or nothing.
        probes: in the order they were made.
    """

    slo: Slo
    rate_per_s: float
    broken_at_per_s: float
    limit: Literal["server", "generator", "none"]
    probes: tuple[Probe, ...]


@dataclass(slots=True)
class _Votes:
    """Probes by rate; a rate is decided by the majority of them."""

    probe: Callable[[float], Steps[Probe]]
    probes: list[Probe] = field(default_factory=list)

    def at(self, rate: float, n_needed: int) -> Steps[bool]:
        """Whether `rate` keeps the SLO: by `n_needed` equal votes, earlier ones counted."""
        while True:
            votes = [probe.is_kept for probe in self.probes if probe.rate_per_s == rate]
            for verdict in (True, False):
                if votes.count(verdict) >= n_needed:
                    return verdict
            self.probes.append((yield from self.probe(rate)))

    @property
    def kept(self) -> float:
        """The highest rate below every broken one at which the last vote was good; 0 for none."""
        broken = self.broken
        return max((p.rate_per_s for p in self.probes if p.is_kept and p.rate_per_s < broken), default=0.0)

    @property
    def broken(self) -> float:
        """The lowest rate whose votes are bad, by more than are good; inf for none."""
        rates = {probe.rate_per_s for probe in self.probes}
        bad = [rate for rate in rates if sum(1 if p.is_kept else -1 for p in self.probes if p.rate_per_s == rate) < 0]
        return min(bad, default=math.inf)


def _rounded(rate: float) -> float:
    """Three significant digits: a rate that people can say."""
    return float(f"{rate:.3g}")


def search_rate(slo: Slo, probe: Callable[[float], Steps[Probe]]) -> Steps[RateResult]:
    """Searches with `probe`, which measures one rate.

    Raises:
        LoadError: no rate keeps the SLO, down to one request per second; or the generator cannot even keep the first.
    """
    votes, rate = _Votes(probe), START_PER_S
    while rate:
        is_near = votes.kept > 0 and votes.broken / votes.kept < _NEAR
        yield from votes.at(rate, 2 if is_near else 1)
        if not votes.kept and votes.probes[-1].by_generator:
            # A lower rate would not help: a generator that has no core to itself is late at any.
            raise LoadError(
                f"no rate can be judged: at {format_figure(rate)}/s {votes.probes[-1].reason}",
                hint="this machine is too busy to keep a schedule: give the generator a free core or real-time priority",
            )
        if not votes.kept and votes.broken <= _LEAST_PER_S:
            raise LoadError(
                f"no rate keeps {slo.text}: at {format_figure(votes.broken)}/s {votes.probes[-1].reason}",
                hint="this is what the server takes without any queue; ask for a longer time",
            )
        rate = _next_rate(votes)
    return _result(slo, votes)


def _next_rate(votes: _Votes) -> float:
    """What to probe next; 0 when the search is over."""
    kept, broken = votes.kept, votes.broken
    if not kept:
        return max(_LEAST_PER_S, _rounded(broken / _RAISE))
    if math.isinf(broken):
        return min(_MOST_PER_S, _rounded(kept * _RAISE)) if kept < _MOST_PER_S else 0.0
    middle = _rounded(math.sqrt(kept * broken))
    if broken / kept > 1 + _PRECISION and middle not in (kept, broken):
        return middle
    # The edge itself must have two good votes.
    return 0.0 if sum(probe.is_kept for probe in votes.probes if probe.rate_per_s == kept) > 1 else kept


def _result(slo: Slo, votes: _Votes) -> RateResult:
    at_edge = [probe for probe in votes.probes if probe.rate_per_s == votes.broken and not probe.is_kept]
    limit: Literal["server", "generator", "none"] = "none"
    if at_edge:
        limit = "generator" if all(probe.by_generator for probe in at_edge) else "server"
    return RateResult(slo, votes.kept, votes.broken, limit, tuple(votes.probes))


def rate_search(slo: Slo, config: Config) -> Callable[[Scorer], Steps[RateResult]]:
    """The flow that finds the highest rate at which `config` keeps `slo`; every probe is said."""

    def flow(scorer: Scorer) -> Steps[RateResult]:
        def probe(rate: float) -> Steps[Probe]:
            trial = yield Ask(config=config, role=Role.BENCH, rate_per_s=rate)
            result = _probed(slo, rate, trial)
            scorer.say(str(result))
            return result

        return (yield from search_rate(slo, probe))

    return flow


def _probed(slo: Slo, rate: float, trial: Trial) -> Probe:
    if trial.measurement is not None:
        reason = slo.broken_by(trial.measurement)
        return Probe(rate, not reason, reason, measurement=trial.measurement)
    # A killed server or a full disk says nothing of the rate, and nothing of the generator.
    is_disturbed = trial.fault in (Fault.RESOURCE, Fault.ENVIRONMENT)
    if trial.status in (Status.FAILED_LOAD, Status.TIMED_OUT, Status.INFRASTRUCTURE) and not is_disturbed:
        return Probe(rate, False, trial.reason, by_generator=trial.status is Status.INFRASTRUCTURE)
    raise LoadError(f"the probe at {format_figure(rate)}/s ended as {trial.status}: {trial.reason}")
