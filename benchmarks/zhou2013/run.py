"""The six TPC-H mixes of Zhou 2013 (chapter 5) at a tenth of their size: default, recommended and tuned, with intervals.

    python benchmarks/zhou2013/run.py [MIX ...] [--results FILE] [--again]

One study per mix, 1 GB of data to a memory limit of 400 MB as 10 GB to 4 GB there, every range divided by ten. Writes
`results.json` after each mix and prints the table that docs/measurements/zhou2013.md shows. The figures are derived from
TPC-H and are not comparable with published TPC-H results.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from rich.console import Console

from trimtab.history import StudyRecord
from trimtab.jsonable import to_json
from trimtab.measure import compare_pairs, pooled_interval
from trimtab.records import Role, Status, Trial
from trimtab.report import Progress
from trimtab.space import Config
from trimtab.study import load_study_file, tune

HERE = Path(__file__).parent
MIXES = ("12q6", "12q7", "4q6-4q9-4q13", "3q6-3q7-3q8-3q13", "6q7-6q13", "3q6-3q7-3q8-3q13-3q15")


def _interval(trials: Sequence[Trial], config: Config) -> dict[str, float] | None:
    """Student's interval over every full measurement of `config` in the study; that of the run itself for a single one."""
    full = [t.measurement for t in trials if t.config == config and t.status is Status.OK]
    found = [measurement.throughput for measurement in full if measurement is not None]
    if not found:
        return None
    interval = pooled_interval([each.estimate for each in found]) if len(found) > 1 else found[0]
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high, "n": len(found)}


def _row(mix: str, record: StudyRecord, trials: Sequence[Trial]) -> dict[str, Any]:
    verdict = record.verdict
    advice = next((t.config for t in trials if t.role is Role.ADVICE), record.baseline)
    tuned = verdict.candidate or record.baseline
    return {
        "mix": mix,
        "verdict": verdict.result,
        "throughput_per_s": {
            "default": _interval(trials, record.baseline),
            "recommended": _interval(trials, advice),
            "tuned": _interval(trials, tuned) if tuned != record.baseline else None,
        },
        "gain_over_default": {"tuned": to_json(verdict.gain), "recommended": to_json(verdict.advice_gain)},
        "gain_over_recommended": _over_recommended(verdict.pairs, verdict.advice_pairs),
        "settings": {name: knob.new_text for name, knob in verdict.knobs.items()},
        "n_trials": len(trials),
        "wall_s": verdict.wall_s["total"],
        "noise": verdict.noise_floor,
    }


def _stamp(made: stamp.Stamp, record: StudyRecord, begun: float) -> stamp.Stamp:
    """`made`; of a study that the history already held only machine and date are known."""
    if record.created_at >= begun:
        return made
    date = stamp.shown_date(record.created_at)
    return {**made, "commit": stamp.UNKNOWN, "version": stamp.UNKNOWN, "load": stamp.UNKNOWN, "date": date}


def _over_recommended(
    pairs: Sequence[Sequence[float]], advice_pairs: Sequence[Sequence[float]]
) -> dict[str, Any] | None:
    if len(pairs) != len(advice_pairs) or len(pairs) < 2:
        return None
    ratio = compare_pairs([a[1] for a in advice_pairs], [p[1] for p in pairs], True).ratio
    return {"estimate": ratio.estimate, "low": ratio.low, "high": ratio.high, "level": ratio.level}


def _text(interval: dict[str, Any] | None, digits: str) -> str:
    if interval is None or interval["estimate"] is None:
        return "–"
    low, high = (f"{interval[end]:{digits}}" if interval[end] is not None else "∞" for end in ("low", "high"))
    return f"{interval['estimate']:{digits}} ({low} to {high})"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The results as a Markdown table."""
    lines = [
        "| mix | default, queries/s | recommended | tuned | tuned / default | tuned / recommended | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        rates = [_text(row["throughput_per_s"][name], ".3g") for name in ("default", "recommended", "tuned")]
        gains = [_text(row["gain_over_default"]["tuned"], ".2f"), _text(row["gain_over_recommended"], ".2f")]
        lines.append(f"| {row['mix']} | {' | '.join([*rates, *gains])} | {row['verdict'].replace('_', ' ')} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mixes", nargs="*", metavar="MIX", help=f"of {', '.join(MIXES)}; default: all")
    parser.add_argument("--results", type=Path, default=HERE / "results.json", help="JSON file to write")
    parser.add_argument("--state", type=Path, default=Path(".trimtab") / "zhou2013", help="journal and history")
    parser.add_argument("--again", action="store_true", help="measure again what the history holds already")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    made: dict[str, stamp.Stamp] = {}
    for mix in options.mixes or MIXES:
        file = load_study_file(HERE / f"{mix}.toml")
        making, begun = stamp.Making(), time.time()
        with Progress(Console(stderr=True)) as progress:
            record, trials = tune(file, options.state, progress, again=options.again)
        rows.append(_row(mix, record, trials))
        machine = {"cores": record.machine.cores, "memory_bytes": record.machine.memory_bytes,
                   "cpu_model": record.machine.cpu_model, "kernel": record.machine.kernel,
                   "server": record.machine.server_version}  # fmt: skip
        made[mix] = _stamp(making.stamp(), record, begun)
        stamp.write(options.results, {"machine": machine, "rows": rows}, made)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
