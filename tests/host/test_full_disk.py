"""A machine on which no temporary file can be made, as with a full disk: commands run all the same, and a sweep waits."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from trimtab.host import LocalHost, sweep_scratch


@pytest.fixture(params=["no folder takes a file", "a file takes no byte"])
def full(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    def full_file(**more: Any) -> Any:
        return Path("/dev/full").open("w+b", buffering=0)

    if request.param == "no folder takes a file":
        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.setattr(tempfile, "_get_default_tempdir", refuse)
    else:
        monkeypatch.setattr(tempfile, "TemporaryFile", full_file)


@pytest.mark.usefixtures("full")
def test_a_command_runs_and_its_output_is_read() -> None:
    done = LocalHost().run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=20)
    assert (done.exit_code, done.stdout, done.stderr) == (3, "out\n", "err\n")


@pytest.mark.usefixtures("full")
def test_a_sweep_does_nothing() -> None:
    sweep_scratch()


def test_output_begins_at_the_beginning() -> None:
    assert LocalHost().run(["/bin/sh", "-c", ":"], timeout_s=20).output == ""
