"""TrimtabSampler: Trimtab's searchers for users of Optuna (extra `optuna`).

    study = optuna.create_study(sampler=TrimtabSampler("auto", seed=1))

Values of the study's objective count relative to that of the first trial that has one, best the one of the sampler's `baseline`
(`study.enqueue_trial`): as in a study of Trimtab a loss is ln(value / first value), turned round in a study that maximises, so
that units do not matter. Where a value is 0, or values are of both signs, there are no such ratios: a loss is the difference from
the first value, as a share of it, also of all trials before. Failed trials teach where failures lie; a pruned one has the last
value that it reported, and one that reported none teaches nothing. Parameters that the objective does not suggest in every trial
are drawn at random, as Optuna's own relational samplers do.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from urllib.parse import quote

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from trimtab.errors import UsageError
from trimtab.records import Context, Objective, Role, Status, Trial
from trimtab.search import Searcher, SearchProblem, create
from trimtab.space import Config, Knob, KnobKind, Space, Value

__all__ = ["TrimtabSampler"]

_CONTEXT = Context(workload="optuna", clients=1)
_SMALL_IS_GOOD = Objective("cost")
_STATUS = {
    TrialState.COMPLETE: (Status.OK, Status.CRASHED),
    TrialState.PRUNED: (Status.STOPPED_EARLY, Status.INFRASTRUCTURE),
    TrialState.FAIL: (Status.CRASHED, Status.CRASHED),
}
"""With a value, and without one."""

_ONE_AT_A_TIME = threading.Lock()
"""Optuna asks from several threads (`n_jobs`), and a searcher is made for one. The lock is of all samplers: one of its own would
keep a sampler from being pickled."""


@dataclass(frozen=True, slots=True)
class _Reference:
    """What losses are relative to.

    Attributes:
        par: the loss of the first trial that has one, as the study has it.
        is_ratio: whether all losses of the study are of its sign, and none is 0.
    """

    par: float
    is_ratio: bool

    def relative(self, loss: float) -> float:
        """0: as good as the first; 0.1: about a tenth worse."""
        if not self.is_ratio:
            return (loss - self.par) / (abs(self.par) or 1.0)
        return _SMALL_IS_GOOD.loss(abs(loss), abs(self.par)) * math.copysign(1.0, self.par)


class TrimtabSampler(BaseSampler):
    """Proposes with one of Trimtab's searchers.

    The first trial, and trials whose parameters differ from those before, are drawn at random. The middle of the space is
    the searcher's baseline until `baseline` says better. What counts of a value is its ratio to that of the first trial (see the
    module): half as much is as much better at any size.

    Args:
        searcher: the searcher's name.
        seed: the only source of randomness.
        baseline: parameters of the config that is in use now.
        options: the searcher's own options.

    Raises:
        UsageError: no such searcher, or a baseline that is none (when the first trial is proposed), or a study with several
            objectives.
    """

    def __init__(
        self,
        searcher: str = "auto",
        *,
        seed: int = 0,
        baseline: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._name, self._seed = searcher, seed
        self._baseline, self._options = dict(baseline or {}), dict(options or {})
        self._random = RandomSampler(seed=seed)
        self._common = IntersectionSearchSpace()
        self._searcher: Searcher | None = None
        self._made_for: tuple[object, ...] = ()
        self._reference: _Reference | None = None
        self._told: set[int] = set()
        self._asked: dict[int, Config] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without the searcher, which cannot be pickled: another one is made and told all trials, as in a new process."""
        return {**self.__dict__, "_searcher": None}

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that all finished trials have in common.

        Raises:
            UsageError: the study has several objectives.
        """
        if len(study.directions) > 1:
            raise UsageError(
                f"TrimtabSampler on a study with directions={len(study.directions)}", hint="use one objective"
            )
        return {
            name: kind
            for name, kind in self._common.calculate(study).items()
            if isinstance(kind, (CategoricalDistribution, FloatDistribution, IntDistribution)) and not kind.single()
        }

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Values for all of `search_space`, from the searcher.

        Raises:
            UsageError: the searcher does not exist, or the baseline is none of the parameters' values.
        """
        if not search_space:
            return {}
        with _ONE_AT_A_TIME:
            return self._sampled(study, trial, search_space)

    def _sampled(
        self, study: Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> dict[str, Any]:
        sign = -1.0 if study.direction is StudyDirection.MAXIMIZE else 1.0
        ended = study.get_trials(deepcopy=False, states=tuple(_STATUS))
        self._refer([loss for done in ended if (loss := _loss(done, sign)) is not None])
        searcher = self._searcher_for(search_space)
        for done in ended:
            if done.number in self._told:
                continue
            if all(name in done.params for name in search_space):
                told = self._related(self._trial(done, search_space, sign))
                self._withdraw(searcher, done.number, told.config)
                searcher.tell(told)
                self._told.add(done.number)
            else:
                self._withdraw(searcher, done.number, None)
        config = self._asked[trial.number] = _unlike_running(searcher, study, search_space)
        return {name: _outside(kind, config[_word(name)]) for name, kind in search_space.items()}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A random value."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def _searcher_for(self, search_space: Mapping[str, BaseDistribution]) -> Searcher:
        key = (self._reference, *sorted((name, repr(kind)) for name, kind in search_space.items()))
        if self._searcher is None or key != self._made_for:
            space = Space([_knob(_word(name), kind) for name, kind in sorted(search_space.items())])
            known = {_word(n): _known(n, search_space[n], v) for n, v in self._baseline.items() if n in search_space}
            home = space.default().replace(known)
            problem = SearchProblem(space=space, baseline=home, seed=self._seed, options=self._options)
            self._searcher, self._made_for = create(self._name, problem), key
            self._told.clear()
            self._asked.clear()
        return self._searcher

    def _withdraw(self, searcher: Searcher, number: int, tried: Config | None) -> None:
        """The searcher does not wait for what it asked of a trial that tried another config, or broke off before it had one."""
        asked = self._asked.pop(number, None)
        if asked is not None and asked != tried:
            lost = Trial(
                number=number, role=Role.SEARCH, config=asked, context=_CONTEXT, status=Status.INFRASTRUCTURE
            )  # fmt: skip
            searcher.tell(lost)

    def _refer(self, losses: Sequence[float]) -> None:
        """Settles what losses are relative to; when that changes, a new searcher is told all trials again."""
        if losses:
            par = losses[0] if self._reference is None else self._reference.par
            self._reference = _Reference(par, min(losses) > 0.0 or max(losses) < 0.0)

    def _related(self, trial: Trial) -> Trial:
        """With a loss as searchers expect it."""
        if trial.loss is None or self._reference is None:
            return trial
        return replace(trial, loss=self._reference.relative(trial.loss))

    def _trial(self, done: FrozenTrial, search_space: Mapping[str, BaseDistribution], sign: float) -> Trial:
        config, loss = _config(done, search_space), _loss(done, sign)
        status, without = _STATUS[done.state]
        status = status if loss is not None else without
        return Trial(
            number=done.number, role=Role.SEARCH, config=config, context=_CONTEXT, status=status, loss=loss
        )  # fmt: skip


def _config(trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]) -> Config:
    return Config({_word(name): _inside(kind, trial.params[name]) for name, kind in search_space.items()})


