"""The library around the tuner: values, work, threads, processes, blocks that are damaged or of other versions, messages."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.needs import IS_FULL
from tests.sections.conftest import SANITIZED

pytestmark = [pytest.mark.needs("c-compiler"), pytest.mark.slow]

LOCK_OF_FIRST_SLOT = 24
N_SLOTS = 64


class Param(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("low", ctypes.c_long), ("high", ctypes.c_long), ("step", ctypes.c_long),
        ("values", ctypes.POINTER(ctypes.c_long)), ("n_values", ctypes.c_int), ("initial", ctypes.c_long),
        ("risk", ctypes.c_double), ("address", ctypes.POINTER(ctypes.c_long)), ("set", ctypes.c_void_p),
        ("context", ctypes.c_void_p), ("kind", ctypes.c_int),
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

    def work(self, section: ctypes.c_void_p, n_runs: int, sizes: Sequence[int] = (1,), scale: int = 1) -> None:
        """Each unit of work takes 1000 ns and 100 more for each step away from 6, all times `scale`."""
        for index in range(n_runs):
            size = sizes[index % len(sizes)]
            self.c.tt_begin(section, self.run, ctypes.c_double(size))
            self.now += scale * size * (1000 + 100 * abs(self.c.tt_value(section, self.run, 0) - 6))
            self.c.tt_end(section, self.run, ctypes.c_double(size))

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


Setter = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_long)


def test_a_setter_is_called_with_its_context_when_the_value_changes(sections: Sections, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    setter = Setter(lambda context, value: calls.append((context, value)))
    fields = {"set": ctypes.cast(setter, ctypes.c_void_p).value, "context": 4711}
    first = sections.group(tmp_path / "block")
    section = sections.section(first, **fields)
    sections.work(section, 3)
    assert not calls, "the program has the default already"
    sections.work(section, 600)
    values = [value for _, value in calls]
    assert {context for context, _ in calls} == {4711}
    assert values[-1] == 6
    assert set(values) <= set(range(8))
    assert all(a != b for a, b in pairwise([2, *values])), "it was called with the value that was there"
    sections.c.tt_group_close(first)
    calls.clear()
    second = sections.group(tmp_path / "block")
    sections.work(sections.section(second, **fields), 1)
    assert [value for _, value in calls] in ([6], []), (
        "what is known is set in the first run, unless that is a check of the default"
    )
    sections.c.tt_group_close(second)


def test_a_setter_is_left_alone_while_switched_off(sections: Sections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_SECTIONS", "off")
    calls: list[int] = []
    setter, group = Setter(lambda _, value: calls.append(value)), sections.group()
    sections.work(sections.section(group, set=ctypes.cast(setter, ctypes.c_void_p).value), 300)
    assert not calls
    sections.c.tt_group_close(group)


SIZES = (1, 700, 3, 40, 9000, 15, 250, 2)


def test_runs_of_all_sizes_are_compared_by_unit_of_work(sections: Sections) -> None:
    group = sections.group()
    section = sections.section(group)
    sections.work(section, 3000, SIZES)
    known = sections.known(section)
    assert (known["values"], known["phase"]) == ({"x": 6}, "settled")
    assert known["gain_low"] <= 1.4 <= known["gain_high"]  # type: ignore[operator]
    assert known["default_ns"] == pytest.approx(1400, rel=0.02)
    sections.c.tt_group_close(group)


def test_more_work_is_no_change_of_the_environment_but_dearer_work_is(sections: Sections) -> None:
    group = sections.group()
    section = sections.section(group)
    sections.work(section, 600)
    sections.work(section, 200, sizes=(1000,))
    assert sections.known(section)["phase"] == "settled", "a thousand times as much to do"
    sections.work(section, 7, scale=3)
    known = sections.known(section)
    assert (known["phase"], known["values"]) == ("watching", {"x": 2}), "three times as long for the same"
    sections.work(section, 600, scale=3)
    known = sections.known(section)
    assert (known["phase"], known["values"]) == ("settled", {"x": 6})
    sections.c.tt_group_close(group)


def test_a_choice_is_a_section_of_its_own_and_is_found(sections: Sections, tmp_path: Path) -> None:
    group = sections.group(tmp_path / "block")
    ordered, choice = sections.section(group), sections.section(group, kind=1)
    sections.work(ordered, 100)
    assert sections.known(choice)["runs"] == 0
    sections.work(choice, 2000)
    known = sections.known(choice)
    assert (known["values"], known["choices"]) == ({"x": 6}, ["x"])
    assert sections.known(ordered)["choices"] == []
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


def test_a_slot_that_somebody_else_has_locked_leaves_the_process_with_the_defaults(
    sections: Sections, tmp_path: Path
) -> None:
    """A number in place of the lock that is a live process's: nobody can know that it is none that works with the slot."""
    value, path = ctypes.c_long(2), tmp_path / "block"
    group = sections.group(path)
    section = sections.section(group, address=ctypes.pointer(value))
    sections.work(section, 600)
    assert value.value == 6
    with path.open("r+b") as block:
        block.seek(LOCK_OF_FIRST_SLOT)
        block.write(os.getpid().to_bytes(4, "little"))
    sections.work(section, 50)
    assert (value.value, sections.known(section)["runs"]) == (2, 0)
    assert f"section=s is locked by process={os.getpid()} in the file\nhint: it runs with" in sections.error(group)
    other = sections.group(path)
    alone = sections.section(other)
    sections.work(alone, 600)
    assert sections.known(alone)["values"] == {"x": 6}, "who comes later learns for itself"
    assert f"section=s is locked by process={os.getpid()} in the file\nhint: it learns for" in sections.error(other)
    for each in (group, other):
        sections.c.tt_group_close(each)


