"""bench: one config measured several times, with the noise floor of the machine from its own repeats (A/A)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import LoadError, UsageError
from trimtab.measure import Interval, NoiseFloor, noise_floor, pooled_interval, positive
from trimtab.records import Objective, Role, Status, Trial
from trimtab.space import Config, Value
from trimtab.study.file import StudyFile, guarding_of
from trimtab.study.first import recover_first
from trimtab.study.stage import Stage, open_stage
from trimtab.trial import TrialListener, TrialRoom

__all__ = ["BenchResult", "bench", "bench_room", "parse_settings"]

_HINTS = {
    Status.INFRASTRUCTURE: "this run shows nothing about the server: lower the load, or free cores for the generator",
    Status.FAILED_LOAD: "make the workload run on the server as it is, or lower its rate",
}


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What the runs showed.

    Attributes:
        config: what was set beside the running config; empty for the running config itself.
        objective: of the study file.
        trials: one a run.
        value: mean over the runs with an interval from their scatter.
        noise: noise floor from the same runs.
    """

    config: Config
    objective: Objective
    trials: tuple[Trial, ...]
    value: Interval
    noise: NoiseFloor


def parse_settings(stage: Stage, texts: dict[str, str]) -> Config:
    """Values as text ("512MB", "on", "1.5") for knobs of the space, over the baseline.

    Raises:
        UsageError, SpaceError: a knob or value that is not legal.
    """
    values: dict[str, Value] = {}
    for name, text in texts.items():
        if name not in stage.states:
            raise UsageError(f"unknown knob {name!r}", hint="see `trimtab knobs`")
        if name not in stage.space.knobs:
            reason = stage.states[name].lock_reason or "it is not among the study's knobs"
            raise UsageError(
                f"knob {name!r} may not be set here: {reason}", hint="name it under knobs in [target.NAME]"
            )
        values[name] = stage.space.knobs[name].parse(text)
    return stage.space.validate(stage.space.canonical(stage.baseline.replace(values)))


def bench_room(
    stage: Stage, state_dir: Path, objective: Objective, listener: TrialListener, say: Callable[[str], None]
) -> TrialRoom:
    """Where configs are measured without a study: the target is as found when it is left."""
    return TrialRoom(
        stage.target,
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
    )


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

    What a killed Trimtab has left is taken back first; `say` is told of it, and of progress.

    Raises:
        UsageError, SpaceError: a knob or value that is not legal; nothing was touched.
        TargetError: the target cannot be reached.
        LoadError: a run failed; the message has its reason.
    """
    recover_first(state_dir, say)
    with open_stage(file, state_dir) as stage, stage.target.lock(f"trimtab bench {file.study.name}"):
        config = parse_settings(stage, settings)
        stage.workload.prepare(stage.target.endpoint(), say)
        trials = []
        with bench_room(stage, state_dir, stage.objective, listener, say) as room:
            for number in range(n_runs):
                trial = room.run(
                    config, number=number, role=Role.BENCH, plan=stage.plan, seed=file.study.seed, hand_over=True
                )
                if trial.status is not Status.OK or trial.measurement is None:
                    raise LoadError(
                        f"run {number + 1} ended as {trial.status}: {trial.reason}", hint=_HINTS.get(trial.status)
                    )
                trials.append(trial)
                say(
                    f"run {number + 1} of {n_runs}: {stage.objective.value(trial.measurement).estimate:.4g}{stage.objective.unit}"
                )
        values = [stage.objective.value(t.measurement) for t in trials if t.measurement is not None]
        changes = Config({name: config[name] for name in config.difference(stage.baseline)})
        means = [v.estimate for v in values]
        value = values[0] if len(values) == 1 else positive(pooled_interval(means))
        return BenchResult(changes, stage.objective, tuple(trials), value, noise_floor(means))
