"""A constraint of the objective in the duels of the ablation, and of the worth of the lines."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest

from tests.flow.test_ablate_statistics import of_three, rounded, worth_of
from trimtab.flow.pairs import Duel, Purse, fight
from trimtab.measure import PairedSequence
from trimtab.records import Role
from trimtab.space import Config


class TestAConstraint:
    """That a run misses counts on average over the runs of its config, as in the proof."""

    @staticmethod
    def _fought(*missed: float, of_challenger: tuple[float, ...] = (), decided: bool = False) -> Duel:
        """A duel of up to four pairs whose reference, measured well before, misses that share of a bound in its runs, and then
        meets it."""
        case = deepcopy(of_three())
        scorer: Any = case.machine
        full = case.ablation.full
        challenger = full.replace({"k00": 0.0})
        scorer.measure(full, Role.REPEAT)
        shares = {full: [*missed], challenger: [*of_challenger]}

        def share(config: Config, role: Role) -> float:
            return shares[config].pop(0) if shares[config] else -0.1

        scorer.missed = share
        duel = Duel(reference=full, challenger=challenger, sequence=PairedSequence(is_maximised=True))
        scorer.run(
            fight(
                case.task,
                scorer,
                duel,
                n_pairs=4,
                is_decided=lambda duel: decided and duel.n_pairs > 0,
                may_go_on=lambda: True,
            )
        )
        return duel

    @pytest.mark.parametrize("place", range(4))
    def test_missed_once_by_the_reference_ends_nothing(self, place: int) -> None:
        duel = self._fought(*[-0.1] * place, 0.05)
        assert (duel.n_pairs, duel.failure, duel.is_void) == (4, "", False)

    def test_missed_by_the_reference_on_average_ends_it(self) -> None:
        duel = self._fought(0.05, 0.1)
        assert duel.is_void
        assert duel.failure == "on average over 3 runs a constraint of the objective was missed"

    def test_missed_by_the_challenger_is_looked_at_once_more(self) -> None:
        assert (again := self._fought(of_challenger=(0.05,), decided=True)).n_pairs == 2
        assert not again.failure
        missed = self._fought(of_challenger=(0.05, 0.05), decided=True)
        assert missed.failure == "on average over 2 runs a constraint of the objective was missed"
        assert not missed.is_void

    def test_missed_by_far_needs_one_run(self) -> None:
        duel = self._fought(of_challenger=(0.9,))
        assert duel.n_pairs <= 1
        assert re.fullmatch(r"trial \d+: a constraint of the objective was missed", duel.failure)

    def test_missed_by_the_proven_config_leaves_the_worth_of_its_lines(self) -> None:
        case = rounded(of_three())
        scorer: Any = case.machine
        scorer.missed = lambda config, role: 0.1 if config == case.ablation.current else -0.1
        worth = worth_of(scorer, case.task, case.ablation, Purse(case.task, scorer, seconds=0, runs=40))
        assert set(worth) == {"k00", "k01", "k02"}
        assert all(line.without is not None and not line.reason for line in worth.values())
