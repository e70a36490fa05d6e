"""Guardrails: what ends a trial, what does not, and who is blamed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from trimtab.errors import UsageError
from trimtab.host import VolumeUse
from trimtab.measure import Interval, Measurement
from trimtab.records import Status
from trimtab.systems import Stack, Tier, Vitals
from trimtab.trial import Guarding, GuardLimits, Guardrails, Interrupted, KillSwitch, Yardstick
from trimtab.trial.guard import Breach, shortage
from trimtab.workload import Frame

MIB, GIB = 1 << 20, 1 << 30
YARDSTICK = Yardstick(throughput=1000.0, p99_ms=20.0)


def frame(
    second: int = 0, *, ok: int = 1000, failed: int = 0, p99_ms: float = 20.0, credited: float | None = None
) -> Frame:
    rate = float(ok) if credited is None else credited
    return Frame(second, ok, failed, rate, response_p99_us=round(p99_ms * 1e3))


def guards(limits: GuardLimits | None = None, *, is_baseline: bool = False) -> Guardrails:
    return Guardrails(limits or GuardLimits(), max_error_rate=0.01, yardstick=YARDSTICK, is_baseline=is_baseline)


def broken_by(guard: Guardrails, frames: list[Frame], *, in_window: bool = True) -> tuple[int, Breach] | None:
    """The second, counted from 1, and the breach."""
    for second, each in enumerate(frames, 1):
        breach = guard.second(each, in_window=in_window)
        if breach is not None:
            return second, breach
    return None


def run_like_the_baseline(rng: np.random.Generator, n: int = 30) -> list[Frame]:
    """Rates that hang together, a heavy-tailed p99, a failure now and then."""
    level, frames = 0.0, []
    for second in range(n):
        level = 0.6 * level + rng.normal(0, 0.12)
        p99 = 16.0 * math.exp(rng.standard_t(3) * 0.25)
        frames.append(frame(second, ok=round(1000 * math.exp(level)), failed=int(rng.random() < 0.3), p99_ms=p99))
    return frames


@pytest.mark.slow
def test_good_trials_are_not_aborted() -> None:
    """A/A: at most one in a hundred; these come in 1000 runs of 30 noisy seconds."""
    rng = np.random.default_rng(1)
    aborted = [broken_by(guards(), run_like_the_baseline(rng)) for _ in range(1000)]
    assert sum(breach is not None for breach in aborted) <= 10


def test_three_times_the_latency_ends_within_seconds() -> None:
    found = broken_by(guards(), [frame(second, p99_ms=60 + second % 3) for second in range(30)])
    assert found is not None
    second, breach = found
    assert second <= 5
    assert (breach.status, breach.metric) == (Status.STOPPED_EARLY, "latency_p99")
    assert breach.reason == f"stopped: p99=60.74 ms after {second}s, 3 times the baseline's (limit 2 times)"
    assert breach.excess == pytest.approx(math.log(3.037 / 2), abs=0.01)


def test_a_third_of_the_throughput_ends_within_seconds() -> None:
    found = broken_by(guards(), [frame(second, ok=330 + second % 5) for second in range(30)])
    assert found is not None
    second, breach = found
    assert second <= 5
    assert breach.metric == "throughput"
    assert breach.reason.startswith("stopped: throughput=33")
    assert breach.reason.endswith("0.33 times the baseline's (limit 0.5 times)")


def test_warm_up_and_the_baseline_itself_are_not_compared() -> None:
    slow = [frame(second, ok=100, p99_ms=500) for second in range(20)]
    assert broken_by(guards(), slow, in_window=False) is None
    assert broken_by(guards(is_baseline=True), slow) is None
    assert broken_by(Guardrails(GuardLimits(), max_error_rate=0.01), slow) is None


def test_guards_can_be_switched_off() -> None:
    slow = [frame(second, ok=100, p99_ms=500) for second in range(20)]
    assert broken_by(guards(GuardLimits(latency_factor=0, throughput_factor=0)), slow) is None


def test_errors_end_a_trial_and_one_bad_second_does_not() -> None:
    found = broken_by(guards(), [frame(second, ok=900, failed=100) for second in range(20)])
    assert found is not None
    assert found[1].status is Status.FAILED_LOAD
    assert found[1].reason == f"error_rate=10.0 % after {found[0]}s (limit 1.0 %)"
    once = [frame(second, failed=300 if second == 2 else 0) for second in range(20)]
    assert broken_by(guards(), once) is None


def test_nothing_but_errors_ends_the_warm_up_too() -> None:
    found = broken_by(guards(), [frame(second, ok=0, failed=500) for second in range(9)], in_window=False)
    assert found is not None
    assert (found[0], found[1].reason) == (3, "error_rate=100.0 % for 3 s")


def volume(used: int, size: int = 1000) -> VolumeUse:
    return VolumeUse(path="/data", used_bytes=used * MIB, size_bytes=size * MIB)


def vitals(**use: object) -> Vitals:
    given = {"memory_bytes": 500 * MIB, "memory_limit_bytes": GIB, "available_bytes": 8 * GIB, "swapped_bytes": 0,
             "swap_bytes": 0, "oom_kills": 0, "volumes": (volume(500),), **use}  # fmt: skip
    return Vitals(**given)  # type: ignore[arg-type]


def hard(guard: Guardrails, *later: Vitals) -> Breach | None:
    assert guard.vitals(vitals()) is None
    found = None
    for each in later:
        found = guard.vitals(each)
    return found


def test_memory_over_the_budget_ends_at_once_and_blames_the_config() -> None:
    breach = hard(guards(), vitals(memory_bytes=1000 * MIB))
    assert breach is not None
    assert breach.status is Status.CRASHED
    assert breach.reason == "stopped: memory=1000MiB of a budget of 1GiB (limit 95 % of it)"


def test_the_users_own_memory_is_not_ended() -> None:
    assert hard(guards(is_baseline=True), vitals(memory_bytes=2 * GIB)) is None


@pytest.mark.parametrize(("own", "status"), [(7800 * MIB, Status.CRASHED), (600 * MIB, Status.INFRASTRUCTURE)])
def test_memory_that_runs_out_blames_whoever_took_it(own: int, status: Status) -> None:
    limits = GuardLimits(memory=100.0)
    breach = hard(guards(limits), vitals(memory_bytes=own, available_bytes=100 * MIB))
    assert breach is not None
    assert breach.status is status
    assert breach.reason.startswith("stopped: the machine has only memory_available=100MiB left")
    assert breach.reason.endswith("not this server's own use") == (status is Status.INFRASTRUCTURE)


@pytest.mark.parametrize(("own", "status"), [(300 * MIB, Status.CRASHED), (0, Status.INFRASTRUCTURE)])
def test_a_swap_storm_blames_whoever_swaps(own: int, status: Status) -> None:
    breach = hard(guards(), vitals(swapped_bytes=400 * MIB, swap_bytes=own))
    assert breach is not None
    assert (breach.status, breach.metric) == (status, "swap")
    assert breach.reason.startswith("stopped: swapped=400MiB during the trial (limit 256MiB)")
    assert breach.excess == pytest.approx(400 / 256 - 1)
    assert hard(guards(), vitals(swapped_bytes=256 * MIB, swap_bytes=own)) is None, "the limit itself is allowed"


def test_a_kill_by_the_kernel_is_seen() -> None:
    breach = hard(guards(), vitals(oom_kills=2))
    assert breach is not None
    assert breach.reason == (
        "the kernel killed 2 of the server's processes because memory ran out: 500MiB of a budget of 1GiB"
    )


def test_kills_before_the_trial_are_none_of_its_own() -> None:
    """The server's process could not be seen at the first look."""
    guard = guards()
    assert guard.vitals(vitals(oom_kills=None)) is None
    assert guard.vitals(vitals(oom_kills=3)) is None


