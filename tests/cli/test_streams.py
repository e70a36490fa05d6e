"""stdout and stderr that are closed, full, or read by nobody: an exit code of ours, and no traceback."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.history.samples import study_values
from trimtab.cli import main
from trimtab.cli.knobs_command import _print
from trimtab.cli.streams import open_streams
from trimtab.errors import RestoreError
from trimtab.history import History
from trimtab.study.recovery import Stuck

COMMANDS = ["report tpch", "history list", "history export --to - --format jsonl"]


@pytest.fixture(autouse=True)
def state(run: Run, tmp_path: Path) -> None:
    """A history with one study."""
    (tmp_path / "state").mkdir()
    with History.open(tmp_path / "state" / "history.db") as history:
        history.create_study(**study_values())


@pytest.fixture
def full() -> Iterator[io.TextIOWrapper]:
    with suppress(OSError), open("/dev/full", "w", encoding="utf-8") as file:
        yield file


def _code(command: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command))
    return int(ended.value.code or 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_behind_stdout_is_told(
    command: str, full: io.TextIOWrapper, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", full)
    assert _code(command) == 3
    assert capsys.readouterr().err == (
        "error: no space left on the disk\n"
        "hint: free some where the output goes, or give another state directory with --state\n"
    )
    full.flush()  # what was not written is given up: Python does not fail on it at its end, which is exit code 120


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_who_has_gone_is_no_verdict(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    out = os.fdopen(writes, "w", encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", out)
    try:
        assert (_code(command), capsys.readouterr().err) == (130, "")
    finally:
        with suppress(BrokenPipeError):
            out.close()


@pytest.mark.parametrize("command", ["report tpch --html", "history export --format jsonl --to"])
def test_a_file_that_is_a_pipe_which_nobody_reads_is_no_wrong_path(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with --html /dev/stdout | head."""
    reads, writes = os.pipe()
    os.close(reads)
    try:
        assert (_code(f"{command} /dev/fd/{writes}"), capsys.readouterr().err) == (130, "")
    finally:
        os.close(writes)


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_an_error_has_colours_on_a_terminal_alone_and_not_against_the_users_will(
    monkeypatch: pytest.MonkeyPatch, no_color: str, is_coloured: bool
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert _code("report nobody") == 2
    told = terminal.getvalue()
    assert ("\x1b[" in told) == is_coloured
    assert "error:" in told
    assert "hint:" in told


def test_stderr_that_takes_nothing_leaves_the_exit_code(
    full: io.TextIOWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", full)
    assert _code("report nobody") == 2


def test_a_command_without_stdout_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert _code("report tpch") == 0


def test_the_number_of_a_closed_stream_is_taken() -> None:
    """Else it would be that of the next file that is opened, such as the history."""
    code = (
        "import os; os.close(1); from trimtab.cli.streams import open_streams; open_streams()\n"
        "assert os.readlink('/proc/self/fd/1') == os.devnull; assert os.get_inheritable(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_character_that_the_encoding_lacks_is_printed_as_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(kept, encoding="latin-1"))
    open_streams()
    print("128MB → 1GB", flush=True)
    assert kept.getvalue() == b"128MB \\u2192 1GB\n"


def test_a_path_that_is_no_text_is_printed_as_it_is_and_in_json_with_an_escape(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for options, shown in ([], b"wrote %s/\xe4-0: "), (["--json"], b'"file": "%s/\\udce4-1"'):
        kept = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(kept, encoding="utf-8", errors="strict"))
        copy = tmp_path / f"{os.fsdecode(bytes([0xE4]))}-{len(options)}"
        with pytest.raises(SystemExit) as ended:
            main(["history", "backup", str(copy), *options])
        assert not ended.value.code
        assert shown % bytes(tmp_path) in kept.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_json_is_json_whatever_the_encoding_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encoding: str
) -> None:
    kept = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(kept, encoding=encoding))
    copy = tmp_path / f"Größe \N{ROCKET} {encoding}"
    assert _code(f"history backup --json {shlex.quote(str(copy))}") == 0
    assert json.loads(kept.getvalue().decode("utf-8"))["file"] == str(copy)


@pytest.mark.parametrize("command", ["", "history", "catalog"])
def test_a_group_alone_shows_its_help_and_calls_it_no_error(run: Run, command: str) -> None:
    ran = run(*command.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"Usage: trimtab {command}".rstrip())
    assert "error:" not in ran.err
    assert "hint:" not in ran.err


def test_knobs_shows_brackets_and_colons_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": "log_line_prefix", "running_text": "[/db] :key: ", "range": "", "restart": "reload"}
    _print([{**row, "lock_reason": "", "doc": "Begins each line, as in [bold]."}], set(), "tunes")
    out = capsys.readouterr().out
    assert "[/db] :key:" in out
    assert "[bold]" in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_recover_names_what_is_stuck_in_json_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Stuck("tpch", "db", RestoreError("server=db does not start", hint="see its log"))
    monkeypatch.setattr("trimtab.study.recover", lambda state_dir, retry: ([], [stuck]))
    ran = run("recover", "--json")
    assert ran.code == 3
    assert json.loads(ran.out) == {
        "schema_version": 1,
        "recovered": [],
        "stuck": [{"study": "tpch", "target": "db", "error": "server=db does not start", "hint": "see its log"}],
    }
    assert "error: study='tpch': server=db does not start" in ran.err
