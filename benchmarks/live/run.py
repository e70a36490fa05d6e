"""Searchers beside their peers on real servers: equal wall clock, the same start, what is proven in the end.

    python benchmarks/live/run.py [--task demo] [--contender auto ...] [--seeds 5] [--budget 6m] [--list] [--again]

Each run is a whole study (baseline, plays where the contender has them, search, proof) in a state folder of its own. Results go
to results.json after every run, so that the benchmark may be made in pieces: what is there is not made again. Run it alone on
the machine: the share of the CPU that others took stands with each run.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import stamp
from contenders import OURS, PEERS, missing, register
from rich.console import Console
from table import tables
from turns import FINISHED

from trimtab.errors import TrimtabError
from trimtab.history import StudyRecord
from trimtab.jsonable import to_json
from trimtab.records import Role, Status, Trial
from trimtab.report import Progress
from trimtab.study import StudyFile, load_study_file, tune

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TASKS = {
    "demo": (ROOT / "examples" / "demo.toml", "6m", 5),
    "ycsb-a": (ROOT / "examples" / "ycsb-a.toml", "10m", 3),
    "oltp-mariadb": (HERE / "oltp-mariadb.toml", "10m", 3),
    "oltp-mariadb-large": (HERE / "oltp-mariadb-large.toml", "10m", 3),
    "zhou-4q6-4q9-4q13": (ROOT / "benchmarks" / "zhou2013" / "study.toml", "20m", 3),
}
"""Name -> study file, budget and number of seeds unless told otherwise."""

_WORSE = math.log(1.1)
_KEY = ("task", "contender", "seed", "budget")
Row = dict[str, Any]


def _study(path: Path, contender: str, seed: int, budget: str) -> StudyFile:
    """The task's study with this searcher, seed and budget; the searcher's options of the file do not count."""
    file = load_study_file(path)
    search = file.search.model_copy(update={"searcher": contender})
    study = file.study.model_copy(update={"budget": budget, "seed": seed, "name": f"live-{contender}-{seed}"})
    return file.model_copy(update={"search": search, "study": study})


def gain_curve(trials: Sequence[Trial], budget_s: float) -> tuple[list[list[float]], float]:
    """[seconds, best measured gain so far] at each improvement, and the mean logarithm of that gain over the budget's time."""
    spent = area = best = 0.0
    curve: list[list[float]] = []
    for trial in trials:
        took = sum(trial.cost_s.values())
        area += best * max(0.0, min(spent + took, budget_s) - min(spent, budget_s))
        spent += took
        if trial.status is Status.OK and trial.is_feasible and -(trial.loss or 0.0) > best:
            best = -(trial.loss or 0.0)
            curve.append([round(spent, 1), round(math.exp(best), 4)])
    area += best * max(0.0, budget_s - spent)
    return curve, area / budget_s if budget_s > 0 else 0.0


def row_of(run: tuple[str, str, int, str], budget_s: float, record: StudyRecord, trials: Sequence[Trial]) -> Row:
    """What is kept of one run."""
    (task, contender, seed, budget), verdict = run, record.verdict
    curve, area = gain_curve(trials, budget_s)
    tried = [t for t in trials if t.role in (Role.PLAY, Role.SEARCH, Role.ADVICE, Role.DESIGN)]
    spent = sum(sum(t.cost_s.values()) for t in trials) or 1.0
    found_s = sum(sum(t.cost_s.values()) for t in trials if t in tried or t.role is Role.REPEAT)
    return {
        "task": task, "contender": contender, "seed": seed, "budget": budget,
        "result": verdict.result, "gain": to_json(verdict.gain) if verdict.is_better else None,
        "unmet": [] if verdict.is_better else [each.name for each in verdict.conditions if not each.is_met],
        "settings": {name: knob.new_text for name, knob in verdict.knobs.items()},
        "area": round(area, 4), "curve": curve, "n_trials": len(trials), "n_tried": len(tried),
        "search_share": round(found_s / spent, 3),
        "n_crashed": sum(t.status.is_config_fault for t in tried),
        "n_worse": sum(t.loss is not None and t.loss > _WORSE for t in tried),
        "noise": verdict.noise_floor, "spent_s": round(spent, 1),
    }  # fmt: skip


class Store:
    """results.json: the runs, each with its stamp."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []

    def has(self, key: tuple[Any, ...]) -> bool:
        """Whether this run is there."""
        return any(tuple(row[name] for name in _KEY) == key for row in self.rows)

    def add(self, row: Row) -> None:
        """Puts a run in place of an earlier one like it; on disk when this returns."""
        key = tuple(row[name] for name in _KEY)
        self.rows = [r for r in self.rows if tuple(r[name] for name in _KEY) != key] + [row]
        stamp.write(self._path, {"runs": self.rows}, {"all": stamp.merged(r["made"] for r in self.rows)}, indent=1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", choices=TASKS, help="default: all")
    parser.add_argument("--contender", action="append", help=f"default: {', '.join((*OURS, *PEERS))}")
    parser.add_argument(
        "--seeds", type=int, help="number of seeds, from --first-seed on; default: 5 for the demo, else 3"
    )
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument(
        "--budget", help="wall clock of every run; default: 6m for the demo, 10m, 20m for the mix of Zhou"
    )
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--again", action="store_true", help="make runs anew that are there already")
    parser.add_argument("--list", action="store_true", help="only say what would be run")
    return parser.parse_args()


def _runs(arguments: argparse.Namespace) -> list[tuple[str, str, int, str]]:
    """(task, contender, seed, budget), the contenders in turns, so that a slow hour of the machine meets all of them."""
    found = []
    for task in arguments.task or TASKS:
        _, budget, n_seeds = TASKS[task]
        for seed in range(arguments.first_seed, arguments.first_seed + (arguments.seeds or n_seeds)):
            for contender in arguments.contender or (*OURS, *PEERS):
                found.append((task, contender, seed, arguments.budget or budget))
    return found


def main() -> None:
    """Runs what is missing and prints the tables; table.py writes them into the page."""
    arguments = _arguments()
    store = Store(arguments.results)
    todo = [run for run in _runs(arguments) if arguments.again or not store.has(run)]
    absent = {name: why for name in {run[1] for run in todo} if (why := missing(name))}
    for name, why in sorted(absent.items()):
        print(f"{name} does not take part: {why}", file=sys.stderr)
    todo = [run for run in todo if run[1] not in absent]
    if arguments.list:
        for run in todo:
            print(*run)
        return
    register()
    for task, contender, seed, budget in todo:
        file, making = _study(TASKS[task][0], contender, seed, budget), stamp.Making()
        with tempfile.TemporaryDirectory(prefix="trimtab-live-") as state:
            try:
                record, trials = tune(file, Path(state), Progress(Console(stderr=True)))
            except TrimtabError as error:
                print(f"{task} {contender} {seed}: {error.message}; the run is left out", file=sys.stderr)
                continue
            if record.status not in FINISHED:
                print(f"{task} {contender} {seed}: stopped, status={record.status!r}; not kept", file=sys.stderr)
                break
            row = row_of((task, contender, seed, budget), file.budget.seconds or 0.0, record, trials)
        store.add({**row, "made": making.stamp()})
    if store.rows:
        print(tables(stamp.former(arguments.results)))


if __name__ == "__main__":
    main()
