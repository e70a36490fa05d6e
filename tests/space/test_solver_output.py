"""What the solver of linear constraints prints: it is no part of a command's output."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import scipy.optimize

from tests.space.spaces import integer
from trimtab.space import Constraint, Space
from trimtab.space.solver_output import not_printed

LINE = "HighsMipSolverData::transformNewIntegerFeasibleSolution tmpSolver.run();"


def _print(text: str) -> None:
    """As C code does."""
    library = ctypes.CDLL(None)
    library.puts(text.encode())
    library.fflush(None)


def test_what_the_solver_prints_is_no_output(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HiGHS does so in one of a thousand programmes, here in each."""
    solve = scipy.optimize.milp

    def chatty(*arguments: Any, **options: Any) -> Any:
        _print(LINE)
        print("ours")
        return solve(*arguments, **options)

    monkeypatch.setattr(scipy.optimize, "milp", chatty)
    space = Space([integer("a", 0, 9), integer("b", 0, 9)], [Constraint("a + b <= 9"), Constraint("a + 3 * b <= 12")])
    assert space.bounds()["b"] == (0, 4)
    _print("later")
    told = capfd.readouterr()
    assert set(told.out.splitlines()) == {"ours", "later"}
    assert told.err == ""


def test_two_threads_at_once_leave_it_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    first, second = not_printed(), not_printed()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    _print("while the second solves")
    second.__exit__(None, None, None)
    _print("later")
    assert capfd.readouterr() == ("later\n", "")
