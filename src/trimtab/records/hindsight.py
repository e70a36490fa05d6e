"""What trials say once it is known how the machine drifted: their losses against the baseline as it was at their own time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from trimtab.measure import BaselineTrack, Interval
from trimtab.records.objective import Objective
from trimtab.records.trial import BASELINE_ROLES, Context, Trial

__all__ = ["compared", "in_hindsight", "judged_again", "noise_sd_of", "se_of", "se_of_run"]

_FELT = 0.01
"""Least change of a loss that counts."""


def in_hindsight(objective: Objective, trials: Sequence[Trial]) -> list[Trial]:
    """All trials of a study, in order, with their losses as they are judged after the last one; `trials` have them as they were
    judged when each was made. They differ where the machine drifted, each context's for itself."""
    times = list(accumulate((sum(trial.cost_s.values()) for trial in trials), initial=0.0))
    judged = list(trials)
    for places in _by_context(trials):
        own, own_times = [trials[place] for place in places], [times[place] for place in places]
        again = judged_again(objective, _track_of(objective, own, own_times), own, own_times)
        for place, trial in zip(places, again, strict=True):
            judged[place] = trial
    return judged


def _by_context(trials: Sequence[Trial]) -> list[list[int]]:
    """Places of the trials of each context."""
    found: list[tuple[Context, list[int]]] = []
    for place, trial in enumerate(trials):
        places = next((places for context, places in found if context == trial.context), None)
        if places is None:
            found.append((trial.context, places := []))
        places.append(place)
    return [places for _, places in found]


def _track_of(objective: Objective, trials: Sequence[Trial], times: Sequence[float]) -> BaselineTrack:
    track = BaselineTrack()
    for trial, at in zip(trials, times, strict=True):
        if trial.role in BASELINE_ROLES and trial.measurement is not None and trial.loss is not None:
            value = objective.value(trial.measurement)
            track.add(at, value.estimate, se_of(value))
    return track


def judged_again(
    objective: Objective, track: BaselineTrack, trials: Sequence[Trial], times: Iterable[float]
) -> Sequence[Trial]:
    """`trials`, made at `times`, compared with what `track` says of these; the very `trials` where the machine did not drift, or
    no loss is off by more than the noise."""
    if not len(track) or not track.summary().is_beyond_noise:
        return trials
    judged = [
        trial if trial.loss is None else compared(objective, track, trial, at)
        for trial, at in zip(trials, times, strict=True)
    ]
    moved = [abs((new.loss or 0.0) - (old.loss or 0.0)) for new, old in zip(judged, trials, strict=True)]
    return judged if max(moved, default=0.0) > max(_FELT, noise_sd_of(track)) else trials


def compared(objective: Objective, track: BaselineTrack, trial: Trial, at: float) -> Trial:
    """`trial` with its loss, which may be infinite, against the baseline at the time `at`; as it is where there is nothing to
    compare."""
    if trial.measurement is None or not len(track):
        return trial
    baseline, baseline_se = track.at(at)
    loss = objective.loss(objective.value(trial.measurement).estimate, baseline)
    shared = baseline_se / baseline if math.isfinite(baseline_se) else 0.0
    return replace(trial, loss=loss, loss_se=math.hypot(se_of_run(objective, track, trial), shared))


def se_of_run(objective: Objective, track: BaselineTrack, trial: Trial) -> float:
    """Relative standard error of one run: the noise from run to run, or the believed part of its own if that is more."""
    if trial.measurement is None:
        return noise_sd_of(track)
    value = objective.value(trial.measurement)
    share = track.summary().stated_share if len(track) else 1.0
    return max(share * se_of(value) / value.estimate, noise_sd_of(track))


def noise_sd_of(track: BaselineTrack) -> float:
    """Relative standard deviation of one run of the baseline, drift taken out; 0 before two of them."""
    sd = track.summary().noise_sd if len(track) >= 2 else 0.0
    return sd if math.isfinite(sd) else 0.0


def se_of(value: Interval) -> float:
    """Standard error; from the interval's width when it is not stated; 0 when neither is finite."""
    if math.isfinite(value.se):
        return value.se
    width = value.high - value.low
    return width / 3.92 if math.isfinite(width) else 0.0
