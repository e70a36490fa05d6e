"""Experiments of several studies: kept row by row, so that they may be made in pieces, and with configs that take turns."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import stamp
from rich.console import Console

from trimtab.flow import Scorer, Steps
from trimtab.flow.pairs import believable
from trimtab.history import open_history_at
from trimtab.measure import compare_pairs
from trimtab.records import BenchSummary, Role, Status
from trimtab.report import Progress
from trimtab.space import Config
from trimtab.study import StudyFile, open_stage
from trimtab.study.benching import run_bench

__all__ = ["FINISHED", "FOUND", "Row", "StoppedError", "in_turns", "keep_rows", "ratio", "values_in_turns"]

FINISHED = ("proven", "no_improvement")
FOUND = "found"
"""The settings as found, among the configs that take turns."""
Row = dict[str, Any]


class StoppedError(Exception):
    """The user has stopped a step."""


def in_turns(configs: Mapping[str, Config], n_rounds: int) -> Callable[[Scorer], Steps[dict[str, list[float]]]]:
    """The flow that measures all configs in each round, every other round backwards: values of the objective by name."""

    def flow(scorer: Scorer) -> Steps[dict[str, list[float]]]:
        values: dict[str, list[float]] = {name: [] for name in configs}
        for number in range(n_rounds):
            for name in list(configs)[:: -1 if number % 2 else 1]:
                trial = yield from believable(configs[name], Role.BENCH)
                is_ok = trial.status is Status.OK and trial.measurement is not None
                values[name].append(scorer.task.objective.value(trial.measurement).estimate if is_ok else math.nan)
                scorer.say(f"round {number + 1}: {name} {values[name][-1]:.4g} {trial.reason or ''}")
        return values

    return flow


def values_in_turns(
    file: StudyFile, configs: Mapping[str, Config], options: argparse.Namespace, progress: Progress
) -> dict[str, list[float]]:
    """The objective under each config and under the settings as found, round by round; NaN where a run failed."""
    with (
        open_history_at(file.study.history, options.state) as history,
        open_stage(file, options.state) as stage,
        stage.stack.lock("benchmark"),
    ):
        stage.workload.prepare(stage.stack.endpoint(), progress.phase)
        turns = {FOUND: stage.baseline}
        for name, config in configs.items():
            turns[name] = stage.space.repair(stage.space.canonical(stage.baseline.replace(dict(config))))
        values: dict[str, list[float]] = run_bench(
            stage, in_turns(turns, options.rounds), lambda _: BenchSummary(settings={}, value=None, noise=None), history,
            options.state, name=f"{file.study.name}.turns", objective=file.objective, listener=progress, say=progress.phase,
        )  # fmt: skip
    return values


def ratio(
    values: Mapping[str, Sequence[float]], one: str, other: str, is_maximised: bool
) -> tuple[float, float, float] | None:
    """How many times better `other` is than `one`, with its 95 % interval; None without two rounds in which both ran."""
    pairs = zip(values.get(one, ()), values.get(other, ()), strict=False)
    sound = [pair for pair in pairs if all(map(math.isfinite, pair))]
    if len(sound) < 2:
        return None
    found = compare_pairs([pair[0] for pair in sound], [pair[1] for pair in sound], is_maximised).ratio
    return found.estimate, found.low, found.high


def keep_rows(
    options: argparse.Namespace,
    keys: Mapping[str, Sequence[str]],
    experiment: Callable[..., Row],
    table: Callable[[Sequence[Row]], str],
) -> int:
    """Makes the rows that are missing in `options.results`, one for each combination of `keys`, and prints the table; exit code.

    `experiment` takes a key's values, the options and who is told of the progress; a row has its stamp in `made`.
    """
    former = json.loads(options.results.read_text(encoding="utf-8")) if options.results.exists() else {}
    rows: list[Row] = former.get("rows", [])
    made: dict[str, stamp.Stamp] = former.get("made", {})
    with Progress(Console(stderr=True)) as progress:
        for key in product(*keys.values()):
            if any(tuple(row[name] for name in keys) == key for row in rows):
                continue
            try:
                row = experiment(*key, options, progress)
            except StoppedError:
                print("interrupted; the same command goes on", file=sys.stderr)
                return 130
            made[" ".join(key)] = row.pop("made")
            rows.append({**dict(zip(keys, key, strict=True)), **row})
            stamp.write(options.results, {"rows": rows}, made)
    print(table(rows))
    return 0
