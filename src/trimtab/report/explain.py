"""Which knobs explain the gain, by all measured trials of a study: ranks, slices and pair interactions for a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from trimtab import importance  # its names load what ranks, and numpy, on first use
from trimtab.errors import HistoryError, TrimtabError
from trimtab.records import KeptRanks, Objective, Trial, in_hindsight
from trimtab.report.words import clean, counted, percent_text

if TYPE_CHECKING:
    from trimtab.history import StudyRecord
    from trimtab.importance import Consensus, Pair, RankProblem, Slice
    from trimtab.space import Space

__all__ = ["Explanation", "explain", "kept_ranks", "with_plots", "without_proven"]

_WORTH_WAITING = 20
"""With fewer measured configs, ranks are left to who asks for them: they seldom tell anything, and a report would wait."""

_RESAMPLES = 20
_SLICES = 4
_PAIRS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What the trials say of the knobs.

    Attributes:
        consensus: the ranks; None when they cannot be told.
        text: one sentence: how many knobs carry how much of the effect, or why that cannot be told.
        space: of the study; None when it could not be read.
        slices: of the knobs that matter most.
        pairs: interactions that stand out of the noise.
    """

    consensus: Consensus | None
    text: str
    space: Space | None = None
    slices: tuple[Slice, ...] = ()
    pairs: tuple[Pair, ...] = ()


def explain(study: StudyRecord, trials: Sequence[Trial]) -> Explanation:
    """The ranks of a study's knobs: as the study kept them at its end, else made now, which takes seconds."""
    kept = study.verdict.importance
    if kept is not None and kept.n_trials == len(trials):
        return _read(kept)
    configs = {trial.config for trial in trials if trial.loss is not None and math.isfinite(trial.loss)}
    if len(configs) < _WORTH_WAITING:
        return Explanation(consensus=None, text=_few_text(study, len(configs)))
    try:
        problem = _problem(study, in_hindsight(Objective.parse(study.objective), trials))
        consensus = importance.rank_knobs(problem)
    except TrimtabError as error:
        return Explanation(consensus=None, text=f"The knobs cannot be ranked: {error.message}.")
    if consensus.verdict:
        return Explanation(consensus=None, text=f"{consensus.verdict[:1].upper()}{consensus.verdict[1:]}.")
    return Explanation(consensus=consensus, text=consensus_text(consensus), space=problem.space)


def _few_text(study: StudyRecord, n_configs: int) -> str:
    measured = f"{counted(n_configs, 'config')} measured"
    if n_configs < importance.LEAST_CONFIGS:
        return f"Not enough data to rank the knobs: {measured}, at least {importance.LEAST_CONFIGS} are needed."
    return f"The knobs are not ranked here, with {measured}: `trimtab rank {quote(clean(study.name))}` says what these tell."


def kept_ranks(explanation: Explanation, n_trials: int) -> KeptRanks:
    """An explanation of a study's `n_trials` trials as its verdict keeps it."""
    consensus = None if explanation.consensus is None else asdict(explanation.consensus)
    return KeptRanks(n_trials=n_trials, text=explanation.text, consensus=consensus)


def _read(kept: KeptRanks) -> Explanation:
    if kept.consensus is None:
        return Explanation(consensus=None, text=clean(kept.text))
    from trimtab.history import from_json

    try:
        return Explanation(
            consensus=from_json(importance.Consensus, kept.consensus, "importance"), text=clean(kept.text)
        )
    except ValueError as error:
        raise HistoryError(f"the study's verdict cannot be read: {error}", hint="it is damaged") from error


def _problem(study: StudyRecord, trials: Sequence[Trial]) -> RankProblem:
    # Imported here: the history brings its database library along, which the terminal's start need not wait for.
    from trimtab.history import read_space

    return importance.RankProblem(
        space=read_space(study), baseline=study.baseline, trials=tuple(trials), n_bootstrap=_RESAMPLES
    )  # fmt: skip


def consensus_text(consensus: Consensus) -> str:
    """One sentence on where the effect sits."""
    if not consensus.knee:
        return "No knob showed an effect."
    if len(consensus.knobs) == 1:
        return f"By {consensus.n_trials} measured trials, the only knob has an effect."
    first = consensus.knobs[: consensus.knee]
    share = percent_text(sum(entry.score for entry in first))
    knobs = "one knob" if consensus.knee == 1 else f"{consensus.knee} of {len(consensus.knobs)} knobs"
    return f"By {consensus.n_trials} measured trials, {share} of the effect seen belongs to {knobs}."


def without_proven(study: StudyRecord, consensus: Consensus) -> Consensus:
    """The ranks, which say of no knob that a proven winner changes that no better value is shown: pairs tell more than ranks."""
    proven = study.verdict.knobs if study.verdict.result == "better" else {}
    return replace(consensus, not_worth={k: why for k, why in consensus.not_worth.items() if k not in proven})


def with_plots(study: StudyRecord, trials: Sequence[Trial], consensus: Consensus | None) -> Explanation:
    """What the plots need beside the ranks: slices and pairs, which take a few seconds; `consensus` None: rank first. Trials that
    were ranked already are of several studies at times, and judged."""
    known = None
    if consensus is None:
        trials = in_hindsight(Objective.parse(study.objective), trials)
        known = explain(study, trials)
    found = consensus if known is None else known.consensus
    if found is None or found.verdict:
        text = known.text if known is not None else found.verdict if found is not None else ""
        return Explanation(consensus=found, text=text)
    found = without_proven(study, found)
    try:
        problem = _problem(study, trials)
        dependence = importance.Dependence(problem)
        names = found.names[: max(1, min(_SLICES, found.knee))]
        return Explanation(
            consensus=found,
            text=consensus_text(found),
            space=problem.space,
            slices=tuple(dependence.slice_of(name) for name in names),
            pairs=importance.top_pairs(problem, _PAIRS, dependence=dependence),
        )
    except TrimtabError as error:
        return Explanation(consensus=found, text=f"{consensus_text(found)} No slices: {error.message}.")
