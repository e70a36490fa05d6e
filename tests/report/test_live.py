"""The progress of a running study, on a terminal and in a pipe."""

from __future__ import annotations

import io
import math
import re

import pytest
from rich.console import Console, RenderableType

from tests.report.conftest import BASELINE, trial
from trimtab.records import Role, Status
from trimtab.report import BenchProgress, Progress
from trimtab.workload import Frame

EVIL = "\x1b[2J\x1b]0;owned\x07[red]\n"


def drive(progress: Progress) -> None:
    """A study of two trials."""
    with progress:
        progress.study_started("tpch", 300.0)
        progress.phase("searching")
        progress.trial_started(3, Role.SEARCH, {"work_mem": "64MB"})
        progress.step("load")
        progress.second(Frame(second=4, n_ok=11, n_error=2, credited=11.23))
        progress.trial_ended(trial(3, Role.SEARCH, BASELINE, 1.3), 1.31, 250.0)
        progress.trial_started(4, Role.PROOF_BASELINE, {})
        crashed = trial(4, Role.PROOF_BASELINE, BASELINE, None, status=Status.CRASHED, reason="it died\nlog")
        progress.trial_ended(crashed, 1.31, None)


def test_a_pipe_gets_one_plain_line_per_event() -> None:
    out = io.StringIO()
    drive(Progress(Console(file=out, width=40), clock=lambda: 100.0))
    assert out.getvalue().splitlines() == [
        "[     0s] study tpch, at most 5min",
        "[     0s] searching",
        "[     0s] trial 3 (search): ok, 1.30 (1.25 to 1.35) times as fast, best so far 1.31, 4min10s left; "
        "work_mem=64MB",
        "[     0s] trial 4 (proof baseline): crashed, best so far 1.31, 4min10s left; it died",
    ]


def test_a_terminal_that_moves_no_cursor_gets_lines_too() -> None:
    out = io.StringIO()
    drive(Progress(Console(file=out, force_terminal=True, _environ={"TERM": "dumb"}, width=140), clock=lambda: 100.0))
    assert "trial 3 (search): ok, 1.30" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_colours_that_are_forced_bring_no_live_table_into_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services for CI set FORCE_COLOR: a table that is redrawn four times a second would fill the log."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stderr", out := io.StringIO())
    drive(Progress(clock=lambda: 100.0))
    with BenchProgress() as progress:
        progress.step("load")
        progress.second(Frame(second=4, n_ok=11, n_error=0, credited=11.23))
    assert "\x1b" not in out.getvalue()
    assert "trial 3 (search): ok, 1.30" in out.getvalue()
    assert "second 4: 11/s done" in out.getvalue()


def test_a_missed_constraint_is_shown_while_the_study_runs() -> None:
    slow = trial(5, Role.SEARCH, BASELINE, 1.3, excess=0.1234)
    for is_terminal, expected in (
        (
            False,
            "trial 5 (search): ok, 1.30 (1.25 to 1.35) times as fast, constraints of the objective missed by 12 %; jit=off",
        ),
        (True, "constraints of the objective missed by 12 %; jit=off"),
    ):
        out = io.StringIO()
        with Progress(Console(file=out, force_terminal=is_terminal, width=140), clock=lambda: 0.0) as progress:
            progress.study_started("tpch", None)
            progress.trial_started(5, Role.SEARCH, {"jit": "off"})
            progress.trial_ended(slow, None, None)
        assert expected in out.getvalue()


def test_a_constraint_whose_metric_is_not_known_is_missed_by_no_number() -> None:
    out = io.StringIO()
    with Progress(Console(file=out, width=200), clock=lambda: 0.0) as progress:
        progress.study_started("tpch", None)
        progress.trial_ended(trial(5, Role.SEARCH, BASELINE, 1.3, excess=math.inf), None, None)
    assert out.getvalue().splitlines()[-1].endswith(" times as fast, constraints of the objective missed")


def test_what_a_study_says_stays_above_the_table_of_a_terminal() -> None:
    out = io.StringIO()
    with Progress(Console(file=out, force_terminal=True, width=140), clock=lambda: 0.0) as progress:
        progress.study_started("tpch", None)
        progress.phase("the password is only in url")
        progress.phase("preparing the data")
    assert "[     0s] the password is only in url" in out.getvalue()


def test_what_a_guard_has_stopped_missed_no_constraint_of_the_objective() -> None:
    out = io.StringIO()
    stopped = trial(5, Role.SEARCH, BASELINE, 1.3, excess=0.4, status=Status.STOPPED_EARLY, reason="stopped: p99=90 ms")
    with Progress(Console(file=out), clock=lambda: 0.0) as progress:
        progress.study_started("tpch", None)
        progress.trial_ended(stopped, None, None)
    assert "stopped early, 1.30 (1.25 to 1.35) times as fast; stopped: p99=90 ms" in out.getvalue().replace("\n", " ")


def test_a_budget_of_trials_shows_no_time() -> None:
    out = io.StringIO()
    with Progress(Console(file=out), clock=lambda: 0.0) as progress:
        progress.study_started("tpch", None)
        progress.trial_ended(trial(0, Role.BASELINE, BASELINE, 1.0), None, None)
    assert "left" not in out.getvalue()


