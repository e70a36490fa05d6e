"""`trimtab exec` comes to an end: its program ends with it, and a session that failed goes on being one that failed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from tests.commands import start_trimtab
from tests.session.conftest import spec
from trimtab.cli import main
from trimtab.cli.exec_command import _name_of, _workload
from trimtab.host.process import is_running
from trimtab.session.program import Outcome, Program
from trimtab.session.spec import SessionSpec
from trimtab.space import Config

ENDS_ITS_PARENT = """
import os, sys, time
with open(sys.argv[1], "w") as file:
    file.write(str(os.getpid()))
os.kill(os.getppid(), int(sys.argv[2]))
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_program_with_trimtab(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "program.py").write_text(ENDS_ITS_PARENT)
    words = ["exec", "--state", str(tmp_path), "--name", "x", "--int", "level=1:9", "--", sys.executable, "program.py"]
    # Tests that run under nohup ignore SIGHUP, and what they start would too: also what forks commands.
    before = signal.signal(how, signal.SIG_DFL)
    process = start_trimtab(
        [*words, "pid", str(int(how)), "{level}"], env=dict(os.environ), cwd=tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, is_forked=how is not signal.SIGHUP,
    )  # fmt: skip
    signal.signal(how, before)
    _, said = process.communicate(timeout=120)
    pid = int((tmp_path / "pid").read_text())
    try:
        assert process.returncode == 130, said
        assert not is_running(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_kill_9_ends_the_program_with_trimtab(tmp_path: Path) -> None:
    """Beside the next one, which the same command starts when it resumes, both would be measured."""
    (tmp_path / "program.py").write_text(ENDS_ITS_PARENT)
    words = ["exec", "--state", str(tmp_path), "--name", "x", "--int", "level=1:9", "--", sys.executable, "program.py"]
    process = start_trimtab(
        [*words, "pid", str(int(signal.SIGKILL)), "{level}"], env=dict(os.environ), cwd=tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.communicate(timeout=120)
    pid, until = int((tmp_path / "pid").read_text()), time.monotonic() + 10
    try:
        while is_running(pid) and time.monotonic() < until:
            time.sleep(0.02)
        assert not is_running(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_program_that_has_ended_leaves_its_children_alone(tmp_path: Path) -> None:
    """A server that it has started in the background, for one, is none of ours."""
    code = "sleep 60 >&- 2>&- & echo $! > pid; echo 1"
    program = Program(command=("sh", "-c", f"cd {tmp_path}; {code}", "{x}"), measure="output")
    assert program.run(Config({"x": 1})).value == 1.0
    pid = int((tmp_path / "pid").read_text())
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)


def test_a_session_that_failed_says_so_the_second_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["exec", "--state", str(tmp_path), "--name", "x", "--int", "level=1:9", "--no-proof"]
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            main([*words, "--", sys.executable, "-c", "raise SystemExit(3)", "{level}"])
        assert end.value.code == 4
        said = capsys.readouterr()
        assert said.out == ""
        assert "error: the baseline itself cannot be measured: crashed: exit code 3" in said.err
        assert "the same command with --again begins a new session\n" in said.err


@pytest.mark.parametrize("place", ["shared.db", "the shared.db"])
def test_the_report_that_it_names_is_in_the_history_that_it_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Program, "run", lambda self, config: Outcome(5.0 + config["x"]))
    words = ["exec", "--history", place, "--name", "x", "--int", "x=1:3", "--no-proof", "--budget", "3 trials"]
    with pytest.raises(SystemExit) as end:
        main([*words, "--state", "state", "--", sys.executable, "{x}"])
    assert end.value.code == 0
    (report,) = re.findall("report: trimtab (.*)\n", capsys.readouterr().err)
    with pytest.raises(SystemExit) as end:
        main(shlex.split(report))
    assert end.value.code == 0
    assert "Ended without a proof after " in capsys.readouterr().out, "nobody has interrupted it"


@pytest.mark.parametrize(
    ("knob", "start", "message", "hint"),
    [
        (("--int", "level=1:9"), "level=99", "--start level=99: '99' is not a value of level", "legal: 1 to 9"),
        (("--int", "level=1:9:2"), "level=4", "--start level=4: '4' is not a value of level", "legal: 1 to 9 in steps of 2"),
        (("--real", "level=0:1"), "level=1.5", "--start level=1.5: '1.5' is not a value of level", "legal: 0 to 1"),
        (("--real", "level=0:1"), "level=nan", "'nan' in 'level=nan' is not of type real", "as in level=1:9"),
        (("--real", "level=0:inf"), "level=1", "'inf' in 'level=0:inf' is not of type real", "as in level=1:9"),
        (("--choice", "level=fast,small"), "level=slow", "--start level=slow: 'slow' is not a value of", "legal: fast, small"),
    ],
)  # fmt: skip
def test_what_is_begun_from_is_a_value_of_the_knob(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], knob: tuple[str, str], start: str, message: str, hint: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["exec", "--state", str(tmp_path), *knob, "--start", start, "--", sys.executable, "-c", "pass", "{level}"])
    said = capsys.readouterr()
    assert (end.value.code, said.out) == (2, "")
    assert message in said.err
    assert hint in said.err
    assert not list(tmp_path.iterdir()), "nothing is begun"


