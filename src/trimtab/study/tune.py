"""tune: the off-line loop from the running config to a proven one, or to the plain word that there is none.

baseline × 3 → search (baseline interleaved) → finalists again → needless knobs removed → proof in pairs → verdict; at the
end the target is as it was found.
"""

from __future__ import annotations

import hashlib
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from trimtab.errors import HistoryError, LoadError
from trimtab.history import History, StudyRecord, space_to_json
from trimtab.records import Role, Status, Trial
from trimtab.space import Config
from trimtab.study.evaluate import Evaluator, StudyListener
from trimtab.study.explore import N_BASELINE_FIRST, expected_trials, explore, finalists, mean_loss, start_searcher
from trimtab.study.file import StudyFile
from trimtab.study.prove import prove
from trimtab.study.simplify import simplify
from trimtab.study.stage import Stage, build_target, build_workload, open_stage
from trimtab.study.verdict import Outcome, make_verdict
from trimtab.trial import Interrupted, TrialListener, TrialRoom
from trimtab.workload import Workload

_URL_PASSWORD = re.compile(r"(://[^/@:\s]*):[^/@\s]*@")
_PASSWORD = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&]+)", re.IGNORECASE)

__all__ = ["TuneListener", "open_history_at", "tune"]


class TuneListener(StudyListener, TrialListener, Protocol):
    """Who wants to see everything."""

    def study_started(self, name: str, budget_s: float | None) -> None: ...


def open_history_at(url: str | None, state_dir: Path) -> History:
    """The history at `url` (a file or a PostgreSQL URL), or the state directory's own.

    Raises:
        HistoryError: it cannot be opened.
    """
    if url is None:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    return History.open(url or state_dir / "history.db")


@contextmanager
def _first_signal_is_polite() -> Iterator[Callable[[], bool]]:
    """While inside, the first Ctrl-C or SIGTERM only sets a flag; the second raises KeyboardInterrupt as usual."""
    asked = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    fingerprint = _fingerprint(file, build_workload(file))
    history = open_history_at(file.study.history, state_dir)
    try:
        found = None if again else history.find_study(file.study.name)
        if found is not None and found.fingerprint != fingerprint:
            raise HistoryError(
                f"the history holds another study named {file.study.name!r} (its file, or a script of its workload, differed)",
                hint="give the study another name, or start afresh with --again",
            )
        if found is not None and found.status in ("proven", "no_improvement"):
            return found, history.trials(found.id)
        with open_stage(file, state_dir) as stage, stage.target.lock(f"trimtab tune {file.study.name}"):
            record = found or _new_record(history, stage, fingerprint)
            _require_same_baseline(record, stage)
            return _run(stage, history, record, state_dir, listener)
    finally:
        history.close()


def _fingerprint(file: StudyFile, workload: Workload) -> str:
    """Of everything that must agree for a resume: the file, and what the workload has read from files of its own."""
    return hashlib.sha256(f"{file.fingerprint} {workload.context.workload}".encode()).hexdigest()[:16]


def _new_record(history: History, stage: Stage, fingerprint: str) -> StudyRecord:
    return history.create_study(
        name=stage.file.study.name,
        settings=_without_secrets(stage.file.model_dump(mode="json")),
        space=space_to_json(stage.space),
        objective=str(stage.objective),
        baseline=stage.baseline,
        machine=stage.machine,
        context=stage.workload.context,
        fingerprint=fingerprint,
        created_at=time.time(),
    )


def _require_same_baseline(record: StudyRecord, stage: Stage) -> None:
    changed = record.baseline.difference(stage.baseline)
    if changed:
        shown = ", ".join(f"{name}={stage.baseline.get(name)!r}" for name in changed[:3])
        raise HistoryError(
            f"the server's running config has changed since study={record.name!r} began: {shown}",
            hint="trials of two baselines cannot be mixed: start afresh with --again",
        )


