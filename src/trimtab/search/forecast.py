"""Expected losses of configs, measured or not, by a Gaussian process of the trials so far; for phases that are no search."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.records import Trial
from trimtab.search.ledger import Ledger, measured
from trimtab.search.surrogate import GaussianModel
from trimtab.space import Config, Space
from trimtab.threads import single_threaded

__all__ = ["forecast"]

_LEAST = 4
"""Measured configs below which nothing is expected."""

_CAP = 400


def forecast(
    space: Space, home: Config, trials: Sequence[Trial]
) -> Callable[[Sequence[Config]], NDArray[np.float64]] | None:
    """What losses are to be expected.

    Args:
        space: of all configs.
        home: the baseline.
        trials: what was measured; those that cannot be expressed in the space are left out.

    Returns:
        A function of m configs: (m,) expected losses (log-ratio, the baseline's is near 0); None for too few trials.
    """
    ledger = Ledger(space, home)
    for trial in trials:
        ledger.tell(trial)
    if len(measured(ledger.evidence)) < _LEAST or not space.n_dims:
        return None
    # A search tells the best apart; what a config would lose without a setting goes up to the loss of the baseline.
    model = GaussianModel(space.features([home]).shape[1], _CAP, uncompressed=0.0)
    with single_threaded():
        model.learn(ledger, np.random.default_rng(0))

    def expected(configs: Sequence[Config]) -> NDArray[np.float64]:
        with single_threaded():
            return model.scale.backward(model.predict(space.features(list(configs)))[0])

    return expected