def test_a_used_budget_promises_no_end() -> None:
    out = io.StringIO()
    with Progress(Console(file=out), clock=lambda: 0.0) as progress:
        progress.study_started("tpch", None)
        progress.trial_ended(trial(0, Role.ABLATION, BASELINE, 1.0), 5000.0, 0.0)
    assert "best so far > 1000" in out.getvalue()
    assert "left" not in out.getvalue()


def test_a_terminal_gets_a_live_table() -> None:
    out = io.StringIO()
    drive(Progress(Console(file=out, force_terminal=True, width=110), clock=lambda: 100.0))
    text = out.getvalue()
    assert "\x1b[?25h" in text, "the cursor must be shown again"
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "tpch: searching  0s gone, 4min10s left  best so far 1.31 times as fast, unproven" in plain
    assert re.search(r"3  search +ok +1\.30 \(1\.25 to 1\.35\)  1\.31  work_mem=64MB", plain)
    assert re.search(r"4  proof baseline +crashed +1\.31  it died", plain)


def test_the_running_trial_is_shown() -> None:
    out = io.StringIO()
    progress = Progress(Console(file=out, force_terminal=True, width=110), clock=lambda: 100.0)
    progress.study_started("tpch", None)
    progress.trial_started(7, Role.SEARCH, {"jit": "off"})
    progress.step("load")
    progress.second(Frame(second=4, n_ok=11, n_error=2, credited=11.23))
    shown = io.StringIO()
    Console(file=shown, width=110).print(progress._view())
    progress.second(Frame(second=5, n_ok=11, n_error=0, credited=11.23, steal_s=0.123))
    Console(file=shown, width=140).print(progress._view())
    progress.close()
    progress.close()
    assert "trial 7, search: load, second 4: 11.2 operations, 2 errors  jit=off" in shown.getvalue()
    assert "second 5: 11.2 operations, stolen by the hypervisor 12 % of a core  jit=off" in shown.getvalue()


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    drive(Progress(Console(file=out, force_terminal=True, width=110)))
    codes = {code for group in re.findall(r"\x1b\[([0-9;]*)m", out.getvalue()) for code in group.split(";")}
    assert not codes & {str(code) for code in [*range(30, 38), *range(90, 98)]}


@pytest.mark.parametrize("is_terminal", [True, False])
def test_hostile_text_cannot_speak_to_the_terminal(is_terminal: bool) -> None:
    out = io.StringIO()
    with Progress(Console(file=out, force_terminal=is_terminal, width=110), clock=lambda: 0.0) as progress:
        progress.study_started(EVIL, None)
        progress.phase(EVIL)
        progress.trial_started(0, Role.SEARCH, {EVIL: EVIL})
        progress.step(EVIL)
        progress.trial_ended(trial(0, Role.SEARCH, BASELINE, None, status=Status.CRASHED, reason=EVIL), None, None)
    assert "\x1b[2J" not in out.getvalue()
    assert "owned" not in out.getvalue()
    assert "[red]" in out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 110])
def test_nothing_of_a_trial_is_cut_off_but_what_it_changed(width: int) -> None:
    progress = Progress(Console(file=io.StringIO(), force_terminal=True, width=width), clock=lambda: 100.0)
    progress.study_started("tpch", 300.0)
    progress.trial_started(137, Role.PROOF_CANDIDATE, {"max_parallel_workers_per_gather": "8", "work_mem": "64MB"})
    progress.trial_ended(trial(137, Role.PROOF_CANDIDATE, BASELINE, 1.3, status=Status.STOPPED_EARLY), 1.31, None)
    shown = io.StringIO()
    Console(file=shown, width=width).print(progress._view())
    progress.close()
    role, best = ("proof candidate  " if width > 60 else "", "  1.31" if width > 80 else "")
    row = next(line for line in shown.getvalue().splitlines() if "137" in line)
    assert row.startswith(f"  137  {role}stopped early  1.31 (1.26 to 1.35){best}  max_parallel_")
    assert len(row.rstrip()) <= width
    assert "best so far 1.31" in shown.getvalue()


def test_a_low_terminal_shows_the_newest_trials() -> None:
    """What is higher than the terminal is cut off below."""
    console = Console(file=io.StringIO(), force_terminal=True, width=110, height=9)
    progress = Progress(console, clock=lambda: 100.0)
    progress.study_started("tpch", 300.0)
    for number in range(20, 32):
        progress.trial_started(number, Role.SEARCH, {"work_mem": "64MB"})
        progress.trial_ended(trial(number, Role.SEARCH, BASELINE, 1.3), 1.31, 250.0)
    progress.trial_started(32, Role.SEARCH, {})
    texts = _lines(console, progress._view())
    progress.close()
    assert len(texts) < 9
    assert [text.split()[0] for text in texts if re.match(r"\d+ ", text)] == ["28", "29", "30", "31"]
    assert texts[-1].startswith("trial 32, search: starting")


def test_a_low_terminal_shows_the_newest_seconds_of_a_bench() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=140, height=8)
    with BenchProgress(console) as progress:
        progress.step("load")
        for second in range(12):
            progress.second(Frame(second=second, n_ok=11, n_error=0, credited=11.23))
        texts = _lines(console, progress._view())
    assert len(texts) < 8
    assert [text.split()[0] for text in texts if re.match(r"\d+ ", text)] == ["7", "8", "9", "10", "11"]


def _lines(console: Console, shown: RenderableType) -> list[str]:
    return ["".join(segment.text for segment in line).strip() for line in console.render_lines(shown)]
