"""A command line that cannot be tuned: said before anything is begun, or as an error of what was measured."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab.cli import main
from trimtab.errors import UsageError
from trimtab.session import program
from trimtab.session.program import OneUnit, Outcome, Program
from trimtab.space import Config


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((), "no program is given"),
        (("no-such-program", "{level}"), "the program 'no-such-program' cannot be run: No such file or directory"),
        ((sys.executable, "{lvel}"), "knob='level' has no place in the command"),
        ((sys.executable, "{level}", "{more}"), "{more} in the command is not a knob"),
        (("sh", "-c", "gzip -${level} data"), "knob='level' has no place in the command\nhint: write {level} where"),
    ],
)
def test_command_lines_that_are_none(command: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("{", r"\{")):
        Program(command=command).check(["level"])


def test_variables_of_a_shell_are_left_to_it() -> None:
    program = Program(command=("sh", "-c", "echo ${HOME} {level}"))
    program.check(["level"])
    assert program.words(Config({"level": 3})) == ["sh", "-c", "echo ${HOME} 3"]


def test_a_knob_whose_name_is_none_is_not_said_to_lack_a_place() -> None:
    with pytest.raises(UsageError, match="a knob cannot be called '1level'\nhint: letters, digits"):
        Program(command=(sys.executable, "{1level}")).check(["1level"])


def test_a_program_that_prints_no_figure_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["exec", "--state", str(tmp_path), "--name", "x", "--int", "level=1:9", "--measure", "output"]
    with pytest.raises(SystemExit) as end:
        main([*words, "--", sys.executable, "-c", "pass", "{level}"])
    assert end.value.code == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert (
        "error: the baseline itself cannot be measured: failed_load: the last line that it printed holds no number\n"
        "hint: run the program by itself; when it works, the same command with --again begins a new session\n"
    ) in said.err


@pytest.mark.slow
def test_a_winner_of_a_program_is_reported_and_not_applied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--state", str(tmp_path)]
    words = ["exec", *at, "--name", "p", "--int", "x=1:9", "--measure", "output", "--budget", "12 trials", "--"]
    code = "import sys; print(10 + (int(sys.argv[1]) - 6) ** 2)"
    said = {}
    for command in ([*words, sys.executable, "-c", code, "{x}"], ["report", *at, "--trials", "p"], ["apply", *at, "p"]):
        with pytest.raises(SystemExit) as end:
            main(command)
        said[command[0]] = (end.value.code, *capsys.readouterr())
    assert (said["exec"][0], said["report"][0], said["apply"][0]) == (0, 0, 2)
    assert "takes effect" not in said["report"][1]
    assert re.search(r"trial +role +status +cost +times as good +time +changed", said["report"][1])
    assert said["apply"][2] == (
        "error: study='p' is a session: no server but a program was tuned, which sets its values itself\n"
        f"hint: give it the values that `trimtab report p --state {tmp_path}` shows\n"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--timeout", "0s"], "error: --timeout='0s' is not above 0\nhint: write a duration"),
        (
            ["--maximise"],
            "error: --maximise with --measure=wall looks for the slowest config\nhint: add --measure output",
        ),
        (
            ["--maximise", "--measure", "user"],
            "error: --maximise with --measure=user looks for the slowest config\nhint: ",
        ),
    ],
)
def test_what_no_run_could_meet_begins_no_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["exec", "--state", str(tmp_path), *options, "--int", "x=1:9", "--", sys.executable, "-c", "pass", "{x}"])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith(said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("printed", ["1e200", "3e-200", "9" * 150])
def test_a_figure_that_no_ratio_can_be_made_of_is_a_failed_run(printed: str) -> None:
    ran = Program(command=(sys.executable, "-c", f"print({printed})"), measure="output").run(Config({}))
    assert (ran.value, ran.status) == (None, "failed_load")
    assert ran.reason == f"it printed {float(printed):g}, which is not between 1e-100 and 1e+100"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("5,5 ms", "'5,5'"),
        ("took 1,234", "'1,234'"),
        ("1,234,567.5 ops", "'1,234,567.5'"),
        ("1.234,5", "'1.234,5'"),
        ("2,5e3", "'2,5e3'"),
    ],
)
def test_a_comma_in_the_figure_is_not_guessed_at(line: str, said: str) -> None:
    ran = Program(command=(sys.executable, "-c", f"print({line!r})"), measure="output").run(Config({}))
    assert (ran.value, ran.status) == (None, "failed_load")
    assert ran.reason == (
        f"it printed {said}: thousands, decimals or two numbers? Let it print the figure alone, with a point"
    )


@pytest.mark.parametrize(
    ("line", "value"),
    [("12,345,0.5", 0.5), ("1, 2", 2.0), ("level=3,time=7", 7.0), ("3,1234.5", 1234.5), (",4", 4.0), ("a,4", 4.0)],
)
def test_commas_between_numbers_are_no_part_of_them(line: str, value: float) -> None:
    ran = Program(command=(sys.executable, "-c", f"print({line!r})"), measure="output").run(Config({}))
    assert ran == Outcome(value)


@pytest.mark.parametrize(
    "figure",
    ["0:01:02.5", "01:05.321", "2:05", "12:34:56", "1m2.5s", "1h02m03s", "1_234_567", "12'345.6", "1\u2019234"],
)
def test_a_figure_of_several_numbers_is_not_read_in_part(figure: str) -> None:
    """A run of 65 seconds would be taken for one of five, as psql tells it: "Time: 65321.123 ms (01:05.321)"."""
    ran = program._printed(f"Time: 65321.123 ms ({figure})\n".encode())
    assert (ran.value, ran.status) == (None, "failed_load")
    assert ran.reason == (
        f"it printed {figure!r}, of which only the last number would count: let it print seconds, or plain digits"
    )


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("p99:12.5", 12.5),
        ("worker 3:1234", 1234.0),
        ("12:34:56 done in 4.2", 4.2),
        ("10.0.0.1:80", 80.0),
        ("5ms", 5.0),
        ("1m 2.5", 2.5),
        ("run_1_250", 250.0),
        ("1_2", 2.0),
    ],
)
def test_numbers_beside_each_other_are_not_taken_for_one_figure(line: str, value: float) -> None:
    assert program._printed(line.encode()) == Outcome(value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("12.5 ± 0.2 ms", "'± 0.2'"),
        ("12.5 +/-0.2", "'+/-0.2'"),
        ("0.50203 +- 0.00118 seconds time elapsed  ( +-  0.24% )", "'+-  0.24'"),
        ("12.5 ±.2", "'±.2'"),
    ],
)
def test_how_far_a_figure_may_be_off_is_not_taken_for_it(line: str, said: str) -> None:
    """As `perf stat -r 5` prints it: the config whose runs agree best would have won."""
    ran = program._printed(line.encode())
    assert (ran.value, ran.status) == (None, "failed_load")
    assert ran.reason == f"it printed {said}, which says how far a figure may be off: let it print the figure alone"


@pytest.mark.parametrize(
    "printed",
    ["took \x1b[1;32m12.5\x1b[39m s", "\x1b[32m12.5\x1b[0m", "12.5\n\x1b[0m\n", "\x1b[?25l\x1b[2K12.5\x1b[?25h"],
)
def test_colours_are_no_figures(printed: str) -> None:
    """Where each run printed 39, no config was better than another."""
    assert program._printed(printed.encode()) == Outcome(12.5)


@pytest.mark.parametrize(
    ("line", "unit"),
    [
        ("1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.9 s, 1.2 GB/s", "GB/s"),
        ("[  5]  0.00-10.00 sec  10.9 GBytes  9.41 Gbits/sec", "Gbits/sec"),
        ("took 12.5ms", "ms"),
        ("took 950 µs", "µs"),
        ("took 950 msec", "msec"),
        ("1.2k ops", "k"),
        ("1.2M/s", "M"),
        ("7 hits", ""),
        ("3 points", ""),
        ("5 seconds", ""),
        ("12.5", ""),
    ],
)
def test_the_unit_behind_a_figure(line: str, unit: str) -> None:
    assert program._printed(line.encode()).unit == unit


def test_figures_of_several_units_are_not_compared() -> None:
    """1.2 GB/s is more than 950 MB/s."""
    one = OneUnit()
    slow, fast = program._printed(b"950 MB/s"), program._printed(b"1.2 GB/s")
    failed = Outcome(None, "no reason", "crashed")
    assert [one.checked(each) for each in (failed, slow, failed, slow)] == [failed, slow, failed, slow]
    why = "it printed its figure with GB/s, and before with MB/s: let it print the same unit each time"
    assert one.checked(fast) == Outcome(None, why, "failed_load")
    assert one.checked(slow) == slow
    assert "with no unit, and before with MB/s" in one.checked(program._printed(b"950")).reason
    assert one.checked(program._printed(b"950 MB/s of 3")).reason == one.checked(program._printed(b"3")).reason


@pytest.mark.slow
def test_a_config_whose_figure_has_another_unit_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "echo $((900 + {x})) MB/s; [ {x} -lt 5 ] || echo 1.{x} GB/s"
    words = ["exec", "--state", str(tmp_path), "--name", "x", "--int", "x=1:9", "--start", "x=1", "--measure", "output"]
    with pytest.raises(SystemExit) as end:
        main([*words, "--maximise", "--budget", "20 trials", "--no-proof", "--", "sh", "-c", code])
    assert end.value.code == 0
    said = capsys.readouterr()
    assert "x=9: failed_load: it printed its figure with GB/s, and before with MB/s: let it print the same" in said.err
    assert "echo $((900 + 4)) MB/s" in said.out


def test_what_a_failed_program_printed_in_colours_is_kept_as_text() -> None:
    ran = Program(command=("sh", "-c", "printf '\\033[31mno memory\\033[0m\\n'; exit 3")).run(Config({}))
    assert (ran.status, ran.reason) == ("crashed", "exit code 3\nno memory")


def test_a_figure_that_no_float_holds_is_not_called_too_small() -> None:
    assert program._printed(b"1e400").reason == "it printed inf, which is not between 1e-100 and 1e+100"


def test_how_long_it_took_is_not_known_where_trimtab_was_stopped_meanwhile() -> None:
    """The program goes on after Ctrl-Z, and its end is seen when the user comes back: that is no fault of the config."""
    went_on = ("sh", "-c", "kill -CONT $PPID; echo 4; exec sleep ${1:-0}", "sh")
    run = Program(command=went_on).run(Config({}))
    assert (run.value, run.status) == (None, "infrastructure")
    assert run.reason == "Trimtab was stopped while it ran (Ctrl-Z?): how long it took is not known"
    assert Program(command=(*went_on, "60"), timeout_s=0.2).run(Config({})) == run
    assert Program(command=went_on, measure="output").run(Config({})).value == 4.0
    assert Program(command=("true",)).run(Config({})).value is not None, "it was before"


def test_what_keeps_a_run_from_its_end_is_said() -> None:
    """Else one looks for what the program itself waits for."""
    held = "it has ended, but what it has started in the background holds its output open; let that print elsewhere"
    for code, timeout_s, why in (("sleep 60", 0.3, "300ms"), ("sleep 60 & echo 1", 1.0, f"1s: {held}")):
        ran = Program(command=("sh", "-c", code), timeout_s=timeout_s).run(Config({}))
        assert (ran.status, ran.reason) == ("timed_out", f"not done after {why}")


def test_a_program_that_only_one_value_names_fails_that_config_only(tmp_path: Path) -> None:
    """Of `--choice tool=gzip,zstd -- {tool} data` one need not be installed; a program without a place ends the session."""
    (tmp_path / "text").write_text("no program")
    for name, why in (("no-such-program", "No such file or directory"), (str(tmp_path / "text"), "Permission denied")):
        ran = Program(command=("{tool}", "1")).run(Config({"tool": name}))
        assert ran == Outcome(None, f"the program {name!r} cannot be run: {why}", "crashed")
        with pytest.raises(UsageError, match=f"cannot be run: {why}\nhint: give its path"):
            Program(command=(name, "{x}")).run(Config({"x": 1}))


def test_no_config_is_blamed_where_nothing_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(words: list[str]) -> subprocess.Popen[bytes]:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(program, "_started", no_memory)
    with pytest.raises(UsageError, match="the program 'true' cannot be run: Cannot allocate memory"):
        Program(command=("{tool}",)).run(Config({"tool": "true"}))


def test_a_program_that_may_not_be_killed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As what sudo starts for a user who is not root: another run beside it would measure both."""
    begun, start = list[subprocess.Popen[bytes]](), program._started

    def noted(words: list[str]) -> subprocess.Popen[bytes]:
        begun.append(start(words))
        return begun[-1]

    def refuse(group: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(program, "_started", noted)
    monkeypatch.setattr(os, "killpg", refuse)
    with pytest.raises(UsageError, match=r"the program cannot be ended: pid=\d+ is another user's") as told:
        Program(command=("sleep", "60"), timeout_s=0.1).run(Config({}))
    assert told.value.hint == "end it by hand, and run trimtab exec as the user who may end it"
    begun[0].kill()
    begun[0].wait()
