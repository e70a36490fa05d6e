"""A command line that cannot be tuned: said before anything is begun, or as an error of what was measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trimtab.cli import main
from trimtab.errors import UsageError
from trimtab.session.program import Program


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((), "no program is given"),
        (("no-such-program", "{level}"), "the program 'no-such-program' cannot be run: No such file or directory"),
        ((sys.executable, "{lvel}"), "knob='level' has no place in the command"),
        ((sys.executable, "{level}", "{more}"), "{more} in the command is not a knob"),
    ],
)
def test_command_lines_that_are_none(command: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("{", r"\{")):
        Program(command=command).check(["level"])


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
