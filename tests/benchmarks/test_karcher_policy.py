"""The simulation of the extension's tuner: its candidates are the extension's, and it finds what is planted."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench_modules import BENCHMARKS, bench_modules

pytestmark = [pytest.mark.slow, pytest.mark.needs("c-compiler")]


@pytest.fixture(scope="module")
def policy() -> Iterator[Any]:
    """The simulation's module; its folder is no package."""
    with bench_modules(BENCHMARKS / "karcher", "server", "policy") as modules:
        yield modules["policy"]


def test_candidates_are_those_of_the_extension(policy: Any) -> None:
    knobs, candidates = policy.extension()
    assert [knob.name for knob in knobs][:3] == ["work_mem", "hash_mem_multiplier", "jit"]
    assert len(knobs) == 26
    assert {"jit": 0.0} in candidates
    assert {"max_parallel_workers_per_gather": 4.0, "parallel_setup_cost": 100.0} in candidates
    names = {knob.name for knob in knobs}
    assert all(names >= candidate.keys() for candidate in candidates)
    work_mem = knobs[0]
    assert work_mem.levels(16384) == [16384, 65536, 131072, 262144, 524288], "never less than the session has"


@pytest.mark.parametrize(("own", "cores", "expected"), [(2, 2, 1), (2, 4, None), (8, 4, 2), (2, 1, None)])
def test_the_first_candidate_leaves_a_core_to_each(policy: Any, own: float, cores: int, expected: float | None) -> None:
    found = policy.with_cores([0, 1, 2, 4, 8], own, cores)
    assert found == (None if expected is None else {"max_parallel_workers_per_gather": expected})


def test_what_is_planted_is_found_and_what_loses_is_paid_for(policy: Any) -> None:
    """One query that a candidate makes twice as fast, and one for which each is slower."""
    kept = json.loads(policy.PLANS.read_text(encoding="utf-8"))
    n = len(kept["candidates"])

    def query(ratio: float) -> dict[str, Any]:
        rows = [{"plan": 0, "ratio": 1.0, "estimate": 1.0} for _ in range(n)]
        rows[-1] = {"plan": 1, "ratio": ratio, "estimate": 1.2}
        return {"ms": 500.0, "plan_ms": 0.5, "candidates": rows}

    found = {**kept, "queries": {"1": query(0.5), "2": query(3.0)}}
    options = argparse.Namespace(executions=200, rounds=50, repeats=5, noise=0.05, set=[])
    lines = [line.split() for line in policy.simulated(found, options).splitlines()]
    (_, _, ratio, at_the_end, _), (_, _, lost, unchanged, _), stream = lines
    assert float(ratio) > 1.5
    assert float(at_the_end) == 2.0
    assert 0.975 < float(lost) < 1.01
    assert float(unchanged) == 1.0
    assert stream[:2] == ["stream", "50"]
    assert policy.table("\n".join(map(" ".join, lines)), 200).endswith(f"in the last third {stream[3]}.")


def test_another_constant_is_compiled_in_or_refused(policy: Any) -> None:
    kept = json.loads(policy.PLANS.read_text(encoding="utf-8"))
    options = argparse.Namespace(executions=20, rounds=5, repeats=1, noise=0.05, set=[("EARLY_GAIN", "1.3")])
    assert "stream 5" in policy.simulated(kept, options)
    options.set = [("EARLY_GAIM", "1.3")]
    with pytest.raises(SystemExit, match="the tuner has no constant=EARLY_GAIM"):
        policy.simulated(kept, options)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "EARLY_GAIN"], "EARLY_GAIN is not CONSTANT=VALUE"),
        (["--set", "EARLY_GAIN=fast"], "EARLY_GAIN=fast is not CONSTANT=VALUE"),
        (["--executions", "0"], "0 is not 1 or more"),
    ],
)
def test_wrong_options_are_refused(
    policy: Any, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["policy.py", *words])
    with pytest.raises(SystemExit):
        policy.main()
    assert message in capsys.readouterr().err
