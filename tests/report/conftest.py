"""Synthetic studies, as a real one on TPC-H would look: a proven winner, none, one cut off, one that is hostile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trimtab.history import StudyRecord, read_verdict
from trimtab.jsonable import to_json
from trimtab.measure import Interval, LabelStats, Measurement
from trimtab.measure.histogram import encode_latencies
from trimtab.records import Context, Machine, Role, Status, Trial
from trimtab.space import Config, Value

START = 1_700_000_000.0
CONTEXT = Context("tpch 4Q6+4Q9+4Q13 scale 0.1", 12, 1.0, {"scale": 0.1})
BASELINE: dict[str, Value] = {
    "effective_io_concurrency": 16,
    "jit": True,
    "max_parallel_workers_per_gather": 2,
    "random_page_cost": 4.0,
    "shared_buffers": 16384,
    "work_mem": 4096,
}
WINNER: dict[str, Value] = {
    **BASELINE,
    "jit": False,
    "max_parallel_workers_per_gather": 0,
    "shared_buffers": 65536,
    "work_mem": 65536,
}
UNITS = {"shared_buffers": "8kB", "work_mem": "kB"}
DOCS = {
    "jit": "compiles expressions of long queries; the compilation may cost more than it saves",
    "max_parallel_workers_per_gather": "workers that one query may start beside its own process",
    "shared_buffers": "memory for pages shared by all connections",
    "work_mem": "memory that one sort or hash may use before it spills to disk",
}
# Seconds of one query under the baseline and how many times the winner is faster.
QUERIES = {"q6": (0.11, 1.25), "q9": (0.92, 1.7), "q13": (0.55, 2.4)}
CRASH = """the server did not start
2023-11-14 22:20:01.114 UTC [812] FATAL:  could not map anonymous shared memory: Cannot allocate memory
2023-11-14 22:20:01.114 UTC [812] HINT:  This error usually means that PostgreSQL's request exceeded available memory.
2023-11-14 22:20:01.115 UTC [812] LOG:  database system is shut down"""


def measured(speed: float, seed: int, *, with_histogram: bool = True) -> Measurement:
    """A measurement of a server that is `speed` times as fast as the baseline on average."""
    rng = np.random.default_rng(seed)
    share = math.log(speed) / math.log(1.82)
    by_label, every = {}, []
    for label, (mean_s, gain) in QUERIES.items():
        latency_s = mean_s / gain**share * rng.lognormal(0, 0.25, 80)
        every.append(latency_s)
        by_label[label] = LabelStats(
            n_ok=80,
            n_error=0,
            n_timed_out=0,
            throughput_per_s=float(4 / latency_s.mean()),
            latency_mean_ms=float(1000 * latency_s.mean()),
            latency_p50_ms=float(1000 * np.median(latency_s)),
            latency_p95_ms=float(1000 * np.quantile(latency_s, 0.95)),
            latency_max_ms=float(1000 * latency_s.max()),
        )
    latency_s = np.concatenate(every)
    rate = 11.2 * speed * math.exp(rng.normal(0, 0.012))
    mean_ms = 1000 * float(latency_s.mean())
    return Measurement(
        window_s=(2.0, 10.0),
        throughput=Interval(rate, rate * 0.97, rate * 1.03, se=rate * 0.015, n=40),
        latency_mean_ms=Interval(mean_ms, mean_ms * 0.96, mean_ms * 1.04),
        latency_ms={
            f"p{q}": Interval(*(1000 * float(np.quantile(latency_s, q / 100)) * f for f in (1, 0.9, 1.15)))
            for q in (50, 95, 99)
        },
        n_ok=240,
        n_error=0,
        n_timed_out=0,
        is_steady=True,
        warmup_s=2.0,
        series_per_s=tuple(float(x) for x in rng.normal(rate, 1, 10)),
        histogram=encode_latencies(latency_s) if with_histogram else b"",
        by_label=by_label,
    )


def trial(number: int, role: Role, config: Mapping[str, Value], speed: float | None, **changes: Any) -> Trial:
    """A trial; `speed` None: it was not measured and `changes` say why."""
    measurement = measured(speed, number) if speed is not None else None
    loss = None if measurement is None else -math.log(measurement.throughput.estimate / 11.2)
    values: dict[str, Any] = {
        "status": Status.OK,
        "effective": dict(config),
        "measurement": measurement,
        "loss": loss,
        "loss_se": None if loss is None else 0.018,
        "cost_s": {"preflight": 0.01, "apply": 1.4, "warmup": 2.0, "measure": 8.0, "ask": 0.05},
        "started_at": START + 11.7 * number,
        "searcher": "gp" if role is Role.SEARCH else "",
    }
    return Trial(number=number, role=role, config=Config(config), context=CONTEXT, **{**values, **changes})


def search_trials() -> list[Trial]:
    """Baseline, advice, and a search that finds its way with some accidents."""
    trials = [trial(number, Role.BASELINE, BASELINE, 1.0) for number in range(3)]
    trials.append(trial(3, Role.ADVICE, {**BASELINE, "shared_buffers": 32768, "work_mem": 16384}, 1.31))
    speeds = [0.93, 1.12, None, 0.71, 1.38, 1.22, None, 1.51, 0.55, 1.64, 1.60, None, 1.77, 1.71, 1.80, 1.83, 1.79]
    for index, speed in enumerate(speeds):
        number = len(trials)
        config = {
            **BASELINE,
            "work_mem": 2048 << (index % 7),
            "shared_buffers": 8192 * (1 + index % 9),
            "jit": index % 2 == 0,
        }
        if speed is None:
            config["shared_buffers"] = 2097152
            trials.append(trial(number, Role.SEARCH, config, None, **ACCIDENTS[index]))
        elif speed < 0.8:
            trials.append(trial(number, Role.SEARCH, config, speed, status=Status.STOPPED_EARLY))
        else:
            trials.append(trial(number, Role.SEARCH, config, speed))
        if index in (5, 11):
            trials.append(trial(len(trials), Role.BASELINE, BASELINE, 0.985))
    return trials


ACCIDENTS: dict[int, dict[str, Any]] = {
    2: {"status": Status.CRASHED, "reason": CRASH, "cost_s": {"apply": 3.0}},
    6: {"status": Status.CRASHED, "reason": CRASH, "cost_s": {"apply": 3.1}},
    11: {"status": Status.INFEASIBLE, "reason": "shared_buffers + 12 * work_mem <= 1GiB is broken", "cost_s": {}},
}


def proof_trials(first: int, candidate: Mapping[str, Value], speed: float, n_pairs: int = 6) -> list[Trial]:
    """Alternating pairs."""
    trials: list[Trial] = []
    for pair in range(n_pairs):
        arms = [(Role.PROOF_BASELINE, BASELINE, 1.0), (Role.PROOF_CANDIDATE, candidate, speed)]
        for role, config, value in arms if pair % 2 == 0 else arms[::-1]:
            trials.append(trial(first + len(trials), role, config, value))
    return trials


def pairs_of(trials: list[Trial]) -> list[list[float]]:
    """The verdict's pairs of the proof in `trials`."""
    sides = [
        [t.measurement.throughput.estimate for t in trials if t.role is role and t.measurement is not None]
        for role in (Role.PROOF_BASELINE, Role.PROOF_CANDIDATE)
    ]
    return [list(pair) for pair in zip(*sides, strict=True)]


