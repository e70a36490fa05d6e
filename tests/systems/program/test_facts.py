"""Facts of a catalogue: numbers that the program tells, such as the size of its data, for the memory budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import PYTHON
from tests.systems.program.conftest import CATALOG, CONTEXT, made
from trimtab.errors import ApplyError, TargetError
from trimtab.space import Config
from trimtab.systems.catalog_file import catalog_faults

FACTS = """
[facts]
items = "cat {items}"
[memory]
index = "items * 64kB / level"
window = "window"
"""


@pytest.fixture
def told(folder: Path) -> Path:
    """What the program prints."""
    file = folder / "items"
    file.write_text("500\n")
    (folder / "catalog.toml").write_text(CATALOG.split("[memory]")[0] + FACTS.replace("{items}", str(file)))
    return file


def test_they_count_in_the_memory_budget_as_they_are_now(folder: Path, told: Path) -> None:
    target = made(folder)
    target.open()
    try:
        assert target.memory(CONTEXT).use({"level": 4})["index"] == 500 * 64 * 1024 / 4
        target.preflight(Config({"level": 4}))
        told.write_text("50000\n")
        assert target.memory(CONTEXT).use({"level": 4})["index"] == 50_000 * 64 * 1024 / 4
        with pytest.raises(ApplyError, match=r"would take memory=\S+ of memory=64MiB"):
            target.preflight(Config({"level": 2}))
    finally:
        target.close()


@pytest.mark.parametrize("text", ["many", "", "-3", "nan", "1 2"])
def test_what_is_no_number_is_told(folder: Path, told: Path, text: str) -> None:
    told.write_text(text)
    target = made(folder)
    target.open()
    try:
        with pytest.raises(TargetError, match=r"\[facts\] items printed '.*', expected a number from 0") as caught:
            target.memory(CONTEXT)
        assert caught.value.hint == "run it by hand to see why"
    finally:
        target.close()


def test_a_command_that_fails_is_told(folder: Path, told: Path) -> None:
    told.unlink()
    target = made(folder)
    target.open()
    try:
        with pytest.raises(TargetError, match=r"\[facts\] items='cat .*' ended with exit_code=1"):
            target.memory(CONTEXT)
    finally:
        target.close()


def test_a_term_that_needs_one_is_left_out_while_the_program_does_not_run(folder: Path, told: Path) -> None:
    target = made(folder, run=f"{PYTHON} program.py {folder}", health=f"test -f {folder}/seen")
    assert set(target.memory(CONTEXT).use({})) - {"reserved"} == {"window"}


def with_condition(text: str) -> str:
    """The catalogue, with a condition on the knob `window`."""
    return CATALOG.split("[memory]")[0].replace("log = true\n", f"log = true\nonly_when = {text!r}\n") + FACTS


@pytest.mark.parametrize(("items", "is_chosen"), [(100, False), (101, True)])
def test_a_set_leaves_out_what_cannot_be_felt(folder: Path, told: Path, items: int, is_chosen: bool) -> None:
    told.write_text(f"{items}\n")
    (folder / "catalog.toml").write_text(with_condition("items > 100").replace("{items}", str(told)))
    for knobs, chosen in (("performance", is_chosen), ("all", True), (["window"], True)):
        target = made(folder, knobs=knobs)
        target.open()
        try:
            assert ("window" in target.selection(CONTEXT)) is chosen
        finally:
            target.close()


@pytest.mark.parametrize("text", ["level > 3", "items >"])
def test_a_condition_that_cannot_be_evaluated(text: str) -> None:
    _, faults = catalog_faults(with_condition(text))
    assert [message.partition(":")[0] for message, _ in faults] == ["[knob.window] only_when"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('check = "grep \'x {file}"', '[channel.conf] check="grep \'x {file}" cannot be split into words: no closing'),
        ('read = " "\nprints = "keyvalue"', "[channel.conf] read=' ' is empty"),
    ],
)
def test_a_command_that_cannot_be_run_is_a_fault(line: str, fault: str) -> None:
    _, faults = catalog_faults(CATALOG.replace('path = "squeeze.conf"', f'path = "squeeze.conf"\n{line}'))
    assert [message.startswith(fault) for message, _ in faults] == [True]
    _, faults = catalog_faults(f'{CATALOG}[facts]\nitems = "cat \'x"\n')
    assert [message.partition("=")[0] for message, _ in faults] == ["[facts] items"]


LOSES = """
[[loses]]
what = "all of it"
shows = { mode = "fast", level = "3" }
fact = "is_lossy"
[memory]
window = "window"
copy = "window * (1 - is_lossy)"
"""


@pytest.mark.parametrize(("mode", "n_copies"), [("mode fast\n", 0), ("mode slow\n", 1), ("", 1)])
def test_what_a_start_would_lose_is_a_fact_of_the_memory(folder: Path, mode: str, n_copies: int) -> None:
    """A mode that the program does not tell may be the other one, which needs more."""
    (folder / "catalog.toml").write_text(CATALOG.split("[memory]")[0] + LOSES)
    (folder / "used").write_text(f"level 3\nthreads 1\nwindow 512k\nchecksum yes\n{mode}")
    target = made(folder, read="sh -c 'cat used' {addresses}")
    target.open()
    try:
        assert target.memory(CONTEXT).use({})["copy"] == n_copies * 512 * 1024
    finally:
        target.close()


def test_a_program_that_is_not_asked_may_lose_nothing(folder: Path) -> None:
    (folder / "catalog.toml").write_text(CATALOG.split("[memory]")[0] + LOSES)
    assert made(folder).memory(CONTEXT).use({})["copy"] == 512 * 1024


def test_a_fact_with_the_name_of_another_one_is_a_fault() -> None:
    for name in ("is_lossy", "level", "memory"):
        text = CATALOG.split("[memory]")[0] + LOSES.replace("is_lossy", name) + '[facts]\nis_lossy = "echo 1"\n'
        _, faults = catalog_faults(text)
        assert [message for message, _ in faults] == [f"[facts] {name}: a knob or another fact has that name"]
