"""The six TPC-H mixes of Zhou 2013 (chapter 5) at a tenth of their size, tuned, and beside three baselines.

    python benchmarks/zhou2013/run.py [--mix 12q6 ...] [--experiment paper|all ...] [--rounds 4] [--again] [--list]

Experiment "paper" tunes the six parameters of the paper, "all" every knob that matters for speed. After each study the winner
runs in turns with PostgreSQL's default of today, the default of the paper's time and the paper's recommendation. Results go to
results.json after each study, so that the benchmark may be made in pieces; run it alone on the machine (half an hour each). The
figures are derived from TPC-H and are not comparable with published TPC-H results.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from rich.console import Console
from turns import FINISHED, Row, in_turns, ratio

from trimtab.history import StudyRecord, open_history_at
from trimtab.jsonable import to_json
from trimtab.records import BenchSummary, Trial
from trimtab.report import Progress
from trimtab.space import Config
from trimtab.study import StudyFile, load_study_file, open_stage, tune
from trimtab.study.benching import parse_settings, run_bench

HERE = Path(__file__).parent
MIXES: Mapping[str, Mapping[str, int]] = {
    "12q6": {"q6": 12},
    "12q7": {"q7": 12},
    "4q6-4q9-4q13": {"q6": 4, "q9": 4, "q13": 4},
    "3q6-3q7-3q8-3q13": {"q6": 3, "q7": 3, "q8": 3, "q13": 3},
    "6q7-6q13": {"q7": 6, "q13": 6},
    "3q6-3q7-3q8-3q13-3q15": {"q6": 3, "q7": 3, "q8": 3, "q13": 3, "q15": 3},
}
"""Streams of each query."""
EXPERIMENTS = ("paper", "all")

BASELINES: Mapping[str, Mapping[str, str]] = {
    "today": {},
    "paper's default": {
        "shared_buffers": "3280kB", "work_mem": "128kB", "maintenance_work_mem": "1536kB",
        "effective_cache_size": "13104kB", "random_page_cost": "4", "temp_buffers": "1MB",
    },
    "recommended": {
        "shared_buffers": "100MB", "work_mem": "5MB", "maintenance_work_mem": "13107kB",
        "effective_cache_size": "200MB", "random_page_cost": "4", "temp_buffers": "26216kB",
    },
}  # fmt: skip
"""What the winner is compared with. The paper's default: that of PostgreSQL 9.1, divided by ten like everything else."""

_KEY = ("mix", "experiment", "scale")


def study_of(mix: str, experiment: str, scale: float, budget: str | None, window: str | None) -> StudyFile:
    """study.toml with this mix and these knobs."""
    file = load_study_file(HERE / "study.toml")
    target, measure = dict(file.target["db"]), file.measure
    if experiment == "all":
        target["knobs"] = ["performance", *target["knobs"]]
    if window is not None:
        measure = type(measure).model_validate({**measure.model_dump(), "window": window, "window_max": window})
    study = {"name": f"zhou2013-{mix}-{experiment}", **({} if budget is None else {"budget": budget})}
    changed = {
        "study": file.study.model_copy(update=study), "target": {"db": target}, "measure": measure,
        "workload": {**file.workload, "scale": scale, "mix": dict(MIXES[mix])},
    }  # fmt: skip
    return file.model_copy(update=changed)


def _beside(
    file: StudyFile, state: Path, winner: Mapping[str, Any], n_rounds: int, progress: Progress
) -> dict[str, list[float]]:
    """Throughput of the baselines and of the winner, round by round."""

    def say(text: str) -> None:
        progress.phase(text)

    with (
        open_history_at(file.history, state) as history,
        open_stage(file, state) as stage,
        stage.stack.lock("benchmark"),
    ):
        stage.workload.prepare(stage.stack.endpoint(), say)
        configs = {name: parse_settings(stage, dict(texts)) for name, texts in BASELINES.items()}
        if winner:
            configs["tuned"] = stage.space.validate(stage.space.canonical(stage.baseline.replace(dict(winner))))
        nothing = BenchSummary(settings=Config({}), value=None, noise=None)
        return run_bench(
            stage, in_turns(configs, n_rounds), lambda values: nothing, history, state,
            name=f"{file.study.name}.bench", objective=file.objective, listener=progress, say=say,
        )  # fmt: skip


