"""The highest rate that keeps an SLO: found where it is, bracketed, and clear where there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tests.fakes import FakeStudy
from trimtab.errors import LoadError, UsageError
from trimtab.flow import Steps
from trimtab.flow.rate import Probe, search_rate
from trimtab.history import open_history_at
from trimtab.report.headline import headline
from trimtab.study import RateResult, Slo, find_rate, load_study_file
from trimtab.testing.fake_workload import FakeRatedWorkload
from trimtab.trial.guarding import Guarding
from trimtab.units import format_duration

SLO = Slo.parse("p99 <= 20ms")


def searched(probe: Callable[[float], Probe]) -> RateResult:
    """What the search comes to when `probe` answers at once."""

    def answered(rate: float) -> Steps[Probe]:
        yield from ()
        return probe(rate)

    with pytest.raises(StopIteration) as end:
        next(search_rate(SLO, answered))
    result: RateResult = end.value.value
    return result


@pytest.mark.parametrize("true", [1.5, 7.0, 100.0, 312.0, 5_000.0, 123_456.0])
def test_finds_the_edge_within_five_per_cent(true: float) -> None:
    rates: list[float] = []

    def probe(rate: float) -> Probe:
        rates.append(rate)
        return Probe(rate, rate <= true, "" if rate <= true else "late")

    result = searched(probe)
    assert result.rate_per_s <= true < result.broken_at_per_s
    assert result.broken_at_per_s / result.rate_per_s <= 1.06
    assert result.limit == "server"
    assert len(rates) <= 30
    assert [p.rate_per_s for p in result.probes] == rates
    assert rates.count(result.rate_per_s) >= 2


def test_repeats_near_a_noisy_edge() -> None:
    rng = np.random.default_rng(3)
    found = []
    for _ in range(40):
        # The edge wobbles by 5 % from probe to probe.
        result = searched(lambda rate: Probe(rate, rate <= 1000 * math.exp(rng.normal(0, 0.05)), "late"))
        found.append(result.rate_per_s)
    assert np.median(found) == pytest.approx(1000, rel=0.05)
    assert np.quantile(found, 0.9) < 1100


def test_no_limit_at_all() -> None:
    result = searched(lambda rate: Probe(rate, True))
    assert (result.rate_per_s, result.broken_at_per_s, result.limit) == (5e6, math.inf, "none")


def test_generator_at_its_end_is_said() -> None:
    result = searched(lambda rate: Probe(rate, rate < 900, "busy", by_generator=rate >= 900))
    assert result.limit == "generator"


def test_no_rate_keeps_it() -> None:
    with pytest.raises(LoadError) as raised:
        searched(lambda rate: Probe(rate, False, "latency_p99=31 ms"))
    assert raised.value.message == "no rate keeps latency_p99 <= 20 ms: at 1/s latency_p99=31 ms"
    assert raised.value.hint == "this is what the server takes without any queue; ask for a longer time"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("p99 <= 20ms", "latency_p99 <= 20 ms"),
        ("p99<=0.5 s and latency_mean <= 2 ms", "latency_p99 <= 500 ms and latency_mean <= 2 ms"),
    ],
)
def test_slo_is_read(text: str, shown: str) -> None:
    assert Slo.parse(text).text == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fast", "cannot read the SLO 'fast'"),
        ("", "cannot read the SLO ''"),
        ("p98 <= 20ms", "cannot read the SLO 'p98 <= 20ms'"),
        ("p99 <= -3ms", "cannot read the SLO 'p99 <= -3ms'"),
        ("p99 >= 20ms", "the SLO 'p99 >= 20ms' does not bound a latency from above"),
        ("p99 <= 0", "the SLO 'p99 <= 0' does not bound a latency from above"),
        ("throughput <= 20", "the SLO 'throughput <= 20' does not bound a latency from above"),
        ("cost <= 20", "the SLO 'cost <= 20' does not bound a latency from above"),
    ],
)
def test_nonsense_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        Slo.parse(text)
    assert raised.value.message == message
    assert raised.value.hint == "write it as in: p99 <= 20ms, or p99 <= 20ms and latency_mean <= 2ms"


class Quiet:
    def step(self, name: str) -> None:
        pass

    def second(self, frame: object) -> None:
        pass


def found(fake: FakeStudy, text: str = "p99 <= 20ms", **settings: str) -> tuple[RateResult, list[str]]:
    file = fake.path / "study.toml"
    file.write_text(fake.written, encoding="utf-8")
    said: list[str] = []
    result = find_rate(
        load_study_file(file),
        fake.path / "state",
        slo=Slo.parse(text),
        settings=settings,
        listener=Quiet(),
        say=said.append,
    )
    return result, said


@pytest.fixture
def rated(fake: FakeStudy) -> FakeRatedWorkload:
    """M/M/1 with 1000/s: p99 <= 20 ms holds up to 1000 - ln(100) / 0.02 = 770/s."""
    workload = FakeRatedWorkload(lambda: 1000.0, noise_sd=0.0)
    fake.workload = workload
    return workload


def test_on_a_queue_with_a_known_edge(fake: FakeStudy, rated: FakeRatedWorkload) -> None:
    values = dict(fake.target.values)
    result, said = found(fake)
    assert result.rate_per_s <= 770 <= result.broken_at_per_s * 1.01
    assert result.rate_per_s >= 720
    assert "100/s: kept, 100/s done, p50 0.759 ms, p95 " in said[2]
    assert any("/s: not kept (latency_p99=" in line for line in said)
    assert "900/s: not kept (latency_p99=" in "\n".join(said)
    assert dict(fake.target.values) == values
    # Every probe began from the same data.
    assert rated.resets.count("clean") == 1
    assert len(rated.resets) - 1 == len(rated.seeds) == len(result.probes)


def test_the_probes_are_kept_as_a_study_of_their_own(fake: FakeStudy, rated: FakeRatedWorkload) -> None:
    result, _ = found(fake, cache="256MB")
    with open_history_at(None, fake.path / "state") as history:
        (summary,) = history.summaries()
        record, trials = history.study(summary.id), history.trials(summary.id)
    assert (record.name, record.status, record.objective) == ("fake.rate", "benched", "throughput")
    assert [t.measurement.throughput for t in trials if t.measurement] == [
        p.measurement.throughput for p in result.probes if p.measurement
    ]
    bench = record.verdict.bench
    assert bench is not None
    assert dict(bench.settings) == {"cache": 256}
    assert (bench.slo, bench.rate_per_s, bench.limit) == (SLO.text, result.rate_per_s, "server")
    assert headline(record, trials, None) == (
        f"Your config with cache = 256MB keeps {SLO.text} up to {result.rate_per_s:g}/s ({len(trials)} probes)."
    )


@dataclass(slots=True)
class Browsers(FakeRatedWorkload):
    """Two hundred that take turns: their pages are mixed as usual once each has had eight of them."""

    @property
    def arrivals_s(self) -> float:
        return 8 * 200 / self.rate_per_s if self.rate_per_s else 0.0


@pytest.mark.parametrize(("cap", "longest_s"), [("", 16.0), ('warmup_cap = "10s"\n', 10.0)])
def test_each_rate_has_a_warm_up_of_its_own(fake: FakeStudy, cap: str, longest_s: float) -> None:
    fake.workload = Browsers(lambda: 1000.0, noise_sd=0.0)
    fake.text += cap
    result, said = found(fake)
    warm_s = {p.rate_per_s: p.measurement.warmup_s for p in result.probes if p.measurement is not None}
    assert warm_s[100.0] == longest_s
    assert 1600 / 300 <= warm_s[300.0] <= 1600 / 300 + 1
    assert warm_s[result.rate_per_s] <= 4
    assert "were measured before" not in said[-1]


def test_a_rate_at_which_too_many_pages_are_first_ones_is_told(fake: FakeStudy) -> None:
    fake.workload = Browsers(lambda: 101.0, noise_sd=0.0)
    fake.text += 'warmup_cap = "10s"\n'
    result, said = found(fake, "p99 <= 100ms")
    assert result.rate_per_s < 60
    assert said[-1] == (
        f"at {result.rate_per_s:g}/s the users reach their usual mix of pages only after "
        f"{format_duration(1600 / result.rate_per_s)}, and were measured before: these runs have too many first pages; take fewer"
        " users, or raise [measure] warmup_cap"
    )


def test_overload_breaks_any_slo(fake: FakeStudy, rated: FakeRatedWorkload) -> None:
    result, said = found(fake, "p99 <= 60s")
    assert result.broken_at_per_s == pytest.approx(1000, rel=0.07)
    assert any("not kept (overloaded: " in line for line in said)


def test_config_may_be_set(fake: FakeStudy, rated: FakeRatedWorkload) -> None:
    found(fake, cache="256MB")
    assert fake.target.counts["apply"] > 0


def test_a_generator_too_small_for_the_first_rate_ends_it(fake: FakeStudy, rated: FakeRatedWorkload) -> None:
    rated.log_changes["client_cpu_s"] = np.full(7, 0.95)
    with pytest.raises(LoadError) as raised:
        found(fake)
    assert raised.value.message == (
        "no rate can be judged: at 100/s invalid run: the load generator used 95 % of its core (limit 80 %)"
    )
    assert (
        raised.value.hint
        == "this machine is too busy to keep a schedule: give the generator a free core or real-time priority"
    )
    assert len(rated.seeds) == 2


def test_errors_break_it(fake: FakeStudy, rated: FakeRatedWorkload) -> None:
    rated.error_share = 0.6
    with pytest.raises(LoadError, match=r"no rate keeps .*: at [1-9]/s error_rate="):
        found(fake)


def test_workload_without_a_rate(fake: FakeStudy) -> None:
    with pytest.raises(UsageError) as raised:
        found(fake)
    assert raised.value.message == "workload kind='fake' cannot run at a given rate (open loop)"
    assert raised.value.hint == "its operations are too long, or bound to one another; measure it without --find-rate"


def test_server_that_dies_ends_the_search(fake: FakeStudy, rated: FakeRatedWorkload) -> None:
    rated.on_second = lambda second: setattr(fake.target.disk, "is_up", False)
    with pytest.raises(LoadError, match=r"the probe at 100/s ended as crashed: .*the fake server is down"):
        found(fake)


def test_a_full_disk_is_not_taken_for_a_weak_generator(
    fake: FakeStudy, rated: FakeRatedWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Guarding, "shortage", lambda self, target: "disk=/data is 99.9 % full")
    with pytest.raises(LoadError) as raised:
        found(fake, cache="256MB")
    assert raised.value.message == "the probe at 100/s ended as infrastructure: twice: disk=/data is 99.9 % full"
