"""Ablation of the winner: changed knobs go back to their old values, in groups, then singly, until only those with an
effect remain, so that the user gets few settings and not ninety (DESIGN law 2, peers.md §4 point 3).

Every removal is a duel in alternating pairs: the config as it is now against the one without the group. A group goes

- when the interval shows that it is not worth more than the tolerance ("needless"), or
- when all pairs it may have are used, they do not show a worth, the estimate lies within the tolerance, and the gain that is left
  is as sure ("not told apart": the simpler config is preferred);

it stays (a group is halved, and its halves are tried after what is larger) when its worth is proven, when the config fails
without it, or when it seems worth more than the tolerance and pairs could not settle it ("undecided"). What the budget did not
reach stays as well. The groups are tried from the weakest on (see `weakest`). All removals together, with those before the
ablation (see `refine`), may seem to cost at most twice the tolerance, and at most a quarter of the gain: on a noisy machine the
tolerance is wide, and what is left is to be proven.

Where the old values of a group do not fit beside the rest (two caches, one budget of memory), the other settings give way,
as little as makes the config legal; the duel is against that config.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from trimtab.errors import SpaceError
from trimtab.flow.ask import Steps
from trimtab.flow.losses import mean_loss
from trimtab.flow.pairs import MAX_DUEL_PAIRS, Duel, Purse, fight, new_duel
from trimtab.flow.reserve import is_as_sure
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.flow.weakest import behind_larger, groups_to_try
from trimtab.measure import Interval
from trimtab.space import Config
from trimtab.units import counted, format_percent

__all__ = [
    "Ablation",
    "Dropped",
    "ablate",
    "drop_line",
    "most_given_up",
    "start_ablation",
    "without_lines",
]

_MIN_PAIRS = 2
"""Fewer pairs drop nothing, unless the interval itself shows that the group is needless."""

_LEAN_DROP, _LEAN_HALVE = 1.5, 1.0
"""Standard errors by which an estimate must lie below (above) the tolerance to spare further pairs."""

_GIVEN_UP = 1 / 4
"""Of the gain (log-ratio), what all removals together may seem to cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """One knob put back to its old value, and what was seen without it.

    Attributes:
        knob: its name.
        reason: a sentence with the figures.
        verdict: "needless" or "not_told_apart", see the module.
        worth: how many times better the config was with the whole group.
        group: all knobs that went back together.
        n_pairs: pairs behind `worth`.
    """

    knob: str
    reason: str
    verdict: str
    worth: Interval
    group: tuple[str, ...]
    n_pairs: int


@dataclass(slots=True, kw_only=True)
class Ablation:
    """What the ablation came to, filled in step by step.

    Attributes:
        full: the winner before it.
        current: the winner without what was dropped.
        tolerance: worth (relative) that is not worth a setting.
        most: what all removals together may seem to cost (log-ratio, 0 or more).
        dropped: knobs put back.
        kept: knob -> why it stays: "proven", "undecided", "needed" (the config fails without it), "not_measured".
        reasons: knob -> a sentence with the figures.
        duels: all, in order.
        end: why it ended: "finished", "budget", "off", "failed" (the winner itself could not be measured).
        n_runs: runs that it took.
        went_back: why the larger config was taken after all, "" when it was not.
    """

    full: Config
    current: Config
    tolerance: float
    most: float = math.inf
    dropped: list[Dropped] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    duels: list[Duel] = field(default_factory=list)
    end: str = "off"
    n_runs: int = 0
    went_back: str = ""

    @property
    def cost(self) -> float:
        """Log of what all removals together seem to have cost; less than 0: they brought something."""
        groups = {drop.group: drop.worth.estimate for drop in self.dropped}
        return sum(math.log(worth) for worth in groups.values())

    @property
    def room(self) -> float:
        """What the next removal may seem to cost (log-ratio)."""
        return min(math.log1p(self.tolerance), self.most - self.cost)

    def take_back(self, reason: str) -> None:
        """Makes the full winner the result again."""
        for drop in self.dropped:
            self.kept[drop.knob] = "not_measured"
            self.reasons[drop.knob] = f"taken back after it had been dropped ({drop.reason})"
        self.dropped, self.current, self.went_back = [], self.full, reason


def most_given_up(task: Task, tolerance: float, loss: float) -> float:
    """What all removals from a config together may seem to cost (log-ratio).

    Args:
        task: what it may always cost is the least gain that is claimed.
        tolerance: worth (relative) that is not worth a setting.
        loss: mean loss of the config; infinite when it was not measured.
    """
    by_noise = 2 * math.log1p(tolerance)
    if math.isinf(loss):
        return by_noise
    return min(by_noise, max(math.log1p(task.proof.min_gain), _GIVEN_UP * -min(loss, 0.0)))


