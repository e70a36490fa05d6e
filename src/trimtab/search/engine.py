"""BayesianSearcher: a design first, then members that ask in turn; each is a model, a region, and what a trial is worth.

The parts know nothing of each other and are put together as data (see `trimtab.search.auto`). All members share one ledger:
every trial told teaches all of them, and a config that waits for its trial counts as measured for all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.records import Trial
from trimtab.search.acquisition import Gain, Term, blamed, expected_gain, improvement, scored
from trimtab.search.base import SearcherBase
from trimtab.search.belief import Belief
from trimtab.search.design import Design
from trimtab.search.ledger import measured
from trimtab.search.optimise import Optimise, Region
from trimtab.search.searcher import SearchProblem
from trimtab.search.surrogate import GaussianModel, Model
from trimtab.space import Config
from trimtab.threads import single_threaded

__all__ = ["BayesianSearcher", "Member"]

Array = NDArray[np.float64]

_SMALL_GAINS = 10
"""Asks of one member in a row that promise next to nothing, after which it has converged."""

_TRIED = 8
"""How many of the best candidates are looked at for one that is new."""

_LUCKY = 0.7
"""Standard errors by which a winner lies below what is expected of it when it is measured again."""

_UNLIKE = 32
"""Configs drawn for one that is unlike what failed."""


@dataclass(slots=True)
class Member:
    """One who asks.

    Attributes:
        model: of the loss; members may share one.
        region: where candidates lie; its own.
        terms: what counts beside the expected improvement.
        optimise: finds the candidates of greatest worth.
        gain: what a trial promises by the model alone.
        random_share: share of its asks that are random configs: they keep a wrong model from going in circles.
        n_small: asks in a row that promised next to nothing.
    """

    model: Model
    region: Region
    terms: Sequence[Term]
    optimise: Optimise
    gain: Gain = improvement
    random_share: float = 0.0
    n_small: int = 0

    @property
    def is_converged(self) -> bool:
        """Whether it thinks that going on is not worth it."""
        return self.n_small >= _SMALL_GAINS or self.region.is_converged


class BayesianSearcher(SearcherBase):
    """Advice, a design, then whatever the members hold for most promising. A strategy brings design and members.

    Of its options `marginal` is the expected gain (log-ratio) that is next to nothing, and `repeats`, if there is one, says how
    often one config is tried at most: the best so far is measured again when its loss looks like luck.

    Attributes:
        belief: what was expected beforehand; None where nothing was.
        design: configs before any model.
        members: who asks, one after the other, again and again; one may come several times.
    """

    NEARS_CONSTRAINTS: ClassVar[bool] = True

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._check_options()
        self.belief = Belief(self.space, self.filler, problem.prior) or None
        self.design, self.members = self._made()
        self._is_designed = False
        self._asked_by: dict[Config, Member] = {}
        self._n_turns = 0

    @abstractmethod
    def _made(self) -> tuple[Design, Sequence[Member]]:
        """Design and members, from the problem and the options."""

    def _check_options(self) -> None:
        """Raises UsageError for values that mean nothing, of the options that all strategies have (`repeats`: some)."""
        for name in ("initial", "marginal", "caution"):
            self._require(name, self.options[name] >= 0, "0 or more")
        for name in ("candidates", "cap"):
            self._require(name, self.options[name] >= 10, "10 or more")
        self._require("changes", self.options["changes"] >= 1, "1 or more")
        self._require("restart_share", 0 <= self.options["restart_share"] <= 1, "between 0 and 1")
        self._require("repeats", self.options.get("repeats", 1) >= 1, "1 or more")

    @property
    def is_converged(self) -> bool:
        """Whether all members have converged."""
        return all(member.is_converged for member in self.members)

    def tell(self, trial: Trial) -> None:
        """Learns from `trial`; the members' regions hear of a config that was not known before."""
        config, n_known, allowed = self.ledger.own(trial.config), len(self.ledger), self.ledger.allowed
        super().tell(trial)
        if self.ledger.allowed != allowed:
            for member in self.members:
                member.region.forget()
        if config is None:
            return
        evidence, asker = self.ledger.get(config), self._asked_by.pop(config, None)
        if evidence is not None and len(self.ledger) > n_known:
            for member in {id(m): m for m in self.members}.values():
                member.region.told(evidence, is_own=member is asker)

    def _propose(self, rng: np.random.Generator) -> Config:
        planned = self._opening() or (None if self._is_designed else self._planned())
        if planned is not None:
            return planned
        # While something is pending it may yet be lost to a fault of the machine, and is then asked again.
        self._is_designed = self._is_designed or (self.design.is_over and not self.pending)
        if self.space.n_dims == 0 or len(measured(self.ledger.evidence)) < 2:
            return self._unlike_failures(rng)
        member = self.members[self._n_turns % len(self.members)]
        self._n_turns += 1
        with single_threaded():
            config = self._asked(member, rng)
        self._asked_by[config] = member
        return config

    def _planned(self) -> Config | None:
        """The next config of the design; None when it is done, or the turn is a member's."""
        return self.design.next(self.ledger)

    def _asked(self, member: Member, rng: np.random.Generator) -> Config:
        planned = self._first_new(member.region.planned)
        if planned is not None or rng.random() < member.random_share:
            return planned or self._random_new(rng)
        member.model.learn(self.ledger, rng)
        return self._doubtful(member.model) or self._most_promising(member, rng)

    def _most_promising(self, member: Member, rng: np.random.Generator) -> Config:
        """The new config of greatest worth in the member's region, by what its model has learned."""
        worth = scored(member.model, self.ledger, member.terms, rng, member.gain)
        points = member.optimise(self.ledger, member.model, worth, member.region, rng)
        config = self._first_new(self.space.decode_many(points[:_TRIED])) if len(points) else None
        if config is None:  # nothing new is left where it looks: that promises nothing
            member.n_small += 1
            return self._random_new(rng)
        gain = expected_gain(member.model, self.space.features([config]))
        member.n_small = member.n_small + 1 if gain < self.options["marginal"] else 0
        return config

    def _doubtful(self, model: Model) -> Config | None:
        """The config that looks best so far, when the model holds its loss for luck and another for the leader."""
        best = self.ledger.best()
        if (
            best is None
            or best is model.leaders[0]
            or best.config in self.pending
            or self.ledger.is_given_up(best.config)
            or not isinstance(model, GaussianModel)
        ):
            return None
        few = len(best.measured) < self.options.get("repeats", 1)
        return best.config if few and model.luck(best) > _LUCKY else None

    def _unlike_failures(self, rng: np.random.Generator) -> Config:
        """While too little could be measured for a model: as unlike what failed as can be.

        That is the only config that works with one knob changed, which few of the failures had changed as far; or, where none
        works, a random config far from all.
        """
        works, drawn = self.ledger.best(), self.space.sample(_UNLIKE, rng)
        if works is not None and self.space.n_dims:
            names = rng.choice(list(self.space.knobs), len(drawn))
            changed = (works.config.replace({name: c[name]}) for c, name in zip(drawn, names.tolist(), strict=True))
            drawn = [self.space.repair(config) for config in changed]
        drawn = [config for config in drawn if self._is_new(config)]
        if not drawn or not len(self.ledger):
            return self._random_new(rng)
        features = self.space.features(drawn)
        if works is not None:
            return drawn[int(np.argmin(blamed(self.ledger.evidence, works.features)(features)))]
        known = np.array([e.features for e in self.ledger])
        gaps = features[:, None, :] - known[None, :, :]
        return drawn[int(np.argmax((gaps**2).sum(axis=2).min(axis=1)))]