def _without_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the history may keep them: no password in a URL."""
    cleaned: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            cleaned[key] = _without_secrets(value)
        elif isinstance(value, str):
            cleaned[key] = "***" if key == "password" else _PASSWORD.sub(r"\1***", _URL_PASSWORD.sub(r"\1:***@", value))
        else:
            cleaned[key] = value
    return cleaned


def _run(
    stage: Stage, history: History, record: StudyRecord, state_dir: Path, listener: TuneListener
) -> tuple[StudyRecord, list[Trial]]:
    outcome = Outcome()
    start_searcher(stage, None)  # a wrong searcher or option must show before anything is measured
    listener.study_started(stage.file.study.name, stage.file.budget.seconds)
    history.update_study(record.id, status="running")
    with _first_signal_is_polite() as is_interrupted:
        listener.phase("preparing the data")
        prepared = stage.workload.prepare(stage.target.endpoint(), listener.phase)
        outcome.prepare_s = prepared.duration_s
        started = time.monotonic()
        with TrialRoom(
            stage.target,
            stage.workload,
            stage.space,
            stage.baseline,
            objective=stage.objective,
            state_dir=state_dir,
            study=stage.file.study.name,
            listener=listener,
            is_interrupted=is_interrupted,
            say=listener.phase,
        ) as room:
            evaluator = Evaluator(
                stage, room, history, record.id, recorded=history.trials(record.id), listener=listener
            )
            try:
                _phases(stage, evaluator, outcome, listener, is_interrupted)
            except Interrupted:
                outcome.is_interrupted = True
                outcome.stop_reason = "stopped by the user"
                outcome.candidate = outcome.candidate or best_config(stage, evaluator)
            listener.phase("restoring the target")
        verdict = make_verdict(stage, evaluator, outcome, wall_s=time.monotonic() - started)
        status = {"better": "proven", "no_improvement": "no_improvement"}.get(verdict["result"], "interrupted")
        if verdict.get("fragment"):
            verdict["fragment_path"] = str(_write_fragment(state_dir, record.name, verdict["fragment"]))
        history.update_study(record.id, status=status, verdict=verdict)
    finished = history.find_study(record.name)
    if finished is None:
        raise HistoryError(f"study={record.name!r} vanished from the history", hint="somebody else changed the file")
    return finished, evaluator.trials


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
) -> None:
    def may_go_on() -> bool:
        if is_interrupted():
            raise Interrupted
        budget = stage.file.budget.seconds
        return budget is None or evaluator.spent_s + evaluator.mean_cost_s <= budget

    listener.phase("measuring the baseline")
    for _ in range(N_BASELINE_FIRST):
        _require_baseline(evaluator.measure(stage.baseline, Role.BASELINE))
    listener.phase("searching")
    searcher = start_searcher(stage, expected_trials(stage, evaluator))
    if plan := searcher.describe():
        listener.phase(plan)
    outcome.stop_reason = explore(stage, evaluator, searcher, say=listener.phase)
    listener.phase("measuring the best again")
    outcome.candidate = finalists(stage, evaluator)
    if outcome.candidate is None:
        return
    listener.phase("removing needless knobs")
    reserve = stage.file.proof.min_pairs * (3 if stage.file.proof.advice else 2)

    def may_simplify() -> bool:
        budget = stage.file.budget.seconds
        return may_go_on() and (budget is None or evaluator.spent_s + (reserve + 1) * evaluator.mean_cost_s <= budget)

    outcome.candidate, outcome.dropped = simplify(stage, evaluator, outcome.candidate, may_go_on=may_simplify)
    listener.phase("proving the winner in alternating pairs")
    outcome.proof = prove(stage, evaluator, outcome.candidate, may_go_on=may_go_on)


def _require_baseline(trial: Trial) -> None:
    if trial.status is not Status.OK:
        is_ours = trial.status is Status.INFRASTRUCTURE
        raise LoadError(
            f"the baseline itself cannot be measured: {trial.status}: {trial.reason}",
            hint="lower the load, or give the generator free cores or real-time priority; `trimtab bench` shows it"
            if is_ours
            else "make the workload run on the server as it is; `trimtab bench` shows it",
        )


def best_config(stage: Stage, evaluator: Evaluator) -> Config | None:
    """The best config measured so far, unproven; None when none beats the baseline."""
    tried = {t.config for t in evaluator.trials if t.status is Status.OK and t.is_feasible} - {stage.baseline}
    best = min(tried, key=lambda config: mean_loss(evaluator.trials, config), default=None)
    return best if best is not None and mean_loss(evaluator.trials, best) < 0 else None
