"""Changing workloads: the cycle of six YCSB workloads of a reproduction of CGPTuner, as a simulation.

Update-heavy (half reads) with 60 and 80 threads, read-heavy (95 % reads) with 30 and 50, read-only with 20 and 40; five
iterations each, ten cycles. Twelve knobs; where most of them are best depends on the share of reads and on the threads.
What counts is what users would have felt: the true latency of every iteration relative to that of the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trimtab.records import Context, Role, Status, Trial
from trimtab.search import SearchProblem, create
from trimtab.space import Config
from trimtab.testing.surfaces import context_surface

CONTEXTS = tuple(
    Context(workload=f"YCSB {name}, {clients} threads", clients=clients, read_share=share)
    for name, share, counts in (("A", 0.5, (60, 80)), ("B", 0.95, (30, 50)), ("C", 1.0, (20, 40)))
    for clients in counts
)
CONTENDERS = ("contextual-gp", "gp", "random")
N_CYCLES, N_ITERATIONS = 10, 5
SETTLED = 4
"""The cycle from which on the contextual searcher is expected to be ahead."""

NOISE = 0.03


def simulate(name: str, seed: int, n_cycles: int) -> dict[str, list[float]]:
    """Mean relative latency by workload, one number a cycle; 1 is the baseline."""
    space, loss = context_surface(seed)
    baseline, rng = space.default(), np.random.default_rng([seed, 6])
    searcher = create(name, SearchProblem(space=space, baseline=baseline, context=CONTEXTS[0], seed=seed))
    inner: Any = getattr(searcher, "inner", searcher)
    found: dict[str, list[float]] = {context.workload: [] for context in CONTEXTS}
    number = 0
    for _ in range(n_cycles):
        for context in CONTEXTS:
            if hasattr(inner, "context"):
                inner.context = context
            felt = []
            for _ in range(N_ITERATIONS):
                config = searcher.ask()[0]
                felt.append(loss(config, context))
                searcher.tell(_trial(config, number, context, felt[-1] + float(rng.normal(0.0, NOISE))))
                number += 1
            found[context.workload].append(round(math.exp(float(np.mean(felt))), 4))
    return found


def _trial(config: Config, number: int, context: Context, loss: float) -> Trial:
    return Trial(
        number=number, role=Role.SEARCH, config=config, context=context, status=Status.OK, loss=loss, loss_se=NOISE
    )  # fmt: skip


def summary(records: list[dict[str, Any]], quartiles: Callable[[Any], list[float]]) -> dict[str, Any]:
    """Quartiles over seeds of the relative latency from the fourth cycle on, and medians by cycle."""
    found: dict[str, Any] = {}
    for context in CONTEXTS:
        by_contender = {}
        for name in CONTENDERS:
            felt = np.array([r["latency"][context.workload] for r in records if r["contender"] == name])
            if len(felt):
                by_contender[name] = {
                    "settled": quartiles(felt[:, SETTLED - 1 :].mean(axis=1)),
                    "by_cycle": [round(float(m), 3) for m in np.median(felt, axis=0)],
                }
        found[context.workload] = by_contender
    return found