@pytest.mark.parametrize(
    ("own", "status"), [(340, Status.CRASHED), (10, Status.INFRASTRUCTURE), (None, Status.INFRASTRUCTURE)]
)
def test_a_full_disk_blames_whoever_filled_it(own: int | None, status: Status) -> None:
    guard = guards(GuardLimits(disk_growth_bytes=GIB))
    guard.grown_bytes = lambda: None if own is None else own * MIB
    breach = hard(guard, vitals(volumes=(volume(840),)), vitals(volumes=(volume(860),)))
    assert breach is not None
    assert breach.status is status
    shown = "?" if own is None else f"{own}MiB"
    assert breach.reason.startswith(
        "stopped: disk=/data is 86 % full and grew by 360MiB during the trial, "
        f"the target's own files by {shown} (limit 85 % full)"
    )


def test_growth_alone_ends_too() -> None:
    guard = guards()
    guard.grown_bytes = lambda: 260 * MIB
    breach = hard(guard, vitals(volumes=(volume(760),)))
    assert breach is not None
    assert breach.reason.endswith("(limit a growth of 250MiB)")


def test_a_disk_that_was_fuller_before_may_be_filled_half_way() -> None:
    guard = guards()
    assert guard.vitals(vitals(volumes=(volume(900),))) is None
    assert guard.vitals(vitals(volumes=(volume(940),))) is None
    assert guard.vitals(vitals(volumes=(volume(951),))) is not None


def test_a_disk_that_was_fuller_before_has_a_limit_of_its_own_whatever_may_grow() -> None:
    guard = guards(GuardLimits(disk_growth_bytes=GIB))
    assert guard.vitals(vitals(volumes=(volume(900),))) is None
    assert guard.vitals(vitals(volumes=(volume(949),))) is None
    breach = guard.vitals(vitals(volumes=(volume(950),)))
    assert breach is not None
    assert breach.reason.endswith("(limit 95 % full); not this server's own use")


