"""The plays of a study: what an expert would try is measured first, one play after the other, each on top of what has helped.

This is adaptive one-factor-at-a-time experimentation: a play is tried beside everything that was kept so far, and kept itself
when it is better by more than the noise. With few runs, strong effects and interactions it finds more than a fractional design of
the same size (Frey, Engelhardt & Greitzer, "A role for one-factor-at-a-time experimentation in parameter design", Research in
Engineering Design 14, 2003), and each run separates its play from the rest. Whatever comes of it, the searcher goes on from there
and learns from these runs like from all others; the proof decides what is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from trimtab.errors import SpaceError
from trimtab.flow.ask import Ask, Steps
from trimtab.flow.explore import early_stop
from trimtab.flow.losses import mean_loss
from trimtab.flow.reserve import finish_reserve_s, refine_reserve_s
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.measure import Interval
from trimtab.measure.quantile import t_quantile
from trimtab.records import GainInterval, KnobPrior, Play, PlaysSummary, Prior, Role, Status, Trial, TriedPlay
from trimtab.space import Config, Value
from trimtab.units import format_percent

__all__ = ["PlayPhase", "planned"]

_SHARE = 0.5
"""Of the search's runs that plays may take."""

_KEEP = 1.0
"""Standard errors of a difference of two runs by which a play must be better to be kept."""

_PARTS = (0.9, 0.8, 0.7, 0.6, 0.5)
"""Of a play's step, where the whole would break a constraint: less than half of it is another idea."""

_AS_FAR = " as far as the constraints allow"

_WITHIN = "within_limits"
"""The play that only makes the found settings legal."""

_FEW_RUNS = 45
"""Runs of a wall-clock budget below which the baseline is not measured between plays."""

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
        trial: the run.
        is_kept: whether the next plays were tried on top of it.
        note: why it was not tried whole, "" when it was.
    """

    play: Play
    config: Config
    beside: Config
    held: tuple[str, ...]
    trial: Trial
    is_kept: bool
    note: str = ""


@dataclass(slots=True)
class PlayPhase:
    """What is planned, what was tried, what was left out and why.

    Attributes:
        plan: plays in the order in which they are tried.
        tried: in order.
        left_out: play -> reason.
    """

    plan: tuple[Play, ...] = ()
    tried: list[Tried] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def run(self, task: Task, scorer: Scorer) -> Steps[None]:
        """Measures the plays, as many as their share of the budget allows."""
        held, names = task.baseline, list[str]()
        for play in self.plan:  # of a run that was interrupted
            self.left_out.pop(play.name, None)
        for i, play in enumerate(self.plan):
            if not (scorer.may_go_on and _has_budget(task, scorer, n_tried=len(self.tried))):
                self.left_out.update(
                    dict.fromkeys((p.name for p in self.plan[i:]), "the plays' share of the budget was used")
                )
                return
            play, config, note = self._fitting(task, held, play)
            if config is None:
                self.left_out[play.name] = note
                continue
            if self.tried and len(self.tried) % task.search.baseline_every == 0 and not _is_short(task, scorer):
                yield Ask(config=task.baseline, role=Role.BASELINE)
            scorer.say(f"trying the play {play.name}{_AS_FAR if note else ''}: {play.reason}")
            trial = yield Ask(config=config, role=Role.PLAY, early_stop=early_stop(task, scorer), searcher="plays")
            is_kept = trial.status is Status.OK and (play.name == _WITHIN or _is_better(task, scorer, config, held))
            self.tried.append(
                Tried(play=play, config=config, beside=held, held=tuple(names), trial=trial, is_kept=is_kept, note=note)
            )
            if is_kept:
                held = config
                names.append(play.name)

    def _fitting(self, task: Task, held: Config, play: Play) -> tuple[Play, Config | None, str]:
        """The play as it can be tried, `held` with its settings, and why it is not the whole; None and why when it cannot be.

        A part of a play is tried only where no other play has set one of its knobs: two parts of one step are the same idea.
        """
        config, why = _on_top(task, held, play)
        if config is not None or any(not each.play.settings.keys().isdisjoint(play.settings) for each in self.tried):
            return play, config, why
        for part in _parts(task, held, play):
            config, _ = _on_top(task, held, part)
            if config is not None:
                return part, config, f"a part of the play; the whole: {why}"
        return play, None, why

    def prior(self, task: Task) -> Prior:
        """What the plays lead to expect: values that helped, and the plays for which there was no time."""
        at: dict[str, Value] = {}
        for each in self.tried:
            if each.is_kept:
                at |= each.play.settings
        done = {each.play.name for each in self.tried} | set(self.left_out)
        rest = tuple(
            play for play in self.plan if play.name not in done or "budget" in self.left_out.get(play.name, "")
        )
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
        )


def planned(task: Task, plays: Sequence[Play]) -> PlayPhase:
    """Those that say something about this study's knobs.

    Where the found settings break a constraint, as a Java heap does that is larger than the study's memory budget, nothing can be
    tried on top of them: the nearest legal ones come first then, and the others go on from there.
    """
    plan, left_out = [], dict[str, str]()
    for play in plays:
        outside = [name for name in play.settings if name not in task.space.knobs]
        if outside:
            left_out[play.name] = f"{', '.join(outside)} is not among the study's knobs"
            continue
        settings = {name: _legal(task, name, value) for name, value in play.settings.items()}
        if all(settings[name] == task.baseline[name] for name in settings):
            left_out[play.name] = "your settings have it already"
            continue
        plan.append(Play(name=play.name, settings=settings, worth=play.worth, chance=play.chance, reason=play.reason))
    if task.restarts:
        plan.sort(key=lambda play: -play.worth * play.chance / (1.0 + _restart_runs(task, play)))
    return PlayPhase((*(_within_limits(task) if plan else ()), *plan), left_out=left_out)


def _restart_runs(task: Task, play: Play) -> float:
    """What its slow restarts cost, in runs."""
    return sum(each.runs for each in task.restarts if not each.knobs.isdisjoint(play.settings))


def _within_limits(task: Task) -> Iterator[Play]:
    broken = task.space.violations(task.baseline)
    if broken:
        legal = task.space.repair(task.baseline)
        settings = {name: legal[name] for name in legal.difference(task.baseline)}
        first = broken[0].partition(" (")[0]
        reason = f"Your settings break a constraint of the study ({first}): the nearest that keep it."
        yield Play(name=_WITHIN, settings=settings, reason=reason)


def _legal(task: Task, name: str, value: Value) -> Value:
    """The value of the study's own knob that is nearest: its range and its round values may be others than the target's."""
    knob = task.space.knobs[name]
    if not knob.is_numeric or isinstance(value, str | bool) or knob.contains(value) or value == task.baseline[name]:
        return value
    return knob.clip(value)


def _on_top(task: Task, held: Config, play: Play) -> tuple[Config | None, str]:
    """`held` with the play's settings; None and why when there is nothing to run."""
    try:
        config = task.space.canonical(held.replace(dict(play.settings)))
        broken = task.space.violations(config)
    except SpaceError as error:
        return None, f"its settings are not legal here: {error.message}"
    if broken:
        return None, f"it contradicts a constraint: {broken[0]}"
    if config in (held, task.baseline):
        return None, "the plays kept before have it already"
    return config, ""


