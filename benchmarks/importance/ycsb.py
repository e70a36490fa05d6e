"""Too many knobs? The experiment of Kanellis et al. (HotStorage 2020) on a real PostgreSQL, durability locked.

    python benchmarks/importance/ycsb.py [--quick] [--folder DIR] [--runs N] [--trials N] [--window 2s] [--records N]

YCSB A and B over 30 knobs: a Latin hypercube ranks them; then all knobs, the first 8 and the first 5 are tuned with equal
budgets of trials, and each winner is measured in pairs with the baseline. Everything is kept in the folder's history, so the
same command goes on where it was stopped. About 45 minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr
from studies import designed, machine_of, ranks, study, tuned

from trimtab.history import StudyRecord
from trimtab.measure import compare_pairs
from trimtab.records import Role, Trial

FOLDER = Path(".trimtab") / "importance-ycsb"
RUNS, TRIALS, WINDOW, RECORDS = 60, 24, "2s", 50_000
TOPS = (5, 8)
SHARES = (0.9, 0.95)
_DRAWS = 1000
_INTERVAL = ("estimate", "low", "high")
_QUICK = {"runs": 10, "trials": 2, "window": "1s", "records": 1000, "n_knobs": 9}


def run(
    *, quick: bool, say: Callable[[str], None], folder: Path = FOLDER, runs: int = RUNS, trials: int = TRIALS,
    window: str = WINDOW, records: int = RECORDS, n_knobs: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Both workloads; JSON values. `quick` shows within minutes that everything works."""
    if quick:
        return run(quick=False, say=say, folder=folder / "quick", **_QUICK)
    rows = [
        _workload(letter, say, folder, runs, trials, {"window": window, "window_max": window}, records, n_knobs)
        for letter in ("a", "b")
    ]
    return {
        "machine": machine_of(folder, f"importance-ycsb-a-all-{trials}"),
        "runs": runs, "trials": trials, "window": window, "records": records,
        "rows": rows,
        "overlap": _overlap(rows[0]["ranks"]["knobs"], rows[1]["ranks"]["knobs"]),
    }  # fmt: skip


def _workload(
    letter: str, say: Callable[[str], None], folder: Path, runs: int, trials: int, measure: dict[str, Any],
    records: int, n_knobs: int | None,
) -> dict[str, Any]:  # fmt: skip
    stem, asked = f"ycsb-{letter}", {"records": records}
    names = study(stem).target["db"]["knobs"][:n_knobs]
    say(f"YCSB {letter.upper()}: {runs} runs of a Latin hypercube over {len(names)} knobs")
    file = study(stem, knobs=names, workload=asked, measure=measure)
    consensus = designed(file, folder, "lhs", runs)
    order = list(consensus.names)
    arms = {"all": names, **{f"top {k}": order[:k] for k in TOPS}}
    found: dict[str, Any] = {}
    for arm, knobs in arms.items():
        say(f"YCSB {letter.upper()}: tuning {arm} with {trials} trials")
        name = f"importance-{stem}-{arm.replace(' ', '')}-{trials}"
        told = {"name": name, "budget": f"{trials} trials"}
        found[arm] = _arm(*tuned(study(stem, knobs=knobs, study=told, workload=asked, measure=measure), folder))
    best = found["all"]["gain"]
    for arm in found.values():
        arm |= _against(arm, best)
    found["all"]["of_best"] = dict.fromkeys(_INTERVAL, 1.0)
    return {"workload": letter.upper(), "n_knobs": len(names), "ranks": ranks(consensus), "arms": found}


def _arm(record: StudyRecord, trials: list[Trial]) -> dict[str, Any]:
    """What one tuning came to: its gain by the pairs, and the best of each trial count by the search's own measurements."""
    pairs = record.verdict.pairs
    # The number of pairs is fixed beforehand, so Student's interval holds.
    gain = compare_pairs([a for a, _ in pairs], [b for _, b in pairs], True).ratio if len(pairs) > 1 else None
    searched = [trial for trial in trials if trial.role in (Role.SEARCH, Role.ADVICE)]
    best, curve = 0.0, []
    for trial in searched:
        if trial.is_feasible and trial.loss is not None:
            best = min(best, trial.loss)
        curve.append(math.exp(-best))
    return {
        "verdict": record.verdict.result,
        # Without a candidate the running config is the best that was found.
        "gain": {"estimate": gain.estimate, "low": gain.low, "high": gain.high}
        if gain
        else dict.fromkeys(_INTERVAL, 1.0),
        "curve": curve,
        "config": dict(record.verdict.config),
        "statuses": {str(s): sum(t.status is s for t in trials) for s in {t.status for t in trials}},
        "wall_s": record.verdict.wall_s["total"],
    }


def _against(arm: dict[str, Any], best: dict[str, Any]) -> dict[str, Any]:
    """Throughput as a share of the all-knob best (with an interval), and trials until 90 and 95 % of its gain."""
    ratio = arm["gain"]["estimate"] / best["estimate"]
    spread = math.hypot(_log_width(arm["gain"]), _log_width(best))
    gained = {f"{share:.0%}": 1 + share * (best["estimate"] - 1) for share in SHARES}
    return {
        "of_best": {"estimate": ratio, "low": ratio * math.exp(-spread), "high": ratio * math.exp(spread)},
        "trials_to": {
            share: next((i for i, value in enumerate(arm["curve"], 1) if value >= goal), None)
            for share, goal in gained.items()
        },
    }


def _log_width(gain: dict[str, Any]) -> float:
    """Half the width of a gain's interval, as a log-ratio."""
    low, high = gain.get("low"), gain.get("high")
    return math.log(high / low) / 2 if low and high else math.inf


def _overlap(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> dict[str, Any]:
    """Knobs shared among the first 5 and 8, and Spearman's correlation, with 90 % intervals from those of the ranks."""
    names = [row["knob"] for row in first]
    rng = np.random.default_rng(1)

    def draws(rows: list[dict[str, Any]]) -> np.ndarray:
        by_name = {row["knob"]: row for row in rows}
        centre = np.array([by_name[name]["rank"] for name in names])
        sd = np.array([(by_name[n]["rank_high"] - by_name[n]["rank_low"]) / 3.29 for n in names])
        drawn = centre + sd * rng.standard_normal((_DRAWS, len(names)))
        return np.array([rankdata(row) for row in np.vstack([centre, drawn])])

    a, b = draws(first), draws(second)
    result: dict[str, Any] = {
        "correlation": _spread([float(spearmanr(x, y).statistic) for x, y in zip(a, b, strict=True)])
    }
    for top in TOPS:
        shared = [len(set(np.argsort(x)[:top]) & set(np.argsort(y)[:top])) for x, y in zip(a, b, strict=True)]
        result[f"top{top}"] = _spread([float(n) for n in shared])
    return result


def _spread(values: list[float]) -> dict[str, float]:
    """The first value as it is, and the 90 % interval of the rest."""
    low, high = np.percentile(values[1:], [5, 95])
    return {"estimate": values[0], "low": float(low), "high": float(high)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small piece, to see that it works")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="journal and history")
    parser.add_argument("--runs", type=int, default=RUNS, help="of the Latin hypercube")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of each tuning")
    parser.add_argument("--window", default=WINDOW, help="measuring window of a trial")
    parser.add_argument("--records", type=int, default=RECORDS, help="in the table")
    options = vars(parser.parse_args())
    found = run(say=lambda text: print(text, file=sys.stderr, flush=True), **options)
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
