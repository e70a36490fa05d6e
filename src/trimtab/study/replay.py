"""Replay: a stored study as a target of its own, without a server: its trials answer, failures and noise as recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import HistoryError, UsageError
from trimtab.history import History, StudyCopy, StudyRecord, find_study, load_format, read_history_at, read_space
from trimtab.model.forest import Forest
from trimtab.records import Context, Role, Status, Trial
from trimtab.search import Evidence, Ledger
from trimtab.space import Config, Space

__all__ = ["Replay", "find_recorded", "find_recorded_at", "make_replay"]

Array = NDArray[np.float64]

_LEAST = 10
"""Configs with a loss: fewer tell nothing about a space."""

_SEED = 0
"""Of the forests: a study is the same target whenever it is replayed."""

_USUAL_NOISE = 0.02
_ROUNDS, _CENTRES, _NEIGHBOURS = 8, 6, 30


class _Answers(Protocol):
    """What a config does: its true loss, infinite where it fails."""

    def losses(self, configs: Sequence[Config]) -> Array: ...


class _Nearest:
    """The recorded config that is nearest answers."""

    def __init__(self, space: Space, evidence: Sequence[Evidence]) -> None:
        self._space = space
        self._features = np.array([e.features for e in evidence])
        self._losses = np.array([e.loss if e.is_acceptable else math.inf for e in evidence])

    def losses(self, configs: Sequence[Config]) -> Array:
        asked = self._space.features(list(configs))
        gaps = ((asked[:, None, :] - self._features[None, :, :]) ** 2).sum(axis=2)
        return np.asarray(self._losses[gaps.argmin(axis=1)])


class _Forests:
    """A forest of the losses answers, another one says what fails."""

    def __init__(self, space: Space, evidence: Sequence[Evidence]) -> None:
        self._space = space
        good = [e for e in evidence if e.is_acceptable]
        x, y = np.array([e.features for e in good]), np.array([e.loss for e in good])
        self._loss = Forest(x, y, np.ones(len(y)), np.random.default_rng(_SEED))
        every, works = (
            np.array([e.features for e in evidence]),
            np.array([e.is_acceptable for e in evidence], dtype=float),
        )
        self._works = None if works.all() else Forest(every, works, np.ones(len(works)), np.random.default_rng(_SEED))

    def losses(self, configs: Sequence[Config]) -> Array:
        x = self._space.features(list(configs))
        found = self._loss.predict_mean(x)
        return found if self._works is None else np.where(self._works.predict_mean(x) >= 0.5, found, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A target that is made of records.

    Attributes:
        name: of the study.
        space, baseline: as they were.
        context: of the study.
        is_exact: whether the nearest recorded config answers, not a forest.
        noise: standard deviation of a measured loss, as recorded.
        optimum: least true loss that is known; below 0 where something can be gained.
        n_configs, n_failed: recorded configs, and those among them that failed or broke a constraint of the objective.
    """

    name: str
    space: Space
    baseline: Config
    context: Context
    is_exact: bool
    noise: float
    optimum: float
    n_configs: int
    n_failed: int
    answers: _Answers
    zero: float

    def true_loss(self, config: Config) -> float:
        """Loss without noise, 0 at the baseline; infinite where it fails."""
        return float(self.answers.losses([config])[0]) - self.zero

    def trial(self, config: Config, number: int, rng: np.random.Generator) -> Trial:
        """What measuring `config` gives: its loss with noise, or a failure."""
        loss = self.true_loss(config)
        works = math.isfinite(loss)
        return Trial(
            number=number,
            role=Role.SEARCH if number else Role.BASELINE,
            config=config,
            context=self.context,
            status=Status.OK if works else Status.CRASHED,
            reason="" if works else "as recorded",
            loss=loss + float(rng.normal(0.0, self.noise)) if works else None,
            loss_se=self.noise if works else None,
        )


def find_recorded(history: History, name: str, study: str | None = None) -> StudyCopy:
    """The study called `name`, or the one that the file `name` holds; `study` says which when it holds several. The newest of
    those of one name.

    Raises:
        UsageError: no such study or file, or a file of several studies.
        HistoryError: the file cannot be read.
    """
    if history.find_study(name) is None and Path(name).is_file():
        return _from_file(name, study)
    record = find_study(history, name)
    return StudyCopy(record, history.trials(record.id))


