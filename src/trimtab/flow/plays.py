"""The plays of a study: what an expert would try is measured first, one play after the other, each on top of what has helped.

This is adaptive one-factor-at-a-time experimentation: a play is tried beside everything that was kept so far, and kept itself
when it is better by more than the noise. With few runs, strong effects and interactions it finds more than a fractional design of
the same size (Frey, Engelhardt & Greitzer, "A role for one-factor-at-a-time experimentation in parameter design", Research in
Engineering Design 14, 2003), and each run separates its play from the rest. Where the noise of one run hides what a play
brings, several are tried in each run instead (`trimtab.flow.bundles`). Whatever comes of it, the searcher goes on from there and
learns from these runs like from all others; the proof decides what is claimed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from trimtab.flow.ask import Ask, Steps
from trimtab.flow.baseline import N_BASELINE_FIRST
from trimtab.flow.bundles import Bundles
from trimtab.flow.explore import early_stop
from trimtab.flow.losses import burden, mean_loss
from trimtab.flow.play_fit import fitting, plan_of
from trimtab.flow.reserve import after_search_s
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.measure import Interval, exp_interval
from trimtab.measure.quantile import t_quantile
from trimtab.records import (
    WITHIN_LIMITS,
    GainInterval,
    KnobPrior,
    Play,
    PlaysSummary,
    Prior,
    Role,
    Status,
    Trial,
    TriedPlay,
)
from trimtab.space import Config, Value
from trimtab.units import format_percent

__all__ = ["PlayPhase", "planned"]

_SHARE = 0.5
"""Of the search's runs that plays may take."""

_KEEP = 1.0
"""Standard errors of a difference of two runs by which a play must be better to be kept."""

_AS_FAR = " as far as the constraints allow"

_NO_BUDGET = "the plays' share of the budget was used"
_NO_MORE_LOSS = "the regression budget is spent"

_IN_NONE = "it was in none of the runs"

_HIDDEN = 0.01
"""Noise above which one run says too little of one play. Three runs of the baseline may show a third of what there is."""

_FEWEST, _FEWEST_LEFT = 8, 5
"""Runs that the plays' share must have for several in each run, and of these for the plays that are not tried one by one."""

_MANY = 16
"""Runs from which on no play is tried by itself where noise hides one."""

_LARGE, _CLEAR = 0.2, 2.0
"""What a play promises that is tried by itself with fewer: so much at least (a log-ratio), and so many times the noise. A large
effect is found sooner so."""

_TOGETHER = (
    "runs vary by {noise}: several plays are tried in each run, and told apart by what their runs have in common"
)

_FEW_RUNS = 45
"""Runs of a wall-clock budget below which the baseline is not measured between plays."""

_SURPRISE = 0.25
"""Gain of a play, a log-ratio, from which on another run of the baseline may have to confirm it."""

_WIDTH = 0.2
"""Of the prior around the value that a kept play has set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One play and its run.

    Attributes:
        play: as planned.
        config: what ran.
        beside: what it was compared with: the found settings and the plays kept before.
        held: names of those plays.
        trial: the run, the first of several.
        is_kept: whether the next plays were tried on top of it; of one that was tried with others, whether it seems to help.
        note: why it was not tried whole, or in how many runs it was.
        among: of a play that was tried with others: all runs of these.
    """

    play: Play
    config: Config
    beside: Config
    held: tuple[str, ...]
    trial: Trial
    is_kept: bool
    note: str = ""
    among: Bundles | None = None

    def effect(self, scorer: Scorer) -> Interval | None:
        """How many times better a config is with the play, as its runs with others say; None where there are none."""
        return None if self.among is None else self.among.worth(self.play.name, scorer)


