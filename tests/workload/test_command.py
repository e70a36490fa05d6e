"""A command as a workload: its table, its figure, and real runs of small programs."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import PYTHON
from trimtab.errors import LoadError, UsageError
from trimtab.host.process import is_running
from trimtab.measure import Outcome, QueryLog, SecondLog, summarise
from trimtab.records import Endpoint, Objective, Status
from trimtab.trial import MeasurePlan
from trimtab.trial.judge import judge
from trimtab.trial.load import measure_load
from trimtab.workload import LoadRun, ResettableWorkload, Workload
from trimtab.workload.command import CommandWorkload
from trimtab.workload.command.figure import Figure, FigureError

ENDPOINT = Endpoint(
    protocol="program",
    host="localhost",
    port=7,
    user="u",
    database="d",
    options={"value.level": "3", "value.mode": "a b"},
)
PLAN = MeasurePlan(window_s=1.0, window_max_s=1.0, warmup_floor_s=1.0, warmup_cap_s=1.0)


def made(folder: Path, **table: Any) -> CommandWorkload:
    return CommandWorkload.from_settings({"kind": "command", **table}, directory=folder)


def script(folder: Path, text: str) -> str:
    path = folder / "script.py"
    path.write_text(f"import os, sys, time\n{text}\n")
    return f"{PYTHON} -S -E {path}"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, r"\[workload\] lacks command"),
        ({"command": "a", "comand": "b"}, "unknown key in .workload.: comand='b'"),
        ({"command": "'a"}, "cannot be split into words"),
        ({"command": " "}, "is empty"),
        ({"command": "a", "figure": "speed"}, "figure='speed' is not known"),
        ({"command": "a", "figure": "rate"}, "figure='rate' with line='' and json='' does not fit together"),
        ({"command": "a", "line": "(x)"}, "figure='wall' with line='.x.' and json='' does not fit"),
        ({"command": "a", "figure": "rate", "line": "(", }, "is not a regular expression"),
        ({"command": "a", "figure": "rate", "line": "x"}, "line='x' has 0 groups"),
        ({"command": "a", "figure": "rate", "json": "a", "unit": "ms"}, "unit='ms' goes with figure"),
        ({"command": "a", "timeout": 0}, "timeout=0 is not a duration"),
        ({"command": "a", "env": {"A": 1}}, "is not a table of texts"),
    ],
)  # fmt: skip
def test_wrong_tables_are_refused(tmp_path: Path, table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        made(tmp_path, **table)


@pytest.mark.parametrize(
    ("figure", "output", "value"),
    [
        (
            Figure(kind="rate", line=r"([\d.,]+) requests per second"),
            "1 requests per second\n12,345.5 requests per second\n",
            12345.5,
        ),
        (Figure(kind="time", line=r"took (\S+) ms", unit_s=1e-3), "took 250 ms", 0.25),
        (Figure(kind="rate", path="runs.1.ops"), '{"runs": [{"ops": 1}, {"ops": 7}]}', 7.0),
        (Figure(kind="rate", path="ops"), 'starting\n{"ops": "8.5"}\n', 8.5),
        (Figure(kind="rate", line=r"ops: ([\d.,]+)"), "ops: 1,234,567.5, latency: 3", 1234567.5),
        (Figure(kind="rate", line=r"ops: ([\d.,]+)"), "ops: 1,23,456", 123456.0),
    ],
)
def test_figures_are_read(figure: Figure, output: str, value: float) -> None:
    assert figure.read(output) == pytest.approx(value)


@pytest.mark.parametrize(
    ("figure", "output", "message"),
    [
        (Figure(kind="rate", line=r"(\d+) ops"), "nothing", "no line of its output matches"),
        (Figure(kind="rate", line=r"(\w+) ops"), "many ops", "'many', which is not a number"),
        (Figure(kind="rate", line=r"(\d+) ops"), "0 ops", "it must be above 0"),
        (Figure(kind="rate", line=r"(\w+) ops"), "nan ops", "it must be above 0"),
        (Figure(kind="rate", path="a"), "text", "its output is not JSON"),
        (Figure(kind="rate", path="a.b"), '{"a": {}}', "nothing at 'b'"),
        (Figure(kind="rate", path="a"), '{"a": true}', "True, which is not a number"),
        (Figure(kind="rate", path="a"), '{"a": [1]}', "which is not a number"),
        (Figure(kind="rate", path="a"), f'{{"a": {"9" * 400}}}', "which is not a number"),
        (
            Figure(kind="time", line=r"took (\S+) s"),
            "took 0,123 s",
            r"'0,123', with a decimal comma; .* LC_ALL = \"C\"",
        ),
        (Figure(kind="rate", line=r"(\S+) ops"), "99,5 ops", "'99,5', with a decimal comma"),
        (Figure(kind="rate", line=r"(\S+) ops"), "1234,567 ops", "'1234,567', with a decimal comma"),
        (Figure(kind="rate", line=r"(\S+) ops"), "1.234,567 ops", "'1.234,567', with a decimal comma"),
    ],
)
def test_what_is_no_figure_is_told(figure: Figure, output: str, message: str) -> None:
    with pytest.raises(FigureError, match=message):
        figure.read(output)


def test_it_is_a_workload(tmp_path: Path) -> None:
    workload = made(tmp_path, command="true", clients=4, only_reads=True)
    assert isinstance(workload, Workload)
    assert isinstance(workload, ResettableWorkload)
    assert workload.context.clients == 4
    assert workload.context.read_share == 1.0
    assert workload.context.workload.startswith("command true ")
    assert workload.context.workload != made(tmp_path, command="true x").context.workload
    assert workload.reset(ENDPOINT, print) is None


@pytest.mark.slow
def test_values_in_use_are_filled_in(tmp_path: Path) -> None:
    text = script(tmp_path, "open('seen', 'a').write(repr(sys.argv[1:]) + '\\n'); print('rate 5')")
    workload = made(
        tmp_path,
        command=f"{text} -l{{level}} {{mode}} {{port}} {{seed}} {{{{x}}}} $HOME",
        figure="rate",
        line=r"rate (\d+)",
    )
    workload.prepare(ENDPOINT, print)
    run = workload.start(ENDPOINT, seed=42, duration_s=5)
    run.frame(5)
    log = run.stop()
    first = (tmp_path / "seen").read_text().splitlines()[0]  # the next run may be cut off in the middle
    assert first == repr(["-l3", "a b", "7", "42", "{x}", "$HOME"])
    assert isinstance(log, SecondLog)
    assert log.credited[0] == pytest.approx(5.0, rel=0.3)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"command": "no-such-program"}, "there is no program 'no-such-program'"),
        ({"command": "true {levle}"}, r"names \{levle\}, which has no value"),
        ({"command": "true", "before": "./missing"}, "before='./missing': there is no program"),
    ],
)
def test_what_cannot_be_run_is_said_before_any_trial(tmp_path: Path, table: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        made(tmp_path, **table).prepare(ENDPOINT, print)


def test_before_may_start_a_server_that_goes_on(tmp_path: Path) -> None:
    text = "pid = os.fork()\nif pid: open('pid', 'w').write(str(pid))\nelse: time.sleep(60)"
    state = made(tmp_path, command="true", before=script(tmp_path, text), timeout="20s").reset(ENDPOINT, print)
    pid = int((tmp_path / "pid").read_text())
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)
    assert state is not None
    assert state.duration_s < 20


def test_before_is_run_and_its_failure_told(tmp_path: Path) -> None:
    text = script(tmp_path, "open('prepared', 'a').write('x'); sys.exit('no data' if len(sys.argv) > 1 else 0)")
    state = made(tmp_path, command="true", before=text).reset(ENDPOINT, print)
    assert state is not None
    assert (tmp_path / "prepared").read_text() == "x"
    with pytest.raises(LoadError, match="failed with exit_code=1: no data"):
        made(tmp_path, command="true", before=f"{text} fail").reset(ENDPOINT, print)


def seconds(run: LoadRun, n: int) -> list[float]:
    return [frame.credited for _ in range(n) if (frame := run.frame(5)) is not None]


@pytest.fixture
def stolen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hypervisor that takes half a CPU second between any two looks, of which there is one a second."""
    taken_s = itertools.count(7.0, 0.5)
    monkeypatch.setattr("trimtab.workload.command.run.stolen_cpu_s", lambda: next(taken_s))


