"""Sample values; no test library is imported, so that the processes that the tests start come up quickly."""

from __future__ import annotations

from typing import Any

from trimtab.measure import Interval, LabelStats, Measurement
from trimtab.records import Context, Machine, Role, Status, Trial
from trimtab.space import Config

CONTEXT = Context("tpch 4Q6 scale 0.1", 12, 0.5, {"scale": 0.1})
MACHINE = Machine(cores=2, memory_bytes=8 << 30, cpu_model="x", hostname="h", server_version="18.1")


def study_values(**changes: Any) -> dict[str, Any]:
    """Arguments of `History.create_study`."""
    return {
        "name": "tpch",
        "settings": {"study": {"name": "tpch", "budget": "5m"}},
        "space": {"knobs": [], "constraints": []},
        "objective": "throughput",
        "baseline": Config({"work_mem": 4096, "jit": True}),
        "machine": MACHINE,
        "context": CONTEXT,
        "fingerprint": "f1",
        "created_at": 1.7e9,
        **changes,
    }


def make_trial(number: int, **changes: Any) -> Trial:
    """A trial with a measurement."""
    interval = Interval(10.5, 9.1, float("inf"))
    measurement = Measurement(
        window_s=(1.0, 5.0),
        throughput=interval,
        latency_mean_ms=interval,
        latency_ms={"p95": interval},
        n_ok=40,
        n_error=1,
        n_timed_out=0,
        is_steady=True,
        warmup_s=1.0,
        series_per_s=(1.0, 0.1 + 0.2),
        histogram=b"\x00\xff",
        by_label={
            "q6": LabelStats(
                n_ok=40,
                n_error=1,
                n_timed_out=0,
                throughput_per_s=10.0,
                latency_mean_ms=1.0,
                latency_p50_ms=1.0,
                latency_p95_ms=float("nan"),
                latency_max_ms=3.0,
            )
        },
        errors=("57014: cancelled",),
    )
    values: dict[str, Any] = {
        "role": Role.SEARCH,
        "config": Config({"work_mem": 4096}),
        "context": CONTEXT,
        "status": Status.OK,
        "measurement": measurement,
        "loss": -0.5,
        "loss_se": 0.01,
        "cost_s": {"measure": 4.0},
        "started_at": 1.7e9,
        "searcher": "gp",
    }
    return Trial(number=number, **{**values, **changes})
