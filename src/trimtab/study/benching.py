"""bench: one config measured several times, with the noise floor of the machine from its own repeats (A/A)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from trimtab.errors import UsageError
from trimtab.flow import Scorer, Steps, Study
from trimtab.flow.bench import repeated
from trimtab.history import BENCHED, History, open_history_at
from trimtab.measure import Interval, NoiseFloor, SecondLog, noise_floor, pooled_interval, positive
from trimtab.records import BenchSummary, GainInterval, Objective, Role, Trial, Verdict
from trimtab.space import Config, Value
from trimtab.study.begin import new_record, require_metrics
from trimtab.study.drive import Recorded, drive, room_measure
from trimtab.study.file import StudyFile, guarding_of
from trimtab.study.first import recover_first, require_free
from trimtab.study.preparing import prepared
from trimtab.study.stage import Stage, build_stack, open_stage, require_one_context
from trimtab.study.tables import BENCH
from trimtab.study.task import task_of
from trimtab.study.unchanged import require_unchanged
from trimtab.study.verdict import wall_of
from trimtab.trial import TrialListener, TrialRoom
from trimtab.workload import RemarkingWorkload, Workload

__all__ = ["BenchResult", "at_bench", "bench", "changes_of", "parse_settings", "run_bench"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What the runs showed.

    Attributes:
        config: what was set beside the running config; empty for the running config itself.
        objective: of the study file.
        trials: one a run.
        value: mean over the runs with an interval from their scatter.
        noise: noise floor from the same runs.
        remarks: what the workload says of each run.
    """

    config: Config
    objective: Objective
    trials: tuple[Trial, ...]
    value: Interval
    noise: NoiseFloor
    remarks: tuple[tuple[str, ...], ...] = ()


def _with_every_value(file: StudyFile) -> StudyFile:
    """The file with every value of its ranges legal: what a user has measured is no search, which keeps to round ones."""
    return file.model_copy(update={"search": file.search.model_copy(update={"round_values": False})})


def parse_settings(stage: Stage, texts: dict[str, str], say: Callable[[str], None] = lambda text: None) -> Config:
    """Values as text ("512MB", "on", "1.5") for knobs of the space, over the baseline; see `_meant` for their names.

    `say` is told of those that have no effect with the others, and stay as they are.

    Raises:
        UsageError, SpaceError: a knob or value that is not legal.
    """
    values: dict[str, Value] = {}
    for given, text in texts.items():
        name = _meant(stage, given)
        if name not in stage.states:
            raise UsageError(f"unknown knob {given!r}", hint="see `trimtab knobs`")
        if name not in stage.space.knobs:
            reason = stage.states[name].lock_reason
            hint = "see `trimtab knobs` for what may change"
            if not reason:
                reason, hint = "it is not among the study's knobs", "name it under knobs in [target.NAME]"
            if name in stage.unfelt:
                reason, hint = f"it is felt only where {stage.unfelt[name]}", "name the knobs of that condition as well"
            raise UsageError(f"knob {name!r} may not be set here: {reason}", hint=hint)
        values[name] = stage.space.knobs[name].parse(text)
    config = stage.space.validate(stage.space.canonical(stage.baseline.replace(values)))
    for name, value in values.items():
        if config[name] != value:
            knob = stage.space.knobs[name]
            say(f"{name}={knob.format(value)} is left out, without effect here: it is felt only where {knob.condition}")
    return config


def _meant(stage: Stage, name: str) -> str:
    """The full name of a knob. A name without its target is enough where the study has it of one target only, and the name of an
    only target may stand before it.

    Raises:
        UsageError: it may be that of several targets.
    """
    tiers = [tier.name for tier in stage.stack.tiers]
    if name in stage.states:
        return name
    if stage.stack.is_one:
        return name.removeprefix(f"{tiers[0]}.")
    known = [f"{tier}.{name}" for tier in tiers if f"{tier}.{name}" in stage.states]
    found = [each for each in known if each in stage.space.knobs] or known
    if len(found) > 1:
        raise UsageError(
            f"knob {name!r} may be that of several targets: {', '.join(found)}",
            hint=f"write the target's name before it: {found[0]}",
        )
    return found[0] if found else name


@dataclass(frozen=True, slots=True)
class _Heard:
    """Of a measurement of one config people hear what its flow says."""

    say: Callable[[str], None]

    def phase(self, text: str) -> None:
        self.say(text)

    def trial_started(self, number: int, role: Role, changed: dict[str, str]) -> None:
        pass

    def trial_ended(self, trial: Trial, best_gain: float | None, time_left_s: float | None) -> None:
        pass


