"""What each line of a proven config is worth: without it (the others in place), alone (the others at their old values), and
the config by its first lines, the strongest first. Measured in pairs: "without" in the blocks of the proof where the budget
allows, the rest with what it has left after the proof.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
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
        # Line -> why one of its duels cannot be fought.
        self._why_not = dict.fromkeys(ablation.current.difference(task.baseline), "")
        self._known = _known_duels(ablation, self._why_not)
        self.without: dict[str, Duel] = dict(self._known)
        self.alone: dict[str, Duel] = {}
        # A config of one line needs no pair: what it is worth without and alone is the proof's gain.
        self._are_measured = 1 < len(self._why_not) <= _MAX_LINES
        if self._are_measured:
            for name in self._why_not:
                self._open(name)

    def _open(self, name: str) -> None:
        """The two duels about one line, as far as there are such configs and the ablation has not fought it already."""
        config, baseline = self._ablation.current, self._task.baseline
        if name not in self.without or self.without[name].reference != config:
            without = self._changed(config, [name], to=baseline)
            if without is not None and without.difference(config) == (name,):
                self.without[name] = self._duel(config, without)
            else:
                self._why_not[name] = "it cannot be taken back without the others"
        alone = self._changed(baseline, [name], to=config)
        if alone is not None and alone.difference(baseline) == (name,):
            self.alone[name] = self._duel(baseline, alone)
        else:
            self._why_not[name] = self._why_not[name] or "it cannot be set without the others"

    def _changed(self, config: Config, names: Sequence[str], *, to: Config) -> Config | None:
        """`config` with the values of `to` for `names`; None where that breaks a constraint."""
        changed = self._task.space.canonical(config.replace({name: to[name] for name in names}))
        return changed if self._task.space.is_feasible(changed) else None

    def _duel(self, reference: Config, challenger: Config) -> Duel:
        return new_duel(self._task, self._scorer, reference, challenger, self._ablation.duels)

    @property
    def beside_the_proof(self) -> list[Duel]:
        """Those whose reference is the candidate itself and that are not told yet: they can share the proof's runs."""
        return [d for d in self.without.values() if d.reference == self._ablation.current and not d.n_pairs]

    @property
    def free_in_the_proof(self) -> list[Duel]:
        """Those of the baseline against one line alone: of two lines, each alone is what is left without the other."""
        return [duel for duel in self.alone.values() if not duel.n_pairs]

    def finish(self, purse: Purse) -> Steps[None]:
        """Measures with `purse` what is not known yet."""
        if self._are_measured:
            yield from self._run(list(self.without.values()), purse)
            yield from self._run(list(self.alone.values()), purse)
            yield from self._run(self._first_lines(), purse)

    def lines(self) -> dict[str, Worth]:
        """What was measured of each line that `ablation.current` still has, by knob."""
        left = self._ablation.current.difference(self._task.baseline)
        return {name: self._line(name) for name in self._why_not if name in left}

    def _line(self, name: str) -> Worth:
        again, alone = self.without.get(name), self.alone.get(name)
        without = again if again is not None and again.n_pairs else self._known.get(name, again)
        line, reasons = Worth(knob=name), [self._why_not[name]]
        if without is not None:
            reasons.append(_failed("without it", without))
            if without.n_pairs:
                line.without, line.without_pairs = without.ratio, without.n_pairs
                dropped = {drop.knob for drop in self._ablation.dropped}
                line.beside = len(dropped.intersection(without.reference.difference(self._ablation.current)))
        if alone is not None:
            reasons.append(_failed("alone", alone))
            if alone.n_pairs:
                line.alone, line.alone_pairs = _inverse(alone.ratio), alone.n_pairs
        line.reason = "; ".join(filter(None, reasons))
        return line

    def _first_lines(self) -> list[Duel]:
        """The config by its two, three, ... strongest lines; one line and all but one are measured already."""
        config, baseline = self._ablation.current, self._task.baseline
        names = sorted(config.difference(baseline), key=lambda name: (-self._strength(name), name))
        firsts = (self._changed(baseline, names[:n], to=config) for n in range(2, len(names) - 1))
        return [self._duel(baseline, first) for first in firsts if first is not None]

    def _strength(self, name: str) -> float:
        logs = []
        if name in self.without and self.without[name].n_pairs:
            logs.append(math.log(self.without[name].ratio.estimate))
        if name in self.alone and self.alone[name].n_pairs:
            logs.append(-math.log(self.alone[name].ratio.estimate))
        return sum(logs) / len(logs) if logs else 0.0

    def _run(self, duels: Sequence[Duel], purse: Purse) -> Steps[None]:
        """Blocks until all are known or the purse is empty; one run of the reference serves a block.

        Those that have a pair come first, and none is begun that the purse cannot bring to the least number of pairs.
        """
        for n in (1, *range(_MAX_PAIRS)):
            open_ones = [d for d in duels if not _is_known(d) and min(n, 1) <= d.n_pairs <= n]
            for reference in dict.fromkeys(duel.reference for duel in open_ones):
                # One pair decides nothing: as many duels as can have the least number of them.
                most = purse.n_runs // max(1, _MIN_PAIRS - n) - 1
                block = [duel for duel in open_ones if duel.reference == reference][: max(0, most)]
                if block and self._scorer.may_go_on:
                    yield from fight_block(self._task, self._scorer, block, is_reversed=n % 2 == 1)


def _known_duels(ablation: Ablation, lines: Collection[str]) -> dict[str, Duel]:
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


def _is_known(duel: Duel) -> bool:
    if duel.failure or duel.is_void or duel.fault or duel.n_pairs >= _MAX_PAIRS:
        return True
    return duel.n_pairs >= _MIN_PAIRS and (duel.ratio.low > 1 or duel.ratio.high < 1)


def _failed(how: str, duel: Duel) -> str:
    why = duel.failure or duel.fault
    return f"{how}: {why}" if why else ""


def _inverse(ratio: Interval) -> Interval:
    """Of a duel whose challenger is the better one."""
    low = 1 / ratio.high if math.isfinite(ratio.high) else 0.0
    high = 1 / ratio.low if ratio.low > 0 else math.inf
    return Interval(1 / ratio.estimate, low, high, ratio.level, ratio.se, ratio.n)