@pytest.mark.slow
def test_wall_time_is_measured(tmp_path: Path, stolen: None) -> None:
    workload = made(tmp_path, command=script(tmp_path, "time.sleep(0.2)"))
    result = measure_load(workload, ENDPOINT, PLAN, seed=1)
    m = result.measurement
    assert m is not None
    assert judge(result, PLAN, Objective.parse("latency_mean"))[0] is Status.OK
    assert 200 <= m.latency_mean_ms.estimate < 1000
    assert m.throughput.estimate == pytest.approx(1000 / m.latency_mean_ms.estimate, rel=0.4)
    assert m.steal_share == pytest.approx(0.5, rel=0.4)


@pytest.mark.slow
def test_the_run_that_the_end_cuts_off_counts_by_its_share(tmp_path: Path) -> None:
    """Two whole runs and a part of the third in 2.6 s."""
    run = made(tmp_path, command=script(tmp_path, "time.sleep(0.9)")).start(ENDPOINT, seed=1, duration_s=60)
    seconds(run, 2)
    time.sleep(0.6)
    log = run.stop()
    assert isinstance(log, QueryLog)
    assert log.outcome.tolist() == [Outcome.OK] * (len(log) - 1) + [Outcome.CANCELLED]
    end_s = log.duration_s
    assert log.end_s[-1] == pytest.approx(end_s, abs=0.2)
    done_s = float(np.mean(log.end_s[:-1] - log.start_s[:-1]))
    assert summarise(log, (0.0, end_s)).throughput.estimate == pytest.approx(1 / done_s, rel=0.1)


