"""What each line of a proven config is worth: without it (the others in place), alone (the others at their old values), and
the config by its first lines, the strongest first. Measured in pairs: "without" in the blocks of the proof where the budget
allows, the rest with what it has left after the proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab.flow.ablate import Ablation
from trimtab.flow.ask import Steps
from trimtab.flow.pairs import Duel, Purse, fight_block, new_duel
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.measure import Interval
from trimtab.space import Config

__all__ = ["Worth", "WorthDuels"]

_MIN_PAIRS = 2
_MAX_PAIRS = 6
_MAX_LINES = 12
"""Lines measured singly at most; a config of more lines is a sign that the ablation had no budget."""


@dataclass(slots=True, kw_only=True)
class Worth:
    """What one line brings.

    Attributes:
        knob: its name.
        without: how many times better the config is with it than without it; None when not measured.
        without_pairs: pairs behind it.
        beside: knobs that were dropped from the config after `without` was measured.
        alone: how many times better than the baseline it is on its own; None when not measured.
        alone_pairs: pairs behind it.
        reason: why a figure is missing or what failed, "" when all is there.
    """

    knob: str
    without: Interval | None = None
    without_pairs: int = 0
    beside: int = 0
    alone: Interval | None = None
    alone_pairs: int = 0
    reason: str = ""

    @property
    def verdict(self) -> str:
        """ "proven" when an interval lies above 1, "undecided" when none does, "not_measured"."""
        measured = [interval for interval in (self.without, self.alone) if interval is not None]
        if any(interval.low > 1 for interval in measured):
            return "proven"
        return "undecided" if measured else "not_measured"


class WorthDuels:
    """The duels that tell what the lines of `ablation.current` are worth, begun before the proof and ended after it.

    Attributes:
        without: line -> the config against itself without it; those that the ablation has fought already stand.
        alone: line -> the baseline against itself with it.
    """

    def __init__(self, task: Task, scorer: Scorer, ablation: Ablation) -> None:
        self._task, self._scorer, self._ablation = task, scorer, ablation
        self._lines = {name: Worth(knob=name) for name in ablation.current.difference(task.baseline)}
        self._known = _known_duels(ablation, self._lines)
        self.without: dict[str, Duel] = dict(self._known)
        self.alone: dict[str, Duel] = {}
        if 1 < len(self._lines) <= _MAX_LINES:
            _open_without(task, scorer, ablation, self._lines, self.without)
            _open_alone(task, scorer, ablation, self._lines, self.alone)

    @property
    def beside_the_proof(self) -> list[Duel]:
        """Those whose reference is the candidate itself and that are not told yet: they can share the proof's runs."""
        return [d for d in self.without.values() if d.reference == self._ablation.current and not d.n_pairs]

    @property
    def free_in_the_proof(self) -> list[Duel]:
        """Those of the baseline against one line alone: of two lines, each alone is what is left without the other."""
        return [duel for duel in self.alone.values() if not duel.n_pairs]

    def finish(self, purse: Purse) -> Steps[None]:
        """Measures with `purse` what is not known yet.

        A config of one line needs no pair: what it is worth without and alone is the proof's gain.
        """
        task, scorer, ablation = self._task, self._scorer, self._ablation
        if 1 < len(self._lines) <= _MAX_LINES:
            yield from _run(task, scorer, [self.without], purse)
            yield from _run(task, scorer, [self.alone], purse)
            steps = _first_lines(task, scorer, ablation, self.without, self.alone)
            yield from _run(task, scorer, [steps], purse)

    def lines(self) -> dict[str, Worth]:
        """What was measured of each line that `ablation.current` still has, by knob."""
        for name, line in self._lines.items():
            again = self.without.get(name)
            told = again if again is not None and again.n_pairs else self._known.get(name, again)
            _fill(line, told, self.alone.get(name), self._ablation)
        left = self._ablation.current.difference(self._task.baseline)
        return {name: line for name, line in self._lines.items() if name in left}


def _duel(task: Task, scorer: Scorer, ablation: Ablation, reference: Config, challenger: Config) -> Duel:
    return new_duel(task, scorer, reference, challenger, ablation.duels)


def _known_duels(ablation: Ablation, lines: dict[str, Worth]) -> dict[str, Duel]:
    """Duels of the ablation about a single line that stayed as it was; the last one when there are several."""
    found: dict[str, Duel] = {}
    for duel in ablation.duels:
        removed = duel.challenger.difference(duel.reference)
        if len(removed) != 1 or removed[0] not in lines or not duel.n_pairs:
            continue
        # A line that gave way to another one later has another value now.
        if duel.reference[removed[0]] == ablation.current[removed[0]]:
            found[removed[0]] = duel
    return found


