"""CGPTuner's experiment with six contexts that take turns: contextual, plain Gaussian process and random, by mean latency.

    python benchmarks/cgptuner/run.py [--system wiredtiger ...] [--method gp ...] [--seeds 3] [--quick] [--list]

After W.-C. Hwang, C.-W. Lu, D.-M. Su, "Reproducing CGPTuner": YCSB A with 60 and 80, B with 30 and 50, C with 20 and 40
threads, ten cycles. Scaled so that a run on WiredTiger takes a quarter of an hour: two trials of each context in a cycle in
place of five iterations, of 2 s in place of two minutes, on the records that the study files name. It searches only: nothing
is proven. For each context the mean latency of all trials of the last four cycles is compared (their Table 2), as a share of
the baseline's of the same run. Each run goes to results.json when it ends; one that was stopped goes on where it was, so the
benchmark may be made in pieces. Run it alone on the machine. Afterwards benchmarks/cgptuner/table.py writes the page of the docs.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from rich.console import Console
from table import METHODS, table

from trimtab.flow.cycle import cycling
from trimtab.history import History, StudyRecord, open_history_at
from trimtab.records import Role, Trial, Verdict
from trimtab.report import Progress
from trimtab.study import StudyFile, load_study_file, open_stage
from trimtab.study.begin import fingerprints_of, first_signal_is_polite, new_record, run_flow
from trimtab.study.task import task_of

HERE = Path(__file__).parent
SYSTEMS = ("wiredtiger", "postgresql", "wiredtiger-linux")
"""The last one changes settings of this machine's kernel while it runs, as root: only where it is asked for."""
LAST = 4
"""Cycles whose trials are compared."""

Row = dict[str, Any]


def study_of(system: str, method: str, seed: int, *, is_quick: bool) -> StudyFile:
    """The study of one run; a quick one only shows that everything works."""
    file = load_study_file(HERE / f"{system}.toml")
    name = f"cgptuner-{system}-{method}-{seed}{'-quick' if is_quick else ''}"
    changed: dict[str, Any] = {
        "study": file.study.model_copy(update={"name": name, "seed": seed}),
        "search": type(file.search).model_validate({"searcher": method}),
    }
    if is_quick:
        cycle = dict(file.workload["cycle"])
        cycle |= {"contexts": [{**cycle["contexts"][i], "users": 4} for i in (0, 4)], "iterations": 2, "cycles": 2}
        changed["workload"] = {**file.workload, "records": 20_000, "cycle": cycle}
        short = {"window": "1s", "window_max": "1s", "warmup_floor": "0s", "warmup_cap": "1s"}
        changed["measure"] = type(file.measure).model_validate({**file.measure.model_dump(), **short})
    return file.model_copy(update=changed)


def searched(file: StudyFile, state: Path, progress: Progress) -> tuple[Verdict, list[Trial], tuple[str, ...]]:
    """Makes the run, or goes on with it; its verdict, its trials, and the names of its contexts."""
    with open_history_at(None, state) as history, open_stage(file, state) as stage, stage.stack.lock("benchmark"):
        task = replace(task_of(stage), is_proven=False)
        names = task.cycle.names if task.cycle is not None else ()
        record = _record(history, file, stage)
        stage.workload.prepare(stage.stack.endpoint(), progress.phase)
        with first_signal_is_polite() as is_interrupted:
            verdict, trials = run_flow(stage, task, cycling(task), history, record, state, progress, is_interrupted)
        if is_interrupted():
            raise KeyboardInterrupt
        history.update_study(record.id, status="interrupted", verdict=verdict)
    return verdict, trials, names


def _record(history: History, file: StudyFile, stage: Any) -> StudyRecord:
    fingerprint = fingerprints_of(file, stage.workload)[0]
    found = history.find_study(file.study.name, is_own=True)
    return found if found is not None and found.fingerprint == fingerprint else new_record(history, stage, fingerprint)


def row_of(verdict: Verdict, trials: Sequence[Trial], names: Sequence[str]) -> dict[str, Any]:
    """For each context: the baseline's mean latency, that of the last cycles' trials, and both as a ratio."""
    cycle = verdict.cycle
    assert cycle is not None
    contexts = {}
    for name, result in zip(names, cycle.contexts, strict=True):
        own = [t for t in trials if t.context == result.context]
        search = [t for t in own if t.role is Role.SEARCH]
        n_last = max(1, round(len(search) * LAST / max(cycle.cycles, 1)))
        last = [t for t in search[-n_last:] if t.measurement is not None and t.loss is not None]
        latencies = [t.measurement.latency_mean_ms.estimate for t in last if t.measurement is not None]
        best = [t.loss for t in search if t.loss is not None and t.is_feasible]
        contexts[name] = {
            "baseline_ms": result.baseline,
            "last_ms": sum(latencies) / len(latencies) if latencies else None,
            "ratio": math.exp(sum(t.loss for t in last if t.loss is not None) / len(last)) if last else None,
            "best": math.exp(min(best)) if best else None,
            "n": len(search),
            "failed": sum(t.measurement is None for t in search),
        }
    return {"contexts": contexts, "cycles": cycle.cycles, "seconds": sum(sum(t.cost_s.values()) for t in trials)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", nargs="*", default=list(SYSTEMS[:-1]), choices=SYSTEMS)
    parser.add_argument("--method", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="two cycles of two contexts: shows that everything works")
    parser.add_argument("--state", type=Path, default=Path.home() / ".cache" / "trimtab" / "cgptuner")
    parser.add_argument(
        "--results", type=Path, default=None, help="default: results.json here, or results-quick.json in --state"
    )
    parser.add_argument("--list", action="store_true", help="print the table of what is there")
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    usual = arguments.state / "results-quick.json" if arguments.quick else HERE / "results.json"
    path = arguments.results or usual
    rows: list[Row] = stamp.former(path).get("rows", [])
    if not arguments.list:
        for seed in range(1, arguments.seeds + 1):
            for system in arguments.system:
                for method in arguments.method:
                    _one(system, method, seed, arguments, rows, path)
    print(table(rows))


def _one(system: str, method: str, seed: int, arguments: argparse.Namespace, rows: list[Row], path: Path) -> None:
    key: Mapping[str, Any] = {"system": system, "method": method, "seed": seed}
    if any(all(row[name] == value for name, value in key.items()) for row in rows):
        return
    making = stamp.Making()
    file = study_of(system, method, seed, is_quick=arguments.quick)
    with Progress(Console(stderr=True)) as progress:
        verdict, trials, names = searched(file, arguments.state, progress)
    rows.append({**key, **row_of(verdict, trials, names), "made": making.stamp()})
    path.parent.mkdir(parents=True, exist_ok=True)
    stamp.write(path, {"rows": rows}, {"all": stamp.merged(row["made"] for row in rows)}, indent=1)


if __name__ == "__main__":
    main()
