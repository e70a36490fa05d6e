"""What a restart of a Java server costs a trial, whether its first run is as fast as the next ones, and what a live change costs.

    python benchmarks/restart/run.py [--case cassandra] [--case tomcat] [--rounds 3] [--runs 3]

Each round restarts the server by a setting that does not affect the load (`CICompilerCount`, one thread more in every other one)
and runs the load several times in a row; the last run changes a setting live. "First over last" is the throughput of the first
run over that of the last one without a change: 1 when a config that needs a restart is measured as fairly as one that does not.
Run it alone on the machine: a quarter of an hour for both. Results go to results.json, with what was measured before of the
other case.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from turns import Row, ratio

from trimtab.errors import TrimtabError
from trimtab.records import Role, Trial
from trimtab.study import Stage, StudyFile, load_study_file, open_stage
from trimtab.study.file import plan_of
from trimtab.trial import TrialRoom

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
_RESTART = "CICompilerCount"


@dataclass(frozen=True, slots=True)
class Case:
    """A study file of the examples.

    Attributes:
        example: its name.
        tier: of the Java server.
        live: a setting of it that changes live.
    """

    example: str
    tier: str
    live: str


CASES = {
    "cassandra": Case("ycsb-a-cassandra", "db", "concurrent_reads"),
    "tomcat": Case("rubis", "app", "keepAliveTimeout"),
}


def study_of(case: Case) -> StudyFile:
    """The example with that setting, a warm-up that is not cut off, and windows of one length."""
    file = load_study_file(EXAMPLES / f"{case.example}.toml")
    own = {**file.target[case.tier], "knobs": [*file.target[case.tier]["knobs"], _RESTART]}
    long = {"warmup_cap": "3min", "window": "15s", "window_max": "15s"}
    measure = type(file.measure).model_validate({**file.measure.model_dump(), **long})
    return file.model_copy(update={"target": {**file.target, case.tier: own}, "measure": measure})


def experiment(case: Case, options: argparse.Namespace) -> Row:
    """All rounds of a case."""
    making, file = stamp.Making(), study_of(case)
    with open_stage(file, options.state) as stage, stage.stack.lock("benchmark"):
        stage.workload.prepare(stage.stack.endpoint(), _say)
        rounds = _rounds(stage, case, file, options)
    return {"rounds": rounds, **_summary(rounds), "made": making.stamp()}


def _rounds(stage: Stage, case: Case, file: StudyFile, options: argparse.Namespace) -> list[Row]:
    names = {name.rpartition(".")[2]: name for name in stage.baseline}
    late, live = names[_RESTART], names[case.live]
    plan, found = plan_of(file, compiles=True), []
    with TrialRoom(
        stage.stack, stage.workload, stage.space, stage.baseline,
        objective=stage.objective, state_dir=options.state, study=file.study.name, purpose="bench", say=_say,
    ) as room:  # fmt: skip
        for number in range(options.rounds):
            config = stage.baseline.replace({late: int(stage.baseline[late]) + 1 - number % 2})
            changed = config.replace({live: int(stage.baseline[live]) * 2})
            trials = [
                room.run(each, number=0, role=Role.BENCH, plan=plan, seed=number, hand_over=True)
                for each in [config] * options.runs + [changed]
            ]
            found.append(_round(trials))
            _say(f"round {number + 1}: {found[-1]}")
    return found


def _round(trials: Sequence[Trial]) -> Row:
    """Throughput of each run without a live change, and seconds by what they were for."""
    first, changed = trials[0], trials[-1]
    return {
        "throughput_per_s": [_throughput(trial) for trial in trials[:-1]],
        "restart_s": _seconds(first, "apply"), "data_s": _seconds(first, "reset"), "warmup_s": _seconds(first, "warmup"),
        "live_change_s": _seconds(changed, "apply"), "data_again_s": _seconds(changed, "reset"),
    }  # fmt: skip


def _throughput(trial: Trial) -> float:
    return float("nan") if trial.measurement is None else trial.measurement.throughput.estimate


def _seconds(trial: Trial, step: str) -> float:
    """All of a step, whichever tier it was for."""
    return round(sum(s for name, s in trial.cost_s.items() if name.partition(".")[0] == step), 2)


def _summary(rounds: Sequence[Row]) -> Row:
    values = {
        "first": [each["throughput_per_s"][0] for each in rounds],
        "last": [each["throughput_per_s"][-1] for each in rounds],
    }
    found = ratio(values, "last", "first", True)
    return {"first_over_last": None if found is None else dict(zip(("estimate", "low", "high"), found, strict=True))}


def table(rows: Mapping[str, Row]) -> str:
    """The results as a Markdown table: seconds as the median of the rounds, and their range."""
    steps = {"restart_s": "restart", "data_s": "making the data, all times", "warmup_s": "warm-up after it",
             "data_again_s": "making the data, warm", "live_change_s": "live change"}  # fmt: skip
    lines = [
        f"| server | {' | '.join(f'{name}, s' for name in steps.values())} | first run over last (95 % interval) |"
    ]
    lines.append("| --- " * (len(steps) + 2) + "|")
    for name, row in rows.items():
        cells = [_range([each[step] for each in row["rounds"]]) for step in steps]
        found = row["first_over_last"]
        cells.append("–" if found is None else f"{found['estimate']:.2f} ({found['low']:.2f} to {found['high']:.2f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _range(values: Sequence[float]) -> str:
    middle = sorted(values)[len(values) // 2]
    return f"{middle:.3g} ({min(values):.3g} to {max(values):.3g})"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Measures the cases and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES, help="default: both")
    parser.add_argument("--rounds", type=int, default=3, help="restarts, 2 or more for an interval")
    parser.add_argument("--runs", type=int, default=3, help="of the load after each restart, without a change")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--state", type=Path, default=Path(".trimtab") / "restart", help="journal")
    options = parser.parse_args(words)
    if min(options.rounds, options.runs) < 1:
        parser.error(f"rounds={options.rounds} and runs={options.runs} must be 1 or more")
    rows: dict[str, Any] = {
        name: {**row, "made": stamp.former(options.results)["made"][name]}
        for name, row in stamp.former(options.results).get("rows", {}).items()
    }
    try:
        for name in options.case or CASES:
            rows[name] = experiment(CASES[name], options)
            made = {each: row["made"] for each, row in rows.items()}
            bare = {each: {k: v for k, v in row.items() if k != "made"} for each, row in rows.items()}
            stamp.write(options.results, {"rows": bare}, made)
    except TrimtabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
