"""RUBiS and TPC-W on httpd, Tomcat and a database: the experiments of Fernando's thesis (Moratuwa, 2016).

    python benchmarks/fernando/run.py [--application rubis] [--objective latency_mean] [--budget 2h] [--rounds 6] [--quick]

For each application and objective the whole stack is tuned. For the mean response time each tier is tuned alone as well with the
same budget, the winners of the tiers are put together, and an ensemble of searchers chosen by a bandit (the search of OpenTuner)
tunes the whole. All tune the three tiers of the thesis; the kernel under them, which the examples tune as well, stays as it is.
Then all these configs run in turns with the settings as found. What a study could not prove counts as the settings as found.
Every step is a study of the history: Ctrl-C stops it, and the same command goes on. `--quick` only tries the script, and keeps
its results apart. Run it alone on the machine.

The figures are derived from TPC-W and are not comparable with published TPC-W results.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from turns import FINISHED, FOUND, Row, StoppedError, keep_rows, ratio, values_in_turns

from trimtab.errors import TrimtabError
from trimtab.history import open_history_at
from trimtab.report import Progress
from trimtab.space import Config
from trimtab.study import StudyFile, load_study_file, rank_study, tune

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
APPLICATIONS = ("rubis", "tpcw")
OBJECTIVES = ("latency_mean", "throughput", "latency_p99")
TIERS = ("web", "app", "db")
WHOLE, COMBINED, BANDIT = "whole", "combined", "ensemble"
THESIS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "rubis": {"latency_mean": {WHOLE: "26%"}, "throughput": {WHOLE: "18%"}, "latency_p99": {WHOLE: "8.8%"}},
    "tpcw": {
        "latency_mean": {"web": "13.4%", "app": "8.75%", "db": "10%", COMBINED: "10.84%", WHOLE: "14.6%"},
        "throughput": {WHOLE: "27.2%"},
        "latency_p99": {WHOLE: "9.4%"},
    },
}
"""Gains in 24 hours, on other machines and versions; its third objective is a mean without the slowest hundredth."""
_RANKED = 10
_NOTHING = "nothing proven"


def study_of(application: str, objective: str, options: argparse.Namespace, part: str = WHOLE) -> StudyFile:
    """The study of the whole stack, or of one tier while the others stay as they are."""
    file = load_study_file(EXAMPLES / f"{application}.toml")
    target = {name: dict(table) for name, table in file.target.items() if name in TIERS}
    study = {"name": f"fernando-{application}-{objective}-{part}", "objective": objective, "budget": options.budget}
    changed: dict[str, Any] = {
        "study": type(file.study).model_validate({**file.study.model_dump(), **study}), "target": target,
    }  # fmt: skip
    if part in TIERS:
        changed["target"] = {n: table if n == part else {**table, "knobs": []} for n, table in target.items()}
        # As found, Java may take a quarter of the machine and more, which the other tiers have to leave as it is.
        as_found = (
            0
            if part == "app" or file.stack is None
            else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 10
        )
        if file.stack is not None and file.stack.memory is not None:
            changed["stack"] = file.stack.model_copy(update={"memory": file.stack.memory + as_found})
    if part == BANDIT:
        changed["search"] = file.search.model_copy(update={"searcher": BANDIT})
    if options.quick:
        short = {"window": "2s", "window_max": "2s", "warmup_floor": "1s", "warmup_cap": "1s"}
        changed["measure"] = type(file.measure).model_validate({**file.measure.model_dump(), **short})
        changed["workload"] = {**file.workload, "think_scale": 0, "load": {"users": 8}}
        changed["proof"] = file.proof.model_copy(update={"min_pairs": 2, "max_pairs": 2, "ablate": False})
    return file.model_copy(update=changed)


def proven(file: StudyFile, options: argparse.Namespace, progress: Progress) -> Config:
    """What a study has proven; nothing where it has not.

    Raises:
        StoppedError: it was stopped; the same call goes on.
    """
    record, _ = tune(file, options.state, progress)
    if record.status not in FINISHED:
        raise StoppedError
    return record.verdict.config if record.status == "proven" else Config({})


def ranked(file: StudyFile, options: argparse.Namespace) -> list[str]:
    """The settings that explain the trials of a study best; none where it has too few."""
    try:
        with open_history_at(file.history, options.state) as history:
            found = rank_study(history, file.study.name, rankers=("forest",))
    except TrimtabError as error:
        print(f"not ranked: {error.message}", file=sys.stderr)
        return []
    return [entry.knob for entry in found.consensus.knobs[:_RANKED]]


def experiment(application: str, objective: str, options: argparse.Namespace, progress: Progress) -> Row:
    """One row of the results.

    Raises:
        StoppedError: a step was stopped; the same call goes on.
    """
    making = stamp.Making()
    parts = (*TIERS, BANDIT, WHOLE) if objective == OBJECTIVES[0] else (WHOLE,)
    found = {part: proven(study_of(application, objective, options, part), options, progress) for part in parts}
    if set(TIERS) <= set(found):
        found[COMBINED] = Config({name: value for tier in TIERS for name, value in found[tier].items()})
    whole = study_of(application, objective, options)
    return {
        "values": values_in_turns(whole, found, options, progress),
        "changed": {part: dict(config) for part, config in found.items()}, "ranked": ranked(whole, options),
        "made": making.stamp(),
    }  # fmt: skip


def gain(row: Row, part: str) -> tuple[float, float, float] | None:
    """How many times as fast as the settings as found, with its 95 % interval; None without two rounds."""
    return ratio(row["values"], FOUND, part, row["objective"] == "throughput")


def table(rows: Sequence[Row]) -> str:
    """The results as Markdown tables: what each config gains, and which settings matter."""
    lines = [
        "| application | objective | tuned | budgets | times as fast (95 %) | gain | in the thesis |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        for part in (name for name in row["values"] if name != FOUND):
            thesis = THESIS[row["application"]].get(row["objective"], {}).get(part, "–")
            budgets = str(len(TIERS) if part == COMBINED else 1)
            cells = (
                row["application"],
                row["objective"],
                part,
                budgets,
                *(_shown(gain(row, part), row["objective"]) if row["changed"].get(part) else (_NOTHING, "–")),
                thesis,
            )
            lines.append(f"| {' | '.join(cells)} |")
    for row in rows:
        if row["ranked"]:
            lines.append(f"\n{row['application']}, {row['objective']}: {', '.join(row['ranked'])}")
    return "\n".join(lines)


def _shown(found: tuple[float, float, float] | None, objective: str) -> tuple[str, str]:
    if found is None:
        return "–", "–"
    share = found[0] - 1 if objective == "throughput" else 1 - 1 / found[0]
    return f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})", f"{share:.1%}"


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--application", action="append", choices=APPLICATIONS, help="default: both")
    parser.add_argument("--objective", action="append", choices=OBJECTIVES, help="default: all three")
    parser.add_argument("--budget", default="2h", help='of each study: "2h" or "100 trials"')
    parser.add_argument("--rounds", type=int, default=6, help="runs of each config in turns, 2 or more")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--state", type=Path, default=Path(".trimtab") / "fernando", help="journal and history")
    parser.add_argument("--quick", action="store_true", help="few and short runs, which only try the script")
    found = parser.parse_args(words)
    if found.quick:
        found.budget, found.rounds = "2 trials", 2
        found.state = found.state.with_name(f"{found.state.name}-quick")
        found.state.mkdir(parents=True, exist_ok=True)
        found.results = found.state / "results.json"
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Makes what is missing and prints the tables."""
    options = _arguments(words)
    keys = {"application": options.application or APPLICATIONS, "objective": options.objective or OBJECTIVES}
    return keep_rows(options, keys, experiment, table)


if __name__ == "__main__":
    sys.exit(main())
