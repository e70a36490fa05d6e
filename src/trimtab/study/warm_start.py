"""Warm start: which past studies help a new one, settled and frozen when it begins, so that a resume goes the same way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from itertools import islice

from trimtab.errors import UsageError
from trimtab.flow.warm import WarmStart, kept_past
from trimtab.history import BENCHED, History, StudyRecord, TrialSummary, find_study, read_space
from trimtab.records import Objective, Role, Trial, WarmStudy
from trimtab.search import PastStudy
from trimtab.space import Config, Space
from trimtab.study.near import Near, Task, nearest, whole
from trimtab.study.stage import Stage

__all__ = ["WarmStart", "check_warm_start", "settle_warm_start", "take_over"]

_MOST_CONFIGS = 150
"""Configs kept of one study: the best half, and the others spread evenly over the rest."""

_LEAST_CONFIGS = 2
"""Of a study from which something can be learnt."""

_N_STARTS = 16
_ALL = 1.0
"""Nearness of a study that the user has named, at least a hundredth of which counts: the user knows better."""


def check_warm_start(stage: Stage, history: History, found: StudyRecord | None) -> None:
    """What can be wrong with [search] warm_start, before anything is measured; `found` is the study itself, if it has begun.

    Raises:
        UsageError: a study that is unknown, this one, or that has no knob in common with it.
        HistoryError: a study that is damaged.
    """
    named = stage.file.search.warm_start
    if isinstance(named, str):
        return
    for name in named:
        other = None if name == stage.file.study.name else find_study(history, name)
        if other is None or (found is not None and other.id == found.id):
            raise UsageError(
                f"search.warm_start names {name!r}, the study itself", hint="name other studies of the history"
            )
        if other.status == BENCHED:
            raise UsageError(
                f"search.warm_start names {name!r}, a measurement of one config",
                hint="name studies made by `trimtab tune`",
            )
        if not set(read_space(other).knobs) & set(stage.space.knobs):
            raise UsageError(
                f"search.warm_start names {name!r}, a study of another space: it has no knob of this one",
                hint="name a study of the same kind of target",
            )


def settle_warm_start(
    stage: Stage,
    history: History,
    record: StudyRecord,
    trials: Sequence[Trial],
    say: Callable[[str], None] = lambda text: None,
) -> WarmStart:
    """What the study takes over, as it was settled when its search began; nothing when it is off.

    Args:
        stage: of the study.
        history: read, and given what was settled.
        record: of the study, as it was when this run began.
        trials: the runs of the baseline.
        say: told, when it is settled, of each study that is damaged, and of one that the user has named and of which nothing can
            be used.
    """
    wanted = stage.file.search.warm_start
    kept = record.verdict.warm_start
    if kept is not None and kept.past is not None:
        return WarmStart.of(kept)
    if wanted == "off" or kept is not None or _has_searched(history, record):
        return WarmStart()
    names = () if isinstance(wanted, str) else wanted
    task = Task(
        target="+".join(str(table["kind"]) for table in stage.file.target.values()),
        space=stage.space, objective=stage.objective, machine=stage.machine,
        context=stage.workload.context, trials=trials,
    )  # fmt: skip
    close = nearest(history, task, except_id=record.id, names=names, say=say)
    found = take_over(history, stage.space, stage.baseline, close, names, objective=stage.objective, say=say)
    history.update_study(record.id, verdict=replace(history.study(record.id).verdict, warm_start=found.summary()))
    return found


def _has_searched(history: History, record: StudyRecord) -> bool:
    """Whether it began before it could be settled: what it has asked then was asked without a past."""
    return any(trial.role is not Role.BASELINE for trial in history.trial_summaries([record.id])[record.id])


def take_over(
    history: History,
    space: Space,
    baseline: Config,
    found: Sequence[Near],
    names: Sequence[str] = (),
    *,
    objective: Objective,
    say: Callable[[str], None] = lambda text: None,
) -> WarmStart:
    """The trials of the studies `found`, in this space; those that the user has `names` for count however far they are. What has
    missed a constraint of this `objective` there has failed, however fast it was. `say` is told of what is not used."""
    facts, past = [], []
    names_found = [near.record.name for near in found]
    for near in found:
        name = near.record.name
        label = name if names_found.count(name) == 1 else f"{name} (id {near.record.id})"
        read = whole(label, partial(_trials_of, history, near.record, objective), say)
        if read is None:
            continue
        trials, missed = read
        nearness = max(near.nearness, _ALL / 100) if names else near.nearness
        study = _past(label, nearness, trials, missed, space, baseline)
        if len(study.configs) < _LEAST_CONFIGS:
            if names:
                say(
                    f"search.warm_start: study={name!r} is not used: fewer than {_LEAST_CONFIGS} of its configs were measured "
                    "well and differ in this space"
                )
            continue
        past.append(study)
        facts.append(_fact(near, study, len(trials)))
    return WarmStart(facts=tuple(facts), past=tuple(past), starts=_starts(past, space, baseline))


def _fact(near: Near, study: PastStudy, n_trials: int) -> WarmStudy:
    return WarmStudy(
        id=near.record.id, study=near.record.name, name=study.name, digest=_digest(study), n_trials=n_trials,
        nearness=round(near.nearness, 3), overlap=round(near.overlap, 3), workload=round(near.workload, 3),
        machine=round(near.machine, 3),
    )  # fmt: skip


def _digest(study: PastStudy) -> str:
    """Of what was taken over."""
    return hashlib.sha256(json.dumps(asdict(kept_past(study)), sort_keys=True).encode()).hexdigest()


def _trials_of(
    history: History, record: StudyRecord, objective: Objective
) -> tuple[Sequence[TrialSummary], Collection[int]]:
    """Its trials, and the numbers of those that have missed a constraint of `objective`, or a guard; none of them where it had
    other constraints: what it has kept says nothing about these."""
    trials = history.trial_summaries([record.id])[record.id]
    if Objective.parse(record.objective).constraints != objective.constraints:
        return trials, ()
    return trials, {trial.number for trial in history.trials(record.id) if trial.excess > 0}


def _past(
    name: str, nearness: float, trials: Sequence[TrialSummary], missed: Collection[int], space: Space, baseline: Config
) -> PastStudy:
    """Mean loss of each config, and the configs that failed; `missed` are numbers of trials that count as failed."""
    losses: dict[Config, list[float]] = {}
    failed: dict[Config, None] = {}
    own = cache(partial(space.fit, otherwise=space.canonical(baseline)))
    for trial in trials:
        config = own(trial.config)
        if trial.loss is not None and trial.number not in missed:
            losses.setdefault(config, []).append(trial.loss)
        elif trial.status.is_config_fault or trial.number in missed:
            failed[config] = None
    means = {config: sum(values) / len(values) for config, values in losses.items()}
    kept = _thinned(sorted(means, key=lambda config: means[config]))
    return PastStudy(
        name=name,
        nearness=nearness,
        configs=tuple(kept),
        losses=tuple(means[config] for config in kept),
        failed=tuple(config for config in failed if config not in means)[:_MOST_CONFIGS],
    )


def _thinned(ordered: list[Config]) -> list[Config]:
    if len(ordered) <= _MOST_CONFIGS:
        return ordered
    half = _MOST_CONFIGS // 2
    rest = ordered[half:]
    return [*ordered[:half], *(rest[round(i * (len(rest) - 1) / (half - 1))] for i in range(half))]


def _starts(past: Sequence[PastStudy], space: Space, baseline: Config) -> tuple[Config, ...]:
    """The best configs that gained, the nearest study's best first, then the others' in turn; feasible here."""
    here = space.canonical(baseline)
    by_study = [[c for c, loss in zip(s.configs, s.losses, strict=True) if loss < 0] for s in past]
    turns = [configs[rank] for rank in range(_MOST_CONFIGS) for configs in by_study if rank < len(configs)]
    fit = (config for config in dict.fromkeys(turns) if config != here and space.is_feasible(config))
    return tuple(islice(fit, _N_STARTS))
