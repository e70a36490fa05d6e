"""The baseline's track: still when only noise moves, along when the machine drifts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from trimtab.errors import LoadError
from trimtab.measure import BaselineTrack
from trimtab.measure import drift as drift_module

NOISE = 0.03


def level_of(walk: np.ndarray, time: float) -> float:
    """The value of a series given in half steps."""
    return float(walk[int(2 * time)])


def track_of(
    rng: np.random.Generator, n: int, level: Callable[[float], float], noise_sd: float = NOISE
) -> BaselineTrack:
    track = BaselineTrack(noise_sd)
    for time in range(n):
        value = level(time) * math.exp(rng.normal(0, NOISE))
        track.add(time, value, 0.01 * value)
    return track


def still(time: float) -> float:
    return 100.0


def rising(time: float) -> float:
    return 100.0 * (1 + 0.05 * time)


def step(time: float) -> float:
    return 100.0 if time < 5.5 else 50.0


@pytest.mark.parametrize(("noise_sd", "most"), [(NOISE, 0.05), (0.0, 0.15)])
def test_noise_is_not_called_drift(noise_sd: float, most: float) -> None:
    rng = np.random.default_rng(0)
    tracks = [track_of(rng, 10, still, noise_sd) for _ in range(150)]
    assert np.mean([track.summary().is_beyond_noise for track in tracks]) <= most


@pytest.mark.parametrize("level", [rising, step])
@pytest.mark.parametrize("noise_sd", [NOISE, 0.0])
def test_drift_is_followed(level: Callable[[float], float], noise_sd: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        track = track_of(rng, 12, level, noise_sd)
        summary = track.summary()
        assert summary.is_beyond_noise
        assert summary.relative_range == pytest.approx(level(0) / level(11) - 1 if level is step else 0.55, rel=0.35)
        for time in (2.5, 9.5):
            assert track.at(time)[0] == pytest.approx(level(time), rel=0.12)


def test_the_track_beats_the_mean_when_the_machine_drifts() -> None:
    track = track_of(np.random.default_rng(2), 12, rising)
    error = [abs(track.at(t + 0.5)[0] / rising(t + 0.5) - 1) for t in range(11)]
    flat = [abs(rising(5.5) / rising(t + 0.5) - 1) for t in range(11)]
    assert np.mean(error) < np.mean(flat) / 3


def test_without_drift_it_is_the_precision_weighted_mean() -> None:
    track = BaselineTrack()
    for moment, value, se in [(0, 100.0, 1.0), (1, 102.0, 2.0)]:
        track.add(moment, value, se)
    weights = np.array([1 / 0.01**2, 1 / (2 / 102) ** 2])
    mean = math.exp(weights @ np.log([100, 102]) / weights.sum())
    for time in (-1.0, 0.5, 7.0):
        value, se = track.at(time)
        assert value == pytest.approx(mean)
        assert se == pytest.approx(mean / math.sqrt(weights.sum()))
    assert track.summary().relative_range == 0
    assert track.summary().observed_range == pytest.approx(0.02)


@pytest.mark.parametrize("n", [5, 10])
def test_coverage_of_the_error(n: int) -> None:
    rng = np.random.default_rng(3)
    hits = []
    for level in (still, rising):
        for _ in range(100):
            value, se = track_of(rng, n, level).at(1.5)
            hits.append(abs(value - level(1.5)) <= 2 * se)
    assert np.mean(hits) >= 0.9


def test_where_the_baseline_was_just_measured_it_is_known() -> None:
    track = BaselineTrack()
    for time, value in enumerate([100.0, 80.0, 70.0, 60.0, 30.0, 20.0, 25.0, 28.0, 40.0, 60.0]):
        track.add(time, value, 0.001 * value)
    value, se = track.at(2)
    assert value == pytest.approx(70, rel=0.02)
    assert se < 0.1 * value


@pytest.mark.parametrize(("se", "least", "most"), [(0.08, 0.15, 0.25), (0.24, 0.0, 0.06)])
def test_a_repeat_that_is_known_to_be_uncertain_hardly_moves_the_level(se: float, least: float, most: float) -> None:
    """Baselines of YCSB A on Cassandra, two hours on a virtual machine; from the last one the hypervisor took a quarter."""
    repeats = [
        (0, 14_673, 0.027), (95, 12_264, 0.056), (115, 12_407, 0.062), (1370, 12_668, 0.047), (2208, 12_438, 0.032),
        (2541, 13_120, 0.007), (3280, 10_798, 0.006),
    ]  # fmt: skip
    track = BaselineTrack()
    for at, value, share in repeats:
        track.add(at, value, share * value)
    before = track.at(3990)[0]
    track.add(3940, 8214, se * 8214)
    assert least <= 1 - track.at(3990)[0] / before <= most


def test_values_that_jump_up_and_down_are_noise() -> None:
    track = BaselineTrack()
    for time, value in enumerate([100.0, 50.0, 180.0, 30.0, 120.0, 60.0]):
        track.add(time, value, 0.001 * value)
    assert not track.summary().is_beyond_noise
    assert track.summary().noise_sd > 0.3
    assert track.at(2)[0] == pytest.approx(76, rel=0.05)


def drifting_noise(n: int, sd: float, drift: float, rng: np.random.Generator) -> tuple[float, float]:
    """(noise_sd, median of the standard errors that the runs state) of `n` repeats over which a line rises by `drift`."""
    track, errors = BaselineTrack(), []
    for time in range(n):
        value = 100 * (1 + drift * time / (n - 1)) * math.exp(rng.normal(0, sd))
        errors.append(sd * rng.uniform(0.1, 0.5))
        track.add(60 * time, value, errors[-1] * value)
    return track.summary().noise_sd, float(np.median(errors))


@pytest.mark.slow
@pytest.mark.parametrize("drift", [0.0, 0.2])
@pytest.mark.parametrize("sd", [0.01, 0.15])
@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_the_noise_is_of_the_right_size_with_drift_and_without(n: int, sd: float, drift: float) -> None:
    rng = np.random.default_rng(6)
    found, stated = zip(*[drifting_noise(n, sd, drift, rng) for _ in range(80)], strict=True)
    assert 1 / 1.5 < np.median(found) / sd < 1.5
    least = math.sqrt(4 / (4 + n - 2))  # of what the runs state, if their values lay on a line by chance
    assert np.all(np.array(found) >= 0.9999 * least * np.array(stated))


def test_repeats_on_a_line_are_not_free_of_noise() -> None:
    """Three first runs, each faster than the one before: that the runs state an error of 2 % counts four times as much."""
    track = BaselineTrack()
    for time, value in enumerate([100.0, 110.0, 121.0]):
        track.add(time, value, 0.02 * value)
    assert track.summary().noise_sd == pytest.approx(0.02 * math.sqrt(4 / 5))
    assert track.summary().noise_df == pytest.approx(1.0)


@pytest.mark.parametrize(("n", "most"), [(3, 0.21), (6, 0.16), (12, 0.13), (40, 0.09)])
def test_uneven_runs_that_repeat_each_other_are_not_called_noisy(n: int, most: float) -> None:
    """Each run starts slowly and states an error of 20 %, but the runs scatter by 6 %: the more of them, the more that counts."""
    rng = np.random.default_rng(9)
    found, shares, errors = [], [], []
    for _ in range(60):
        track = BaselineTrack()
        for time in range(n):
            value = 100 * math.exp(rng.normal(0, 0.06))
            track.add(60 * time, value, 0.2 * math.sqrt(rng.chisquare(2) / 2) * value)
        found.append(track.summary().noise_sd)
        shares.append(track.summary().stated_share)
        errors.append(track.at(60 * n)[1] / 100)
    assert 0.055 < np.median(found) < most
    assert 0 < np.min(shares) <= np.median(shares) < 1
    assert np.median(errors) < 1.5 * most / math.sqrt(n)


def test_two_runs_that_are_alike_take_nothing_from_their_own_errors() -> None:
    track = BaselineTrack()
    for time in range(2):
        track.add(time, 100.0, 20.0)
    assert track.summary().noise_sd == pytest.approx(0.2)
    assert track.summary().stated_share == 1.0


@pytest.mark.parametrize(("n", "df"), [(1, 0.0), (2, 1.0), (3, 1.0), (12, 10.0)])
def test_degrees_of_freedom_of_the_noise(n: int, df: float) -> None:
    track = BaselineTrack()
    for time in range(n):
        track.add(time, 100.0 + (-1) ** time)
    assert track.summary().noise_df == pytest.approx(df)


def test_a_step_is_drift_and_not_noise() -> None:
    rng = np.random.default_rng(7)
    found = [track_of(rng, 20, lambda t: 100.0 if t < 9.5 else 120.0, 0.0).summary() for _ in range(30)]
    assert all(each.noise_df < 12 for each in found if each.is_beyond_noise)
    assert NOISE / 1.5 < np.median([each.noise_sd for each in found]) < 1.5 * NOISE


def test_the_error_is_of_the_right_size_for_a_wandering_machine() -> None:
    rng = np.random.default_rng(5)
    errors, promised = [], []
    for _ in range(150):
        # Half steps: the odd ones lie between two repeats.
        walk = 100 * np.exp(np.cumsum(rng.normal(0, 0.1 / math.sqrt(2), 24)))
        value, se = track_of(rng, 12, partial(level_of, walk)).at(5.5)
        errors.append(math.log(value / walk[11]))
        promised.append(se / value)
    assert 0.7 < np.mean(promised) / np.std(errors) < 1.3


def test_beyond_the_last_repeat_the_error_grows() -> None:
    track = track_of(np.random.default_rng(4), 12, step)
    values, errors = zip(*[track.at(time) for time in (11, 12, 20)], strict=True)
    assert values[0] == pytest.approx(values[2])
    assert errors[0] < errors[1] < errors[2]


def test_order_of_adding_and_the_clock_do_not_matter() -> None:
    rows = [(0.0, 100.0), (1.0, 90.0), (2.0, 60.0), (3.0, 55.0), (4.0, 54.0)]
    ahead, back = BaselineTrack(0.02), BaselineTrack(0.02)
    for time, value in rows:
        ahead.add(time, value)
    for time, value in reversed(rows):
        back.add(1.7e9 + 300 * time, value)
    assert ahead.at(1.5) == pytest.approx(back.at(1.7e9 + 450))


def test_one_repeat() -> None:
    track = BaselineTrack()
    track.add(0, 50.0)
    assert track.at(9)[0] == pytest.approx(50)
    assert math.isnan(track.at(9)[1])
    track = BaselineTrack()
    track.add(0, 50.0, 1.0)
    assert track.at(0) == pytest.approx((50, 1))
    assert len(track) == 1


def test_repeats_at_one_moment() -> None:
    track = BaselineTrack()
    for value in (99.0, 100.0, 101.0):
        track.add(5.0, value, 1.0)
    assert track.at(5.0)[0] == pytest.approx(100, rel=0.01)
    assert not track.summary().is_beyond_noise


def test_empty_track() -> None:
    with pytest.raises(LoadError, match="the baseline has not been measured"):
        BaselineTrack().at(0)
    with pytest.raises(LoadError, match="the baseline has not been measured"):
        BaselineTrack().summary()


@pytest.mark.parametrize("value", [0.0, -3.0, math.nan, math.inf])
def test_failed_baseline(value: float) -> None:
    with pytest.raises(LoadError, match=r"the baseline's value=.* at time=2 is not positive and finite"):
        BaselineTrack().add(2, value)


def test_bad_noise() -> None:
    with pytest.raises(LoadError, match="noise_sd=-1 must be 0 or more"):
        BaselineTrack(-1)


class LevelByMatrices:
    """The best linear unbiased prediction of the level (universal kriging); the track's own filter is quicker."""

    def __init__(self, t: list[float], y: list[float], q: float, h: list[float]) -> None:
        self.t, self.y, self.q = np.array(t), np.array(y), q
        self.inverse = np.linalg.inv(self._covariance(self.t) + np.diag(h))
        self.variance = 1 / self.inverse.sum()
        self.level = self.inverse.sum(axis=0) @ self.y * self.variance

    def _covariance(self, times: np.ndarray) -> np.ndarray:
        here, there = times[:, None] - self.t[0], self.t[None, :] - self.t[0]
        return np.asarray(self.q * np.where(here > 0, np.minimum(np.abs(here), there), 0.0))

    @property
    def values(self) -> list[float]:
        return [self.at(time)[0] for time in self.t]

    def at(self, time: float) -> tuple[float, float]:
        cross = self._covariance(np.array([time]))[0]
        weights = cross @ self.inverse
        variance = self.q * abs(time - self.t[0]) - weights @ cross + (1 - weights.sum()) ** 2 * self.variance
        return self.level + weights @ (self.y - self.level), variance


