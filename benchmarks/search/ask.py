"""How much CPU time one ask takes when many trials are known: Trimtab's searchers beside the peers.

All know the same random trials of a space of mixed knobs, every tenth of them failed, and are asked a few times with an
answer in between; the median of ask plus tell counts. The asks before are left out: the first one has to fit everything, and
planned first configs cost nothing. CPU time of one thread, so the figures hold on a busy machine; that of a peer is taken in
its own process. A row is cut short once an ask took longer than the limit.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict
from typing import Any

import numpy as np
from contenders import PEERS, PeerProcess

from trimtab.records import Context, Role, Status, Trial
from trimtab.search import SearchProblem, create
from trimtab.search.parameters import ParameterSpace
from trimtab.space import Config, Space
from trimtab.testing.searcher_suite import mixed_knobs

OURS = ("auto", "gp", "forest", "tpe", "projection", "trust-region", "random")
KNOBS = (20, 50, 200)
SIZES = (50, 200, 500, 1000)
MANY = 10_000
"""Known trials that only Trimtab's searchers are asked with."""

LIMIT_S = 2.0
N_ASKS, N_PEER_ASKS = 12, 5
N_BEFORE = 12
"""Asks that are not timed: more than any design of ours has configs."""


def known_trials(space: Space, n: int) -> list[Trial]:
    """`n` random trials: six features matter, 3 % noise, every tenth failed."""
    rng = np.random.default_rng(1)
    configs = space.sample(n, rng)
    features = space.features(configs)
    weights = np.zeros(features.shape[1])
    weights[:6] = (-0.5, -0.3, 0.2, -0.2, 0.1, 0.1)
    losses = features @ weights + 0.4 * (features[:, 1] - 0.6) ** 2 + rng.normal(0.0, 0.03, n)
    return [_trial(config, i, None if i % 10 == 9 else float(losses[i])) for i, config in enumerate(configs)]


def _trial(config: Config, number: int, loss: float | None) -> Trial:
    return Trial(
        number=number, role=Role.SEARCH, config=config, context=Context(workload="ask", clients=1),
        status=Status.CRASHED if loss is None else Status.OK, loss=loss, loss_se=None if loss is None else 0.03,
    )  # fmt: skip


def seconds(name: str, space: Space, trials: list[Trial]) -> tuple[float, float]:
    """Median CPU seconds of one ask and its tell, and those of the longest, which fits."""
    before, taken = (_of_peer if name in PEERS else _of_ours)(name, space, trials)
    return statistics.median(taken), max(*before, *taken)


def _of_ours(name: str, space: Space, trials: list[Trial]) -> tuple[list[float], list[float]]:
    searcher = create(name, SearchProblem(space=space, baseline=space.default(), seed=1, budget_trials=len(trials)))
    for trial in trials:
        searcher.tell(trial)
    taken: list[float] = []
    for i in range(N_BEFORE + N_ASKS):
        start = time.process_time()
        searcher.tell(_trial(searcher.ask()[0], 2 * MANY + i, 0.0))
        taken.append(time.process_time() - start)
        if taken[-1] > LIMIT_S and len(taken) > N_BEFORE:
            break
    return taken[:N_BEFORE], taken[N_BEFORE:]


def _of_peer(name: str, space: Space, trials: list[Trial]) -> tuple[list[float], list[float]]:
    flat = ParameterSpace(space)
    peer = PeerProcess(PEERS[name], [asdict(p) for p in flat.parameters.values()], 1, len(trials))
    for trial in trials:
        loss = 1.0 if trial.loss is None else trial.loss
        peer.call(op="tell", values=flat.values(trial.config), loss=loss, failed=trial.loss is None)
    taken: list[float] = []
    for _ in range(N_PEER_ASKS + 1):
        asked = peer.call(op="ask")
        told = peer.call(op="tell", values=asked["values"], loss=0.0, failed=False)
        taken.append(asked["seconds"] + told["seconds"])
        if taken[-1] > LIMIT_S and len(taken) > 1:
            break
    peer.close()
    return taken[:1], taken[1:]


def measure(n_knobs: int, name: str, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """A row of the table: one record for each number of known trials."""
    space = Space(mixed_knobs(n_knobs))
    rows: list[dict[str, Any]] = []
    for n in sizes if name in PEERS else (*sizes, MANY):
        if rows and (rows[-1]["seconds"] is None or rows[-1]["seconds"] > LIMIT_S):
            rows.append({"trials": n, "seconds": None, "longest": None})
            continue
        median, longest = seconds(name, space, known_trials(space, n))
        rows.append({"trials": n, "seconds": round(median, 4), "longest": round(longest, 4)})
    return rows