@dataclass(slots=True)
class PlayPhase:
    """What is planned, what was tried, what was left out and why.

    Attributes:
        plan: plays in the order in which they are tried.
        tried: in order.
        left_out: play -> reason.
        together: names of the plays of which several are tried in each run; empty: each by itself.
        untried: those of `left_out` for which there was no run.
        are_together: whether several were in each run.
        n_recorded: runs that a study which is resumed has made already.
    """

    plan: tuple[Play, ...] = ()
    tried: list[Tried] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    together: tuple[str, ...] = ()
    untried: set[str] = field(default_factory=set)
    are_together: bool = False
    n_recorded: int = 0

    def run(self, task: Task, scorer: Scorer) -> Steps[None]:
        """Measures the plays, as many as their share of the budget of `task`, and of the study's own, allows."""
        for play in self.plan:  # of a run that was interrupted
            self.left_out.pop(play.name, None)
        held, rest = task.baseline, list(self.plan)
        if self.together:
            while rest[0].name not in self.together and self._has_budget(task, scorer):
                held = yield from self._alone(task, scorer, rest.pop(0), held)
            bundles, notes = self._bundles(task, held, rest)
            if bundles.are_several:
                self.untried.update(play.name for play in rest if play.name not in (*self.together, *self.left_out))
                self.left_out.update(dict.fromkeys(self.untried, _NO_BUDGET))
                yield from self._together(task, scorer, bundles, notes)
                return
        yield from self._one_by_one(task, scorer, rest, held)

    def _one_by_one(self, task: Task, scorer: Scorer, plays: Sequence[Play], held: Config) -> Steps[None]:
        for i, play in enumerate(plays):
            if not self._has_budget(task, scorer):
                self.untried.update(p.name for p in plays[i:])
                why = _NO_BUDGET if scorer.may_try_new else _NO_MORE_LOSS
                self.left_out.update(dict.fromkeys((p.name for p in plays[i:]), why))
                return
            held = yield from self._alone(task, scorer, play, held)

    def _alone(self, task: Task, scorer: Scorer, play: Play, held: Config) -> Steps[Config]:
        """One play on top of `held`; what the next ones are tried on top of."""
        # Two parts of one step are the same idea.
        is_first = all(each.play.settings.keys().isdisjoint(play.settings) for each in self.tried)
        play, config, note = fitting(task, held, play, in_part=is_first)
        self.left_out.pop(play.name, None)
        if config is None:
            self.left_out[play.name] = note
            return held
        same = next((each.play.name for each in self.tried if each.config == config), None)
        if same is not None:
            self.left_out[play.name] = f"it sets here what the play {same} sets"
            return held
        yield from self._baseline(task, scorer)
        scorer.say(f"trying the play {play.name}{_AS_FAR if note else ''}: {play.reason}")
        ask = Ask(config=config, role=Role.PLAY, early_stop=early_stop(task, scorer), searcher="plays")
        trial = yield ask
        if trial.status is Status.INFRASTRUCTURE:
            trial = yield ask
        if trial.status is Status.INFRASTRUCTURE:
            # That says nothing of the play: the search may try it later.
            self.untried.add(play.name)
            self.left_out[play.name] = f"it could not be measured: {trial.reason.partition(chr(10))[0]}"
            return held
        is_kept = trial.status is Status.OK and (play.name == WITHIN_LIMITS or _is_better(task, scorer, config, held))
        names = tuple(each.play.name for each in self.tried if each.is_kept)
        self.tried.append(
            Tried(play=play, config=config, beside=held, held=names, trial=trial, is_kept=is_kept, note=note)
        )
        return config if is_kept else held

    def _bundles(self, task: Task, start: Config, plays: Sequence[Play]) -> tuple[Bundles, dict[str, str]]:
        """The plays that can be tried together on top of `start`, and why some are not whole."""
        fits, notes = dict[Config, Play](), dict[str, str]()
        for play in plays:
            if play.name not in self.together:
                continue
            # Two parts of one step are the same idea, and so are two plays of the same settings.
            is_first = all(each.settings.keys().isdisjoint(play.settings) for each in fits.values())
            fit, config, note = fitting(task, start, play, in_part=is_first)
            if config is None:
                self.left_out[play.name] = note
            elif config in fits:
                self.left_out[play.name] = f"it sets here what the play {fits[config].name} sets"
            else:
                fits[config], notes[fit.name] = fit, note
        return Bundles(plays=tuple(fits.values()), start=start), notes

    def _together(self, task: Task, scorer: Scorer, bundles: Bundles, notes: Mapping[str, str]) -> Steps[None]:
        """Several plays in each run."""
        self.are_together = True
        scorer.say(_TOGETHER.format(noise=format_percent(scorer.noise_sd)))
        try:
            yield from bundles.run(
                task, scorer, lambda: self._has_budget(task, scorer, len(bundles.made)),
                lambda: self._baseline(task, scorer, len(bundles.made)),
            )  # fmt: skip
        finally:
            self._learn(scorer, bundles, notes)

    def _learn(self, scorer: Scorer, bundles: Bundles, notes: Mapping[str, str]) -> None:
        """What the bundles that were made say of each play."""
        held = tuple(each.play.name for each in self.tried if each.is_kept)
        for play in bundles.plays:
            runs = bundles.runs_of(play.name, scorer)
            if not runs:
                self.untried.add(play.name)
                self.left_out[play.name] = _IN_NONE
                continue
            of_runs = f"in {len(runs)} of {len(bundles.made)} runs"
            self.tried.append(
                Tried(
                    play=play, config=runs[0].config, beside=bundles.start, held=held, trial=runs[0],
                    is_kept=play.name in bundles.kept, note="; ".join(filter(None, (of_runs, notes[play.name]))),
                    among=bundles,
                )
            )  # fmt: skip

    def _has_budget(self, task: Task, scorer: Scorer, n_more: int = 0) -> bool:
        if scorer.enough or not scorer.may_try_new:
            return False
        n_tried = len(self.tried) + n_more
        # What is on record costs nothing any more, whatever the budget is now.
        has_room = scorer.may_go_on and _share_has_room(scorer.task, scorer, n_tried=n_tried)
        return (n_tried < self.n_recorded or has_room) and _share_has_room(task, scorer, n_tried=n_tried)

    def _baseline(self, task: Task, scorer: Scorer, n_more: int = 0) -> Steps[None]:
        """Once more, when it is due, or the machine may be getting warm."""
        n_tried = len(self.tried) + n_more
        is_due = n_tried > 0 and n_tried % task.search.baseline_every == 0 and not _is_short(task, scorer)
        if is_due or _may_be_warming(scorer):
            yield Ask(config=task.baseline, role=Role.BASELINE)

    def prior(self, task: Task, scorer: Scorer | None = None) -> Prior:
        """What the plays lead to expect: values that helped, and the plays for which there was no time. By what `scorer` knows by
        now some did not: the machine may have become faster by itself."""
        at: dict[str, Value] = {}
        for each in self.tried:
            if each.is_kept and (scorer is None or _seems_to_help(task, scorer, each)):
                at |= each.play.settings
        done = {each.play.name for each in self.tried} | set(self.left_out)
        rest = tuple(play for play in self.plan if play.name in self.untried or play.name not in done)
        knobs = {
            name: KnobPrior(at=value, width=_WIDTH) for name, value in at.items() if task.space.knobs[name].is_numeric
        }
        return Prior(plays=rest, knobs=knobs)

    def summary(self, task: Task, scorer: Scorer) -> PlaysSummary:
        """For the verdict: the plan, what each play brought, and what was left out."""
        return PlaysSummary(
            plan=self.plan,
            tried=tuple(_row(task, scorer, each) for each in self.tried),
            left_out=dict(self.left_out),
            together=self.together,
            are_together=self.are_together,
        )


