"""Values that other files decide, what depends on them, and settings that a file must name together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.systems.program.conftest import CATALOG, conf, made
from trimtab.space import Config
from trimtab.systems.catalog_file import catalog_faults
from trimtab.systems.program import ProgramTarget

MODES = """
[knob.mode]
doc = "How it squeezes."
type = "choice"
choices = ["block", "stream"]
default = "block"
shown_by = { block = "mode_block", stream = "mode_stream" }
[knob.blocks]
doc = "How many blocks it holds."
type = "integer"
low = 1
high = 8
default = 4
hard = [1, 1000]
under = { 'mode == "stream"' = { default = 100, high = 200 } }
[knob.flush]
doc = "How often a stream is flushed."
type = "integer"
low = 1
high = 9
default = 2
condition = 'mode == "stream"'
[knob.most]
doc = "The most that it may take."
type = "integer"
low = 1
high = 9
default = 5
together = ["least"]
[knob.least]
doc = "The least that it takes."
type = "integer"
low = 1
high = 9
default = 3
together = ["most"]
"""


def printing(folder: Path, text: str) -> ProgramTarget:
    (folder / "catalog.toml").write_text(CATALOG + MODES)
    (folder / "printed").write_text(text)
    return made(folder, features=f"cat {folder}/printed")


@pytest.mark.parametrize(
    ("printed", "line", "mode", "default", "high"),
    [
        ("mode_block", "", "block", 4, 8),
        ("mode_stream", "", "stream", 100, 200),
        ("mode_block", "mode = stream\n", "stream", 100, 200),
    ],
)
def test_what_the_program_shows_counts_unless_its_file_says_it(
    folder: Path, printed: str, line: str, mode: str, default: int, high: int
) -> None:
    target = printing(folder, printed)
    (folder / "squeeze.conf").write_text(conf(folder) + line)
    states = target.states()
    assert (states["mode"].running, states["blocks"].running, states["blocks"].knob.high) == (mode, default, high)
    assert not any(states[name].lock_reason for name in ("mode", "blocks", "flush"))


@pytest.mark.parametrize("features", ["echo another", None])
def test_what_depends_on_a_value_that_is_not_known_is_locked(folder: Path, features: str | None) -> None:
    printing(folder, "")
    states = made(folder, features=features).states() if features is not None else made(folder).states()
    for name in ("mode", "blocks", "flush"):
        assert states[name].lock_reason == "it depends on mode, and the program shows none of: block, stream", name
    assert not states["level"].lock_reason


def test_ranges_are_those_of_the_value_as_found_while_a_trial_has_another(folder: Path) -> None:
    target = printing(folder, "mode_block")
    target.open()
    found = target.snapshot()
    target.apply(Config({"mode": "stream"}))
    assert target.states()["mode"].running == "stream"
    assert target.states()["blocks"].knob.high == 8
    target.restore(found)
    target.close()


def test_settings_that_belong_together_are_written_and_taken_back_together(folder: Path) -> None:
    target = printing(folder, "mode_block")
    target.open()
    found, before = target.snapshot(), conf(folder)
    applied = target.apply(Config({"most": 7}))
    assert dict(applied.effective) == {"most": 7}
    assert conf(folder) == f"{before}least = 3\nmost = 7\n"
    assert set(applied.own.texts) == {"most", "least"}
    with (folder / "squeeze.conf").open("a") as file:
        file.write("other = 1\n")
    target.restore(found)
    assert conf(folder) == f"{before}other = 1\n"
    target.close()


def test_a_file_that_must_be_there_is_not_made(folder: Path) -> None:
    (folder / "catalog.toml").write_text(CATALOG.replace("[units]", "must_exist = true\n[units]", 1))
    assert not made(folder).states()["level"].lock_reason
    (folder / "squeeze.conf").unlink()
    reason = made(folder).states()["level"].lock_reason
    assert reason == f"there is no file='{folder}/squeeze.conf': name the one that the program reads"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{ block =", "{ blocks =", "shown_by names 'blocks', which is none of the choices"),
        ('together = ["least"]', 'together = ["last"]', "[knob.most] together names 'last': its file has no such knob"),
        ("'mode == \"stream\"' = {", "'level == 3' = {", "'level == 3' speaks of 'level'"),
        ("default = 100, high = 200", "default = 100, low = 300, high = 200", "useful range of 300 to 200 is empty"),
        ("default = 100, high", "default = 100, step", "knob.blocks.under"),
    ],
)
def test_a_catalogue_with_a_fault_in_them(old: str, new: str, message: str) -> None:
    assert old in MODES
    _, faults = catalog_faults(CATALOG + MODES.replace(old, new, 1))
    assert len(faults) == 1
    assert message in faults[0][0]