def record(verdict: Mapping[str, Any], **changes: Any) -> StudyRecord:
    """A study with the verdict of that JSON."""
    knobs = [{"name": name, "unit": UNITS.get(name, ""), "doc": DOCS.get(name, "")} for name in BASELINE]
    values: dict[str, Any] = {
        "id": 1,
        "name": "tpch",
        "settings": {"study": {"name": "tpch", "budget": "5m", "objective": "throughput"}},
        "space": {"knobs": knobs, "constraints": []},
        "objective": "throughput",
        "baseline": Config(BASELINE),
        "machine": Machine(
            cores=2,
            memory_bytes=8 << 30,
            cpu_model="AMD EPYC 7B13",
            kernel="Linux 6.1.0",
            disk="ssd",
            hostname="db1",
            server_version="PostgreSQL 18.1",
        ),
        "context": CONTEXT,
        "created_at": START,
        "status": "proven",
        "verdict": read_verdict(verdict),
        "fingerprint": "f",
        **changes,
    }
    return StudyRecord(**values)


def changed(study: StudyRecord, **keys: Any) -> StudyRecord:
    """The study with other values for these keys of its verdict's JSON."""
    return replace(study, verdict=read_verdict({**to_json(study.verdict), **keys}))


def better_verdict(trials: list[Trial]) -> dict[str, Any]:
    """The verdict of a proven winner."""
    texts = {
        "jit": ("on", "off"),
        "max_parallel_workers_per_gather": ("2", "0"),
        "shared_buffers": ("128MB", "512MB"),
        "work_mem": ("4MB", "64MB"),
    }
    knobs = {
        name: {
            "doc": DOCS[name],
            "unit": UNITS.get(name, ""),
            "restart": "restart" if name == "shared_buffers" else "reload",
            "safety": "performance",
            "old": BASELINE[name],
            "new": WINNER[name],
            "old_text": old,
            "new_text": new,
        }
        for name, (old, new) in texts.items()
    }
    mib = 1 << 20
    return {
        "result": "better",
        "metric": "throughput",
        "unit": "/s",
        "candidate": WINNER,
        "config": {name: WINNER[name] for name in texts},
        "gain": {"estimate": 1.82, "low": 1.61, "high": 2.05, "level": 0.95},
        "advice_gain": {"estimate": 1.31, "low": 1.24, "high": 1.38},
        "pairs": pairs_of(trials),
        "noise_floor": 0.014,
        "delta": 0.03,
        "dropped": [{"knob": "random_page_cost", "reason": "taking it back cost 0.2 %, less than the noise"}],
        "memory": {
            side: {"shared_buffers": a * mib, "work_mem of 12 clients": b * mib, "connections": 120 * mib,
                   "budget": 2**30}
            for side, a, b in (("baseline", 128, 96), ("winner", 512, 288))
        },
        "unlocked": [],
        "drift": {"points": [], "range": 0.03, "is_beyond_noise": False},
        "wall_s": {"total": 402.0, "measure": 288.0, "warmup": 66.0, "apply": 34.0, "restore": 3.0, "ask": 7.0,
                   "prepare": 14.0, "other": 4.0},
        "stop_reason": "the budget of 5min is used up",
        "log_lines": [],
        "apply_command": "trimtab apply tpch",
        "undo_command": "trimtab rollback tpch",
        "fragment": "jit = off\nmax_parallel_workers_per_gather = 0\nshared_buffers = 512MB\nwork_mem = 64MB\n",
        "fragment_path": "results/tpch.conf",
        "knobs": knobs,
    }  # fmt: skip


