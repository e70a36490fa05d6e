"""tune: the off-line loop from the running config to a proven one, or to the plain word that there is none.

baseline × 3 → plays → search (baseline interleaved) → leaders again → needless knobs removed → proof in pairs, with the worth
of each line → verdict; at the end the target is as it was found.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from trimtab.errors import HistoryError
from trimtab.history import History, StudyRecord, open_history_at
from trimtab.records import PrunePlan, Status, Trial, Verdict
from trimtab.report.explain import explain, kept_ranks
from trimtab.search.warm import WarmLog
from trimtab.space import Config
from trimtab.study.begin import (
    TuneListener,
    fingerprint_of,
    first_signal_is_polite,
    measure_baseline,
    new_record,
    open_evaluator,
    require_enough_time,
    require_same_baseline,
)
from trimtab.study.evaluate import Evaluator
from trimtab.study.explore import expected_trials, explore, mean_loss, start_searcher
from trimtab.study.file import StudyFile, guarding_of
from trimtab.study.finish import finish
from trimtab.study.plays import PlayPhase, settle_plays
from trimtab.study.prune import PruningSearcher
from trimtab.study.prune_plan import check_pruning, settle_plan
from trimtab.study.refine import refine
from trimtab.study.stage import Stage, build_target, build_workload, open_stage
from trimtab.study.verdict import Outcome, make_verdict
from trimtab.study.warm_start import WarmStart, check_warm_start, settle_warm_start
from trimtab.systems import ForensicTarget
from trimtab.trial import Interrupted

__all__ = ["tune"]


def tune(
    file: StudyFile, state_dir: Path, listener: TuneListener, *, again: bool = False
) -> tuple[StudyRecord, list[Trial]]:
    """Runs or resumes the study of `file`.

    Args:
        file: the study.
        state_dir: journal, locks, history.
        listener: told of everything.
        again: start a new study even when the newest one of that name is finished or can be resumed.

    Returns:
        The study's record with its verdict, and its trials. A finished study of the same file is returned as it is.

    Raises:
        UsageError, SpaceError, TargetError, LoadError, HistoryError: nothing is changed then, or it has been undone.
    """
    # A slip in the file must show as itself, and not as "another study" of a known name.
    build_target(file, state_dir)
    require_enough_time(file)
    fingerprint = fingerprint_of(file, build_workload(file))
    history = open_history_at(file.study.history, state_dir)
    try:
        found = None if again else history.find_study(file.study.name, is_own=True)
        if found is not None and found.fingerprint != fingerprint:
            raise HistoryError(
                f"the history holds another study named {file.study.name!r} (its file, or a script of its workload, differed)",
                hint="give the study another name, or start again with --again",
            )
        if found is not None and found.status in ("proven", "no_improvement"):
            return found, history.trials(found.id)
        with open_stage(file, state_dir) as stage, stage.target.lock(f"trimtab tune {file.study.name}"):
            record = found or new_record(history, stage, fingerprint)
            require_same_baseline(record, stage)
            return _run(stage, history, record, state_dir, listener)
    finally:
        history.close()


def _run(
    stage: Stage, history: History, record: StudyRecord, state_dir: Path, listener: TuneListener
) -> tuple[StudyRecord, list[Trial]]:
    outcome = Outcome(pruned=record.verdict.pruned, warm_start=record.verdict.warm_start)
    check_pruning(stage, history, record)
    check_warm_start(stage, history, record)
    start_searcher(stage, None)  # a wrong searcher or option must show before anything is measured
    listener.study_started(stage.file.study.name, stage.file.budget.seconds)
    guarding_of(stage.file, state_dir).switch.require_off()
    history.update_study(record.id, status="running")
    with first_signal_is_polite() as is_interrupted:
        for note in stage.target.notes() if isinstance(stage.target, ForensicTarget) else ():
            listener.phase(note)
        listener.phase("preparing the data")
        prepared = stage.workload.prepare(stage.target.endpoint(), listener.phase)
        outcome.prepare_s = prepared.duration_s
        started = time.monotonic()
        with open_evaluator(stage, history, record, state_dir, listener, is_interrupted) as evaluator:
            try:
                prior_for, plays_for = partial(_prior, stage, history, record), partial(_plays, stage, history, record)
                _phases(stage, evaluator, outcome, listener, is_interrupted, prior_for, plays_for)
            except Interrupted as interrupted:
                outcome.is_interrupted = True
                outcome.stop_reason = interrupted.message
                outcome.candidate = outcome.candidate or _best_config(stage, evaluator)
            listener.phase("restoring the target")
        verdict = make_verdict(stage, evaluator, outcome, wall_s=time.monotonic() - started)
        status = {"better": "proven", "no_improvement": "no_improvement"}.get(verdict.result, "interrupted")
        if verdict.fragment:
            path = _write_fragment(state_dir, record.name, verdict.fragment)
            verdict = replace(verdict, fragment_path=str(path))
        history.update_study(record.id, status=status, verdict=verdict)
        if status != "interrupted":
            listener.phase("ranking the knobs")
            _keep_ranks(history, record, verdict, evaluator.trials)
    return history.study(record.id), evaluator.trials


def _keep_ranks(history: History, record: StudyRecord, verdict: Verdict, trials: list[Trial]) -> None:
    """Which knobs explain the gain, once and for all reports: ranking takes seconds."""
    ranks = kept_ranks(explain(replace(record, verdict=verdict), trials), len(trials))
    history.update_study(record.id, verdict=replace(verdict, importance=ranks))


def _write_fragment(state_dir: Path, name: str, fragment: str) -> Path:
    path = state_dir / "results" / f"{name}.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(fragment, encoding="utf-8")
    return path


def _phases(
    stage: Stage,
    evaluator: Evaluator,
    outcome: Outcome,
    listener: TuneListener,
    is_interrupted: Callable[[], bool],
    prior_for: Callable[[int | None, list[Trial]], tuple[WarmStart, PrunePlan | None]],
    plays_for: Callable[[Evaluator, bool], PlayPhase],
) -> None:
    def may_go_on() -> bool:
        if is_interrupted():
            raise Interrupted
        budget = stage.file.budget.seconds
        return budget is None or evaluator.spent_s + evaluator.mean_cost_s <= budget

    listener.phase("measuring the baseline")
    measure_baseline(evaluator, stage.baseline)
    warm, plan = prior_for(expected_trials(stage, evaluator), evaluator.trials)
    plays = outcome.plays = plays_for(evaluator, plan is not None)
    plays.run(stage, evaluator, say=listener.phase, may_go_on=may_go_on)
    log = WarmLog()
    searcher = start_searcher(stage, expected_trials(stage, evaluator), plan, warm, log, plays.prior(stage))
    listener.phase("searching")
    for line in filter(None, (warm.describe(), searcher.describe())):
        listener.phase(line)
    try:
        outcome.stop_reason = explore(stage, evaluator, searcher, say=listener.phase, log=log)
    finally:
        outcome.pruned = searcher.summary() if isinstance(searcher, PruningSearcher) else None
        outcome.warm_start = warm.summary(log) if stage.file.search.warm_start != "off" else None
    winner = refine(stage, evaluator, say=listener.phase)
    if winner is not None:
        finish(stage, evaluator, outcome, winner, say=listener.phase, may_go_on=may_go_on)


def _prior(
    stage: Stage, history: History, record: StudyRecord, n_expected: int | None, trials: list[Trial]
) -> tuple[WarmStart, PrunePlan | None]:
    """What past studies give to this one, and the plan of its pruning."""
    warm = settle_warm_start(stage, history, record, trials)
    near = [each.study for each in warm.facts]
    return warm, settle_plan(stage, history, record, n_expected, near)


def _plays(stage: Stage, history: History, record: StudyRecord, evaluator: Evaluator, is_pruned: bool) -> PlayPhase:
    return settle_plays(stage, history, record, evaluator, is_pruned=is_pruned)


def _best_config(stage: Stage, evaluator: Evaluator) -> Config | None:
    """The best config measured so far, unproven; None when none beats the baseline."""
    tried = {t.config for t in evaluator.trials if t.status is Status.OK and t.is_feasible} - {stage.baseline}
    best = min(tried, key=lambda config: mean_loss(evaluator.trials, config), default=None)
    return best if best is not None and mean_loss(evaluator.trials, best) < 0 else None
