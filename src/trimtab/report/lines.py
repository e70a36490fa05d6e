"""What each setting of the winner is worth, what was taken from it, and how the gain grows with the number of settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trimtab.records import KnobWorth, Status, Trial, Verdict
from trimtab.report.facts import Gain, LineWorth, PathPoint
from trimtab.report.words import clean, counted, first_line, percent_text
from trimtab.space import Config

if TYPE_CHECKING:
    from trimtab.history import StudyRecord

__all__ = ["ablation_text", "dropped_groups", "line_worths", "parted_lines", "path_points", "undecided_text"]

_MANY = 3
"""Settings that were not measured for one reason, from which on one sentence names them all."""


def line_worths(verdict: Verdict) -> tuple[LineWorth, ...]:
    """Of each setting of the winner, the most valuable first; none where the study did not ask."""
    lines = [_line(name, row) for name, row in verdict.worth.items()]
    if all(line.verdict == "not_measured" and not line.reason for line in lines):
        return ()
    return tuple(sorted(lines, key=lambda line: (-_best(line), line.knob)))


def parted_lines(lines: Sequence[LineWorth]) -> tuple[tuple[LineWorth, ...], tuple[tuple[str, tuple[str, ...]], ...]]:
    """The lines to show one by one, and (reason, knobs) of the many that were not measured for one reason."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        if line.verdict == "not_measured" and line.without is None and line.alone is None and line.reason:
            groups.setdefault(line.reason, []).append(line.knob)
    many = {reason: tuple(knobs) for reason, knobs in groups.items() if len(knobs) >= _MANY}
    named = {knob for knobs in many.values() for knob in knobs}
    return tuple(line for line in lines if line.knob not in named), tuple(many.items())


def _line(name: str, row: KnobWorth) -> LineWorth:
    return LineWorth(
        knob=clean(name),
        verdict=first_line(row.verdict),
        without=Gain.of(row.without),
        without_pairs=row.without_pairs,
        beside=row.beside,
        alone=Gain.of(row.alone),
        alone_pairs=row.alone_pairs,
        reason=first_line(row.reason),
    )


def _best(line: LineWorth) -> float:
    return max((gain.estimate for gain in (line.without, line.alone) if gain is not None), default=0.0)


def dropped_groups(verdict: Verdict) -> tuple[tuple[str, str], ...]:
    """(knobs, why they were left out of the winner), knobs of one reason together."""
    groups: dict[str, list[str]] = {}
    for row in verdict.dropped:
        groups.setdefault(first_line(row.reason), []).append(clean(row.knob))
    return tuple((", ".join(knobs), reason) for reason, knobs in groups.items())


def ablation_text(verdict: Verdict) -> str:
    """How the settings were chosen, in a sentence or two; "" for studies that did not ask."""
    about = verdict.ablation
    if about is None:
        return ""
    refused = "".join(f" Another config was tried: {first_line(one)}." for one in verdict.refused)
    if about.end == "off":
        return f"The winner was not ablated: settings that bring nothing may be among these.{refused}"
    n_full, n_left = len(about.full), len(verdict.config)
    text = f"The search's winner changed {counted(n_full, 'setting')}"
    if about.runs and n_left == n_full:
        text += f"; {counted(about.runs, 'run')} in pairs reset none of them."
    elif about.runs:
        text += f"; {counted(about.runs, 'run')} in pairs left {n_left}."
        text += f" Settings worth less than {percent_text(about.tolerance)} were reset."
        if any(row.verdict == "not_told_apart" for row in verdict.dropped):
            text += " So were those for which the pairs showed no worth."
    else:
        text += "." if n_left == n_full else f"; {n_left} {'is' if n_left == 1 else 'are'} left."
    if about.end == "budget" and not _all_tried(verdict):
        text += " The budget ended before all were tried: some of these may bring nothing."
    if about.end == "failed":
        text += " It ended early, because the winner itself could not be measured any more."
    if about.went_back:
        text += f" {first_line(about.went_back)}."
    return f"{text}{refused}"


def _all_tried(verdict: Verdict) -> bool:
    """Whether each setting that is left was compared with a config without it; a single one is, by the pairs of the winner."""
    worth = verdict.worth
    return len(verdict.config) == 1 or all(
        name in worth and (worth[name].without is not None or worth[name].verdict == "needed")
        for name in verdict.config
    )


def undecided_text(verdict: Verdict) -> str:
    """Why settings of the winner that are neither proven nor shown to be needless are in it; "" when there are none."""
    names = [clean(name) for name, row in sorted(verdict.worth.items()) if row.verdict == "undecided"]
    if not names:
        return ""
    stays, them = ("stays", "it") if len(names) == 1 else ("stay", "them")
    return f"Undecided, but {stays}, because the gain was proven with {them} in place: {', '.join(names)}."


def path_points(study: StudyRecord, trials: Sequence[Trial]) -> tuple[PathPoint, ...]:
    """The best measured config with 0, 1, 2, ... of the settings that the search's winner changed.

    The loss of a trial is against the baseline of its time, so trials of different moments are comparable; the printed
    winner stands with the gain of its proof, and no other config of as many settings beside it.
    """
    if study.verdict.ablation is None:
        return ()
    full = study.verdict.ablation.full
    by_config: dict[Config, list[Trial]] = {}
    for trial in trials:
        changed = trial.config.difference(study.baseline)
        if (
            _counts(trial)
            and changed
            and (
                all(name in full and trial.config.get(name) == full[name] for name in changed)
                or _is_winner(study, trial.config)
            )
        ):
            by_config.setdefault(trial.config, []).append(trial)
    points = [_point(study, config, group) for config, group in by_config.items()]
    best: dict[int, PathPoint] = {}
    for point in points:
        if point.n_knobs not in best or _is_preferred(point, best[point.n_knobs]):
            best[point.n_knobs] = point
    if not best:
        return ()
    return (PathPoint(0, (), Gain(1.0, 1.0, 1.0), 0), *(best[n] for n in sorted(best)))


def _is_winner(study: StudyRecord, config: Config) -> bool:
    """Whether it is the printed config, whose values need not be those of the search's winner: some may have given way."""
    changed = config.difference(study.baseline)
    return {name: config.get(name) for name in changed} == dict(study.verdict.config)


def _counts(trial: Trial) -> bool:
    return trial.status is Status.OK and trial.is_feasible


def _point(study: StudyRecord, config: Config, trials: Sequence[Trial]) -> PathPoint:
    changed = config.difference(study.baseline)
    knobs = tuple(clean(name) for name in changed)
    gain = Gain.of(study.verdict.gain)
    if gain is not None and _is_winner(study, config):
        return PathPoint(len(changed), knobs, gain, len(trials), is_winner=True)
    losses = [trial.loss for trial in trials if trial.loss is not None]
    errors = [trial.loss_se if trial.loss_se is not None else math.nan for trial in trials]
    mean, se = sum(losses) / len(losses), math.sqrt(sum(error**2 for error in errors)) / len(errors)
    return PathPoint(len(changed), knobs, Gain.of_loss(mean, se), len(trials))


def _is_preferred(point: PathPoint, other: PathPoint) -> bool:
    """The winner, then what was measured more often: the best of many single runs would be luck."""
    if point.is_winner or other.is_winner:
        return point.is_winner
    if (point.n_runs > 1) != (other.n_runs > 1):
        return point.n_runs > 1
    return point.gain.estimate > other.gain.estimate