def learn(checks: Path, block: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([checks, block, "learn"], capture_output=True, text=True, check=False, timeout=60)


@dataclass(frozen=True)
class Learnt:
    """A program under sanitizers, and the block that it leaves when it has learnt for the first time."""

    checks: Path
    block: bytes

    def goes_on(self, path: Path, block: bytes) -> subprocess.CompletedProcess[str]:
        """The program once more, with another block."""
        path.write_bytes(block)
        return learn(self.checks, path)


@pytest.fixture(scope="module")
def learnt(program: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    path, checks = tmp_path_factory.mktemp("learnt") / "block", program("checks", *SANITIZED)
    first = learn(checks, path)
    assert first.stdout == "begins with 2, learnt 6: \n", first.stdout + first.stderr
    return Learnt(checks, path.read_bytes())


def test_a_whole_slot_is_gone_on_with(learnt: Learnt, tmp_path: Path) -> None:
    done = learnt.goes_on(tmp_path / "block", learnt.block)
    assert done.stdout == "begins with 6, learnt 6: \n", done.stdout + done.stderr


@pytest.mark.parametrize("what", ["ones", "noise", "tail", "lock", "best", "record"])
def test_a_damaged_slot_leaves_the_defaults_and_a_message(learnt: Learnt, tmp_path: Path, what: str) -> None:
    """Under sanitizers, in a process of its own: the header of the block is whole, and one slot is not."""
    for seed in range(4):
        done = learnt.goes_on(tmp_path / "block", damaged(learnt.block, what, random.Random(seed)))
        said = "" if what == "lock" else "section=s is damaged in the file"
        assert (done.returncode, done.stdout) == (0, f"begins with 2, learnt 6: {said}\n"), done.stderr


def test_a_slot_with_some_other_bytes_does_no_harm(learnt: Learnt, tmp_path: Path) -> None:
    """Under sanitizers: it is found damaged, or the tuner goes on with what it reads and learns all the same."""
    whole, said = learnt.block, set()
    for seed in range(60 if IS_FULL else 24):
        rng, made = random.Random(seed), bytearray(whole)
        end = TUNER_OF_FIRST_SLOT + (1200 if seed % 2 else (len(whole) - LOCK_OF_FIRST_SLOT) // N_SLOTS - 100)
        for _ in range(rng.randrange(1, 4)):
            made[rng.randrange(TUNER_OF_FIRST_SLOT, end)] ^= (
                1 << rng.randrange(8) if seed % 3 else rng.randrange(1, 256)
            )
        done = learnt.goes_on(tmp_path / "block", bytes(made))
        assert done.returncode == 0, f"{seed}: {done.stdout}{done.stderr}"
        assert re.fullmatch(r"begins with \d, learnt \d: (section=s is damaged in the file)?\n", done.stdout), (
            done.stdout
        )
        said.add("damaged" in done.stdout)
    assert said == {True, False}


TUNER_OF_FIRST_SLOT = LOCK_OF_FIRST_SLOT + 16 + 64


def damaged(whole: bytes, what: str, rng: random.Random) -> bytes:
    """The block with its first slot damaged behind its name."""
    made, begin = bytearray(whole), TUNER_OF_FIRST_SLOT
    end = LOCK_OF_FIRST_SLOT + (len(whole) - LOCK_OF_FIRST_SLOT) // N_SLOTS
    if what == "ones":
        made[begin:end] = b"\xff" * (end - begin)
    elif what == "noise":
        made[begin:end] = rng.randbytes(end - begin)
    elif what == "tail":
        middle = rng.randrange(begin + 300, end - 9000)
        made[middle:end] = rng.randbytes(end - middle)
    elif what == "lock":  # of a process that cannot be
        made[LOCK_OF_FIRST_SLOT : LOCK_OF_FIRST_SLOT + 4] = (2**31 - rng.randrange(1, 1000)).to_bytes(4, "little")
    else:  # the level of a point that is known, the best or a slower one: it would be read as a place in a list of values
        known = (6 if what == "best" else 5).to_bytes(2, "little") + bytes(30)
        assert known in made[begin:end]
        made[begin:end] = made[begin:end].replace(known, rng.randrange(8, 2**16).to_bytes(2, "little") + bytes(30))
    return bytes(made)


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


def test_a_block_that_another_process_keeps_locked_leaves_the_process_alone(sections: Sections, tmp_path: Path) -> None:
    """It may have been stopped while it opened the file."""
    path = tmp_path / "block"
    with path.open("w+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        began = time.monotonic()
        group = sections.group(path)
        assert 0.9 <= time.monotonic() - began < 20
    assert f"cannot lock path={path}: " in sections.error(group)
    assert "\nhint: another process holds the lock" in sections.error(group)
    section = sections.section(group)
    sections.work(section, 600)
    assert sections.known(section)["values"] == {"x": 6}, "it works alone"
    sections.c.tt_group_close(group)


def test_a_block_has_all_of_its_room_or_is_not_used(sections: Sections, tmp_path: Path) -> None:
    """A full disk that shows only when the memory is written to would end the program."""
    sections.c.tt_group_close(sections.group(tmp_path / "block"))
    made = (tmp_path / "block").stat()
    assert made.st_blocks * 512 >= made.st_size > 0
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (made.st_size // 2, hard))
    try:
        group = sections.group(tmp_path / "other")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert f"cannot make path={tmp_path / 'other'}: " in sections.error(group)
    assert "\nhint: knowledge stays in this process" in sections.error(group)
    assert sections.known(sections.section(group))["runs"] == 0
    sections.c.tt_group_close(group)
    again = sections.group(tmp_path / "other")
    assert sections.error(again) == "", "with room it is made"
    sections.c.tt_group_close(again)


COMMA = 'LC_NUMERIC\ndecimal_point "<U002C>"\nthousands_sep ""\ngrouping -1\nEND LC_NUMERIC\n'


def test_numbers_of_the_json_have_a_point_in_every_country(program: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "comma").write_text(COMMA)
    words = ["localedef", "-c", "--no-archive", "-i", str(tmp_path / "comma"), str(tmp_path / "xx_XX")]
    subprocess.run(words, capture_output=True, check=False, timeout=60)  # it warns of what is not defined
    argv = [str(program("checks", *SANITIZED)), str(tmp_path / "block"), "json", "xx_XX"]
    env = {**os.environ, "LOCPATH": str(tmp_path)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    known = json.loads(done.stdout)
    assert (known["values"], known["gain_low"] <= 1.4 <= known["gain_high"]) == ({"x": 6}, True)
    assert (known["default_ns"] % 1, known["account_s"]["total"] % 1) != (0, 0), "numbers with digits after the point"


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
        ("s", {"name": b'a"b'}, 'section=s parameter=a"b is no name\nhint: a name without quotes'),
        ("s", {"name": b"a\tb"}, "section=s parameter=a\tb is no name\nhint: a name without quotes"),
        (
            "s",
            {"low": -(2**63), "high": 2**63 - 1},
            "section=s parameter=x has more than 32767 values\nhint: a larger step",
        ),
        ("s", {"high": 32767}, "section=s parameter=x has more than 32767 values\nhint: a larger step"),
        ('s"', {}, "n_params=1\nhint: 1 to 28 parameters"),
        ("a\x1bb", {}, "n_params=1\nhint: 1 to 28 parameters"),
        ("", {}, "n_params=1\nhint: 1 to 28 parameters"),
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