def _row(record: StudyRecord, trials: Sequence[Trial], values: Mapping[str, Sequence[float]]) -> Row:
    verdict = record.verdict
    return {
        "verdict": verdict.result, "gain": to_json(verdict.gain), "noise": verdict.noise_floor, "n_trials": len(trials),
        "settings": {name: knob.new_text for name, knob in verdict.knobs.items()},
        "wall_s": verdict.wall_s["total"], "throughput_per_s": {name: list(each) for name, each in values.items()},
        "tuned_over": {name: _ratio(values, name) for name in BASELINES},
    }  # fmt: skip


def _ratio(values: Mapping[str, Sequence[float]], baseline: str) -> dict[str, float] | None:
    """How many times as fast the winner is, over the rounds in which both ran; None for fewer than two."""
    found = ratio(values, baseline, "tuned", True)
    return None if found is None else dict(zip(("estimate", "low", "high"), found, strict=True))


def table(rows: Sequence[Row]) -> str:
    """The results as a Markdown table; ratios with Student's 95 % interval over the rounds."""
    heads = ["mix", "knobs", *(f"{name}, queries/s" for name in BASELINES), "tuned",
             *(f"tuned / {name}" for name in BASELINES), "settings", "verdict"]  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    for row in rows:
        rates = [_mean(each) for each in row["throughput_per_s"].values()]
        texts = [f"{rate:.3g}" for rate in rates] + ["–"] * (len(BASELINES) + 1 - len(rates))
        ratios = [_text(row["tuned_over"].get(name)) for name in BASELINES]
        cells = [row["mix"], row["experiment"], *texts, *ratios, len(row["settings"]), row["verdict"].replace("_", " ")]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> float:
    done = [value for value in values if math.isfinite(value)]
    return sum(done) / len(done) if done else math.nan


def _text(found: Mapping[str, float] | None) -> str:
    return "–" if found is None else f"{found['estimate']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mix", action="append", choices=MIXES, help="default: all")
    parser.add_argument("--experiment", action="append", choices=EXPERIMENTS, help="default: both")
    parser.add_argument("--rounds", type=int, default=4, help="runs of each config in turns, 2 or more")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of the data; another one than 1 only tries the script"
    )
    parser.add_argument("--budget", help="of each study, such as '25 trials'")
    parser.add_argument("--window", help="of each run, such as '30s'")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--state", type=Path, default=Path(".trimtab") / "zhou2013", help="journal and history")
    parser.add_argument("--again", action="store_true", help="make anew what is there already")
    parser.add_argument("--list", action="store_true", help="only say what would be run")
    return parser.parse_args()


def main() -> int:
    """Runs what is missing and prints the table; a study that was stopped goes on with the next call."""
    options = _arguments()
    rows: list[Row] = (
        json.loads(options.results.read_text(encoding="utf-8"))["rows"] if options.results.exists() else []
    )
    for experiment in options.experiment or EXPERIMENTS:
        for mix in options.mix or MIXES:
            key = (mix, experiment, options.scale)
            if not options.again and any(tuple(row[name] for name in _KEY) == key for row in rows):
                continue
            if options.list:
                print(mix, experiment)
                continue
            file, making = study_of(mix, experiment, options.scale, options.budget, options.window), stamp.Making()
            with Progress(Console(stderr=True)) as progress:
                record, trials = tune(file, options.state, progress, again=options.again)
                if record.status not in FINISHED:
                    return 1
                winner = record.verdict.config if record.verdict.is_better else {}
                values = _beside(file, options.state, winner, options.rounds, progress)
            row = {**dict(zip(_KEY, key, strict=True)), **_row(record, trials, values), "made": making.stamp()}
            rows = [other for other in rows if tuple(other[name] for name in _KEY) != key] + [row]
            stamp.write(
                options.results, {"rows": rows}, {f"{r['mix']} {r['experiment']}": r["made"] for r in rows}, indent=1
            )
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