def planned(task: Task, plays: Sequence[Play], scorer: Scorer) -> PlayPhase:
    """The plays that say something about this study's knobs, after the first runs of the baseline."""
    plan, left_out = plan_of(task, plays, _counted(scorer.trials))
    plan, together = _ordered(task, scorer, plan)
    return PlayPhase(plan, left_out=left_out, together=together)


def _counted(trials: Sequence[Trial]) -> dict[str, float]:
    """By how much each counter of the target grew in all runs of the found settings together; without those that were reset."""
    grown = defaultdict[str, list[float]](list)
    for trial in trials:
        if trial.role is Role.BASELINE and trial.status is Status.OK:
            for name in trial.counters_before.keys() & trial.counters_after.keys():
                grown[name].append(trial.counters_after[name] - trial.counters_before[name])
    return {name: sum(values) for name, values in grown.items() if min(values) >= 0}


def _ordered(task: Task, scorer: Scorer, plan: tuple[Play, ...]) -> tuple[tuple[Play, ...], tuple[str, ...]]:
    """The plan with those first that are tried one by one, and names of those of which several are tried in each run.

    The latter where the noise of one run hides what a play may bring, and there are runs to separate them: as many plays as runs.
    With few runs a play that promises more than that is not among them. A search that is to be prudent changes less at once.
    """
    n_runs = math.floor(_affordable_runs(task, scorer))
    if task.is_prudent or n_runs < _FEWEST or scorer.noise_sd <= _HIDDEN:
        return plan, ()
    least = math.inf if n_runs >= _MANY else max(_LARGE, _CLEAR * scorer.noise_sd)
    alone = [play for play in plan if play.name == WITHIN_LIMITS or play.worth >= least]
    hidden = [play for play in plan if play not in alone]
    n_left = n_runs - sum(play.name != WITHIN_LIMITS for play in alone)
    if n_left < _FEWEST_LEFT:
        return plan, ()
    return (*alone, *hidden), tuple(play.name for play in hidden[:n_left])


