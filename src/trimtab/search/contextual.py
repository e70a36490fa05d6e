"""Contextual Gaussian-process search: one model over configs and workloads, asked for the workload of the moment.

Sources: A. Krause, C. Ong, "Contextual Gaussian Process Bandit Optimization", NeurIPS 2011; S. Cereda, S. Valladares,
P. Cremonesi, S. Doni, "CGPTuner: a Contextual Gaussian Process Bandit Approach for the Automatic Tuning of IT
Configurations Under Varying Workload Conditions", VLDB 2021. The loss is relative to the workload's own baseline, so
workloads of different speed share what they teach. The workload is fixed while the acquisition is optimised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.records import Context, Trial
from trimtab.search.acceptability import fit_acceptability, kept
from trimtab.search.acquisition import LossScale
from trimtab.search.base import Options
from trimtab.search.context_kernel import ContextFeatures, fit_context_hyper
from trimtab.search.ledger import Evidence, Ledger
from trimtab.search.modelled import Model, ModelSearcher
from trimtab.search.searcher import SearchProblem
from trimtab.search.surrogate import Surrogate, SurrogateHyper, loss_data, measured
from trimtab.space import Config

__all__ = ["ContextModel", "ContextualGaussianProcessSearcher"]

Array = NDArray[np.float64]

_FIT_CAP = 150
"""Trials from which hyper-parameters are fitted; the cost grows with the cube, and with the choices of the frame."""

_N_LEADERS = 50
_CLOSE = 0.02
"""Workloads whose numbers differ by no more (relative, or absolute below 1) are one."""

_UNKNOWN = Context(workload="", clients=1)
"""The workload of a problem that names none."""


class ContextModel:
    """A surrogate over [config | workload], seen with one workload.

    Args:
        surrogate: over the features of configs, followed by those of workloads.
        evidence: what was told under any workload; features of configs only.
        workload: (g,) features of the workload in question.
        bravery: standard deviations that the lower confidence bound goes below the mean; 0: expected improvement.

    Attributes:
        leaders: acceptable configs of any workload, those of least expected loss under this one first.
    """

    def __init__(self, surrogate: Surrogate, evidence: list[Evidence], workload: Array, bravery: float) -> None:
        self._surrogate, self._workload, self._bravery = surrogate, workload, bravery
        features = self._beside(np.array([e.features for e in evidence]))
        self.leaders, surrogate.incumbent = surrogate.rank(evidence, features)

    def _beside(self, features: Array) -> Array:
        return np.hstack([features, np.broadcast_to(self._workload, (len(features), len(self._workload)))])

    def worth(self, features: Array) -> Array:
        """Log expected improvement, or less the lower confidence bound; plus the log probability of being acceptable."""
        beside = self._beside(features)
        if self._bravery == 0:
            return self._surrogate.worth(beside)
        mean, sd = self._surrogate.process.predict(beside)
        return self._bravery * sd - mean + self._surrogate.risk(beside)

    def expected_gain(self, features: Array) -> float:
        """Expected improvement of the loss at one row (1, f) under this workload."""
        return self._surrogate.expected_gain(self._beside(features))


class ContextualGaussianProcessSearcher(ModelSearcher):
    """Advice and a small Latin hypercube under the first workload; then what the model thinks best for the present one.

    Trials count for the workload that they carry. `best`, and whether a config is new, are of the present workload.

    Attributes:
        context: the workload that asks are for; may be set at any time between them.
    """

    NAME: ClassVar[str] = "contextual-gp"
    OPTIONS: ClassVar[Options] = {
        **ModelSearcher.OPTIONS,
        "cap": (400, "most trials that enter the model: the best, the latest, and some of the others"),
        "acquisition": ("ei", "'ei': expected improvement; 'lcb': lower confidence bound"),
        "bravery": (1.5, "'lcb' only: standard deviations that the bound lies below the mean"),
        "product": (True, "whether the effect of a config may depend on the workload; else only a sum of kernels"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        self._contexts: list[Context] = []
        self._ledgers: list[Ledger] = []
        self._told: list[tuple[Evidence, int]] = []
        self._is_given = problem.context is not None
        super().__init__(problem)
        self.context = problem.context or _UNKNOWN
        self._hyper: SurrogateHyper | None = None
        self._scaling = ContextFeatures.of([self.context])

    @property
    def context(self) -> Context:
        """The workload that asks are for."""
        return self._context

    @context.setter
    def context(self, context: Context) -> None:
        self._context = context
        self.ledger = self._ledgers[self._place(context)]

    def _place(self, context: Context) -> int:
        """The number of the known workload that `context` is, as near as makes no difference; a new one otherwise."""
        for number, known in enumerate(self._contexts):
            if _is_same(known, context):
                return number
        self._contexts.append(context)
        self._ledgers.append(Ledger(self.space, self.filler))
        return len(self._contexts) - 1

    def _check_options(self) -> None:
        super()._check_options()
        self._require("cap", self.options["cap"] >= 10, "10 or more")
        self._require("acquisition", self.options["acquisition"] in ("ei", "lcb"), "'ei' or 'lcb'")
        self._require("bravery", self.options["bravery"] > 0, "more than 0")

    def tell(self, trial: Trial) -> None:
        """As `SearcherBase.tell`, for the workload of the trial; while none was given it is that of the first trial."""
        if not self._is_given:
            self.context, self._is_given = trial.context, True
        place = self._place(trial.context)
        present, self.ledger = self.ledger, self._ledgers[place]
        n_known = len(self.ledger)
        super().tell(trial)
        if len(self.ledger) > n_known:
            self._told.append((list(self.ledger)[-1], place))
        self.ledger = present

    def _known(self) -> list[Evidence]:
        return [evidence for evidence, _ in self._told]

    def _planned(self) -> Config | None:
        """The next config of the design that was tried under no workload."""
        return self._first_new(c for c in self._design if not any(c in ledger for ledger in self._ledgers))

    def _effects(self) -> Array | None:
        return None if self._hyper is None else self._hyper.effects

    def _model(self, evidence: list[Evidence], rng: np.random.Generator) -> Model:
        is_due = self._is_refit_due(len(evidence)) or self._hyper is None or len(self._contexts) != self._n_contexts
        if is_due:
            self._scaling, self._n_contexts = ContextFeatures.of(self._contexts), len(self._contexts)
        rows = [self._scaling.row(context) for context in self._contexts]
        beside = [replace(e, features=np.r_[e.features, rows[place]]) for e, place in self._told]
        if is_due or self._hyper is None:
            self._hyper = self._fitted(beside)
        workload = rows[self._place(self.context)]
        pending = self._pending_features()
        if len(pending):
            pending = np.hstack([pending, np.tile(workload, (len(pending), 1))])
        options = self.options
        surrogate = Surrogate(beside, pending, self._hyper, cap=options["cap"], caution=options["caution"])
        bravery = options["bravery"] if options["acquisition"] == "lcb" else 0.0
        return ContextModel(surrogate, measured(evidence), workload, bravery)

    _n_contexts = 0
    """Number of workloads known at the last fit."""

    def _fitted(self, evidence: list[Evidence]) -> SurrogateHyper:
        some = kept(measured(evidence), _FIT_CAP)
        scale = LossScale.of(np.array([e.loss for e in some]))
        data, f = loss_data(some, scale), self._slices[-1].stop
        loss = fit_context_hyper(data.x[:, :f], data.x[:, f:], data.y, data.v, has_product=self.options["product"])
        return SurrogateHyper(scale, loss, loss.config.effects, fit_acceptability(evidence, _FIT_CAP))

    def _candidates(self, leaders: Sequence[Evidence], rng: np.random.Generator) -> Array:
        """As for other models, and the leaders of other workloads as they are."""
        others = np.array([e.point for e in leaders[:_N_LEADERS]])
        return self._new_points(np.vstack([super()._candidates(leaders, rng), others]))


def _is_same(a: Context, b: Context) -> bool:
    """Whether two workloads have the same name and numbers that are closer than they are usually known."""
    if a.workload != b.workload or a.features.keys() != b.features.keys():
        return False
    pairs = [
        (a.clients, b.clients),
        (a.read_share, b.read_share),
        *((a.features[n], b.features[n]) for n in a.features),
    ]
    return all(math.isclose(p, q, rel_tol=_CLOSE, abs_tol=_CLOSE) for p, q in pairs)
