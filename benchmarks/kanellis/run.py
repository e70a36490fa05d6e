"""How many knobs are needed? The experiment of Kanellis et al. (HotStorage 2020) on YCSB A and B, with 100 samples, not 25,000.

    python benchmarks/kanellis/run.py [--system cassandra] [--workload A] [--samples 100] [--trials 30] [--rounds 5] [--quick]

For each system and workload: a Latin hypercube over 30 knobs, ranks by a random forest with their intervals, then a study of the
first 3, 5 and 8 knobs and one of all 30 with as many trials, and last the best config of each in turns with the settings as
found. Every step is a design or a study of the history: Ctrl-C stops it, and the same command goes on, so that it may be made in
pieces. `trimtab history export --state .trimtab/kanellis --to trials.jsonl` writes every trial. `--quick` only tries the
script, and keeps its results apart. Run it alone on the machine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from turns import FINISHED, FOUND, Row, StoppedError, keep_rows, ratio, values_in_turns

from trimtab.history import open_history_at
from trimtab.records import Status, Trial
from trimtab.report import Progress
from trimtab.study import StudyFile, load_study_file, rank_study, run_design, tune

HERE = Path(__file__).parent
SYSTEMS = ("cassandra", "postgresql")
WORKLOADS = ("A", "B")
TOPS = (3, 5, 8)
ALL = 30
_NEAR = 0.99


def study_of(system: str, workload: str, options: argparse.Namespace, knobs: Sequence[str] | None = None) -> StudyFile:
    """The study file of a system with this workload; with these knobs, for a study of the first few."""
    file = load_study_file(HERE / f"{system}.toml")
    target, measure = dict(file.target["db"]), file.measure
    name = f"kanellis-{system}-{workload.lower()}"
    if knobs is not None:
        target["knobs"], name = list(knobs), f"{name}-top{len(knobs)}"
    records = file.workload["records"]
    if options.quick:
        records = 2_000
        short = {"window": "2s", "window_max": "2s", "warmup_floor": "1s", "warmup_cap": "1s"}
        measure = type(measure).model_validate({**measure.model_dump(), **short})
    study = {"name": name, "budget": f"{options.trials} trials"}
    changed = {
        "study": file.study.model_copy(update=study), "target": {"db": target}, "measure": measure,
        "workload": {**file.workload, "workload": workload, "records": records},
    }  # fmt: skip
    return file.model_copy(update=changed)


def best_of(file: StudyFile, trials: Sequence[Trial]) -> tuple[Trial, int] | None:
    """The best trial that was measured well, and after how many of them one within 1 % of it had come."""
    done = [trial for trial in trials if trial.status is Status.OK and trial.measurement is not None]
    values = [file.objective.value(trial.measurement).estimate for trial in done if trial.measurement is not None]
    if not values:
        return None
    top = max(values)
    first = next(index for index, value in enumerate(values) if value >= _NEAR * top)
    return done[values.index(top)], first + 1


def experiment(system: str, workload: str, options: argparse.Namespace, progress: Progress) -> Row:
    """One row of the results.

    Raises:
        StoppedError: a step was stopped; the same call goes on.
    """
    making, file = stamp.Making(), study_of(system, workload, options)
    record, trials = run_design(file, options.state, progress, kind="lhs", runs=options.samples)
    if record.status != "ranked":
        raise StoppedError
    with open_history_at(file.study.history, options.state) as history:
        ranked = rank_study(history, record.name, rankers=("forest",))
    names = [entry.knob for entry in ranked.consensus.knobs]
    found, needed = {}, {}
    for n_knobs in (*TOPS, ALL):
        own = study_of(system, workload, options, names[:n_knobs])
        study, made = tune(own, options.state, progress)
        if study.status not in FINISHED:
            raise StoppedError
        if (best := best_of(own, made)) is not None:
            found[str(n_knobs)], needed[str(n_knobs)] = best[0].config, best[1]
    values = values_in_turns(file, found, options, progress)
    return {
        "n_samples": len(trials), "verdict": ranked.consensus.verdict,
        "knobs": [
            {"knob": k.knob, "rank": k.rank, "low": k.rank_low, "high": k.rank_high, "share": k.score}
            for k in ranked.consensus.knobs
        ],
        "trials_needed": needed, "throughput_per_s": values, "made": making.stamp(),
    }  # fmt: skip


def share(row: Row, n_knobs: int) -> tuple[float, float, float] | None:
    """What the best config of the first knobs reaches of that of all, with its 95 % interval; None without two rounds."""
    return ratio(row["throughput_per_s"], str(ALL), str(n_knobs), True)


def overlap(rows: Sequence[Row], system: str, n_knobs: int) -> int | None:
    """How many of the first knobs two workloads of a system have in common; None unless both were ranked."""
    tops = [{k["knob"] for k in row["knobs"][:n_knobs]} for row in rows if row["system"] == system]
    return len(tops[0] & tops[1]) if len(tops) == len(WORKLOADS) else None


def table(rows: Sequence[Row]) -> str:
    """The results as a Markdown table."""
    heads = [
        "system",
        "YCSB",
        "samples",
        *(f"top {k} of {ALL}" for k in TOPS),
        f"all {ALL} / found",
        "most important knobs",
    ]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    for row in rows:
        shares = [_shown(share(row, k)) for k in TOPS]
        means = {name: sum(each) / len(each) for name, each in row["throughput_per_s"].items() if each}
        gain = f"{means[str(ALL)] / means[FOUND]:.2f}" if {FOUND, str(ALL)} <= means.keys() else "–"
        first = ", ".join(k["knob"] for k in row["knobs"][:5])
        lines.append(
            f"| {row['system']} | {row['workload']} | {row['n_samples']} | {' | '.join(shares)} | {gain} | {first} |"
        )
    for system in dict.fromkeys(row["system"] for row in rows):
        common = overlap(rows, system, 5)
        if common is not None:
            lines.append(f"\n{system}: {common} of the first 5 knobs are those of both workloads.")
    return "\n".join(lines)


def _shown(found: tuple[float, float, float] | None) -> str:
    return "–" if found is None else f"{found[0]:.1%} ({found[1]:.1%} to {found[2]:.1%})"


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="default: both")
    parser.add_argument("--workload", action="append", choices=WORKLOADS, help="default: both")
    parser.add_argument("--samples", type=int, default=100, help="of the Latin hypercube")
    parser.add_argument("--trials", type=int, default=30, help="of each study of the first knobs")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each config in turns, 2 or more")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--state", type=Path, default=Path(".trimtab") / "kanellis", help="journal and history")
    parser.add_argument("--quick", action="store_true", help="few and short runs, which only try the script")
    found = parser.parse_args(words)
    if found.quick:
        found.samples, found.trials, found.rounds = 8, 4, 2
        found.state = found.state.with_name(f"{found.state.name}-quick")
        found.state.mkdir(parents=True, exist_ok=True)
        found.results = found.state / "results.json"
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Makes what is missing and prints the table."""
    options = _arguments(words)
    keys = {"system": options.system or SYSTEMS, "workload": options.workload or WORKLOADS}
    return keep_rows(options, keys, experiment, table)


if __name__ == "__main__":
    sys.exit(main())