def find_recorded_at(url: str | None, state_dir: Path, name: str, study: str | None = None) -> StudyCopy:
    """As `find_recorded`, in the history at `url`, or the state directory's own; for a file there need be none.

    Raises:
        UsageError: no such study or file, or a file of several studies.
        HistoryError: the history or the file cannot be read.
    """
    try:
        history = read_history_at(url, state_dir)
    except HistoryError:
        if Path(name).is_file():
            return _from_file(name, study)
        raise
    with history:
        return find_recorded(history, name, study)


def _from_file(place: str, study: str | None) -> StudyCopy:
    try:
        copies = list(load_format(None, place).read(place).studies)
    except OSError as error:
        raise HistoryError(f"cannot read {place!r}: {error.strerror}", hint="give a file that you may read") from error
    names = [copy.record.name for copy in copies]
    found = [copy for copy in copies if study in (None, copy.record.name)]
    if len({copy.record.name for copy in found}) == 1:
        return max(found, key=lambda copy: copy.record.created_at)
    what = f"no study={study!r}" if not found else f"{len(names)} studies"
    raise UsageError(
        f"the file {place!r} holds {what}", hint=f"choose one with --study: {', '.join(sorted(set(names)))}"
    )


def make_replay(record: StudyRecord, trials: Sequence[Trial], *, is_exact: bool = False) -> Replay:
    """The target that the trials of a study make.

    Args:
        record: of the study.
        trials: its trials.
        is_exact: the nearest recorded config answers; else a forest fitted to all of them.

    Raises:
        UsageError: too few trials, none measured, or nothing that gains anything.
        HistoryError: the stored space cannot be read.
    """
    space = read_space(record)
    baseline = space.canonical(record.baseline)
    ledger = Ledger(space, baseline)
    for trial in trials:
        ledger.tell(trial)
    evidence = list(ledger)
    good = [e for e in evidence if e.is_acceptable]
    _require_enough(record.name, len(evidence), len(good))
    answers: _Answers = _Nearest(space, evidence) if is_exact else _Forests(space, evidence)
    own = ledger.get(baseline)
    zero = own.loss if own is not None and own.is_acceptable else float(answers.losses([baseline])[0])
    zero = float(answers.losses([baseline])[0]) if not is_exact and math.isfinite(zero) else zero
    least = _least(space, answers, [e.config for e in good]) if not is_exact else min(e.loss for e in good)
    if not math.isfinite(zero) or least - zero > -1e-6:
        raise UsageError(
            f"study={record.name!r} cannot be replayed: nothing in it is better than its baseline",
            hint="searchers cannot be compared where nothing can be gained; give another study",
        )
    return Replay(
        name=record.name, space=space, baseline=baseline, context=record.context, is_exact=is_exact,
        noise=_noise(evidence), optimum=least - zero, n_configs=len(evidence), n_failed=len(evidence) - len(good),
        answers=answers, zero=zero,
    )  # fmt: skip


def _require_enough(name: str, n_configs: int, n_good: int) -> None:
    if n_good == 0:
        raise UsageError(
            f"study={name!r} cannot be replayed: of its n_configs={n_configs} none was measured well",
            hint="give a study that has trials of status ok",
        )
    if n_good < _LEAST:
        raise UsageError(
            f"study={name!r} cannot be replayed: n_measured={n_good} configs are too few",
            hint=f"at least {_LEAST} different measured configs are needed; tune on, or give another study",
        )


def _noise(evidence: Sequence[Evidence]) -> float:
    """From run to run of one config, pooled; where nothing was repeated, the median standard error of a loss."""
    groups = [[t.loss for t in e.measured if t.loss is not None] for e in evidence]
    several = [np.array(group) for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    if freedom:
        return math.sqrt(sum(float(((group - group.mean()) ** 2).sum()) for group in several) / freedom)
    told = [t.loss_se for e in evidence for t in e.measured if t.loss_se is not None and math.isfinite(t.loss_se)]
    return float(np.median(told)) if told else _USUAL_NOISE


def _least(space: Space, answers: _Answers, pool: list[Config]) -> float:
    """The least loss found from the recorded configs by changing few knobs at a time."""
    rng = np.random.default_rng([_SEED, 3])
    found = answers.losses(pool)
    for _ in range(_ROUNDS):
        best = [pool[i] for i in np.argsort(found, kind="stable")[:_CENTRES]]
        pool = [*best, *(near for b in best for near in space.neighbours(b, rng, _NEIGHBOURS, radius=0.3))]
        found = answers.losses(pool)
    return float(found.min())
