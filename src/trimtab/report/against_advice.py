"""The winner beside the rule-based advice: what a study is worth to somebody who would have used rules of thumb."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.records import Role, Trial, Verdict
from trimtab.report.facts import Gain
from trimtab.report.words import counted

__all__ = ["advice_line"]


def advice_line(verdict: Verdict, trials: Sequence[Trial]) -> str:
    """How the winner did in the blocks of the proof that measured the advice too; "" where there were fewer than two."""
    gain = Gain.of(verdict.beside_advice)
    if gain is None or not verdict.is_better:
        return ""
    beside = f"Compared with the advice{_size_of_advice(trials)} the tuned config is {gain.short_text} times as fast"
    if gain.low > 1:
        return f"{beside}."
    return f"{beside}: {'the advice was faster' if gain.high < 1 else 'not told apart'}."


def _size_of_advice(trials: Sequence[Trial]) -> str:
    config = next((trial.config for trial in trials if trial.role is Role.PROOF_ADVICE), None)
    yours = next((trial.config for trial in trials if trial.role is Role.PROOF_BASELINE), None)
    if config is None or yours is None:
        return ""
    return f", which changes {counted(len(config.difference(yours)), 'setting')},"
