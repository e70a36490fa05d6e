"""Contextual Gaussian-process search: one model over configs and workloads, asked for the workload of the moment.

Sources: A. Krause, C. Ong, "Contextual Gaussian Process Bandit Optimization", NeurIPS 2011; S. Cereda, S. Valladares,
P. Cremonesi, S. Doni, "CGPTuner: a Contextual Gaussian Process Bandit Approach for the Automatic Tuning of IT
Configurations Under Varying Workload Conditions", VLDB 2021. The loss is relative to the workload's own baseline, so
workloads of different speed share what they teach. The workload is fixed while the acquisition is optimised.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.model.gaussian_process import Kernel, LossScale
from trimtab.records import Context, Trial
from trimtab.search.acquisition import Score, Term, lower_bound
from trimtab.search.base import Options
from trimtab.search.context_kernel import ContextFeatures, fit_context_hyper
from trimtab.search.engine import Member
from trimtab.search.gp import MODEL_OPTIONS, ModelSearcher
from trimtab.search.learner import (
    Feasibility,
    GaussianModel,
    Model,
    Sight,
    is_fit_due,
    loss_data,
    measured,
    ranked,
)
from trimtab.search.ledger import Evidence, Ledger, kept
from trimtab.search.optimise import Everywhere, Near
from trimtab.search.searcher import SearchProblem
from trimtab.space import Config, Space

__all__ = ["ContextModel", "ContextualGaussianProcessSearcher"]

Array = NDArray[np.float64]

_FIT_CAP = 150
"""Trials from which hyper-parameters are fitted; the cost grows with the cube, and with the choices of the frame."""

_N_LEADERS = 50
_CLOSE = 0.02
"""Workloads whose numbers differ by no more (relative, or absolute below 1) are one."""

_UNKNOWN = Context(workload="", clients=1)
"""The workload until one is told."""


class Workloads:
    """The workloads met so far, each with a ledger of its own, and every config told under any of them."""

    def __init__(self, space: Space, filler: Config) -> None:
        self._space, self._filler = space, filler
        self.contexts: list[Context] = []
        self.ledgers: list[Ledger] = []
        self.told: list[tuple[Evidence, int]] = []

    def place(self, context: Context) -> int:
        """The number of the known workload that `context` is, as near as makes no difference; a new one otherwise."""
        for number, known in enumerate(self.contexts):
            if _is_same(known, context):
                return number
        self.contexts.append(context)
        self.ledgers.append(Ledger(self._space, self._filler))
        return len(self.contexts) - 1


def _beside(features: Array, workload: Array) -> Array:
    return np.hstack([features, np.broadcast_to(workload, (len(features), len(workload)))])


class ContextModel:
    """A `Model`: a Gaussian process over [config | workload], seen with one workload.

    Args:
        model: over the features of configs, followed by those of workloads.
        evidence: what was measured under any workload; features of configs only.
        workload: (g,) features of the workload in question.
    """

    def __init__(self, model: GaussianModel, evidence: list[Evidence], workload: Array) -> None:
        self._process, self._workload = model.process, workload
        believed = model.base.predict_mean(_beside(np.array([e.features for e in evidence]), workload))
        self.leaders, self.incumbent = ranked(evidence, believed)
        self.unit, self.effects = model.unit, model.effects

    def predict(self, features: Array) -> tuple[Array, Array]:
        """As `Model.predict`, under this workload."""
        return self._process.predict(_beside(features, self._workload))


class ContextLearner:
    """A Gaussian process over config and workload, and how likely a config is to work under one.

    Args:
        workloads: filled in by the searcher.
        present: the number of the workload that asks are for.
        n_features: of a config.
        cap: most trials in the process.
        has_product: whether the effect of a config may depend on the workload.
    """

    def __init__(
        self, workloads: Workloads, present: Callable[[], int], n_features: int, cap: int, has_product: bool
    ) -> None:
        self._workloads, self._present, self._n_features = workloads, present, n_features
        self._cap, self._has_product = cap, has_product
        self._n_fitted, self._feasibility = 0, Feasibility(_FIT_CAP)
        self._scaling = ContextFeatures.of([_UNKNOWN])
        self._fitted: tuple[LossScale, Kernel] | None = None
        self._n_contexts = 0

    def learn(self, sight: Sight, rng: np.random.Generator) -> ContextModel:
        """As `Learner.learn`; nothing is drawn."""
        contexts = self._workloads.contexts
        is_due = is_fit_due(len(sight.evidence), self._n_fitted)
        if is_due or self._fitted is None or len(contexts) != self._n_contexts:
            self._n_fitted = len(sight.evidence) if is_due else self._n_fitted
            self._scaling, self._n_contexts = ContextFeatures.of(contexts), len(contexts)
            self._fitted = self._fit(self._rows())
        workload, pending = self._workload(), sight.pending_features
        pending = _beside(pending, workload) if len(pending) else pending
        model = GaussianModel(self._rows(), pending, *self._fitted, self._cap)
        return ContextModel(model, measured(sight.evidence), workload)

    def _workload(self) -> Array:
        return self._scaling.row(self._workloads.contexts[self._present()])

    def _rows(self) -> list[Evidence]:
        """Everything told, with the features of its workload beside its own."""
        rows = [self._scaling.row(context) for context in self._workloads.contexts]
        return [e.seen_as(np.r_[e.features, rows[place]]) for e, place in self._workloads.told]

    def _fit(self, evidence: list[Evidence]) -> tuple[LossScale, Kernel]:
        some, f = kept(measured(evidence), _FIT_CAP), self._n_features
        scale = LossScale.of(np.array([e.loss for e in some]))
        x, y, v = loss_data(some, scale)
        return scale, fit_context_hyper(x[:, :f], x[:, f:], y, v, has_product=self._has_product)

    def score(self, sight: Sight, caution: float) -> Score:
        """caution · ln P under the present workload."""
        classifier = self._feasibility.learn(replace(sight, evidence=self._rows()))
        workload = self._workload()
        if classifier is None:
            return lambda features: np.zeros(len(features))
        return lambda features: caution * classifier.log_probability(_beside(features, workload))


class _AlsoLeaders(Everywhere):
    """Everywhere, and the leaders of other workloads as they are."""

    def draw(self, model: Model, near: Near, anchors: Array, n: int, rng: np.random.Generator) -> Array:
        """As `Region.draw`."""
        leaders = np.array([e.point for e in model.leaders[:_N_LEADERS]])
        return np.vstack([super().draw(model, near, anchors, n, rng), leaders])


class ContextualGaussianProcessSearcher(ModelSearcher):
    """Advice and a small Latin hypercube under the first workload; then what the model thinks best for the present one.

    Trials count for the workload that they carry. `best`, and whether a config is new, are of the present workload.

    Attributes:
        context: the workload that asks are for; may be set at any time between them.
        workloads: those met so far.
    """

    NAME: ClassVar[str] = "contextual-gp"
    OPTIONS: ClassVar[Options] = {
        **MODEL_OPTIONS,
        "acquisition": ("ei", "'ei': expected improvement; 'lcb': lower confidence bound"),
        "bound_width": (1.5, "'lcb' only: standard deviations that the bound lies below the mean"),
        "product": (True, "whether the effect of a config may depend on the workload; else only a sum of kernels"),
    }

    def __init__(self, problem: SearchProblem) -> None:
        self._present: int | None = None
        super().__init__(problem)
        if problem.context is not None:
            self.context = problem.context

    @property
    def context(self) -> Context:
        """The workload that asks are for; one without a name until the problem or a trial tells it."""
        return _UNKNOWN if self._present is None else self.workloads.contexts[self._present]

    @context.setter
    def context(self, context: Context) -> None:
        self._present = self.workloads.place(context)
        self.ledger = self.workloads.ledgers[self._present]

    def _check_options(self) -> None:
        super()._check_options()
        self._require("acquisition", self.options["acquisition"] in ("ei", "lcb"), "'ei' or 'lcb'")
        self._require("bound_width", self.options["bound_width"] > 0, "more than 0")

    def _member(self) -> Member:
        options = self.options
        self.workloads = Workloads(self.space, self.filler)
        learner = ContextLearner(
            self.workloads, lambda: self._present or 0, self.n_features, options["cap"], options["product"]
        )
        works: Term = partial(learner.score, caution=options["caution"])
        member = Member(learner, _AlsoLeaders(), [works], self._optimiser())
        if options["acquisition"] == "lcb":
            member.gain = lower_bound(options["bound_width"])
        return member

    def tell(self, trial: Trial) -> None:
        """As `SearcherBase.tell`, for the workload of the trial; while none was given it is that of the first trial."""
        if self._present is None:
            self.context = trial.context
        place = self.workloads.place(trial.context)
        present, self.ledger = self.ledger, self.workloads.ledgers[place]
        n_known = len(self.ledger)
        super().tell(trial)
        if len(self.ledger) > n_known:
            self.workloads.told.append((list(self.ledger)[-1], place))
        self.ledger = present

    def _known(self) -> list[Evidence]:
        return [evidence for evidence, _ in self.workloads.told]

    def _planned(self) -> Config | None:
        """The next config of the design that was tried under no workload."""
        tried = {evidence.config for evidence, _ in self.workloads.told}
        return self.design.next(self.ledger, self.pending | Counter(tried))


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