def _parts(task: Task, held: Config, play: Play) -> Iterator[Play]:
    """The play with smaller steps, the largest first, down to half of it.

    Only of plays that set numbers: half a label means nothing. A step that meets a special value, such as -1 for "automatic",
    is left out, for it lies on no way between numbers.
    """
    if not all(task.space.knobs[name].is_numeric for name in play.settings):
        return
    try:
        config = task.space.canonical(held.replace(dict(play.settings)))
    except SpaceError:
        return
    start, goal = task.space.encode(held), task.space.encode(config)
    for share in _PARTS:
        nearer = task.space.decode(start + share * (goal - start))
        settings = {name: nearer[name] for name in play.settings}
        ways = (sorted((float(held[name]), float(play.settings[name]))) for name in settings)
        if all(low <= float(value) <= high for (low, high), value in zip(ways, settings.values(), strict=True)):
            yield replace(play, settings=settings)


def _has_budget(task: Task, scorer: Scorer, *, n_tried: int) -> bool:
    budget, cost = task.budget, scorer.mean_cost_s
    if budget.trials is not None:
        return n_tried + 1 <= _SHARE * budget.trials
    seconds = budget.seconds or 0.0
    kept = finish_reserve_s(task, scorer) + refine_reserve_s(task, scorer)
    spent = sum(sum(t.cost_s.values()) for t in scorer.trials if t.role is Role.PLAY)
    return spent + cost <= _SHARE * (seconds - kept - (scorer.spent_s - spent))


def _is_short(task: Task, scorer: Scorer) -> bool:
    """Whether the budget is too short for another run of the baseline: it would be one less for taking settings away."""
    seconds = task.budget.seconds
    return seconds is not None and seconds < _FEW_RUNS * scorer.mean_cost_s


def _is_better(task: Task, scorer: Scorer, config: Config, held: Config) -> bool:
    gain = _loss(task, scorer.trials, held) - mean_loss(scorer.trials, config)
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
    worth = _worth(task, scorer, tried)
    trial = tried.trial
    return TriedPlay(
        play=tried.play.name,
        reason=tried.play.reason,
        settings={name: task.space.knobs[name].format(value) for name, value in tried.play.settings.items()},
        beside=tried.held,
        trial=trial.number,
        kept=tried.is_kept,
        verdict=_verdict(trial, worth),
        worth=GainInterval.of(worth),
        note=_note(trial) or tried.note,
    )


def _worth(task: Task, scorer: Scorer, tried: Tried) -> Interval | None:
    """How many times better the config was with the play than without; None when it gave no value.

    Only runs until the end of the plays count: what is compared was measured within minutes, while the machine was the same.
    """
    last = max((i for i, t in enumerate(scorer.trials) if t.role is Role.PLAY), default=-1)
    trials = scorer.trials[: last + 1]
    runs = [t for t in trials if t.config == tried.config and t.is_feasible and t.loss is not None]
    if not runs:
        return None
    whole = [t for t in runs if t.status is Status.OK] or runs
    mean = sum(t.loss or 0.0 for t in whole) / len(whole)
    n_beside = sum(t.config == tried.beside and t.status is Status.OK and t.is_feasible for t in trials)
    gain = _loss(task, trials, tried.beside) - mean
    sd, df = scorer.noise_sd, max(1.0, scorer.track.summary().noise_df)
    se = sd * math.sqrt(1 / len(whole) + 1 / max(1, n_beside))
    half = t_quantile(0.975, df) * se
    return Interval(math.exp(gain), math.exp(gain - half), math.exp(gain + half), 0.95, se, len(whole))


def _verdict(trial: Trial, worth: Interval | None) -> str:
    """ "helps", "harms" or "not_told_apart"; "failed" when the config did not work."""
    if worth is None:
        return "failed"
    if worth.low > 1:
        return "helps"
    return "harms" if worth.high < 1 else "not_told_apart"


def _note(trial: Trial) -> str:
    if trial.status is Status.OK:
        return ""
    if trial.status is Status.STOPPED_EARLY:
        return f"ended early: clearly worse by more than {format_percent(0.1)} than the best so far"
    return f"{trial.status}: {trial.reason.partition(chr(10))[0]}"