@pytest.mark.slow
def test_a_before_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    text = "pid = os.fork()\nopen('pids', 'a').write(f'{os.getpid()}\\n')\ntime.sleep(60)"
    workload = made(tmp_path, command="true", before=script(tmp_path, text), timeout="1.5s")
    with pytest.raises(LoadError, match=r"before=.* did not end within timeout=1.5s, and was killed") as caught:
        workload.reset(ENDPOINT, print)
    assert caught.value.hint == "raise [workload] timeout, which holds for it as well"
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    until = time.monotonic() + 30
    for pid in pids:
        while is_running(int(pid)):
            assert time.monotonic() < until, f"pid={pid} is still there"
            time.sleep(0.01)


@pytest.mark.slow
def test_a_rate_is_the_throughput(tmp_path: Path, stolen: None) -> None:
    workload = made(
        tmp_path, command=script(tmp_path, "time.sleep(0.1); print('rate: 1,000')"), figure="rate", line="rate: (.*)"
    )
    result = measure_load(workload, ENDPOINT, PLAN, seed=1)
    assert result.measurement is not None
    assert result.measurement.throughput.estimate == pytest.approx(1000, rel=0.3)
    assert result.measurement.steal_share == 0.5
    assert judge(result, PLAN, Objective.parse("throughput"))[0] is Status.OK


