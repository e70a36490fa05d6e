"""Experiments of several studies: kept row by row, so that they may be made in pieces, and with configs that take turns."""

from __future__ import annotations

import argparse
import hashlib
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
from trimtab.history import BENCHED, History, StudyRecord, open_history_at
from trimtab.measure import compare_pairs
from trimtab.records import BenchSummary, Role, Status, Verdict
from trimtab.report import Progress
from trimtab.space import Config
from trimtab.study import Stage, StudyFile, open_stage
from trimtab.study.begin import fingerprints_of, first_signal_is_polite, new_record, run_flow
from trimtab.study.task import task_of
from trimtab.trial import Interrupted

__all__ = ["FINISHED", "FOUND", "Row", "StoppedError", "in_turns", "keep_rows", "ratio", "values_in_turns"]

FINISHED = ("proven", "no_improvement")
FOUND = "found"
"""The settings as found, among the configs that take turns."""
Row = dict[str, Any]


class StoppedError(Exception):
    """The user has stopped a step."""


def in_turns(configs: Mapping[str, Config], n_rounds: int) -> Callable[[Scorer], Steps[dict[str, list[float]]]]:
    """The flow that measures all configs in each round: values of the objective by name.

    Each round begins with another config, and none is measured twice in a row, so that each run comes after the same restart.
    Configs that are the same are measured once a round, and have the same values.
    """
    names: dict[Config, str] = {}
    for name, config in configs.items():
        names.setdefault(config, name)

    def flow(scorer: Scorer) -> Steps[dict[str, list[float]]]:
        values: dict[str, list[float]] = {name: [] for name in configs}
        for number in range(n_rounds):
            for config in rotated(list(names), number):
                trial = yield from believable(config, Role.BENCH)
                value = scorer.value_of(trial) if trial.status is Status.OK else math.nan
                for name in [each for each, other in configs.items() if other == config]:
                    values[name].append(value)
                scorer.say(f"round {number + 1}: {names[config]} {value:.4g} {trial.reason or ''}")
        return values

    return flow


def rotated(configs: list[Config], number: int) -> list[Config]:
    """The order of a round. Two configs keep theirs: a round would begin with the one that ended the last."""
    start = number % len(configs) if len(configs) > 2 else 0
    return configs[start:] + configs[:start]


def values_in_turns(
    file: StudyFile, configs: Mapping[str, Config], options: argparse.Namespace, progress: Progress
) -> dict[str, list[float]]:
    """The objective under each config and under the settings as found, round by round; NaN where a run failed.

    Raises:
        StoppedError: it was stopped; the same call goes on.
    """
    with (
        open_history_at(file.history, options.state) as history,
        open_stage(file, options.state) as stage,
        stage.stack.lock("benchmark"),
    ):
        turns = {FOUND: stage.baseline}
        for name, config in configs.items():
            turns[name] = stage.space.repair(stage.space.canonical(stage.baseline.replace(dict(config))))
        record = _record_of(stage, history, turns, options.rounds)
        stage.workload.prepare(stage.stack.endpoint(), progress.phase)
        flow = in_turns(turns, options.rounds)
        try:
            with first_signal_is_polite() as is_interrupted:
                values, _ = run_flow(
                    stage, task_of(stage), flow, history, record, options.state, progress, is_interrupted
                )
        except Interrupted as error:
            raise StoppedError from error
        verdict = Verdict(
            result="bench", metric=file.objective.metric, objective=str(file.objective), unit=file.objective.unit,
            bench=BenchSummary(settings=Config({}), value=None, noise=None),
        )  # fmt: skip
        history.update_study(record.id, verdict=verdict)
    return values


def _record_of(stage: Stage, history: History, turns: Mapping[str, Config], n_rounds: int) -> StudyRecord:
    """The turns of these configs that were begun, or new ones."""
    name = f"{stage.file.study.name}.turns"
    made = json.dumps([n_rounds, {key: dict(config) for key, config in turns.items()}], sort_keys=True, default=str)
    fingerprint = f"{fingerprints_of(stage.file, stage.workload)[0]} {hashlib.sha256(made.encode()).hexdigest()[:16]}"
    found = history.find_study(name, is_own=True)
    if found is not None and found.fingerprint == fingerprint:
        return found
    return new_record(history, stage, fingerprint, name=name, status=BENCHED)


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
            except (StoppedError, KeyboardInterrupt):
                print("interrupted; the same command goes on", file=sys.stderr)
                return 130
            made[" ".join(key)] = row.pop("made")
            rows.append({**dict(zip(keys, key, strict=True)), **row})
            stamp.write(options.results, {"rows": rows}, made)
    print(table(rows))
    return 0