def start_ablation(task: Task, scorer: Scorer, winner: Config, lost: float = 0.0) -> Ablation:
    """An ablation at its beginning; what `winner` has `lost` already of the gain of a larger config counts as given up."""
    tolerance = max(task.proof.min_gain, scorer.noise_sd)
    most = most_given_up(task, tolerance, mean_loss(scorer.trials, winner) - lost) - lost
    return Ablation(full=winner, current=winner, tolerance=tolerance, most=max(most, 0.0))


def ablate(task: Task, scorer: Scorer, ablation: Ablation, purse: Purse) -> Steps[None]:
    """Takes from the winner what it does not need; `ablation.current` is what is left."""
    groups = groups_to_try(task, scorer.trials, ablation.full, ablation.tolerance)
    n_before = len(scorer.trials)
    ablation.end = "finished"
    while groups:
        group = [name for name in groups.pop(0) if ablation.current[name] != task.baseline[name]]
        if not group:
            continue
        # With fewer than two pairs a duel would tell nothing.
        if not (purse.n_runs >= 2 * _MIN_PAIRS and scorer.may_go_on):
            ablation.end = "budget"
            _keep(ablation, group, "not_measured", "the budget of the ablation was used up before")
            continue
        is_settled = yield from _try_without(task, scorer, ablation, group, purse, n_groups=len(groups) + 1)
        if ablation.end == "failed":
            break
        if not is_settled:
            half = len(group) // 2
            groups = behind_larger(groups, (group[:half], group[half:]))
    yield from _settle_undecided(task, scorer, ablation, purse)
    ablation.n_runs = len(scorer.trials) - n_before


def _settle_undecided(task: Task, scorer: Scorer, ablation: Ablation, purse: Purse) -> Steps[None]:
    """What pairs are left go to the lines that a fair share could not settle; their duels go on where they can."""
    open_ones = [name for name, verdict in ablation.kept.items() if verdict == "undecided"]
    for n_left, name in zip(range(len(open_ones), 0, -1), open_ones, strict=True):
        if ablation.end != "failed" and purse.n_runs >= 2 * _MIN_PAIRS and scorer.may_go_on:
            yield from _try_without(task, scorer, ablation, [name], purse, n_groups=n_left)