def _unlike_running(searcher: Searcher, study: Study, search_space: Mapping[str, BaseDistribution]) -> Config:
    """The next config that no running trial has: another process with a sampler of the same seed may have begun one."""
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    taken = {_config(trial, search_space) for trial in running if search_space.keys() <= trial.params.keys()}
    for _ in taken:
        config = searcher.ask()[0]
        if config not in taken:
            return config
    return searcher.ask()[0]


def _loss(done: FrozenTrial, sign: float) -> float | None:
    """The value with the sign that makes less better; None where there is none, or no finite one."""
    value = done.value if done.state is TrialState.COMPLETE else _last_report(done)
    return sign * value if value is not None and math.isfinite(value) else None


def _last_report(done: FrozenTrial) -> float | None:
    """What a pruned trial has reported last."""
    if done.state is not TrialState.PRUNED or done.last_step is None:
        return None
    return done.intermediate_values[done.last_step]


def _word(name: str) -> str:
    """The name of a parameter as that of a knob, which has no spaces and backquotes."""
    return quote(name) if any(letter.isspace() or letter in "`%" for letter in name) else name


def _knob(name: str, kind: BaseDistribution) -> Knob:
    if isinstance(kind, CategoricalDistribution):
        labels = _labels(kind.choices)
        return Knob(name=name, kind=KnobKind.CHOICE, choices=labels, default=labels[0])
    if not isinstance(kind, (IntDistribution, FloatDistribution)):
        raise UsageError(f"parameter {name}: {kind!r} is unknown", hint="use floats, integers and categories")
    if (
        isinstance(kind, FloatDistribution) and kind.step is not None
    ):  # its steps are counted: they need not be short decimals
        n_steps = round((kind.high - kind.low) / kind.step)
        return Knob(name=name, kind=KnobKind.INTEGER, low=0, high=n_steps, default=n_steps // 2)
    is_int, step = isinstance(kind, IntDistribution), kind.step
    middle = math.sqrt(kind.low * kind.high) if kind.log else (kind.low + kind.high) / 2
    made = Knob(
        name=name, kind=KnobKind.INTEGER if is_int else KnobKind.REAL, low=kind.low, high=kind.high, log=kind.log,
        step=step, default=kind.low,
    )  # fmt: skip
    return Knob(
        name=name, kind=made.kind, low=made.low, high=made.high, log=made.log, step=made.step,
        default=made.range.nearest(middle),
    )  # fmt: skip


def _labels(choices: Sequence[Any]) -> tuple[str, ...]:
    """Choices of any type by their place, so that 1 and "1" are told apart."""
    return tuple(f"{place}: {choice}" for place, choice in enumerate(choices))


def _inside(kind: BaseDistribution, value: Any) -> Value:
    if isinstance(kind, CategoricalDistribution):
        return _labels(kind.choices)[kind.choices.index(value)]
    if isinstance(kind, FloatDistribution) and kind.step is not None:
        return round((float(value) - kind.low) / kind.step)
    return int(value) if isinstance(kind, IntDistribution) else float(value)


def _known(name: str, kind: BaseDistribution, value: Any) -> Value:
    """`_inside` of a value that a person gave.

    Raises:
        UsageError: it is none of the parameter's.
    """
    try:
        return _inside(kind, value)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"baseline {name}={value!r} is not a value of {kind!r}", hint="give one of its values"
        ) from error


def _outside(kind: BaseDistribution, value: Value) -> Any:
    if isinstance(kind, CategoricalDistribution):
        return kind.choices[_labels(kind.choices).index(str(value))]
    if isinstance(kind, FloatDistribution):
        real = float(value)
        if kind.step is not None:  # as decimals: the third step of 0.1 is 0.3
            real = float(Fraction(repr(float(kind.low))) + int(value) * Fraction(repr(float(kind.step))))
        # Reals are held to six digits, which may lie a hair beyond the bounds.
        return min(max(real, kind.low), kind.high)
    return value