def run_bench(
    stage: Stage,
    flow: Callable[[Scorer], Steps[T]],
    concluded: Callable[[T], BenchSummary],
    history: History,
    state_dir: Path,
    *,
    name: str,
    objective: Objective,
    listener: TrialListener,
    say: Callable[[str], None],
) -> T:
    """Drives a flow that is no search, as a study of its own in the history; leaves the target as found.

    Args:
        stage: its data is prepared.
        flow: what to measure.
        concluded: what the flow returned, as the history keeps it.
        history: given the study, and every trial before the next one starts.
        state_dir: journal.
        name: of the study, which is a new one.
        objective: what counts, and what the trials must meet.
        listener: told of steps and seconds.
        say: told of progress.

    Raises:
        ForeignChangeError: somebody else has changed the target since its config was read.
    """
    require_unchanged(stage)  # to make its data may have taken long
    record = new_record(history, stage, "", name=name, status=BENCHED, objective=objective)
    study = Study(replace(task_of(stage), objective=objective), flow, say=say)
    with TrialRoom(
        stage.stack,
        stage.workload,
        stage.space,
        stage.baseline,
        objective=objective,
        state_dir=state_dir,
        study=stage.file.study.name,
        purpose="bench",
        listener=listener,
        guarding=guarding_of(stage.file, state_dir),
        say=say,
    ) as room:
        result = drive(
            study,
            room_measure(room, study.scorer, stage, _Heard(say)),
            recorded=Recorded((), say),
            keep=lambda trial: history.add_trial(record.id, trial),
            listener=_Heard(say),
        )
    verdict = Verdict(
        result="bench",
        metric=objective.metric,
        objective=str(objective),
        unit=objective.unit,
        bench=concluded(result),
        wall_s=wall_of(study.scorer.trials, prepare_s=0.0, wall_s=0.0),
    )
    history.update_study(record.id, verdict=verdict)
    return result


@contextmanager
def at_bench(
    file: StudyFile, state_dir: Path, settings: Collection[str], say: Callable[[str], None], *, command: str
) -> Iterator[tuple[Stage, History]]:
    """The stage for a measurement of one config, locked, and the history that keeps it; `say` is told what of a killed Trimtab is
    taken back first.

    Raises:
        UsageError: the study has several contexts, which `command` cannot measure as one.
        TargetError: the target may hold what a killed Trimtab has set.
    """
    require_one_context(file, f"`{command}`")
    recover_first(state_dir, say, build_stack(file, state_dir).folders)
    with (
        open_history_at(file.history, state_dir) as history,
        open_stage(_with_every_value(file), state_dir, changes=bool(settings), measures=True) as stage,
        stage.stack.lock(f"trimtab bench {file.study.name}"),
    ):
        require_free(stage.stack, state_dir)
        yield stage, history


def changes_of(stage: Stage, config: Config) -> Config:
    """What `config` sets beside the running one."""
    return Config({name: config[name] for name in config.difference(stage.baseline)})


def bench(
    file: StudyFile,
    state_dir: Path,
    *,
    settings: dict[str, str],
    n_runs: int,
    listener: TrialListener,
    say: Callable[[str], None],
) -> BenchResult:
    """Measures the running config, or it with `settings` over it, `n_runs` times; leaves the target as found.

    What a killed Trimtab has left is taken back first; `say` is told of it, and of progress. The history keeps the runs as a
    study of their own, named as the file's with ".bench" behind it.

    Raises:
        UsageError, SpaceError: a knob or value that is not legal, or the stop file is there; nothing was touched.
        TargetError: the target cannot be reached.
        LoadError: a run failed; the message has its reason.
        HistoryError: the runs cannot be kept.
        Interrupted: somebody asked to stop.
    """
    name, objective = f"{file.study.name}{BENCH}", file.objective
    with at_bench(file, state_dir, settings, say, command="trimtab bench") as (stage, history):
        require_metrics(stage)
        config = parse_settings(stage, settings, say)
        changes = changes_of(stage, config)
        switch = guarding_of(file, state_dir).switch
        switch.require_off()
        prepared(stage, switch, state_dir, say)

        def concluded(trials: tuple[Trial, ...]) -> BenchSummary:
            value, noise = _value(objective, trials), _noise(objective, trials)
            return BenchSummary(
                settings=changes,
                value=GainInterval.of(value),
                noise=noise.relative_sd if noise.n >= 2 and math.isfinite(noise.relative_sd) else None,
            )

        trials = run_bench(
            stage, repeated(config, n_runs), concluded, history, state_dir, name=name, objective=objective,
            listener=listener, say=say,
        )  # fmt: skip
        remarks = tuple(_remarks(stage.workload, trial) for trial in trials)
    return BenchResult(changes, objective, trials, _value(objective, trials), _noise(objective, trials), remarks)


def _remarks(workload: Workload, trial: Trial) -> tuple[str, ...]:
    m = trial.measurement
    if m is None or not isinstance(m.log, SecondLog) or not isinstance(workload, RemarkingWorkload):
        return ()
    return workload.remarks(m.log, m.window_s)


def _values(objective: Objective, trials: Sequence[Trial]) -> list[Interval]:
    return [objective.value(trial.measurement) for trial in trials if trial.measurement is not None]


def _value(objective: Objective, trials: Sequence[Trial]) -> Interval:
    """Mean over the runs with an interval from their scatter; of a single run its own. A run whose percentile lies beyond the
    time-outs has no value: then all that is known is that it is as large as the least of them, or larger."""
    values = _values(objective, trials)
    if len(values) == 1:
        return values[0]
    if any(math.isinf(value.estimate) for value in values):
        return Interval(math.inf, min(value.low for value in values), math.inf, values[0].level, math.nan, len(values))
    return positive(pooled_interval([value.estimate for value in values]))


def _noise(objective: Objective, trials: Sequence[Trial]) -> NoiseFloor:
    """From run to run; not known where a run has no value."""
    values = [value.estimate for value in _values(objective, trials)]
    return noise_floor(values) if not any(map(math.isinf, values)) else NoiseFloor(math.nan, math.inf, len(values))
