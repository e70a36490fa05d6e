"""Synthetic tuning problems with known optima: few knobs matter, plateaus, cliffs, crashes, a constraint, noise.

A surface is the true loss (log-ratio against its baseline) as a function of a config; `evaluate` adds noise and
failures like a real trial. Which knob plays which part is drawn from the seed, so no searcher can be tuned to a place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import SpaceError
from trimtab.records import Context, Role, Status, Trial
from trimtab.search import Searcher, SearchProblem
from trimtab.space import Config, Constraint, Knob, KnobKind, RestartClass, Space, Value

__all__ = ["CONTEXT", "NOISE", "Surface", "context_surface", "least_loss", "make_surface", "run", "unit"]

NOISE = 0.03
"""Standard deviation of a measured loss, unless another is asked for."""

CONTEXT = Context(workload="synthetic", clients=8)

_KINDS = (
    KnobKind.INTEGER, KnobKind.INTEGER, KnobKind.REAL, KnobKind.INTEGER, KnobKind.BOOLEAN, KnobKind.CHOICE,
    KnobKind.INTEGER, KnobKind.REAL, KnobKind.INTEGER, KnobKind.ORDINAL,
)  # fmt: skip
_CHOICES = ("a", "b", "c", "d")


def _knob(index: int) -> Knob:
    name, restart = f"k{index:02d}", RestartClass.RESTART if index % 5 == 0 else RestartClass.RELOAD
    kind = _KINDS[index % len(_KINDS)]
    if kind is KnobKind.BOOLEAN:
        return Knob(name=name, kind=kind, default=False, restart=restart)
    if kind in (KnobKind.CHOICE, KnobKind.ORDINAL):
        return Knob(name=name, kind=kind, choices=_CHOICES, default="b", restart=restart)
    if kind is KnobKind.REAL:
        return Knob(name=name, kind=kind, low=0.5, high=8.0, default=2.0, restart=restart)
    if index % len(_KINDS) == 6:
        return Knob(name=name, kind=kind, low=10, high=500, default=20, special=(0,), restart=restart)
    return Knob(name=name, kind=kind, low=16, high=16384, log=True, default=64, restart=restart)


def unit(knob: Knob, value: Value) -> float:
    """Where `value` lies between the knob's bounds, 0 to 1 (-1 for a special value)."""
    if isinstance(value, str):
        return knob.choices.index(value) / (len(knob.choices) - 1)
    if value in knob.special and not isinstance(value, bool):
        return -1.0
    if isinstance(value, bool):
        return float(value)
    low, high = float(knob.low or 0.0), float(knob.high or 1.0)
    return math.log(value / low) / math.log(high / low) if knob.log else (value - low) / (high - low)


Term = Callable[[Mapping[str, float]], float]


@dataclass(slots=True)
class Surface:
    """One synthetic problem.

    Attributes:
        space, baseline, advice: as a searcher sees them.
        terms: parts of the loss, each a function of the units of all knobs.
        faint: small linear effects by knob.
        crashes: true where the server would not start; no searcher can know it beforehand.
        baseline_loss: what the terms add up to at the baseline.
        optimum: least true loss over feasible configs that do not crash (found by coordinate descent from many starts).
    """

    space: Space
    baseline: Config
    advice: tuple[Config, ...]
    terms: list[Term]
    faint: Mapping[str, float]
    crashes: Callable[[Mapping[str, float]], bool]
    noise: float = NOISE
    baseline_loss: float = 0.0
    optimum: float = 0.0

    def units(self, config: Config) -> dict[str, float]:
        """Where each knob lies, 0 to 1; -1 for a special value."""
        return {name: unit(knob, config[name]) for name, knob in self.space.knobs.items()}

    def _raw(self, units: Mapping[str, float]) -> float:
        strong = sum(term(units) for term in self.terms)
        return strong + sum(weight * units[name] for name, weight in self.faint.items())

    def raw(self, config: Config) -> float:
        """What the terms add up to at `config`."""
        return self._raw(self.units(config))

    def loss(self, config: Config) -> float:
        """True loss, 0 at the baseline; infinite where the config crashes."""
        units = self.units(config)
        return math.inf if self.crashes(units) else self._raw(units) - self.baseline_loss

    def evaluate(self, config: Config, number: int, seed: int) -> Trial:
        """A trial of `config`, with noise that depends on `seed` and `number` only.

        Raises:
            SpaceError: `config` is infeasible; such a one must not reach a target.
        """
        if not self.space.is_feasible(config):
            raise SpaceError("an infeasible config reached the target", hint="; ".join(self.space.violations(config)))
        loss = self.loss(config)
        if not math.isfinite(loss):
            return Trial(number=number, role=Role.SEARCH, config=config, context=CONTEXT, status=Status.CRASHED)
        noise = float(np.random.default_rng([seed, number, 99]).normal(0.0, self.noise))
        return Trial(
            number=number, role=Role.SEARCH, config=config, context=CONTEXT, status=Status.OK,
            loss=loss + noise, loss_se=self.noise,
        )  # fmt: skip

    def problem(self, seed: int, budget: int | None, *, is_advised: bool = True, **options: object) -> SearchProblem:
        """The problem as a searcher gets it."""
        advice = self.advice if is_advised else ()
        return SearchProblem(
            space=self.space, baseline=self.baseline, advice=advice, seed=seed, budget_trials=budget, options=options
        )

    def gain_share(self, config: Config) -> float:
        """Share of the reachable gain (in log-ratio) that `config` truly has; at most 1."""
        return self.loss(config) / self.optimum


