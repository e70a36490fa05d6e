"""Recorded tables: the ranking from 100 of their rows beside the ranking from all.

The tables are those of benchmarks/search (its README says where they are from) and are found in the same folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from trimtab.importance import RankProblem, rank_knobs
from trimtab.records import Context, Role, Status, Trial

sys.path.insert(0, str(Path(__file__).parents[1] / "search"))

import replay

TABLES = ("dbtune JOB, 20 knobs", "dbtune JOB, 5 knobs", "MongoDB grid")
N_SAMPLES = 100
MOST_ROWS = 1500
"""Of larger tables so many rows, drawn once, stand for all: the ranking does not change any more."""
_ALL_BOOTSTRAP, _SAMPLE_BOOTSTRAP = 8, 20


def problem(name: str, data: Path) -> RankProblem:
    """All rows of a table as trials; the locked knobs take part, for nothing is set here."""
    file, metric, is_more_better = replay.EXACT[name]
    rows = [row for row in replay._read(data / file) if float(row[metric]) > 0]
    losses = (-1.0 if is_more_better else 1.0) * np.log([float(row[metric]) for row in rows])
    start = 0 if name.startswith("dbtune") else replay._middling(losses, 1)
    columns = replay._varying(rows, (column for column in rows[0] if column != metric))
    space = replay._space(rows, columns, rows[start])
    configs = replay._configs(space, rows)
    kept = np.sort(np.random.default_rng(7).permutation(len(rows))[:MOST_ROWS])
    trials = [
        Trial(number=int(i), role=Role.DESIGN, config=configs[i], context=Context("recorded", 1), status=Status.OK,
              loss=float(losses[i] - losses[start]))
        for i in kept
    ]  # fmt: skip
    return RankProblem(space=space, baseline=configs[start], trials=trials, n_bootstrap=_ALL_BOOTSTRAP)


def agreement(few: Sequence[str], every: Sequence[str]) -> dict[str, float]:
    """Shares of the first five and eight that two orders have in common, and their rank correlation."""
    found: dict[str, float] = {}
    for top in (5, 8):
        if len(every) > top:
            found[f"top{top}"] = len(set(few[:top]) & set(every[:top])) / top
    places = [few.index(name) for name in every]
    return {**found, "correlation": float(spearmanr(range(len(every)), places).statistic)}


def _orders(problem: RankProblem) -> dict[str, tuple[str, ...]]:
    """The order of knobs by ranker, and of the consensus."""
    found = rank_knobs(problem)
    return {**{ranking.ranker: ranking.names for ranking in found.rankings}, "consensus": found.names}


def one(name: str, data: Path, seeds: Sequence[int], say: Callable[[str], None]) -> dict[str, Any]:
    """One table."""
    whole = problem(name, data)
    every = _orders(whole)
    say(f"recorded {name}: all {len(whole.trials)} rows: {every['consensus'][:8]}")
    runs: dict[str, list[dict[str, float]]] = {ranker: [] for ranker in every}
    for seed in seeds:
        rows = np.random.default_rng([seed, 8]).permutation(len(whole.trials))[:N_SAMPLES]
        few = replace(whole, trials=[whole.trials[i] for i in rows], seed=seed, n_bootstrap=_SAMPLE_BOOTSTRAP)
        for ranker, order in _orders(few).items():
            if ranker in every:
                runs[ranker].append(agreement(order, every[ranker]))
        say(f"recorded {name}: seed {seed}: {runs['consensus'][-1]}")
    return {
        "table": name, "rows": len(whole.trials), "knobs": len(whole.space.knobs), "samples": N_SAMPLES,
        "top": list(every["consensus"][:8]), "runs": runs,
    }  # fmt: skip


def part(seeds: Sequence[int], data: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The whole part of `results.json`."""
    return {"seeds": list(seeds), "rows": [one(name, data, seeds, say) for name in TABLES]}
