"""rank: which knobs matter, from what the history holds; measures nothing and needs no server."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from trimtab import plugins
from trimtab.errors import UsageError
from trimtab.history import History, StudyRecord, find_study, read_space
from trimtab.importance import (
    DESIGNS,
    Consensus,
    Ranker,
    RankProblem,
    TooFewError,
    least_runs,
    make_design,
    rank_knobs,
)
from trimtab.records import Objective, Trial, in_hindsight
from trimtab.space import Space

__all__ = ["CONSENSUS", "Ranked", "design_name", "find_ranked", "make_rankers", "rank_study", "runs_asked"]

CONSENSUS = "consensus"
"""Name under which the command takes all rankers together."""

_NAMES_SHOWN = 5
_RUNS_PER_KNOB = 3
_LEAST_RUNS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """What a study's trials say of its knobs.

    Attributes:
        record: the study.
        trials: its own and those of the studies given besides.
        sources: names of the studies that the trials are of.
        consensus: what the rankers say together; its verdict is "" when the ranks may be used. Without knobs and rankings
            where too few configs were measured.
        next_runs: how many runs of a design are worth trying when there is not enough data to tell; else 0.
    """

    record: StudyRecord
    trials: tuple[Trial, ...]
    sources: tuple[str, ...]
    consensus: Consensus
    next_runs: int


def design_name(study: str, kind: str) -> str:
    """The name under which the history keeps the design `kind` of a study."""
    return f"{study}.rank-{kind}"


def find_ranked(history: History, name: str) -> StudyRecord:
    """The newest study of that name; where there is none, the newest of its designs.

    Raises:
        UsageError: neither; the hint lists the studies that there are.
    """
    designs = [history.find_study(design_name(name, kind)) for kind in DESIGNS]
    found = history.find_study(name) or max(filter(None, designs), key=lambda record: record.id, default=None)
    return found or find_study(history, name)


def rank_study(history: History, name: str, *, beside: Sequence[str] = (), rankers: Sequence[str] = ()) -> Ranked:
    """Ranks the knobs of a study by its trials, and by those of further studies of the same task.

    Args:
        history: read only.
        name: of the study, or of one that has designs only.
        beside: names of further studies whose trials count as well.
        rankers: short names of rankers; none, or "consensus", for all together.

    Raises:
        UsageError: an unknown study or ranker, studies that cannot be mixed, or trials that no ranker can take (no knob
            varied).
        HistoryError: the history cannot be read.
    """
    chosen = make_rankers(rankers)
    record = find_ranked(history, name)
    space = read_space(record)
    records = {record.id: record}
    for other in beside:
        found = find_ranked(history, other)
        _require_same_task(record, found, space)
        records[found.id] = found
    objective = Objective.parse(record.objective)
    trials = tuple(trial for each in records.values() for trial in in_hindsight(objective, history.trials(each.id)))
    problem = RankProblem(space=space, baseline=record.baseline, trials=trials)
    try:
        consensus = rank_knobs(problem, chosen)
    except TooFewError as error:
        consensus = _not_ranked(problem, error)
    return Ranked(
        record=record,
        trials=trials,
        sources=tuple(each.name for each in records.values()),
        consensus=consensus,
        next_runs=_next_runs(consensus.n_trials, space, record) if consensus.verdict else 0,
    )


def _not_ranked(problem: RankProblem, error: TooFewError) -> Consensus:
    """That there is not enough to rank anything by: a verdict as that of ranks that cannot be told apart."""
    hint = f"{(error.hint or '')[:1].upper()}{(error.hint or '')[1:]}."
    return Consensus(
        knobs=(), rankings=(), knee=0, verdict=f"not enough data to tell: {error.message}", notes=(hint,),
        n_trials=sum(trial.loss is not None for trial in problem.trials), r2=math.nan,
    )  # fmt: skip


def _next_runs(n_trials: int, space: Space, record: StudyRecord) -> int:
    """Three runs a knob, 30 at least; twice that, and so on, while there are as many trials already, or a design would not take
    so few more."""
    runs, plan = max(_LEAST_RUNS, _RUNS_PER_KNOB * len(space.knobs)), record.verdict.design
    least = 0 if plan is None or plan.kind not in DESIGNS else runs_asked(record) + least_runs(plan.kind, space)
    while runs <= n_trials or runs < least:
        runs *= 2
    return runs


def runs_asked(record: StudyRecord) -> int:
    """Runs that were asked for in all batches of a design, 0 for another study; a batch that was to have what it needs counts
    with the runs that it has. A design may have fewer: it makes no use of some, and the same command asks for them again."""
    plan = record.verdict.design
    if plan is None:
        return 0
    given = [n for n in plan.batches if n is not None]
    if not given:
        return plan.n_runs
    needed = 0
    if len(given) < len(plan.batches):
        needed = len(make_design(plan.kind, read_space(record), record.baseline).configs)
    return needed + sum(given)


def make_rankers(names: Sequence[str]) -> list[Ranker] | None:
    """The rankers of these short names; None, which is all together, for no names or when one is "consensus".

    Raises:
        UsageError: an unknown ranker; the hint suggests one.
    """
    known = [CONSENSUS, *plugins.names("rankers")]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            raise UsageError(f"unknown ranker={name!r}", hint=f"{meant}use one of: {', '.join(known)}")
    if not names or CONSENSUS in names:
        return None
    return [plugins.load("rankers", name)() for name in dict.fromkeys(names)]


def _require_same_task(record: StudyRecord, other: StudyRecord, space: Space) -> None:
    """Losses are ratios to a study's own baseline under its own workload: only trials of one task can be mixed."""
    theirs = read_space(other).knobs
    strange = sorted(set(theirs) ^ set(space.knobs))
    if strange:
        shown = ", ".join(strange[:_NAMES_SHOWN]) + (", …" if len(strange) > _NAMES_SHOWN else "")
        raise UsageError(
            f"study={other.name!r} is of another space than study={record.name!r}: only one of them has {shown}",
            hint="give studies with the same knobs; ranks of another study can be carried with [search] ranks",
        )
    different = [
        (what, mine, its)
        for what, mine, its in (
            ("objective", *(str(Objective.parse(each.objective)) for each in (record, other))),
            ("workload", record.context.workload, other.context.workload),
            ("clients", record.context.clients, other.context.clients),
        )
        if mine != its
    ]
    for what, mine, its in different:
        raise UsageError(
            f"study={other.name!r} has {what}={its!r}, study={record.name!r} has {what}={mine!r}",
            hint="rank them separately: their trials do not measure the same thing",
        )
    changed = record.baseline.difference(other.baseline)
    if changed:
        raise UsageError(
            f"study={other.name!r} has another baseline than study={record.name!r}: "
            f"{changed[0]}={other.baseline[changed[0]]!r}, not {record.baseline[changed[0]]!r}",
            hint="rank them separately: their losses are relative to different configs",
        )