Study = tuple[StudyRecord, list[Trial]]


@pytest.fixture
def better() -> Study:
    trials = search_trials()
    trials += proof_trials(len(trials), WINNER, 1.82)
    return record(better_verdict(trials)), trials


@pytest.fixture
def no_improvement() -> Study:
    trials = [t for t in search_trials() if t.number < 9]
    trials += proof_trials(len(trials), WINNER, 1.01, 4)
    verdict = {
        "result": "no_improvement",
        "gain": {"estimate": 1.01, "low": 0.98, "high": 1.04, "level": 0.95},
        "pairs": pairs_of(trials),
        "config": {"work_mem": 65536},
        "delta": 0.03,
        "stop_reason": "40 trials are used up",
    }
    return record(verdict, status="no_improvement"), trials


@pytest.fixture
def running() -> Study:
    return record({}, status="running"), search_trials()[:8]


@pytest.fixture
def hostile() -> Study:
    """Strings that want to be more than text, in every place where a foreign string can come from."""
    evil = "<script>alert(1)</script>\x1b[31m\x1b]0;owned\x07\u202e\"'&\x00\ud800[bold]"
    config = {evil: evil}
    trials = [
        trial(0, Role.BASELINE, {evil: "plain"}, 1.0),
        trial(1, Role.SEARCH, config, 1.5),
        trial(2, Role.SEARCH, config, None, status=Status.CRASHED, reason=f"{evil}\n{evil}\nlast"),
        trial(3, Role.PROOF_BASELINE, {evil: "plain"}, 1.0),
        trial(4, Role.PROOF_CANDIDATE, config, 1.5),
    ]
    measurement = trials[3].measurement
    assert measurement is not None
    trials = [
        replace(t, measurement=replace(t.measurement, by_label={evil: next(iter(t.measurement.by_label.values()))}))
        if t.measurement
        else t
        for t in trials
    ]
    about = {"doc": evil, "unit": evil, "restart": evil, "safety": evil, "old_text": evil, "new_text": evil}
    verdict = {
        **better_verdict(trials),
        "config": config,
        "knobs": {evil: about},
        "dropped": [{"knob": evil, "reason": evil}],
        "memory": {"baseline": {evil: 1.0, "budget": 10}, "winner": {evil: 2.0, "budget": 10}},
        "unlocked": [evil],
        "wall_s": {evil: 3.0},
        "stop_reason": evil,
        "log_lines": [evil],
        "apply_command": evil,
        "undo_command": evil,
        "fragment": evil,
        "fragment_path": evil,
    }
    space = {"knobs": [{"name": evil, "unit": evil}], "constraints": []}
    machine = Machine(cores=1, memory_bytes=1 << 30, cpu_model=evil, hostname=evil, server_version=evil)
    context = Context(evil, 1)
    return record(
        verdict, name=evil, space=space, baseline=Config({evil: "plain"}), machine=machine, context=context
    ), trials
