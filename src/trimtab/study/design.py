"""design: the runs of an experimental design, made to rank knobs, as trials of a study of their own.

baseline × 3 → the design's configs, the baseline interleaved → verdict. It resumes like `tune`, and like there the target is
as it was found at the end. A study named `s` has its designs under `s.rank-sard`, `s.rank-lhs`, ..., so that they never stand
in the way of `tune`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from trimtab.errors import HistoryError, UsageError
from trimtab.flow.design import design_runs
from trimtab.history import History, StudyRecord, open_history_at
from trimtab.importance import DESIGNS, Design, join_designs, least_runs, make_design
from trimtab.records import DesignPlan, Trial, Verdict
from trimtab.space import Config
from trimtab.study.as_begun import as_begun
from trimtab.study.begin import (
    TuneListener,
    fingerprints_of,
    first_signal_is_polite,
    new_record,
    not_left_running,
    require_metrics,
    require_same_baseline,
    run_flow,
)
from trimtab.study.file import StudyFile, guarding_of
from trimtab.study.first import lost_with_power, recover_first, require_free
from trimtab.study.known import find_known, target_host
from trimtab.study.preparing import prepared
from trimtab.study.rank import design_name, runs_asked
from trimtab.study.stage import Stage, build_stack, build_workload, open_stage, require_one_context
from trimtab.study.tables import ProofTable, SearchTable
from trimtab.study.task import task_of
from trimtab.study.verdict import wall_of

__all__ = ["run_design"]


def run_design(
    file: StudyFile,
    state_dir: Path,
    listener: TuneListener,
    *,
    kind: str,
    runs: int | None = None,
    again: bool = False,
    say: Callable[[str], None] | None = None,
) -> tuple[StudyRecord, list[Trial]]:
    """Makes, or goes on with, the runs of a design over the knobs of `file`; what a killed Trimtab has left is taken back first.

    Args:
        file: the study.
        state_dir: journal, locks, history.
        listener: told of everything.
        kind: one of `DESIGNS`.
        runs: how many configs to measure, baselines not counted; None: as many as the design needs. More than a design was
            given adds a further batch to it; as many or fewer change nothing.
        again: begin a new design.
        say: told of what was taken back; the listener when None.

    Returns:
        The design's record and its trials. One whose runs are all there is returned as it is.

    Raises:
        UsageError: an unknown design, too few runs for it, or the kill switch is on.
        SpaceError, TargetError, LoadError, HistoryError: nothing is changed then, or it has been undone.
    """
    if kind not in DESIGNS:
        raise UsageError(f"unknown design={kind!r}", hint=f"use one of: {', '.join(DESIGNS)}")
    require_one_context(file, "`trimtab rank`")
    folders = build_stack(file, state_dir).folders
    name = design_name(file.study.name, kind)
    fingerprints = _fingerprints(file, kind)
    recover_first(state_dir, say or listener.phase, folders)
    with open_history_at(file.history, state_dir) as history:
        found = None if again else find_known(history, name, partial(target_host, file, state_dir))
        if found is not None and found.fingerprint not in fingerprints:
            raise HistoryError(
                f"the history holds a design named {name!r} of another study file (or its workload's scripts differed)",
                hint="give the study another name, or start again with --again",
            )
        is_whole = found is not None and found.status == "ranked"
        if found is not None and is_whole and (runs is None or runs <= runs_asked(found)):
            return found, history.trials(found.id)
        with open_stage(file, state_dir) as stage, stage.stack.lock(f"trimtab rank {name}"):
            require_free(stage.stack, state_dir)
            guarding_of(file, state_dir).switch.require_off()
            stage = stage if found is None else as_begun(stage, found, say or listener.phase)
            design, batches = _designed(stage, kind, found, runs)
            stage = replace(stage, file=_with_budget(file, len(design.configs)))
            require_metrics(stage)
            record = found or new_record(history, stage, fingerprints[0], name=name)
            with not_left_running(history, record, again=again):
                require_same_baseline(record, stage)
                plan = DesignPlan(
                    kind=kind, batches=tuple(batches), n_runs=len(design.configs), notes=tuple(design.notes)
                )  # fmt: skip
                history.update_study(record.id, status="running", verdict=Verdict(design=plan))
                return _run(stage, history, record, state_dir, listener, design.configs, plan)


def _fingerprints(file: StudyFile, kind: str) -> list[str]:
    """Of what the runs depend on: how a winner would be searched and proven may change between two runs of `rank`."""
    table = file.search
    search = SearchTable(
        constraints=table.constraints,
        ranges=table.ranges,
        round_values=table.round_values,
        baseline_every=table.baseline_every,
    )
    needed = file.model_copy(update={"search": search, "proof": ProofTable()})
    made = fingerprints_of(needed, build_workload(file))
    return [hashlib.sha256(f"{each} {kind}".encode()).hexdigest()[:16] for each in made]


def _designed(stage: Stage, kind: str, found: StudyRecord | None, runs: int | None) -> tuple[Design, list[int | None]]:
    """The design that was begun and, where more runs are asked for, a further batch; and what each batch was asked for."""
    seed = stage.file.study.seed
    asked: list[int | None] = list(found.verdict.design.batches) if found and found.verdict.design else []
    if found is None or not asked:
        asked = [runs]
    elif runs is not None and runs > (n_asked := runs_asked(found)):
        more, least = runs - n_asked, least_runs(kind, stage.space)
        if more < least:
            raise UsageError(
                f"runs={runs} adds {more} to the {n_asked} that design={kind!r} was given: too few for a further batch",
                hint=f"ask for {n_asked + least} or more; with {n_asked} or fewer the design stays as it is",
            )
        asked.append(more)
    made: list[Design] = []
    for i, n in enumerate(asked):
        before = [config for part in made for config in part.configs]
        made.append(make_design(kind, stage.space, stage.baseline, n, seed + i, before=before))
    return join_designs(made), asked


def _with_budget(file: StudyFile, n_runs: int) -> StudyFile:
    """The file with the design's runs for its budget, by which progress tells the time left."""
    return file.model_copy(update={"study": file.study.model_copy(update={"budget": f"{max(1, n_runs)} trials"})})


def _run(
    stage: Stage,
    history: History,
    record: StudyRecord,
    state_dir: Path,
    listener: TuneListener,
    configs: Sequence[Config],
    plan: DesignPlan,
) -> tuple[StudyRecord, list[Trial]]:
    task = task_of(stage)
    listener.study_started(record.name, None)
    for note in (*stage.notes, *lost_with_power(stage.stack, state_dir)):
        listener.phase(note)
    listener.phase("preparing the data")
    prepare_s = prepared(stage, guarding_of(stage.file, state_dir).switch, state_dir, listener.phase)
    with first_signal_is_polite() as is_interrupted:
        started = time.monotonic()
        flow = design_runs(task, configs)
        verdict, trials = run_flow(stage, task, flow, history, record, state_dir, listener, is_interrupted)
        wall_s = time.monotonic() - started
    verdict = replace(verdict, design=plan, wall_s=wall_of(trials, prepare_s=prepare_s, wall_s=wall_s))
    status = "interrupted" if verdict.result == "interrupted" else "ranked"
    history.update_study(record.id, status=status, verdict=verdict)
    return replace(record, status=status, verdict=verdict), trials