def _affordable_runs(task: Task, scorer: Scorer) -> float:
    """How many runs the plays' share of the budget has."""
    budget, cost = task.budget, scorer.mean_cost_s
    if budget.trials is not None:
        return _SHARE * budget.trials
    left_s = (budget.seconds or 0.0) - after_search_s(task, scorer) - scorer.spent_s
    return _SHARE * max(0.0, left_s) / max(cost, 1e-9)


def _share_has_room(task: Task, scorer: Scorer, *, n_tried: int) -> bool:
    """Whether the plays' share of the budget has room for one more run."""
    budget, cost = task.budget, scorer.mean_cost_s
    if budget.trials is not None:
        return n_tried + 1 <= _SHARE * budget.trials
    spent_s = sum(sum(t.cost_s.values()) for t in scorer.trials if t.role is Role.PLAY)
    left_s = (budget.seconds or 0.0) - after_search_s(task, scorer) - (scorer.spent_s - spent_s)
    return spent_s + cost <= _SHARE * left_s


def _is_short(task: Task, scorer: Scorer) -> bool:
    """Whether the budget is too short for another run of the baseline: it would be one less for taking settings away."""
    seconds = task.budget.seconds
    return seconds is not None and seconds < _FEW_RUNS * scorer.mean_cost_s


def _may_be_warming(scorer: Scorer) -> bool:
    """Whether the first runs of the baseline, the only ones yet, became better from one to the next, and a play then was so much
    better that the machine may have become faster by itself."""
    first = [trial for trial in scorer.trials if trial.role is Role.BASELINE]
    if len(first) > N_BASELINE_FIRST:
        return False
    values = [scorer.value_of(trial) for trial in first]
    steps = [scorer.task.objective.loss(later, earlier) for earlier, later in pairwise(values)]
    losses = [t.loss or 0.0 for t in scorer.trials if t.role is Role.PLAY and t.status is Status.OK]
    is_surprising = min(losses, default=0.0) < -max(_SURPRISE, 2 * scorer.noise_sd)
    return is_surprising and max(steps, default=0.0) < 0


def _is_better(task: Task, scorer: Scorer, config: Config, held: Config) -> bool:
    gain = _loss(task, scorer.trials, held) - mean_loss(scorer.trials, config)
    if scorer.par == math.inf:  # the baseline misses a constraint: a step towards it helps
        gain = burden(scorer.trials, held) - burden(scorer.trials, config)
    se = math.hypot(_run_se(scorer, config), 0.0 if held == task.baseline else _run_se(scorer, held))
    return gain > max(task.proof.min_gain, _KEEP * se)


