"""find_rate: the highest rate of an open loop at which the server still keeps a promise about its latency (an SLO)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trimtab.errors import UsageError
from trimtab.flow.rate import START_PER_S, RateResult, Slo, rate_search
from trimtab.records import BenchSummary, Objective
from trimtab.report import measurement_to_json
from trimtab.space import Config
from trimtab.study.benching import at_bench, changes_of, parse_settings, run_bench
from trimtab.study.file import StudyFile, guarding_of
from trimtab.study.preparing import prepared
from trimtab.study.tables import RATE
from trimtab.trial import TrialListener
from trimtab.units import format_duration, format_figure
from trimtab.workload import RatedWorkload, arrivals_s

__all__ = ["RateResult", "Slo", "find_rate", "rate_to_json"]


def find_rate(
    file: StudyFile,
    state_dir: Path,
    *,
    slo: Slo,
    settings: dict[str, str],
    listener: TrialListener,
    say: Callable[[str], None],
) -> RateResult:
    """The highest rate at which the running config, or it with `settings` over it, keeps `slo`; leaves the target as found.

    What a killed Trimtab has left is taken back first; `say` is told of it, and of progress. The history keeps the probes as
    a study of their own, named as the file's with ".rate" behind it.

    Raises:
        UsageError, SpaceError: a knob or value that is not legal, a workload that cannot run at a rate, or there is a stop file.
        TargetError: the target cannot be reached.
        LoadError: no rate keeps the SLO, or a probe could not be made.
        HistoryError: the probes cannot be kept.
        Interrupted: somebody asked to stop.
    """
    with at_bench(file, state_dir, settings, say, command="trimtab bench --find-rate") as (stage, history):
        workload = stage.workload
        if not isinstance(workload, RatedWorkload):
            raise UsageError(
                f"workload kind={workload.kind!r} cannot run at a given rate (open loop)",
                hint="its operations are too long, or bound to one another; measure it without --find-rate",
            )
        config = parse_settings(stage, settings, say)
        workload.with_rate(START_PER_S)  # what it refuses shows before anything is changed
        switch = guarding_of(file, state_dir).switch
        switch.require_off()
        prepared(stage, switch, state_dir, say)
        found = run_bench(
            stage,
            rate_search(slo, config),
            lambda found: _summary(found, changes_of(stage, config)),
            history,
            state_dir,
            name=f"{file.study.name}{RATE}",
            # The room must not judge latencies: a broken promise is a finding here.
            objective=Objective("throughput"),
            listener=listener,
            say=say,
        )
        coming_s = arrivals_s(load := workload.with_rate(found.rate_per_s))
        if coming_s > stage.plan_at(load).warmup_floor_s:
            say(
                f"at {format_figure(found.rate_per_s)}/s the users reach their usual mix of pages only after"
                f" {format_duration(coming_s)}, and were measured before: these runs have too many first pages; take fewer users,"
                " or raise [measure] warmup_cap"
            )
        return found


def _summary(found: RateResult, changes: Config) -> BenchSummary:
    broken = found.broken_at_per_s
    return BenchSummary(
        settings=changes,
        slo=found.slo.text,
        rate_per_s=found.rate_per_s,
        broken_at_per_s=broken if math.isfinite(broken) else None,
        limit=found.limit,
    )


def rate_to_json(found: RateResult) -> dict[str, Any]:
    """All of it, with the figures of each probe that was measured."""
    return {
        "slo": found.slo.text,
        "rate_per_s": found.rate_per_s,
        "broken_at_per_s": found.broken_at_per_s,
        "limit": found.limit,
        "probes": [
            {
                "rate_per_s": probe.rate_per_s,
                "is_kept": probe.is_kept,
                "reason": probe.reason,
                "measurement": None if probe.measurement is None else measurement_to_json(probe.measurement),
            }
            for probe in found.probes
        ],
    }