@pytest.mark.slow
def test_a_time_is_the_latency(tmp_path: Path) -> None:
    workload = made(tmp_path, command=script(tmp_path, "print('{\"ms\": 50}')"), figure="time", json="ms", unit="ms")
    result = measure_load(workload, ENDPOINT, PLAN, seed=1)
    assert result.measurement is not None
    assert result.measurement.latency_ms["p50"].estimate == pytest.approx(50, rel=0.01)
    assert result.measurement.throughput.estimate == pytest.approx(20, rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("sys.exit('it broke')", {}, "exit_code=1: it broke"),
        ("print('x')", {"figure": "rate", "line": r"(\d+)"}, "no line of its output matches"),
        ("os.kill(os.getpid(), 9)", {}, "exit_code=-9"),
    ],
)
def test_a_command_that_fails_fails_the_trial(tmp_path: Path, text: str, more: dict[str, Any], message: str) -> None:
    workload = made(tmp_path, command=script(tmp_path, text), **more)
    result = measure_load(workload, ENDPOINT, PLAN, seed=1)
    status, reason = judge(result, PLAN, Objective.parse("throughput"))
    assert status is Status.FAILED_LOAD
    assert message in reason


@pytest.mark.slow
def test_a_command_that_takes_too_long_is_timed_out(tmp_path: Path) -> None:
    workload = made(tmp_path, command=script(tmp_path, "time.sleep(60)"), timeout="300ms")
    result = measure_load(workload, ENDPOINT, PLAN, seed=1)
    status, _ = judge(result, PLAN, Objective.parse("throughput"))
    assert status is Status.TIMED_OUT


def after(folder: Path, n_runs: int, text: str) -> str:
    """A command whose first runs say a figure at once; the others do something else."""
    counted = "n = os.path.getsize('n') if os.path.exists('n') else 0\nopen('n', 'a').write('x')"
    return script(folder, f"{counted}\nprint('figure: 0.05') if n < {n_runs} else {text}")


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["rate", "time"])
def test_a_command_that_hangs_does_not_keep_its_earlier_figure(tmp_path: Path, figure: str) -> None:
    """The first run ends in the warm-up; the second does not end within the window, which is shorter than its time-out."""
    command = after(tmp_path, 1, "time.sleep(60)")
    plan = MeasurePlan(window_s=2.0, window_max_s=2.0, warmup_floor_s=1.0, warmup_cap_s=1.0)
    result = measure_load(made(tmp_path, command=command, figure=figure, line="figure: (.*)"), ENDPOINT, plan, seed=1)
    status, reason = judge(result, plan, Objective.parse("throughput"))
    assert (status, reason) == (Status.TIMED_OUT, "no operation succeeded in 2s (0 timed out)")
    assert result.measurement is not None
    assert result.measurement.throughput.estimate == 0


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["rate", "time"])
def test_a_run_that_hangs_at_the_end_counts_as_nothing_and_as_a_long_latency(tmp_path: Path, figure: str) -> None:
    command = after(tmp_path, 5, "time.sleep(60)")
    run = made(tmp_path, command=command, figure=figure, line="figure: (.*)").start(ENDPOINT, seed=1, duration_s=60)
    frames = seconds(run, 4)
    log = run.stop()
    assert isinstance(log, SecondLog)
    assert log.response.total == 5
    shown = summarise(log, (0.0, 4.0))
    rate = 0.05 if figure == "rate" else 20.0
    done_s = float(np.sum(log.credited) / rate)
    assert 0 < done_s < 4.0, "the time of the runs that ended, and no more"
    assert frames[-1] == 0.0, "it shows while it runs"
    assert shown.latency_ms["p99"].high == np.inf, "it took at least so long"
    hung_ms = 1e3 * (log.duration_s - done_s)
    assert shown.latency_mean_ms.estimate > hung_ms / 6


@pytest.mark.slow
def test_the_run_that_the_end_cuts_off_keeps_the_last_figure_while_others_took_as_long(tmp_path: Path) -> None:
    command = script(tmp_path, "time.sleep(0.6); print('rate 100')")
    run = made(tmp_path, command=command, figure="rate", line=r"rate (\d+)").start(ENDPOINT, seed=1, duration_s=60)
    seconds(run, 2)
    log = run.stop()
    assert isinstance(log, SecondLog)
    assert log.credited[1] == pytest.approx(100, rel=0.3)
    assert (log.error.total, log.unfinished.total, log.error_classes) == (0, 0, {})


