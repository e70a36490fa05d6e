"""What each line of a proven config is worth: without it (the others in place), alone (the others at their old values), and
the config by its first lines, the strongest first. Measured in pairs with what the budget has left after the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trimtab.measure import Interval, PairedSequence
from trimtab.space import Config
from trimtab.study.ablate import Ablation
from trimtab.study.evaluate import Evaluator
from trimtab.study.pairs import Duel, Purse, fight_block, noise_pool
from trimtab.study.stage import Stage

__all__ = ["Worth", "measure_worth"]

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


def measure_worth(
    stage: Stage, evaluator: Evaluator, ablation: Ablation, purse: Purse, *, may_go_on: Callable[[], bool]
) -> dict[str, Worth]:
    """Fills in what the ablation's duels do not yet tell of `ablation.current`; by knob.

    A config of one line needs no pair: what it is worth without and alone is the proof's gain.
    """
    lines = {name: Worth(knob=name) for name in ablation.current.difference(stage.baseline)}
    known = _known_duels(ablation, lines)
    without, alone = dict(known), dict[str, Duel]()
    if 1 < len(lines) <= _MAX_LINES:
        _open_without(stage, evaluator, ablation, lines, without)
        _open_alone(stage, evaluator, ablation, lines, alone)
        _run(stage, evaluator, [without, alone], purse, may_go_on)
        _run(stage, evaluator, [_steps(stage, evaluator, ablation, without, alone)], purse, may_go_on)
    for name, line in lines.items():
        again = without.get(name)
        _fill(line, again if again is not None and again.n_pairs else known.get(name, again), alone.get(name), ablation)
    return lines


def _duel(stage: Stage, evaluator: Evaluator, ablation: Ablation, reference: Config, challenger: Config) -> Duel:
    pool = noise_pool(evaluator, ablation.duels)
    sequence = PairedSequence(is_maximised=stage.objective.is_maximised, pool=pool)
    return Duel(reference=reference, challenger=challenger, sequence=sequence)


def _known_duels(ablation: Ablation, lines: dict[str, Worth]) -> dict[str, Duel]:
    """Duels of the ablation about a single line that stayed; the one over the final config when there are several."""
    found: dict[str, Duel] = {}
    for duel in ablation.duels:
        removed = duel.challenger.difference(duel.reference)
        if len(removed) == 1 and removed[0] in lines and duel.n_pairs:
            found[removed[0]] = duel
    return found


def _open_without(
    stage: Stage, evaluator: Evaluator, ablation: Ablation, lines: dict[str, Worth], duels: dict[str, Duel]
) -> None:
    for name, line in lines.items():
        if name in duels and duels[name].reference == ablation.current:
            continue
        challenger = stage.space.canonical(ablation.current.replace({name: stage.baseline[name]}))
        if challenger.difference(ablation.current) == (name,) and stage.space.is_feasible(challenger):
            duels[name] = _duel(stage, evaluator, ablation, ablation.current, challenger)
        else:
            line.reason = "it cannot be taken back without the others"


def _open_alone(
    stage: Stage, evaluator: Evaluator, ablation: Ablation, lines: dict[str, Worth], duels: dict[str, Duel]
) -> None:
    for name, line in lines.items():
        challenger = stage.space.canonical(stage.baseline.replace({name: ablation.current[name]}))
        if challenger.difference(stage.baseline) == (name,) and stage.space.is_feasible(challenger):
            duels[name] = _duel(stage, evaluator, ablation, stage.baseline, challenger)
        else:
            line.reason = line.reason or "it cannot be set without the others"


def _steps(
    stage: Stage, evaluator: Evaluator, ablation: Ablation, without: dict[str, Duel], alone: dict[str, Duel]
) -> dict[str, Duel]:
    """The config by its two, three, ... strongest lines; one line and all but one are measured already."""
    names = sorted(
        ablation.current.difference(stage.baseline), key=lambda name: (-_strength(without, alone, name), name)
    )
    found = {}
    for n in range(2, len(names) - 1):
        config = stage.space.canonical(stage.baseline.replace({name: ablation.current[name] for name in names[:n]}))
        if stage.space.is_feasible(config):
            found[f"first {n}"] = _duel(stage, evaluator, ablation, stage.baseline, config)
    return found


def _strength(without: dict[str, Duel], alone: dict[str, Duel], name: str) -> float:
    logs = []
    if name in without and without[name].n_pairs:
        logs.append(math.log(without[name].ratio.estimate))
    if name in alone and alone[name].n_pairs:
        logs.append(-math.log(alone[name].ratio.estimate))
    return sum(logs) / len(logs) if logs else 0.0


def _run(
    stage: Stage, evaluator: Evaluator, sets: Sequence[dict[str, Duel]], purse: Purse, may_go_on: Callable[[], bool]
) -> None:
    """Blocks for each set in turns, until all are known or the purse is empty; one run of the reference serves a block."""
    for n in range(_MAX_PAIRS):
        for duels in sets:
            open_ones = [duel for duel in duels.values() if not _is_known(duel) and duel.n_pairs <= n]
            for reference in dict.fromkeys(duel.reference for duel in open_ones):
                block = [duel for duel in open_ones if duel.reference == reference][: max(0, purse.n_runs - 1)]
                if block and may_go_on():
                    fight_block(stage, evaluator, block, is_reversed=n % 2 == 1)


def _is_known(duel: Duel) -> bool:
    if duel.failure or duel.is_void or duel.n_pairs >= _MAX_PAIRS:
        return True
    return duel.n_pairs >= _MIN_PAIRS and (duel.ratio.low > 1 or duel.ratio.high < 1)


def _fill(line: Worth, without: Duel | None, alone: Duel | None, ablation: Ablation) -> None:
    if without is not None:
        line.reason = f"without it: {without.failure}" if without.failure else line.reason
        if without.n_pairs:
            line.without, line.without_pairs = without.ratio, without.n_pairs
            line.beside = len(without.reference.difference(ablation.current))
    if alone is not None:
        line.reason = f"alone: {alone.failure}" if alone.failure else line.reason
        if alone.n_pairs:
            line.alone, line.alone_pairs = _inverse(alone.ratio), alone.n_pairs


def _inverse(ratio: Interval) -> Interval:
    """Of a duel whose challenger is the better one."""
    low = 1 / ratio.high if math.isfinite(ratio.high) else 0.0
    high = 1 / ratio.low if ratio.low > 0 else math.inf
    return Interval(1 / ratio.estimate, low, high, ratio.level, ratio.se, ratio.n)