def test_a_name_that_cannot_be_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "exec",
        "--state",
        str(tmp_path),
        "--name",
        "a b",
        "--int",
        "x=1:9",
        "--",
        sys.executable,
        "-c",
        "pass",
        "{x}",
    ]
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert "cannot be begun: name: up to 64 letters, digits and . _ - are allowed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "name"),
    [("/bin/gzip", "gzip"), ("./größe", "gr--e"), (".hidden", "hidden"), ("x" * 80, "x" * 64), ("ж", "program")],
)
def test_any_program_gives_a_session_a_name(program: str, name: str) -> None:
    """Who has given none is not told that it is wrong."""
    assert spec(name=_name_of(program)).name == name


def begun(monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str) -> SessionSpec:
    """The session that those words ask for; none is begun."""
    seen: list[SessionSpec] = []

    def begin(spec: SessionSpec, *rest: object, **more: object) -> None:
        seen.append(spec)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("trimtab.session.local.LocalSession", begin)
        with pytest.raises(SystemExit):
            main(["exec", "--state", str(folder), "--int", "x=1:9", *words])
    return seen[0]


@pytest.mark.parametrize("rest", ["", "x" * 300])
def test_a_password_of_the_command_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str) -> None:
    url = "postgresql://me:{}@h/db?{}"
    words = ("--", sys.executable, url.format("hunter22", rest), "{x}")
    asked = begun(monkeypatch, tmp_path, *words)
    assert "hunter22" not in asked.model_dump_json()
    assert url.format("***", rest)[:60] in asked.workload
    other = begun(monkeypatch, tmp_path, "--", sys.executable, url.format("swordfish", rest), "{x}")
    assert other == asked, "the password may be renewed"
    failing = Program(command=("sh", "-c", f"echo {url.format('hunter22', rest)}; exit 3", "{x}"))
    assert failing.run(Config({"x": 1})).reason.startswith("exit code 3\npostgresql://me:***@h/db?")


def test_a_long_command_is_the_session_of_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured of one program, or in one way, would be the result of another."""
    program = ("--", sys.executable, "{x}", "ж" * 300)
    tried = [(*program, "a"), (*program, "b"), ("--measure", "user", *program, "a"), (*program, "a")]
    seen = [begun(monkeypatch, tmp_path, *words) for words in tried]
    assert len({each.fingerprint for each in seen}) == 3
    assert seen[0].fingerprint == seen[3].fingerprint
    assert {len(each.workload) for each in seen} == {200}
    assert seen[2].workload.endswith(" by user")


def test_the_end_of_a_long_output_is_kept_and_nothing_else() -> None:
    code = "import sys; sys.stdout.write('0' * (16 << 20)); print(); print('took', 3.5)"
    program = Program(command=(sys.executable, "-c", code, "{x}"), measure="output")
    tracemalloc.start()
    try:
        assert program.run(Config({"x": 1})).value == 3.5
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("script", ["exec >&- 2>&-; sleep 600 & wait", "sleep 600 & echo 1"])
def test_what_is_late_is_killed_whoever_holds_its_output(script: str) -> None:
    program = Program(command=("sh", "-c", script, "{x}"), timeout_s=0.2)
    assert program.run(Config({"x": 1})).status == "timed_out"


def test_a_word_that_is_no_text_is_kept_as_one() -> None:
    kept = _workload(("gzip", os.fsdecode(b"\xe4.txt")), "wall")
    assert kept == r"exec gzip '\xe4.txt' by wall"
    assert SessionSpec.model_validate_json(spec(workload=kept).model_dump_json()).workload == kept


def test_large_figures_of_a_program_have_no_exponent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Program, "run", lambda self, config: Outcome(75_690.4))
    words = ["exec", "--state", str(tmp_path), "--name", "x", "--int", "x=1:3", "--no-proof", "--budget", "3 trials"]
    with pytest.raises(SystemExit):
        main([*words, "--", sys.executable, "{x}"])
    assert re.search(r"^run 1 \(baseline\) x=2: 75,690$", capsys.readouterr().err, re.MULTILINE)