def test_stop_ends_the_command_with_its_children(tmp_path: Path) -> None:
    text = "pid = os.fork()\nopen('pids', 'a').write(f'{os.getpid()}\\n')\ntime.sleep(60)"
    run = made(tmp_path, command=script(tmp_path, text)).start(ENDPOINT, seed=1, duration_s=60)
    until = time.monotonic() + 60
    while not (tmp_path / "pids").exists() or (tmp_path / "pids").read_text().count("\n") < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    log = run.stop()
    assert run.is_done
    assert run.stop() is not None
    assert isinstance(log, QueryLog)
    assert log.outcome.tolist() == [Outcome.CANCELLED], "it took at least that long"
    for pid in (tmp_path / "pids").read_text().split():
        while is_running(int(pid)):
            assert time.monotonic() < until, f"pid={pid} is still there"
            time.sleep(0.01)


@pytest.mark.slow
def test_it_ends_by_itself(tmp_path: Path) -> None:
    run = made(tmp_path, command="true").start(ENDPOINT, seed=1, duration_s=1.0)
    assert len(seconds(run, 1)) == 1
    while not run.is_done:
        time.sleep(0.01)
    assert run.frame(0.1) is None
    run.stop()


@pytest.mark.slow
def test_a_second_is_waited_for_no_longer_than_asked(tmp_path: Path) -> None:
    run = made(tmp_path, command="sleep 5").start(ENDPOINT, seed=1, duration_s=5.0)
    assert run.frame(0.05) is None, "the second is not over"
    assert len(seconds(run, 1)) == 1, "it is there once it is over"
    run.stop()


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command is another user's, as what sudo starts is."""

    def refuse(group: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "killpg", refuse)


def await_file(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_run_that_may_not_be_killed_is_waited_for(tmp_path: Path, strangers: None) -> None:
    text = "open('begun', 'a').write('x')\ntime.sleep(0.6)\nopen('ended', 'a').write('x')"
    run = made(tmp_path, command=script(tmp_path, text)).start(ENDPOINT, seed=1, duration_s=60)
    await_file(tmp_path / "begun")
    log = run.stop()
    assert run.is_done
    assert (tmp_path / "ended").read_text() == (tmp_path / "begun").read_text() == "x"
    assert isinstance(log, QueryLog)
    assert log.outcome.tolist() == [Outcome.CANCELLED]
    assert log.end_s[0] == log.duration_s, "what it did while it was waited for is no part of the run"


def test_a_run_that_can_neither_be_killed_nor_ends_is_told(
    tmp_path: Path, strangers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.workload.command.run._KILL_S", 0.5)
    command = "sh -c 'echo $$ > pid; mv pid begun; exec sleep 60'"
    run = made(tmp_path, command=command, timeout="200ms").start(ENDPOINT, seed=1, duration_s=60)
    await_file(tmp_path / "begun")
    with pytest.raises(LoadError, match=r"command='sh' goes on after its trial, and cannot be killed: pid=\d+"):
        run.stop()
    os.kill(int((tmp_path / "begun").read_text()), signal.SIGKILL)


def test_a_before_that_takes_too_long_and_may_not_be_killed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spared: list[subprocess.Popen[bytes]] = []

    def refuse(process: subprocess.Popen[bytes]) -> bool:
        spared.append(process)
        return False

    monkeypatch.setattr("trimtab.workload.command.workload.kill_group", refuse)
    workload = made(tmp_path, command="true", before="sleep 60", timeout="200ms")
    with pytest.raises(LoadError, match=r"did not end within timeout=0.2s, and cannot be killed: pid=\d+ is another"):
        workload.reset(ENDPOINT, print)
    for process in spared:
        process.kill()
        process.wait()


def test_a_run_that_gets_no_file_for_its_output_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    run = made(tmp_path, command="true").start(ENDPOINT, seed=1, duration_s=60.0)
    while not run.log().errors and not run.is_done:
        time.sleep(0.01)
    log = run.stop()
    assert log.errors[0] == "command: cannot run 'true': No space left on device"
