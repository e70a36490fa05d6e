"""What somebody else writes into a program's file while Trimtab changes it never counts as Trimtab's, nor as its way back."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.systems.program.conftest import CATALOG, CONF, conf, made
from trimtab.errors import ForeignChangeError
from trimtab.space import Config
from trimtab.systems.program import ProgramTarget

THEIRS = "burst = 7\n"


def meddle(target: ProgramTarget, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Somebody writes into its file just after our change was read back."""
    health, done = target.health, []

    def health_after_them() -> None:
        if not done:
            done.append((folder / "squeeze.conf").write_text(conf(folder) + THEIRS))
        health()

    patch.setattr(target, "health", health_after_them)


def test_a_line_added_after_the_check_is_told_and_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = made(folder)
    found = target.snapshot()
    with monkeypatch.context() as patch:
        meddle(target, folder, patch)
        with pytest.raises(ForeignChangeError, match="was changed by somebody else while Trimtab changed it"):
            target.apply(Config({"level": 9}))
    assert conf(folder) == CONF + THEIRS
    target.restore(found)
    assert conf(folder) == CONF + THEIRS


def test_so_is_one_in_a_file_that_an_earlier_change_has_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This change leaves the first file as it is, with what is ours in it: the undo must not take it for as we left it."""
    table = '[channel.more]\ncodec = "keyvalue"\npath = "more.conf"\n[knob.burst]\nchannel = "more"\n'
    rest = 'doc = "How hard it squeezes first."\ntype = "integer"\nlow = 1\nhigh = 19\ndefault = 5\nhard = [1, 22]\n'
    first = CATALOG.replace("\ndoc = ", '\nchannel = "conf"\ndoc = ')
    (folder / "catalog.toml").write_text(first.replace("[units]", f"{table}{rest}[units]"))
    target = made(folder)
    found = target.snapshot()
    target.apply(Config({"level": 9}))
    with monkeypatch.context() as patch:
        meddle(target, folder, patch)
        with pytest.raises(ForeignChangeError, match=r"squeeze.conf' was changed by somebody else"):
            target.apply(Config({"level": 9, "burst": 7}))
    assert conf(folder) == CONF + THEIRS
    target.restore(found)
    assert conf(folder) == CONF + THEIRS
    assert not (folder / "more.conf").exists()


@pytest.mark.parametrize("is_whole", [True, False])
def test_files_that_others_have_put_back_do_not_hide_that_the_program_uses_ours(
    folder: Path, running: ProgramTarget, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    """They bear their old date when they come from a backup, and a clock that was set forward makes the program look younger."""
    found = running.snapshot()
    own = running.apply(Config({"threads": 2})).own
    backup = folder / "backup"
    backup.write_text(CONF)
    os.utime(backup, (1e9, 1e9))
    backup.rename(folder / "squeeze.conf")
    if is_whole:
        now = time.time
        monkeypatch.setattr("time.time", lambda: now() + 3600)
    else:  # the tuner died before it had noted which process runs with the change
        own = replace(own, picture={}, is_whole=False)
    assert running.restore(found, own).restarted
    assert (folder / "seen").read_text() == "None"