def _open_without(
    task: Task, scorer: Scorer, ablation: Ablation, lines: dict[str, Worth], duels: dict[str, Duel]
) -> None:
    for name, line in lines.items():
        if name in duels and duels[name].reference == ablation.current:
            continue
        challenger = task.space.canonical(ablation.current.replace({name: task.baseline[name]}))
        if challenger.difference(ablation.current) == (name,) and task.space.is_feasible(challenger):
            duels[name] = _duel(task, scorer, ablation, ablation.current, challenger)
        else:
            line.reason = "it cannot be taken back without the others"


def _open_alone(
    task: Task, scorer: Scorer, ablation: Ablation, lines: dict[str, Worth], duels: dict[str, Duel]
) -> None:
    for name, line in lines.items():
        challenger = task.space.canonical(task.baseline.replace({name: ablation.current[name]}))
        if challenger.difference(task.baseline) == (name,) and task.space.is_feasible(challenger):
            duels[name] = _duel(task, scorer, ablation, task.baseline, challenger)
        else:
            line.reason = line.reason or "it cannot be set without the others"


def _first_lines(
    task: Task, scorer: Scorer, ablation: Ablation, without: dict[str, Duel], alone: dict[str, Duel]
) -> dict[str, Duel]:
    """The config by its two, three, ... strongest lines; one line and all but one are measured already."""
    names = sorted(
        ablation.current.difference(task.baseline), key=lambda name: (-_strength(without, alone, name), name)
    )
    found = {}
    for n in range(2, len(names) - 1):
        config = task.space.canonical(task.baseline.replace({name: ablation.current[name] for name in names[:n]}))
        if task.space.is_feasible(config):
            found[f"first {n}"] = _duel(task, scorer, ablation, task.baseline, config)
    return found


def _strength(without: dict[str, Duel], alone: dict[str, Duel], name: str) -> float:
    logs = []
    if name in without and without[name].n_pairs:
        logs.append(math.log(without[name].ratio.estimate))
    if name in alone and alone[name].n_pairs:
        logs.append(-math.log(alone[name].ratio.estimate))
    return sum(logs) / len(logs) if logs else 0.0


def _run(task: Task, scorer: Scorer, sets: Sequence[dict[str, Duel]], purse: Purse) -> Steps[None]:
    """Blocks for each set in turns, until all are known or the purse is empty; one run of the reference serves a block.

    Those that have a pair come first, and none is begun that the purse cannot bring to the least number of pairs.
    """
    for n in (1, *range(_MAX_PAIRS)):
        for duels in sets:
            open_ones = [d for d in duels.values() if not _is_known(d) and min(n, 1) <= d.n_pairs <= n]
            for reference in dict.fromkeys(duel.reference for duel in open_ones):
                # One pair decides nothing: as many duels as can have the least number of them.
                most = purse.n_runs // max(1, _MIN_PAIRS - n) - 1
                block = [duel for duel in open_ones if duel.reference == reference][: max(0, most)]
                if block and scorer.may_go_on:
                    yield from fight_block(task, scorer, block, is_reversed=n % 2 == 1)


def _is_known(duel: Duel) -> bool:
    if duel.failure or duel.is_void or duel.fault or duel.n_pairs >= _MAX_PAIRS:
        return True
    return duel.n_pairs >= _MIN_PAIRS and (duel.ratio.low > 1 or duel.ratio.high < 1)


def _fill(line: Worth, without: Duel | None, alone: Duel | None, ablation: Ablation) -> None:
    if without is not None:
        failure = without.failure or without.fault
        line.reason = f"without it: {failure}" if failure else line.reason
        if without.n_pairs:
            line.without, line.without_pairs = without.ratio, without.n_pairs
            dropped = {drop.knob for drop in ablation.dropped}
            line.beside = len(dropped.intersection(without.reference.difference(ablation.current)))
    if alone is not None:
        failure = alone.failure or alone.fault
        line.reason = f"alone: {failure}" if failure else line.reason
        if alone.n_pairs:
            line.alone, line.alone_pairs = _inverse(alone.ratio), alone.n_pairs


def _inverse(ratio: Interval) -> Interval:
    """Of a duel whose challenger is the better one."""
    low = 1 / ratio.high if math.isfinite(ratio.high) else 0.0
    high = 1 / ratio.low if ratio.low > 0 else math.inf
    return Interval(1 / ratio.estimate, low, high, ratio.level, ratio.se, ratio.n)
