"""Does it pay to rank the knobs before tuning them? `[search] prune` against tuning all, on synthetic surfaces.

    python benchmarks/importance/prune.py [--spaces N]

Spaces of 30 and 60 knobs of which eight matter (trimtab.testing.surfaces), 3 % noise, crashes and a constraint; the searcher is
`auto`, and the runs of the ranking count against the budget. Prints the table of docs/reference/rank.md; about ten minutes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from functools import partial

from trimtab.flow.prune import PruningSearcher, first_level_runs
from trimtab.records import PrunePlan
from trimtab.search import create
from trimtab.testing.surfaces import make_surface, run

ARMS = ("off", "auto", "8")
SIZES, BUDGETS = (30, 60), (60, 120)
_PATIENCE = 40


def share(n_knobs: int, budget: int, seed: int, arm: str) -> float:
    """Of the reachable gain, the part that the best config truly has when the budget is used."""
    surface = make_surface(n_knobs, seed)
    problem = surface.problem(seed, budget)
    if arm == "off":
        return run(surface, create("auto", problem), budget, seed)[-1]
    want = 0 if arm == "auto" else int(arm)
    plan = PrunePlan(want=want, runs=first_level_runs(n_knobs, budget, is_forced=want > 0))
    return run(surface, PruningSearcher(problem, plan, partial(create, "auto"), patience=_PATIENCE), budget, seed)[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spaces", type=int, default=6, help="of each size")
    n_spaces = parser.parse_args().spaces
    print(f"| knobs | trials | {' | '.join(f'prune = {arm}' for arm in ARMS)} |\n| --- | --- |{' --- |' * len(ARMS)}")
    for n_knobs in SIZES:
        for budget in BUDGETS:
            cells = []
            for arm in ARMS:
                found = [share(n_knobs, budget, seed, arm) for seed in range(1, n_spaces + 1)]
                cells.append(f"{statistics.mean(found):.2f} ({min(found):.2f} to {max(found):.2f})")
            print(f"| {n_knobs} | {budget} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
