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
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.model.gaussian_process import Kernel, LossScale
from trimtab.records import Context, Trial
from trimtab.search.acquisition import Score, Term, lower_bound
from trimtab.search.base import Options
from trimtab.search.context_kernel import ContextFeatures, fit_context_hyper
from trimtab.search.design import ListedDesign
from trimtab.search.engine import Member
from trimtab.search.gp import MODEL_OPTIONS, ModelSearcher
from trimtab.search.ledger import Evidence, Ledger, kept, measured
from trimtab.search.optimise import Everywhere, Near
from trimtab.search.searcher import SearchProblem
from trimtab.search.surrogate import Feasibility, GaussianModel, Model, is_fit_due, loss_data, ranked
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
    """The workloads met so far, each with a ledger of its own but all with `pending`, and every config told under any of them."""

    def __init__(self, space: Space, home: Config, pending: Counter[Config], *, nears_constraints: bool) -> None:
        self._space, self._home, self._pending, self._nears_constraints = space, home, pending, nears_constraints
        self.contexts: list[Context] = []
        self.ledgers: list[Ledger] = []
        self.told: list[tuple[Config, int]] = []

    @property
    def evidence(self) -> list[tuple[Evidence, int]]:
        """What is known of every config under each workload, and the number of that one; in the order in which it was told."""
        found = ((self.ledgers[place].get(config), place) for config, place in self.told)
        return [(evidence, place) for evidence, place in found if evidence is not None]

    @property
    def allowed(self) -> float:
        """What acceptable configs may miss of the constraints, summed: when it changes, losses mean something else."""
        return sum(ledger.allowed for ledger in self.ledgers)

    def place(self, context: Context) -> int:
        """The number of the known workload that `context` is, as near as makes no difference; a new one otherwise."""
        for number, known in enumerate(self.contexts):
            if _is_same(known, context):
                return number
        self.contexts.append(context)
        ledger = _LedgerOfOne(self, self._space, self._home, self._pending, nears_constraints=self._nears_constraints)
        self.ledgers.append(ledger)
        return len(self.contexts) - 1


class _LedgerOfOne(Ledger):
    """The trials under one of the `workloads`; models learn from those under all."""

    def __init__(
        self, workloads: Workloads, space: Space, home: Config, pending: Counter[Config], *, nears_constraints: bool
    ) -> None:
        super().__init__(space, home, pending, nears_constraints=nears_constraints)
        self._workloads = workloads

    @property
    def evidence(self) -> list[Evidence]:
        """As `Ledger.evidence`: of all workloads."""
        return [evidence for evidence, _ in self._workloads.evidence]


def _beside(features: Array, workload: Array) -> Array:
    return np.hstack([features, np.broadcast_to(workload, (len(features), len(workload)))])


class ContextModel:
    """A Gaussian process over [config | workload], seen with one workload, and how likely a config is to work under it.

    Args:
        workloads: filled in by the searcher.
        present: the number of the workload that asks are for.
        n_features: of a config.
        cap: most trials in the process.
        has_product: whether the effect of a config may depend on the workload.
    """

    leaders: list[Evidence]
    incumbent: float
    unit: float
    effects: Array

    def __init__(
        self, workloads: Workloads, present: Callable[[], int], n_features: int, cap: int, has_product: bool
    ) -> None:
        self._workloads, self._present, self._n_features = workloads, present, n_features
        self._has_product = has_product
        self._n_fitted, self._feasibility = 0, Feasibility(_FIT_CAP)
        self._scaling = ContextFeatures.of([_UNKNOWN])
        self._fitted: tuple[LossScale, Kernel] | None = None
        self._n_contexts, self._allowed = 0, 0.0
        self._joint = GaussianModel(n_features, cap)
        self._workload = self._scaling.row(_UNKNOWN)
        self._seen: list[tuple[tuple[Evidence, int], Evidence]] = []

    def learn(self, ledger: Ledger, rng: np.random.Generator) -> None:
        """As `Model.learn`, for the present workload; nothing is drawn."""
        contexts, evidence, pending = self._workloads.contexts, ledger.evidence, ledger.pending_features
        allowed = self._workloads.allowed
        is_due = is_fit_due(len(evidence), self._n_fitted) or allowed != self._allowed
        if is_due or self._fitted is None or len(contexts) != self._n_contexts:
            self._n_fitted, self._allowed = len(evidence) if is_due else self._n_fitted, allowed
            if len(contexts) != self._n_contexts:  # another workload may be one more feature
                self._feasibility = Feasibility(_FIT_CAP)
            self._scaling, self._n_contexts, self._seen = ContextFeatures.of(contexts), len(contexts), []
            self._fitted = self._fit(self._rows())
        self._workload = self._scaling.row(contexts[self._present()])
        pending = self._here(pending) if len(pending) else pending
        self._joint.believe(self._rows(), pending, *self._fitted)
        some = measured(evidence)
        believed = self._joint.base.predict_mean(self._here(np.array([e.features for e in some])))
        self.leaders, self.incumbent = ranked(some, believed)
        self.unit, self.effects = self._joint.unit, self._joint.effects

    def _here(self, features: Array) -> Array:
        """`features` (m, f) with those of the present workload: (m, f + g)."""
        return _beside(features, self._workload)

    def predict(self, features: Array) -> tuple[Array, Array]:
        """As `Model.predict`, under this workload."""
        return self._joint.predict(self._here(features))

    def _rows(self) -> list[Evidence]:
        """Everything told, with the features of its workload beside its own; the same objects until more is told of a config, so
        that the process grows by what is new."""
        rows = [self._scaling.row(context) for context in self._workloads.contexts]
        for number, (e, place) in enumerate(self._workloads.evidence):
            now = e, e.n_good + e.n_bad
            if number == len(self._seen) or self._seen[number][0] != now:
                self._seen[number : number + 1] = [(now, e.seen_as(np.r_[e.features, rows[place]]))]
        return [seen for _, seen in self._seen]

    def _fit(self, evidence: list[Evidence]) -> tuple[LossScale, Kernel]:
        some, f = kept(measured(evidence), _FIT_CAP), self._n_features
        scale = LossScale.of(np.array([e.loss for e in some]))
        x, y, v = loss_data(some, scale)
        return scale, fit_context_hyper(x[:, :f], x[:, f:], y, v, has_product=self._has_product)

    def works(self, caution: float) -> Term:
        """A term: caution · ln P under the workload for which was last learned."""

        def term(ledger: Ledger) -> Score:
            log_probability = self._feasibility.learn(self._rows(), self._workloads.allowed)
            if log_probability is None:
                return lambda features: np.zeros(len(features))
            return lambda features: caution * log_probability(self._here(features))

        return term


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

    design: ListedDesign

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
        self.workloads = Workloads(self.space, self.filler, self.pending, nears_constraints=self.NEARS_CONSTRAINTS)
        model = ContextModel(
            self.workloads, lambda: self._present or 0, self.n_features, options["cap"], options["product"]
        )
        member = Member(model, _AlsoLeaders(), [model.works(options["caution"])], self._optimise())
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
            self.workloads.told.append((list(self.ledger)[-1].config, place))
        self.ledger = present

    def _planned(self) -> Config | None:
        """The next config of the design that was tried under no workload."""
        tried = {evidence.config for evidence in self.ledger.evidence}
        return next((config for config in self.design.configs if config not in tried and self._is_new(config)), None)


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