def run(surface: Surface, searcher: Searcher, n_trials: int, seed: int) -> list[float]:
    """Drives `searcher`; after each trial, the true share of the reachable gain of what it calls best (0 if none)."""
    searcher.tell(surface.evaluate(surface.baseline, 0, seed))
    shares = []
    for number in range(1, n_trials + 1):
        searcher.tell(surface.evaluate(searcher.ask()[0], number, seed))
        best = searcher.best()
        shares.append(max(0.0, surface.gain_share(best.config)) if best is not None else 0.0)
    return shares


def _saturating(name: str, weight: float, end: float) -> Term:
    """Falls until `end`, flat after it."""
    return lambda u: weight * max(0.0, 1.0 - max(u[name], 0.0) / end)


def _valley(name: str, weight: float, at: float) -> Term:
    return lambda u: weight * min(1.0, ((u[name] - at) / 0.5) ** 2)


def _ridge(first: str, second: str, weight: float) -> Term:
    """An interaction: the best place of `first` depends on `second`."""
    return lambda u: weight * abs(u[first] - 0.25 - 0.5 * max(u[second], 0.0))


def _cliff(name: str, weight: float, at: float) -> Term:
    return lambda u: weight if u[name] > at else 0.0


def _table(name: str, values: tuple[float, ...]) -> Term:
    return lambda u: values[round(max(u[name], 0.0) * (len(values) - 1))]


def _special(name: str, gain: float) -> Term:
    return lambda u: -gain if u[name] < 0 else 0.0


@cache
def make_surface(n_knobs: int, seed: int, noise: float = NOISE) -> Surface:
    """A surface with `n_knobs` knobs (20 or more), eight of which matter; different for each seed.

    What the other knobs do together does not grow with their number, so that the few keep most of the gain.
    """
    rng = np.random.default_rng([seed, n_knobs])
    space = Space([_knob(i) for i in range(n_knobs)], [Constraint("k00 + k01 + k03 <= 40000", name="memory")])
    of = {kind: [n for n, k in space.knobs.items() if k.kind is kind and not k.special] for kind in KnobKind}
    logs = [str(n) for n in rng.permutation(of[KnobKind.INTEGER])]
    reals = [str(n) for n in rng.permutation(of[KnobKind.REAL])]
    special = str(rng.choice([n for n, k in space.knobs.items() if k.special]))
    choice, switch = str(rng.choice(of[KnobKind.CHOICE])), str(rng.choice(of[KnobKind.BOOLEAN]))
    terms = [
        _saturating(logs[0], 0.55, rng.uniform(0.6, 0.8)),
        _valley(logs[1], 0.35, rng.uniform(0.55, 0.9)),
        _ridge(logs[2], reals[0], 0.4),
        _cliff(logs[3], 0.8, 0.85),
        _table(choice, tuple(rng.permutation([0.0, 0.12, 0.2, -0.05]).tolist())),
        _table(switch, (0.08, 0.0)),
        _special(special, 0.1),
    ]
    faint = {name: float(rng.normal(0.0, 0.008)) * min(1.0, 20 / n_knobs) for name in space.knobs}
    high, second = logs[0], logs[4]
    surface = Surface(space, space.default(), (), terms, faint, lambda u: u[high] + u[second] > 1.55, noise)
    surface.advice = (_advice(surface, {logs[0]: 0.55, logs[2]: 0.6, logs[4]: 0.5, logs[5]: 0.5, reals[0]: 0.2}),)
    surface.baseline_loss = surface.raw(surface.baseline)
    surface.optimum = least_loss(surface, [surface.baseline, *surface.advice, *surface.space.sample(3, rng)])
    return surface