def _try_without(
    task: Task, scorer: Scorer, ablation: Ablation, group: list[str], purse: Purse, *, n_groups: int
) -> Steps[bool]:
    """One duel; False when the group must be halved."""
    without, reason = without_lines(task, ablation.current, group)
    if without is None:
        return _keep_one(ablation, group, "needed", reason)
    duel = _duel_over(task, scorer, ablation, without)
    n_pairs = max(_MIN_PAIRS, duel.n_pairs + purse.n_runs // (2 * n_groups))
    yield from fight(
        task,
        scorer,
        duel,
        n_pairs=min(MAX_DUEL_PAIRS, task.proof.max_pairs, n_pairs),
        is_decided=lambda duel: _is_decided(ablation, duel, is_group=len(group) > 1),
        may_go_on=lambda: purse.n_runs >= 2,
    )
    return _judge(task, scorer, ablation, duel, group)


def _duel_over(task: Task, scorer: Scorer, ablation: Ablation, without: Config) -> Duel:
    """The duel of the present config against `without`: the one begun before, or a new one."""
    for duel in ablation.duels:
        if duel.reference == ablation.current and duel.challenger == without:
            return duel
    duel = new_duel(task, scorer, ablation.current, without, ablation.duels)
    ablation.duels.append(duel)
    return duel


def without_lines(task: Task, config: Config, group: list[str]) -> tuple[Config | None, str]:
    """`config` with `group` back at the baseline; None with a reason when there is nothing to measure."""
    candidate = task.space.canonical(config.replace({name: task.baseline[name] for name in group}))
    if candidate == task.baseline:
        return None, "without it nothing is left but your config; the proof itself measures it"
    if candidate == config:
        return None, "it has no effect with the other settings, so there is nothing to compare"
    broken = task.space.violations(candidate)
    if not broken:
        return candidate, ""
    fitted = _give_way(task, candidate)
    if fitted in (None, config, task.baseline):
        return None, f"without it the config would break a constraint: {'; '.join(broken)}"
    return fitted, ""


def _give_way(task: Task, config: Config) -> Config | None:
    """`config` with the numbers that still differ from the baseline moved as little as meets the constraints; None: they
    cannot."""
    lines = [name for name in config.difference(task.baseline) if task.space.knobs[name].is_numeric]
    try:
        moved = task.space.subspace(lines, config).repair(Config({name: config[name] for name in lines}))
    except SpaceError:
        return None
    fitted = task.space.canonical(config.replace(moved))
    return fitted if task.space.is_feasible(fitted) else None


def _is_decided(ablation: Ablation, duel: Duel, *, is_group: bool) -> bool:
    """Whether more pairs would be wasted: the interval tells, or the estimate is clear enough for what is no claim."""
    ratio = duel.ratio
    if ratio.high < 1 + ablation.tolerance:
        return True
    if ratio.low > 1:
        # Halving a group claims nothing; the worth of a single knob will be quoted, and one pair is too little for that.
        return is_group or duel.n_pairs >= _MIN_PAIRS
    if not duel.n_pairs or math.isnan(ratio.se):
        return False
    estimate, within = math.log(ratio.estimate), ablation.room
    if estimate + _LEAN_DROP * ratio.se <= within:
        return duel.n_pairs >= _MIN_PAIRS
    return is_group and estimate - _LEAN_HALVE * ratio.se > within


def _judge(task: Task, scorer: Scorer, ablation: Ablation, duel: Duel, group: list[str]) -> bool:
    """Drops or keeps what the duel was about; False when the group must be halved."""
    if duel.is_void:
        ablation.end = "failed"
        _keep(ablation, group, "not_measured", f"the winner itself failed: {duel.failure}")
        return True
    if duel.fault and duel.n_pairs < _MIN_PAIRS:
        verdict, reason = "not_measured", f"a run could not be measured: {duel.fault}"
        return _keep_one(ablation, group, verdict, reason)
    figures = _figures(duel)
    if duel.failure:
        verdict, reason = "needed", f"without it the config fails: {duel.failure}"
    elif duel.ratio.high < 1 + ablation.tolerance:
        return _drop(task, ablation, duel, "needless", figures)
    elif duel.ratio.low > 1:
        verdict, reason = "proven", figures
    elif duel.n_pairs < _MIN_PAIRS:
        verdict, reason = "not_measured", f"the budget of the ablation ended after {duel.n_pairs} of {_MIN_PAIRS} pairs"
    elif math.log(duel.ratio.estimate) <= ablation.room and is_as_sure(task, scorer, duel.challenger, duel.reference):
        return _drop(task, ablation, duel, "not_told_apart", figures)
    else:
        verdict, reason = "undecided", f"{figures}: not proven, and too much to give away"
    return _keep_one(ablation, group, verdict, reason)


def _keep_one(ablation: Ablation, group: list[str], verdict: str, reason: str) -> bool:
    """Keeps a single setting; False when it is a group, which must be halved."""
    if len(group) == 1:
        _keep(ablation, group, verdict, reason)
    return len(group) == 1


def _figures(duel: Duel) -> str:
    if not duel.n_pairs:
        return ""
    ratio = duel.ratio
    interval = (
        f"{format_percent(ratio.level)} interval {format_percent(ratio.low - 1, 1, sign=True)} to "
        f"{format_percent(ratio.high - 1, 1, sign=True)}"
        if math.isfinite(ratio.high)
        else "interval unknown"
    )
    return f"worth {format_percent(ratio.estimate - 1, 1, sign=True)} ({interval}, {counted(duel.n_pairs, 'pair')})"


def drop_line(task: Task, ablation: Ablation, duel: Duel) -> None:
    """Takes what `duel` was about from `ablation.current`, its reference, which the proof has shown to do without."""
    verdict = "needless" if duel.ratio.high < 1 + ablation.tolerance else "not_told_apart"
    _drop(task, ablation, duel, verdict, _figures(duel))


def _drop(task: Task, ablation: Ablation, duel: Duel, verdict: str, figures: str) -> bool:
    changed = duel.challenger.difference(duel.reference)
    removed = [name for name in changed if duel.challenger[name] == task.baseline[name]]
    moved = [
        f"{name} to {task.space.knobs[name].format(duel.challenger[name])}" for name in changed if name not in removed
    ]
    tolerance = format_percent(ablation.tolerance, 1)
    reason = (
        f"{figures}: not more than the tolerance of {tolerance}"
        if verdict == "needless"
        else f"{figures}: not told apart from nothing, and the simpler config is preferred"
    )
    if len(removed) > 1:
        reason = f"all {len(removed)} together {reason}"
    if moved:
        reason = f"{reason}; to make room, {' and '.join(moved)}"
    for knob in removed:
        ablation.kept.pop(knob, None)
        ablation.dropped.append(
            Dropped(knob=knob, reason=reason, verdict=verdict, worth=duel.ratio, group=tuple(removed), n_pairs=duel.n_pairs)
        )  # fmt: skip
    ablation.current = duel.challenger
    return True


def _keep(ablation: Ablation, group: list[str], verdict: str, reason: str) -> None:
    for knob in group:
        ablation.kept[knob], ablation.reasons[knob] = verdict, reason
