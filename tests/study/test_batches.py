"""Batches of a design: how many runs were asked for, and what the same command asks for again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.errors import UsageError
from trimtab.history import space_to_json
from trimtab.records import DesignPlan, Verdict
from trimtab.space import Knob, KnobKind, Space
from trimtab.study.design import _designed
from trimtab.study.rank import _next_runs, runs_asked

SPACE = Space(
    [
        *(Knob(name=f"n{i}", kind=KnobKind.INTEGER, low=1, high=9, default=1) for i in range(9)),
        Knob(name="on", kind=KnobKind.BOOLEAN, default=True),
        Knob(name="off", kind=KnobKind.BOOLEAN, default=False),
    ]
)
STAGE: Any = SimpleNamespace(space=SPACE, baseline=SPACE.default(), file=SimpleNamespace(study=SimpleNamespace(seed=1)))


def _begun(kind: str, *batches: int | None, n_runs: int) -> Any:
    plan = DesignPlan(kind=kind, batches=batches, n_runs=n_runs)
    return SimpleNamespace(verdict=Verdict(design=plan), space=space_to_json(SPACE), baseline=SPACE.default())


@pytest.mark.parametrize(
    ("kind", "runs", "made"),
    [("sard", 30, 24), ("sard", 20, 12), ("one-at-a-time", 44, 38), ("lhs", 30, 30), ("sard", None, 24)],
)
def test_the_same_command_goes_on_where_a_design_makes_no_use_of_some_runs(
    kind: str, runs: int | None, made: int
) -> None:
    design, batches = _designed(STAGE, kind, None, runs)
    assert len(design.configs) == made
    begun = _begun(kind, *batches, n_runs=made)
    assert runs_asked(begun) == (runs or made)
    assert _designed(STAGE, kind, begun, runs) == (design, batches)


def test_more_runs_are_a_further_batch() -> None:
    begun = _begun("sard", None, n_runs=24)
    design, batches = _designed(STAGE, "sard", begun, 50)
    assert (len(design.configs), batches) == (48, [None, 26])
    again = _begun("sard", *batches, n_runs=48)
    assert _designed(STAGE, "sard", again, 50) == (design, batches)


@pytest.mark.parametrize(
    ("kind", "first", "more"), [("sard", 12, 24), ("sard", 24, 48), ("one-at-a-time", 22, 44), ("lhs", 20, 40)]
)
def test_a_further_batch_measures_other_configs(kind: str, first: int, more: int) -> None:
    """In a two-level design the mirror images that were missing, and then other combinations."""
    one, batches = _designed(STAGE, kind, None, first)
    all_of_them, _ = _designed(STAGE, kind, _begun(kind, *batches, n_runs=len(one.configs)), more)
    assert all_of_them.configs[: len(one.configs)] == one.configs
    new = all_of_them.configs[len(one.configs) :]
    known = set(one.configs)
    assert sum(config not in known for config in new) >= 0.9 * len(new) > 0
    if kind == "sard":
        assert "Main effects are free" in all_of_them.notes[0]
        assert not any("Without fold-over" in note for note in all_of_them.notes)


@pytest.mark.parametrize(("kind", "given", "runs", "least"), [("lhs", 30, 35, 38), ("sard", 24, 30, 36)])
def test_too_few_more_runs_are_told_with_how_many_would_do(kind: str, given: int, runs: int, least: int) -> None:
    begun = _begun(kind, given, n_runs=given)
    with pytest.raises(
        UsageError, match=rf"runs={runs} adds {runs - given} to the {given} that design='{kind}'"
    ) as told:
        _designed(STAGE, kind, begun, runs)
    assert (told.value.hint or "").startswith(f"ask for {least} or more")
    assert len(_designed(STAGE, kind, begun, least)[0].configs) == least


@pytest.mark.parametrize(("kind", "given"), [("lhs", 28), ("sard", 24), ("one-at-a-time", 22), ("lhs", 33)])
def test_the_runs_that_are_advised_are_taken(kind: str, given: int) -> None:
    begun = _begun(kind, given, n_runs=given)
    advised = _next_runs(given + 3, SPACE, begun)
    assert len(_designed(STAGE, kind, begun, advised)[0].configs) > given
