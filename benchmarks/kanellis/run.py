"""How many knobs are needed? The experiment of Kanellis et al. (HotStorage 2020) on YCSB A and B, with 40 samples, not 25,000.

    python benchmarks/kanellis/run.py [--system cassandra] [--workload A] [--samples 40] [--trials 8] [--rounds 4] [--quick]

For each system and workload, which is a row of the results: a Latin hypercube over 30 knobs, ranks by a random forest with their
intervals, then searches over the first 3, 5 and 8 knobs and over all 30, and last the best config of each in turns with the
settings as found. Run it alone on the machine. By what single runs cost, two quiet cores need about 22 minutes for a row of
PostgreSQL and an hour and a half for one of Cassandra; two fifths of that are the samples. Each row is written to results.json
when it is ready.
Every step is a study of the history: Ctrl-C stops it, and the same command goes on, so that a row may be made in pieces, too:
`timeout --signal=INT 55m python ...`.
Afterwards benchmarks/kanellis/table.py writes the page of the docs, and

    python benchmarks/trials.py .trimtab/kanellis benchmarks/kanellis/trials kanellis-cassandra-a

every trial of a row. `--quick` only tries the script, and keeps its results apart.

What keeps the row short, and what it costs:

- Each search begins from the samples and from the searches over fewer knobs (warm start; the values of other knobs count as
  noise). The best of the first k knobs is the best config that changes no others, whichever search has found it; that of all 30
  may be a sample. So more knobs never lose because their search was short, and the share that few knobs reach is rather
  understated.
- A search proves nothing and drops no needless settings: the configs that are compared are measured anew, in turns.
- The baseline is measured before every ten samples, and twice in a search. Every run of it follows a run of another config, so
  that it comes after a restart as the trials do.
- A trial measures 6 seconds; on Cassandra after all that the load runs is compiled, which takes half a minute. The turns, on
  which the shares rest, measure longer. Four rounds leave intervals of a few per cent: the table shows them.
- The tables have 50,000 records: a copy is made before each run, and its time counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from steps import sample, search
from table import ALL, TOPS, table
from turns import Row, StoppedError, keep_rows, values_in_turns

from trimtab.errors import TrimtabError
from trimtab.history import open_history_at
from trimtab.records import Role, Status, Trial
from trimtab.report import Progress
from trimtab.space import Config
from trimtab.study import StudyFile, design_name, load_study_file, rank_study

HERE = Path(__file__).parent
SYSTEMS = ("cassandra", "postgresql")
WORKLOADS = ("A", "B")
_NEAR = 0.01
_EVERY_SAMPLES = 10
"""Samples between two runs of the baseline; of a search it is half of its trials."""

_TURNS = {"cassandra": ("2s", "90s", "10s"), "postgresql": ("5s", "5s", "10s")}
"""Shortest and longest warm-up and window of a run in turns."""

_QUICK = {"window": "2s", "window_max": "2s", "warmup_floor": "1s", "warmup_cap": "1s"}


def study_of(system: str, workload: str, options: argparse.Namespace) -> StudyFile:
    """The study file of a system with this workload, for the samples of all its knobs."""
    file = load_study_file(HERE / f"{system}.toml")
    records = 2_000 if options.quick else file.workload["records"]
    name = {"name": f"kanellis-{system}-{workload.lower()}", "budget": f"{options.trials} trials"}
    changed = {
        "study": file.study.model_copy(update=name),
        "workload": {**file.workload, "workload": workload, "records": records},
        "search": _changed(file.search, baseline_every=_EVERY_SAMPLES),
        "measure": _changed(file.measure, **(_QUICK if options.quick else {})),
    }  # fmt: skip
    return file.model_copy(update=changed)


def search_of(file: StudyFile, knobs: Sequence[str], former: Sequence[str], options: argparse.Namespace) -> StudyFile:
    """The study file of a search over the first knobs, which begins from the samples and from the `former` searches."""
    name = {"name": f"{file.study.name}-top{len(knobs)}"}
    search = {"warm_start": [design_name(file.study.name, "lhs"), *former], "plays": "off"}
    changed = {
        "study": file.study.model_copy(update=name),
        "target": {"db": {**file.target["db"], "knobs": list(knobs)}},
        "search": _changed(file.search, **search, baseline_every=max(1, options.trials // 2)),
    }  # fmt: skip
    return file.model_copy(update=changed)


def turns_of(file: StudyFile, system: str, options: argparse.Namespace) -> StudyFile:
    """The study file of the comparison: its runs warm up and measure longer."""
    floor, cap, window = _TURNS[system]
    longer = {"window": window, "window_max": window, "warmup_floor": floor, "warmup_cap": cap}
    return file if options.quick else file.model_copy(update={"measure": _changed(file.measure, **longer)})


def _changed(table: Any, **values: Any) -> Any:
    """A table of a study file with other values, checked."""
    return type(table).model_validate({**table.model_dump(), **values})


def best_of(trials: Sequence[Trial]) -> tuple[Config, int]:
    """The config with the least loss of those that were measured well, and how many trials were made until one within 1 % of it;
    no change at all, after none, where nothing is better than the baseline.

    Losses are against the baseline of their own study, at that time: the trials may be of several.
    """
    tried = [trial for trial in trials if trial.role is not Role.BASELINE]
    losses = {
        number: trial.loss
        for number, trial in enumerate(tried, start=1)
        if trial.status is Status.OK and trial.is_feasible and trial.loss is not None
    }
    least = min(losses.values(), default=0.0)
    if least >= 0:
        return Config({}), 0
    best = next(number for number, loss in losses.items() if loss == least)
    return tried[best - 1].config, next(number for number, loss in losses.items() if loss <= least + _NEAR)


def experiment(system: str, workload: str, options: argparse.Namespace, progress: Progress) -> Row:
    """One row of the results; its stamp is of all pieces in which it was made.

    Raises:
        StoppedError: a step was stopped; the same call goes on.
    """
    making, pieces = stamp.Making(), options.state / f"kanellis-{system}-{workload.lower()}.pieces.json"
    former: list[stamp.Stamp] = json.loads(pieces.read_text(encoding="utf-8")) if pieces.exists() else []
    try:
        row = _measured(system, workload, options, progress)
    except (StoppedError, KeyboardInterrupt):
        # Between the steps and while the data are prepared Ctrl-C ends at once.
        pieces.write_text(json.dumps([*former, making.stamp()]), encoding="utf-8")
        raise
    return {**row, "made": stamp.merged([*former, making.stamp()])}


def _measured(system: str, workload: str, options: argparse.Namespace, progress: Progress) -> Row:
    file = study_of(system, workload, options)
    samples = sample(file, options.samples, options.state, progress)
    with open_history_at(file.history, options.state) as history:
        ranked = rank_study(history, file.study.name, rankers=("forest",)).consensus
    names = [entry.knob for entry in ranked.knobs]
    found, needed = {}, {}
    searched: list[Trial] = []
    former: list[str] = []
    for n_knobs in (*TOPS, ALL):
        own = search_of(file, names[:n_knobs], former, options)
        searched += search(own, options.state, progress)
        former.append(own.study.name)
        known = [*samples, *searched] if n_knobs == ALL else searched
        found[str(n_knobs)], needed[str(n_knobs)] = best_of(known)
    values = values_in_turns(turns_of(file, system, options), found, options, progress)
    return {
        "n_samples": options.samples, "n_trials": options.trials, "verdict": ranked.verdict,
        "knobs": [
            {"knob": k.knob, "rank": k.rank, "low": k.rank_low, "high": k.rank_high, "share": k.score} for k in ranked.knobs
        ],
        "configs": {name: dict(config) for name, config in found.items()}, "trials_needed": needed,
        "trial_minutes": round(sum(sum(t.cost_s.values()) for t in (*samples, *searched)) / 60, 1),
        "throughput_per_s": values,
    }  # fmt: skip


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="default: both")
    parser.add_argument("--workload", action="append", choices=WORKLOADS, help="default: both")
    parser.add_argument("--samples", type=int, default=40, help="of the Latin hypercube, 8 or more")
    parser.add_argument("--trials", type=int, default=8, help="of each search")
    parser.add_argument("--rounds", type=int, default=4, help="runs of each config in turns, 2 or more")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--state", type=Path, default=Path(".trimtab") / "kanellis", help="journal and history")
    parser.add_argument("--quick", action="store_true", help="few and short runs, which only try the script")
    found = parser.parse_args(words)
    if found.quick:
        found.samples, found.trials, found.rounds = 12, 2, 2
        found.state = found.state.with_name(f"{found.state.name}-quick")
        found.state.mkdir(parents=True, exist_ok=True)
        found.results = found.state / "results.json"
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Makes what is missing and prints the table."""
    options = _arguments(words)
    keys = {"system": options.system or SYSTEMS, "workload": options.workload or WORKLOADS}
    try:
        return keep_rows(options, keys, experiment, table)
    except TrimtabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
