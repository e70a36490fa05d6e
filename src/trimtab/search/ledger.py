"""Ledger: what was asked, and what the trials told so far say about each config, repeats averaged by their precision."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import SpaceError
from trimtab.records import Status, Trial
from trimtab.space import Config, Space

__all__ = ["Evidence", "Ledger", "kept", "measured"]

Array = NDArray[np.float64]

_BEST_SHARE, _RECENT_SHARE = 0.5, 0.3
"""Of the configs kept when there are too many: the best, the latest; the rest is spread evenly over the others."""

_MOST_LOST = 3
"""Trials of one config that are lost to faults that are not its own, until it is not asked any more: what cannot be measured must
not keep a search waiting."""

_LEAST_SE = 1e-6
"""A standard error of 0 (a fake target) would give infinite weight."""


@dataclass(slots=True, eq=False)
class Evidence:
    """Everything that was told of one config.

    Attributes:
        config: the canonical config of the space.
        space: of the search.
        measured: trials with a finite loss, in the order told.
        n_good: trials that were measured and met all constraints of the objective, or missed them by no more than is allowed.
        n_bad: trials that failed by the config's fault, had no finite loss, or missed the constraints by more.
        loss: mean loss over `measured`, weighted by precision, with what each missed of the constraints while some of that is
            allowed; NaN while there is none.
        se: standard error of `loss`; None when no trial told one.
    """

    config: Config
    space: Space
    measured: list[Trial] = field(default_factory=list)
    n_good: int = 0
    n_bad: int = 0
    loss: float = math.nan
    se: float | None = None
    _point: Array | None = None
    _features: Array | None = None
    _mean: _Mean = field(default_factory=lambda: _Mean())

    @property
    def point(self) -> Array:
        """(d,) its place in the unit cube; worked out when a model first asks for it."""
        if self._point is None:
            self._point = self.space.encode(self.config)
        return self._point

    @property
    def features(self) -> Array:
        """(f,) what models see of it; worked out when one first asks for them."""
        if self._features is None:
            self._features = np.asarray(self.space.features([self.config])[0])
        return self._features

    def seen_as(self, features: Array) -> Evidence:
        """The same as a model of other features sees it."""
        return replace(self, _features=features)

    @property
    def is_acceptable(self) -> bool:
        """Whether most of its trials were measured and met all constraints."""
        return self.n_good > self.n_bad

    def add(self, trial: Trial, allowed: float = 0.0) -> None:
        """Takes one more trial of this config into account; `allowed` is that of the ledger."""
        loss = trial.loss if trial.status.is_measured and trial.loss is not None else math.nan
        loss += trial.excess if allowed else 0.0
        if math.isfinite(loss):
            self.measured.append(trial)
            self.loss, self.se = self._mean.add(loss, _known_se(trial))
        if math.isfinite(loss) and trial.excess <= allowed:
            self.n_good += 1
        else:
            self.n_bad += 1

    def representative(self) -> Trial:
        """The most precise of the acceptable trials; the latest among equals."""
        good = [trial for trial in self.measured if trial.is_feasible]
        return min(reversed(good), key=lambda trial: _known_se(trial) or math.inf)


def _known_se(trial: Trial) -> float | None:
    se = trial.loss_se
    return max(se, _LEAST_SE) if se is not None and math.isfinite(se) and se >= 0 else None


class _Mean:
    """Mean loss weighted by 1/se², and its standard error; a trial without one counts like the least precise other."""

    def __init__(self) -> None:
        self._losses: list[float] = []
        self._weights: list[float | None] = []
        self._widest = 0.0

    def add(self, loss: float, se: float | None) -> tuple[float, float | None]:
        """With one more trial."""
        self._losses.append(float(loss))
        self._weights.append(None if se is None else se**-2.0)
        self._widest = max(self._widest, se or 0.0)
        if len(self._losses) == 1:
            return float(loss), se
        losses = np.array(self._losses)
        if not self._widest:
            return float(losses.mean()), None
        least = self._widest**-2.0
        weights = np.array([least if weight is None else weight for weight in self._weights])
        return float(np.average(losses, weights=weights)), float(weights.sum() ** -0.5)


class Ledger:
    """The configs asked and the trials told of one search, by config, in the order in which each was first told.

    Telling the very same trial twice changes nothing. Trials of status `INFRASTRUCTURE`, and those whose config cannot
    be expressed in the space, are not entered; but whatever is told of a config, it is no longer waited for. One of which three
    trials were lost in this way is given up.

    Where the baseline misses a constraint of the objective, a search has to find its way to the configs that meet it. With
    `nears_constraints`, while no config meets them all, what a config misses of them is part of its loss, and one is acceptable
    that misses no more than the baseline does; what was told before is seen in the same way. As soon as one config meets them,
    only such configs are acceptable.

    Args:
        space: what may change.
        home: the baseline as a config of the space.
        pending: as below, shared with other ledgers; None: none are pending.
        nears_constraints: as above.

    Attributes:
        space, home: as given.
        pending: configs asked and not yet told, with how often.
        here: the config of the latest trial that changed the target, so what it has now; at first the baseline.
        allowed: what an acceptable config may miss of the constraints: 0, or the most that a run of the baseline missed.
    """

    def __init__(
        self, space: Space, home: Config, pending: Counter[Config] | None = None, *, nears_constraints: bool = False
    ) -> None:
        self.space, self.home, self._nears_constraints = space, home, nears_constraints
        self.allowed = 0.0
        self._entered: list[tuple[Config, Trial]] = []
        self._met: Counter[Config] = Counter()
        self._missed_at_home = 0.0
        self.pending: Counter[Config] = Counter() if pending is None else pending
        self.here = home
        self._evidence: dict[Config, Evidence] = {}
        self._seen: set[tuple[object, ...]] = set()
        self._n_lost: Counter[Config] = Counter()
        self._own: dict[Config, Config | None] = {}

    def __len__(self) -> int:
        return len(self._evidence)

    def __iter__(self) -> Iterator[Evidence]:
        return iter(self._evidence.values())

    def __contains__(self, config: Config) -> bool:
        return config in self._evidence

    def get(self, config: Config) -> Evidence | None:
        """What is known of `config`; None when it was never told."""
        return self._evidence.get(config)

    @property
    def evidence(self) -> list[Evidence]:
        """What models learn from, in the order in which each config was first told."""
        return list(self)

    @property
    def taken(self) -> frozenset[bytes]:
        """Places, as bytes, of the configs asked or told."""
        pending = (self.space.encode(config) for config in self.pending)
        return frozenset(place.tobytes() for place in (*(e.point for e in self), *pending))

    @property
    def pending_features(self) -> Array:
        """(p, f) features of the pending configs."""
        return self.space.features(tuple(self.pending)) if self.pending else np.empty((0, 0))

    def is_new(self, config: Config) -> bool:
        """Whether `config` was neither asked nor told, or only told of trials that were lost, and is not given up."""
        return config not in self.pending and config not in self and not self.is_given_up(config)

    def is_given_up(self, config: Config) -> bool:
        """Whether so many trials of `config` were lost to faults that are not its own that it is not asked any more."""
        return self._n_lost[config] >= _MOST_LOST

    def tell(self, trial: Trial) -> Evidence | None:
        """Enters `trial`; returns the evidence of its config when that changed, else None."""
        config = self.own(trial.config)
        if config is None:
            return None
        if trial.status not in (Status.INFEASIBLE, Status.REJECTED):
            self.here = config
        self.pending[config] -= 1
        if self.pending[config] < 1:
            del self.pending[config]
        key = (trial.number, trial.config, trial.role, trial.status, repr(trial.loss), trial.loss_se, trial.started_at)
        if key in self._seen:
            return None
        self._seen.add(key)
        if trial.status is Status.INFRASTRUCTURE:
            self._n_lost[config] += 1
            return None
        self._enter(config, trial)
        if self._nears_constraints:
            self._entered.append((config, trial))
            self._met[config] += 1 if trial.is_feasible else -1
            if config == self.home and trial.status.is_measured and math.isfinite(trial.excess):
                self._missed_at_home = max(self._missed_at_home, trial.excess)
            self._set_allowed()
        return self._evidence[config]

    def _enter(self, config: Config, trial: Trial) -> None:
        if config not in self._evidence:
            self._evidence[config] = Evidence(config, self.space)
        self._evidence[config].add(trial, self.allowed)

    def _set_allowed(self) -> None:
        """When something else is allowed now, all evidence is made anew."""
        is_met = self._missed_at_home > 0 and any(n > 0 for n in self._met.values())
        allowed = 0.0 if is_met else self._missed_at_home
        if allowed != self.allowed:
            self.allowed = allowed
            self._evidence.clear()
            for config, trial in self._entered:
                self._enter(config, trial)

    def own(self, config: Config) -> Config | None:
        """The canonical config of this space that `config` means; None when a value of it is not legal here.

        Foreign knobs are dropped, missing ones filled in from the baseline.
        """
        if config not in self._own:  # each trial is asked for several times
            self._own[config] = self._made_own(config)
        return self._own[config]

    def _made_own(self, config: Config) -> Config | None:
        try:
            if config.keys() == self.space.knobs.keys():
                return self.space.canonical(config)
            return self.space.canonical({name: config.get(name, self.home[name]) for name in self.space.knobs})
        except SpaceError:
            return None

    def best(self) -> Evidence | None:
        """The acceptable config with the least mean loss; the first told among equals; None when there is none."""
        acceptable = [evidence for evidence in self if evidence.is_acceptable]
        return min(acceptable, key=lambda evidence: evidence.loss, default=None)


def measured(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Those that have a loss."""
    return [e for e in evidence if e.measured]


def kept(evidence: list[Evidence], cap: int) -> list[Evidence]:
    """At most `cap` of `evidence` (in the order told), by the shares above; in the order told.

    What is not acceptable is no better than anything that is, however fast.
    """
    if len(evidence) <= cap:
        return evidence
    keys = np.array([e.loss if e.measured else np.inf for e in evidence])
    by_loss = np.lexsort((keys, np.array([not e.is_acceptable for e in evidence])))
    n_best, n_recent = int(cap * _BEST_SHARE), int(cap * _RECENT_SHARE)
    keep = set(by_loss[:n_best].tolist()) | set(range(len(evidence) - n_recent, len(evidence)))
    others = [int(i) for i in by_loss if int(i) not in keep]
    places = np.linspace(0, len(others) - 1, max(0, cap - len(keep))).astype(int)
    keep |= {others[place] for place in places}
    return [evidence[i] for i in sorted(keep)]
