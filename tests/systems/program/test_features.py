"""What a program here does not have, by its `features` command: settings that need it are locked, and choices are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.systems.program.conftest import CATALOG, made
from trimtab.errors import ApplyError
from trimtab.space import Config
from trimtab.systems.catalog_file import catalog_faults

METHODS = """
[knob.method]
doc = "How it squeezes."
type = "choice"
choices = ["lz", "xz"]
default = "lz"
choices_need = { xz = "with xz" }
[knob.xz_depth]
doc = "How far it looks."
type = "integer"
low = 1
high = 9
default = 4
needs = "with xz"
"""


@pytest.fixture
def printed(folder: Path) -> Path:
    """What the command prints."""
    (folder / "catalog.toml").write_text(CATALOG + METHODS)
    return folder / "printed"


@pytest.mark.parametrize(
    ("text", "choices", "reason"),
    [
        ("with lz\n", ("lz",), "it needs 'with xz', which this program does not have"),
        ("with lz\nwith xz\n", ("lz", "xz"), ""),
        ("with lz\nherewith xz\n", ("lz",), "it needs 'with xz', which this program does not have"),
    ],
)
def test_what_needs_it_is_locked_or_left_out(
    folder: Path, printed: Path, text: str, choices: tuple[str, ...], reason: str
) -> None:
    printed.write_text(text)
    target = made(folder, features=f"cat {printed}")
    target.open()
    try:
        states = target.states()
        assert (states["method"].knob.choices, states["xz_depth"].lock_reason) == (choices, reason)
        if reason:
            with pytest.raises(ApplyError, match="method='xz'"):
                target.preflight(Config({"method": "xz"}))
    finally:
        target.close()


def test_without_the_command_all_may_be_there(folder: Path, printed: Path) -> None:
    states = made(folder).states()
    assert states["method"].knob.choices == ("lz", "xz")
    assert not states["xz_depth"].lock_reason


def test_the_version_that_is_needed_is_named(folder: Path, printed: Path) -> None:
    printed.write_text("with lz\n")
    (folder / "catalog.toml").write_text(CATALOG + METHODS + '[came_with]\n"with xz" = "Squeezer 5.0"\n')
    states = made(folder, features=f"cat {printed}").states()
    assert states["xz_depth"].lock_reason == "it needs Squeezer 5.0, which this program is not"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("window_kb\t512\nlevel_of_old\t3\n", "this program knows it by its earlier name alone, window_kb"),
        ("window_kb\t512\nlevel\t3\n", ""),  # it tells both; of the other one nothing, for it is not set
        ("window\t512\nlevel\t3\n", ""),
        ("", ""),
    ],
)
def test_a_program_of_before_its_settings_were_renamed_is_not_given_later_names(
    folder: Path, printed: Path, text: str, reason: str
) -> None:
    """A Cassandra of 4.0 would not start with one of 4.1."""
    printed.write_text(text)
    catalog = CATALOG.replace("[knob.window]", '[knob.window]\nformerly = "window_kb"')
    (folder / "catalog.toml").write_text(catalog.replace("[knob.level]", '[knob.level]\nformerly = "level_of_old"'))
    (folder / "squeeze.conf").write_text("name = x\n")
    states = made(folder, features=f"cat {printed}").states()
    assert states["window"].lock_reason == reason
    assert bool(states["level"].lock_reason) == bool(reason)


def test_a_version_of_words_that_nothing_needs() -> None:
    _, faults = catalog_faults(CATALOG + METHODS + '[came_with]\n"with xy" = "Squeezer 5.0"\n')
    assert [message for message, _ in faults] == ["[came_with] 'with xy': no knob needs these words"]


def test_a_need_of_no_choice() -> None:
    _, faults = catalog_faults(CATALOG + METHODS.replace("{ xz =", "{ xy ="))
    assert len(faults) == 1
    assert "choices_need names 'xy', which is none of the choices" in faults[0][0]