def _value(knob: Knob, share: float) -> Value:
    """The value of a numeric knob at `share` of its range."""
    low, high = float(knob.low or 0.0), float(knob.high or 1.0)
    value = low * (high / low) ** share if knob.log else low + share * (high - low)
    return round(value) if knob.kind is KnobKind.INTEGER else value


def _advice(surface: Surface, shares: Mapping[str, float]) -> Config:
    """Rules get part of the way: some right, some useless, none exact."""
    knobs = surface.space.knobs
    return surface.baseline.replace({name: _value(knobs[name], share) for name, share in shares.items()})


def _levels(knob: Knob) -> list[Value]:
    if knob.kind is KnobKind.BOOLEAN:
        return [False, True]
    if knob.choices:
        return list(knob.choices)
    return [*knob.special, *dict.fromkeys(_value(knob, i / 40) for i in range(41))]


def least_loss(surface: Surface, starts: Sequence[Config]) -> float:
    """The least loss that coordinate descent finds from `starts`; at most 0."""
    return min(0.0, *(_descended(surface, start) for start in starts))


def _descended(surface: Surface, start: Config) -> float:
    values, units, least = dict(start), surface.units(start), surface.loss(start)
    levels = {
        name: [(value, unit(knob, value)) for value in _levels(knob)] for name, knob in surface.space.knobs.items()
    }
    for _ in range(3):
        at_first = least
        for name, own in levels.items():
            weight = surface.faint[name]
            rest = sum(w * units[other] for other, w in surface.faint.items() if other != name) - surface.baseline_loss
            for value, place in own:
                before = values[name], units[name]
                values[name], units[name] = value, place
                strong = math.inf if surface.crashes(units) else sum(term(units) for term in surface.terms)
                loss = strong + weight * units[name] + rest
                # Feasibility last: it costs more than the loss.
                if loss < least and surface.space.is_feasible(values):
                    least = loss
                else:
                    values[name], units[name] = before
        if least == at_first:  # the next round would find nothing either
            break
    return least


def context_surface(seed: int, n_knobs: int = 12) -> tuple[Space, Callable[[Config, Context], float]]:
    """A space, and a true loss relative to each workload's own baseline that depends on the workload.

    Two knobs of three are best at a place that moves with the share of reads and with the clients; every third matters
    alike under all workloads.
    """
    rng = np.random.default_rng([seed, 4])
    space = Space([Knob(name=f"c{i:02d}", kind=KnobKind.REAL, low=0.0, high=1.0, default=0.1) for i in range(n_knobs)])
    weights = rng.permutation(np.geomspace(0.5, 0.02, n_knobs))
    home, by_reads, by_clients = (
        rng.uniform(0.25, 0.75, n_knobs),
        rng.normal(0, 0.6, n_knobs),
        rng.normal(0, 0.4, n_knobs),
    )
    moves = np.arange(n_knobs) % 3 != 0

    def raw(units: NDArray[np.float64], context: Context) -> float:
        shift = by_reads * (context.read_share - 0.8) + by_clients * (context.clients / 50 - 1)
        best = np.clip(home + np.where(moves, shift, 0.0), 0.0, 1.0)
        return float((weights * np.minimum(1.0, ((units - best) / 0.5) ** 2)).sum())

    def loss(config: Config, context: Context) -> float:
        units = np.array([unit(knob, config[name]) for name, knob in space.knobs.items()])
        return raw(units, context) - raw(np.full(n_knobs, 0.1), context)

    return space, loss