def _run_se(scorer: Scorer, config: Config) -> float:
    """Standard error of the mean loss of `config`: by the machine's noise, or by its runs' own where that is more."""
    runs = [t for t in scorer.trials if t.config == config and t.status is Status.OK]
    own = max((t.loss_se for t in runs if t.loss_se is not None and math.isfinite(t.loss_se)), default=0.0)
    return max(scorer.noise_sd, own) / math.sqrt(max(1, len(runs)))


def _loss(task: Task, trials: Sequence[Trial], config: Config) -> float:
    """Of what a play is compared with; the baseline's is 0 by definition."""
    return 0.0 if config == task.baseline else mean_loss(trials, config)


def _row(task: Task, scorer: Scorer, tried: Tried) -> TriedPlay:
    """What the report shows of a play."""
    effect, trial = tried.effect(scorer), tried.trial
    worth = effect or _worth(task, scorer, tried)
    return TriedPlay(
        play=tried.play.name,
        reason=tried.play.reason,
        settings={name: task.space.knobs[name].format(value) for name, value in tried.play.settings.items()},
        beside=tried.held,
        trial=trial.number,
        kept=tried.is_kept,
        verdict=_verdict(worth),
        worth=GainInterval.of(worth),
        note=(_note(trial) if effect is None else "") or tried.note,
    )


def _worth(task: Task, scorer: Scorer, tried: Tried) -> Interval | None:
    """How many times better the config was with the play than without; None when it gave no value.

    A value that misses a constraint counts only where the baseline misses one, too. Only runs until the end of the plays count:
    what is compared was measured within minutes, while the machine was the same.
    """
    last = max((i for i, t in enumerate(scorer.trials) if t.role is Role.PLAY), default=-1)
    trials = scorer.trials[: last + 1]
    seen = [
        t for t in trials if t.loss is not None and (t.is_feasible or (t.status.is_measured and scorer.par == math.inf))
    ]
    runs = [t for t in seen if t.config == tried.config]
    beside = [t.loss or 0.0 for t in seen if t.config == tried.beside and t.status is Status.OK]
    if not runs or not (beside or tried.beside == task.baseline):
        return None
    whole = [t for t in runs if t.status is Status.OK] or runs
    mean, n_beside = sum(t.loss or 0.0 for t in whole) / len(whole), len(beside)
    gain = (0.0 if tried.beside == task.baseline else sum(beside) / n_beside) - mean
    sd, df = scorer.noise_sd, max(1.0, scorer.track.summary().noise_df)
    se = sd * math.sqrt(1 / len(whole) + 1 / max(1, n_beside))
    half = t_quantile(0.975, df) * se
    return exp_interval(Interval(gain, gain - half, gain + half, 0.95, se, len(whole)))


def _seems_to_help(task: Task, scorer: Scorer, tried: Tried) -> bool:
    """Of one that was kept; a step towards a constraint that the baseline misses helps whatever its speed."""
    if scorer.par == math.inf or tried.play.name == WITHIN_LIMITS:
        return True
    if tried.among is not None:
        return tried.among.seems_to_help(tried.play.name, scorer)
    return _is_better(task, scorer, tried.config, tried.beside)


def _verdict(worth: Interval | None) -> str:
    """ "helps", "harms" or "not_told_apart"; "failed" when the config did not work."""
    if worth is None:
        return "failed"
    if worth.low > 1:
        return "helps"
    return "harms" if worth.high < 1 else "not_told_apart"


def _note(trial: Trial) -> str:
    if trial.status is Status.OK:
        return "a constraint of the objective was missed" if trial.excess > 0 else ""
    what = "ended early" if trial.status is Status.STOPPED_EARLY else trial.status
    return f"{what}: {trial.reason.partition(chr(10))[0]}"