def by_matrices(t: np.ndarray, y: np.ndarray, q: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The restricted log-likelihoods as textbooks have them; the track's own are quicker."""
    walk = np.minimum(t[:, None], t[None, :]) - t[0]
    found = []
    for each, own in zip(q, noise.T, strict=True):
        covariance = each * walk + np.diag(own)
        inverse = np.linalg.inv(covariance)
        information = inverse.sum()
        rest = y - inverse.sum(axis=0) @ y / information
        found.append(-0.5 * (np.linalg.slogdet(covariance)[1] + math.log(information) + rest @ inverse @ rest))
    return np.array(found)


@pytest.mark.parametrize("level", [still, rising, step])
@pytest.mark.parametrize("n", [2, 3, 7, 25])  # for one repeat all pairs are as likely, but for rounding
def test_the_quick_fit_is_that_of_the_matrices(
    level: Callable[[float], float], n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, plain = (track_of(np.random.default_rng(5), n, level) for _ in range(2))
    times = (-1.0, 0.0, 0.5, n - 1.3, n - 1.0, n + 3.0)
    found, summary = [quick.at(time) for time in times], quick.summary()
    monkeypatch.setattr(drift_module, "log_likelihoods", by_matrices)
    monkeypatch.setattr(drift_module, "LocalLevel", LevelByMatrices)
    assert np.allclose(found, [plain.at(time) for time in times], rtol=1e-9, equal_nan=True)
    assert dataclasses.asdict(summary) == pytest.approx(dataclasses.asdict(plain.summary()), rel=1e-9, nan_ok=True)


def test_many_repeats_choose_the_variances_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = track_of(np.random.default_rng(5), 150, rising), []
    assert whole.summary().is_beyond_noise
    plain = drift_module.log_likelihoods
    monkeypatch.setattr(drift_module, "log_likelihoods", lambda *args: calls.append(len(args[0])) or plain(*args))
    again = track_of(np.random.default_rng(5), 150, rising)
    assert (again.summary(), again.at(151.0), again.at(70.5)) == (whole.summary(), whole.at(151.0), whole.at(70.5))
    assert calls == [144]
    track = BaselineTrack()
    for time in range(140):
        track.add(time, 100.0 + time % 7)
        track.at(time)
    assert calls[1:] == [*range(1, 129)], "and none of the twelve after"
    track.add(3.5, 100.0)
    track.at(0.0)
    assert calls[129:] == [128], "another one among the first"


def test_a_summary_is_made_once_for_each_repeat() -> None:
    track = track_of(np.random.default_rng(1), 4, still)
    first = track.summary()
    assert track.summary() is first
    track.add(9.0, 120.0)
    assert track.summary() != first
