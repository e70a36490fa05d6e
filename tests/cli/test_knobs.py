"""trimtab knobs: its table in a narrow terminal."""

from __future__ import annotations

import io
import re

import pytest

from trimtab.cli.knobs_command import _table
from trimtab.report.printing import plain_console


def _printed(width: int, *, lock_reason: str) -> list[str]:
    row = {"name": "max_parallel_workers_per_gather", "running_text": "2", "range": "0 to 4", "restart": "reload",
           "lock_reason": lock_reason, "doc": "Parallel workers that one plan step may start."}  # fmt: skip
    out = io.StringIO()
    plain_console(out, width).print(_table([row], {"max_parallel_workers_per_gather"}, is_narrow=width < 120))
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 160])
def test_descriptions_of_knobs_are_below_their_names_where_there_is_little_room(width: int) -> None:
    lines = _printed(width, lock_reason="")
    first = next(i for i, line in enumerate(lines) if line.startswith("* max_parallel_workers_per_gather "))
    assert re.search(r" 2 +0 to 4 +reload\b", lines[first])
    assert "Parallel workers that one plan step may start." in " ".join(" ".join(lines[first:]).split())
    assert lines[first].endswith("start.") == (width == 160)


def test_a_knob_is_said_to_be_locked_once() -> None:
    of_class = 'safety class durability is locked; unlock = ["durability"] opens it'
    for reason, shown in ((of_class, of_class), ("not curated", "locked: not curated")):
        assert _printed(160, lock_reason=reason)[-1].endswith(f"reload  {shown}")
