"""Harm: what the runs of the search show already of what a proof would refuse a config for.

A config that is faster and lets its slowest clients wait longer is refused in its proof (see `acceptance`), and the time of that
proof is lost. Its runs before have shown it: where they do, another config is brought to the proof, and a searcher looks
elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from trimtab.flow.acceptance import GUARDED, metrics_beside
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.measure import BaselineTrack, usual_sd
from trimtab.measure.quantile import t_quantile
from trimtab.records import Status, Trial
from trimtab.space import Config

__all__ = ["as_judged", "best_harmless", "is_harmful"]

_LEAST_BASELINES = 3
"""Runs of the baseline that tell how much a metric varies."""

_SURE = 0.8
"""One-sided, of each metric: another config costs less than a proof that fails, and a proof judges by more runs."""


def as_judged(task: Task, scorer: Scorer, trial: Trial) -> Trial:
    """`trial`, one of those of `scorer`, as a searcher is to see it: a config that harms misses a constraint by as much."""
    harm = _harm(task, scorer, trial.config)
    return replace(trial, excess=trial.excess + harm) if harm > 0 and trial.is_feasible else trial


def is_harmful(task: Task, scorer: Scorer, config: Config) -> bool:
    """Whether the full runs of `config` show, in the mean, a metric beside the objective that is worse than a proof lets pass.

    Each is compared with the baseline at its time, whose runs say how much the metric varies (Student's t, one-sided 80 %).
    False where they are too few, and where the baseline misses a constraint of the objective: other metrics do not count then.
    """
    return _harm(task, scorer, config) > 0


def best_harmless(task: Task, scorer: Scorer) -> Trial | None:
    """As `Scorer.best_run`, of configs that do not harm; of any where each better one than the baseline does."""
    best = scorer.best_run
    if best is None or not is_harmful(task, scorer, best.config):
        return best
    failed = {trial.config for trial in scorer.trials if trial.status.is_config_fault}
    full = [t for t in scorer.trials if t.status is Status.OK and t.is_feasible and t.config not in failed]
    better = sorted((t for t in full if (t.loss or 0.0) < scorer.par), key=lambda trial: trial.loss or 0.0)
    return next((trial for trial in better if not is_harmful(task, scorer, trial.config)), best)


def _harm(task: Task, scorer: Scorer, config: Config) -> float:
    """By how much (log) a metric is at least worse than a proof lets pass, the worst of them; 0 where none is.

    A study asks several times for each trial, and of every config that looks better than the best harmless one.
    """
    if config not in scorer.harms:
        scorer.harms[config] = _worked_out(task, scorer, config)
    return scorer.harms[config]


def _worked_out(task: Task, scorer: Scorer, config: Config) -> float:
    if scorer.par == math.inf or config == task.baseline:
        return 0.0
    after = _metrics(scorer.runs_of(config))
    if not after:
        return 0.0
    noise = usual_sd(scorer.track.logs, scorer.noise_sd)
    allowed = math.log1p(max(task.proof.tolerance, task.proof.min_gain, noise))
    return max([0.0, *(_worse_by(name, track, after) - allowed for name, track in _of_baseline(task, scorer).items())])


def _of_baseline(task: Task, scorer: Scorer) -> dict[str, BaselineTrack]:
    """The metrics beside the objective that each full run of the baseline has, over the numbers of the runs; none while these are
    too few. They grow with the runs and serve all configs: whenever the baseline was measured, a study asks for each config that
    looks better than the best harmless one."""
    for run in scorer.runs_of(task.baseline, scorer.n_beside):
        scorer.n_beside += 1
        for number, metrics in _metrics([run]).items():
            if scorer.beside is None:
                scorer.beside = {name: BaselineTrack() for name in GUARDED if name != task.objective.metric}
            scorer.beside = {name: track for name, track in scorer.beside.items() if name in metrics}
            for name, track in scorer.beside.items():
                track.add(number, metrics[name])
    return {name: track for name, track in (scorer.beside or {}).items() if len(track) >= _LEAST_BASELINES}


def _metrics(trials: Sequence[Trial]) -> dict[int, dict[str, float]]:
    """Of those that were measured in full, by trial number, which stands for the time."""
    full = [trial for trial in trials if trial.status is Status.OK]
    return {trial.number: metrics_beside(trial.measurement) for trial in full if trial.measurement is not None}


def _worse_by(name: str, track: BaselineTrack, after: dict[int, dict[str, float]]) -> float:
    """log of how many times worse the metric is at least than in the baseline's `track`; -inf where a run does not have it."""
    if not all(name in metrics for metrics in after.values()):
        return -math.inf
    levels = [track.at(number) for number in after]
    sign = -1.0 if name == "throughput" else 1.0
    worse = [sign * math.log(metrics[name] / level) for metrics, (level, _) in zip(after.values(), levels, strict=True)]
    noise = track.summary()
    of_baseline = max(se / level for level, se in levels)  # runs near each other in time share it
    error = math.hypot(noise.noise_sd / math.sqrt(len(worse)), of_baseline)
    return sum(worse) / len(worse) - t_quantile(_SURE, max(1.0, noise.noise_df)) * error