def test_growth_has_its_limit_on_a_disk_that_was_fuller_before() -> None:
    guard = guards(GuardLimits(disk_growth_bytes=20 * MIB))
    assert guard.vitals(vitals(volumes=(volume(900),))) is None
    assert guard.vitals(vitals(volumes=(volume(920),))) is None
    breach = guard.vitals(vitals(volumes=(volume(921),)))
    assert breach is not None
    assert "(limit a growth of 20MiB)" in breach.reason


def test_a_standby_must_stay_behind_for_three_looks() -> None:
    late = vitals(lag_s=12.0)
    assert hard(guards(), late, late) is None
    breach = hard(guards(), late, late, late)
    assert breach is not None
    assert breach.status is Status.STOPPED_EARLY
    assert breach.reason == "stopped: a standby is replication_lag=12s behind (limit 10s)"
    assert breach.excess == pytest.approx(0.2)
    assert hard(guards(), late, vitals(lag_s=0.1), late, late) is None


def test_what_cannot_be_seen_breaks_nothing() -> None:
    guard = guards()
    assert guard.vitals(Vitals()) is None
    assert guard.vitals(Vitals()) is None
    assert guard.peaks == {}


def test_peaks_are_kept() -> None:
    guard = guards()
    hard(guard, vitals(memory_bytes=700 * MIB, volumes=(volume(600),)), vitals(memory_bytes=600 * MIB))
    assert guard.peaks["memory_bytes"] == 700 * MIB
    assert guard.peaks["disk_share"] == pytest.approx(0.6)
    assert guard.peaks["disk_growth_share"] == pytest.approx(0.1)


def test_nothing_is_applied_on_a_full_disk() -> None:
    assert shortage(vitals(volumes=(volume(980),)), GuardLimits()) == ""
    assert shortage(vitals(volumes=(volume(990),)), GuardLimits()) == (
        "disk=/data is 99.0 % full before anything was applied (10MiB left)"
    )
    assert shortage(vitals(volumes=(volume(999),)), GuardLimits(disk=0)) == ""


def test_yardstick_is_the_worst_of_the_baselines_runs() -> None:
    def run(throughput: float, p99: float) -> Measurement:
        known = Interval(throughput, throughput, throughput)
        return Measurement(
            window_s=(0, 5), throughput=known, latency_mean_ms=known, latency_ms={"p99": Interval(p99, p99, math.inf)},
            n_ok=1, n_error=0, n_timed_out=0, is_steady=True, warmup_s=0, series_per_s=(),
        )  # fmt: skip

    assert Yardstick.of([]) is None
    assert Yardstick.of([run(100, 5), run(90, 7), run(110, math.inf)]) == Yardstick(90, 7, 0.2, 5.0)


def test_kill_switch(tmp_path: Path) -> None:
    switch = KillSwitch(tmp_path / "stop")
    switch.require_off()
    switch.stop_if_on()
    switch.path.touch()
    with pytest.raises(Interrupted, match="stopped by the kill switch: file=") as stopped:
        switch.stop_if_on()
    assert stopped.value.exit_code == 130
    with pytest.raises(UsageError, match="the kill switch is on: file=.* exists") as refused:
        switch.require_off()
    assert refused.value.hint == "remove the file to let Trimtab work again"


def test_a_target_that_cannot_be_watched_is_guarded_by_its_load_alone(tmp_path: Path) -> None:
    class Plain:
        pass

    guarding = Guarding(GuardLimits(), tmp_path / "stop")
    plain = Stack([Tier(name="plain", target=Plain())])  # type: ignore[arg-type]
    assert guarding.shortage(plain) == ""
    with guarding.watch(plain, is_baseline=False, max_error_rate=0.01) as watch:
        assert watch.second(frame(), in_window=True) is None
    assert watch.peaks == {}


def test_swapping_before_the_trial_counts_for_nothing() -> None:
    guard = guards()
    assert guard.vitals(vitals(swapped_bytes=10 * GIB)) is None
    assert guard.vitals(vitals(swapped_bytes=10 * GIB + 100 * MIB)) is None


@pytest.mark.parametrize(("failed", "is_ended"), [(3, False), (4, True)])
def test_a_few_failures_alone_end_no_warm_up(failed: int, is_ended: bool) -> None:
    frames = [frame(second, ok=0, failed=failed if second else 2) for second in range(3)]  # 2 + 2n: 8 or 10
    assert (broken_by(guards(), frames, in_window=False) is not None) is is_ended


def test_who_grew_by_just_half_of_it_is_blamed() -> None:
    guard = guards()
    guard.grown_bytes = lambda: 500 * MIB
    assert guard.vitals(vitals(volumes=(volume(0, 1500),))) is None
    breach = guard.vitals(vitals(volumes=(volume(1000, 1500),)))
    assert breach is not None
    assert breach.status is Status.CRASHED
