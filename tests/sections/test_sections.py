"""The library around the tuner: threads, processes, blocks of other versions, messages, and its examples."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sections.conftest import LIBRARY, SANITIZED, SOURCES, STRICT

pytestmark = [pytest.mark.needs("c-compiler"), pytest.mark.slow]

LOCK_OF_FIRST_SLOT = 24


class Param(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("low", ctypes.c_long), ("high", ctypes.c_long), ("step", ctypes.c_long),
        ("values", ctypes.POINTER(ctypes.c_long)), ("n_values", ctypes.c_int), ("initial", ctypes.c_long),
        ("risk", ctypes.c_double), ("address", ctypes.POINTER(ctypes.c_long)), ("set", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )  # fmt: skip


class Sections:
    """The shared library with a clock of the test's own, in nanoseconds."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        self.now = 0
        self.clock = ctypes.CFUNCTYPE(ctypes.c_uint64)(lambda: self.now)
        for name in ("tt_group_open", "tt_section_open"):
            getattr(self.c, name).restype = ctypes.c_void_p
        self.c.tt_group_error.restype = ctypes.c_char_p
        self.c.tt_value.restype = ctypes.c_long
        self.run = ctypes.create_string_buffer(128)

    def group(self, path: Path | None = None) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.c.tt_group_open(os.fsencode(path) if path else None, self.clock))

    def error(self, group: ctypes.c_void_p) -> str:
        return str(self.c.tt_group_error(group).decode())

    def section(self, group: ctypes.c_void_p, section: str = "s", **fields: object) -> ctypes.c_void_p:
        param = Param(**({"name": b"x", "low": 0, "high": 7, "initial": 2} | fields))
        return ctypes.c_void_p(self.c.tt_section_open(group, section.encode(), ctypes.byref(param), 1, None))

    def work(self, section: ctypes.c_void_p, n_runs: int) -> None:
        """Each run takes 1000 ns and 100 more for each step away from 6."""
        for _ in range(n_runs):
            self.c.tt_begin(section, self.run, ctypes.c_double(1))
            self.now += 1000 + 100 * abs(self.c.tt_value(section, self.run, 0) - 6)
            self.c.tt_end(section, self.run, ctypes.c_double(1))

    def known(self, section: ctypes.c_void_p) -> dict[str, object]:
        text = ctypes.create_string_buffer(2048)
        assert 0 < self.c.tt_section_json(section, text, 2048) < 2048
        known: dict[str, object] = json.loads(text.value)
        return known


@pytest.fixture
def sections(library: Path) -> Iterator[Sections]:
    return Sections(library)


def test_a_section_finds_the_fastest_value_and_says_so(sections: Sections) -> None:
    group = sections.group()
    section = sections.section(group)
    sections.work(section, 600)
    known = sections.known(section)
    assert (known["values"], known["phase"], known["schema_version"]) == ({"x": 6}, "settled", 1)
    assert known["gain_low"] <= 1.4 <= known["gain_high"]  # type: ignore[operator]
    sections.c.tt_group_close(group)


def test_an_address_is_written(sections: Sections) -> None:
    value, group = ctypes.c_long(2), sections.group()
    sections.work(sections.section(group, address=ctypes.pointer(value)), 600)
    assert value.value == 6
    sections.c.tt_group_close(group)


def test_what_one_process_learnt_the_next_one_knows(sections: Sections, tmp_path: Path) -> None:
    first = sections.group(tmp_path / "block")
    sections.work(sections.section(first), 600)
    sections.c.tt_group_close(first)
    second = sections.group(tmp_path / "block")
    assert sections.error(second) == ""
    assert sections.known(sections.section(second))["values"] == {"x": 6}
    other = sections.section(second, high=9)
    assert sections.known(other)["runs"] == 0, "other values are another section"
    sections.c.tt_group_close(second)


def test_the_lock_of_a_process_that_died_is_taken_over(sections: Sections, tmp_path: Path) -> None:
    group = sections.group(tmp_path / "block")
    section = sections.section(group)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with (tmp_path / "block").open("r+b") as block:
        block.seek(LOCK_OF_FIRST_SLOT)
        block.write(dead.pid.to_bytes(4, "little"))
    sections.work(section, 600)
    assert sections.known(section)["values"] == {"x": 6}
    sections.c.tt_group_close(group)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"x" * 100, "has size=100"), (b"x" * 10_000_000, "another version's, or damaged"), (None, "cannot open path=")],
)
def test_a_block_that_cannot_be_used_leaves_the_process_alone(
    sections: Sections, tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "block"
    path.mkdir() if content is None else path.write_bytes(content)
    group = sections.group(path)
    assert said in sections.error(group)
    assert "\nhint: " in sections.error(group)
    section = sections.section(group)
    sections.work(section, 600)
    assert sections.known(section)["values"] == {"x": 6}, "it works alone"
    sections.c.tt_group_close(group)


def test_a_block_of_another_layout_is_refused(sections: Sections, tmp_path: Path) -> None:
    sections.c.tt_group_close(sections.group(tmp_path / "block"))
    with (tmp_path / "block").open("r+b") as block:
        block.seek(8)
        block.write((99).to_bytes(4, "little"))
    group = sections.group(tmp_path / "block")
    assert "has layout=99 and not 4: another version's, or damaged\nhint: remove the file" in sections.error(group)
    sections.c.tt_group_close(group)


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("s", {"low": 5, "high": 1}, "section=s parameter=x low=5 high=1 step=1 has no range\nhint: low <= high"),
        ("s", {"initial": 9}, "section=s parameter=x initial=9 is not one of its values\nhint: low + k * step"),
        ("s", {"name": b'a"b'}, "has no range"),
        ('s"', {}, "n_params=1\nhint: 1 to 28 parameters"),
    ],
)
def test_parameters_that_make_no_sense(sections: Sections, name: str, fields: dict[str, object], said: str) -> None:
    group = sections.group()
    assert sections.section(group, name, **fields).value is None
    assert said in sections.error(group)
    sections.c.tt_group_close(group)


def test_switched_off_nothing_changes(sections: Sections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_SECTIONS", "off")
    value, group = ctypes.c_long(2), sections.group()
    section = sections.section(group, address=ctypes.pointer(value))
    sections.work(section, 300)
    assert (value.value, sections.known(section)["runs"]) == (2, 0)
    sections.c.tt_group_close(group)


@pytest.mark.parametrize("flags", [SANITIZED, ["-fsanitize=thread"]])
def test_threads_nonsense_and_deaths_under_sanitizers(
    program: Callable[..., Path], flags: list[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [str(program("checks", *flags)), str(tmp_path / "block")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr


def test_the_examples_run(tmp_path: Path) -> None:
    for name, flags in (("sort", []), ("zlib_levels", ["-lz"])):
        if name == "zlib_levels" and not Path("/usr/include/zlib.h").exists():
            continue
        source = LIBRARY / "examples" / f"{name}.c"
        argv = ["cc", *STRICT, str(source), *SOURCES, *flags, "-lm", "-o", str(tmp_path / name)]
        subprocess.run(argv, check=True, timeout=120)
        done = subprocess.run([str(tmp_path / name), "30"], capture_output=True, text=True, check=True, timeout=60)
        assert json.loads(done.stdout)["runs"] == 30
