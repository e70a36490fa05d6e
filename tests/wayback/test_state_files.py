"""Every file that an undo reads, damaged in every way: refused in words or read past the damage; nothing else is changed.

The state directory is that of a real server on which a trial was killed with its dead-man, after another study was applied.
Each case damages one file of a copy and runs `recover` and `rollback`. TRIMTAB_WAYBACK_SEED (a number) repeats the random ones.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.fuzz import mutated
from tests.needs import IS_FULL
from tests.wayback.actor import Actor, Ran, Zygote, deadmen
from tests.wayback.ways import CANARY, PostgresWay, Templates, made
from trimtab.trial.lines import encode_line, read_lines

pytestmark = [pytest.mark.service, pytest.mark.slow]

SEED = int(os.environ.get("TRIMTAB_WAYBACK_SEED") or secrets.randbits(32))
N_RANDOM = 150
OURS, APPLIED = {"work_mem": 16384}, {"random_page_cost": 2.0}


@dataclass
class Wreck:
    """A server with a config of ours on it, and the state directory that says so.

    Attributes:
        saved: the state directory, to be copied for each case.
        left: the server's own file as it was left, with what was applied and with the trial's line.
        applied: the same without the trial's line; found: without both.
        second: another server, which has nothing to do with it.
        innocent: a file outside that nobody may touch.
    """

    way: PostgresWay
    actor: Actor
    saved: Path
    found: bytes
    applied: bytes
    left: bytes
    second: PostgresWay
    innocent: Path

    def reset(self) -> None:
        """The state as it was left."""
        self.way.state.chmod(0o755)
        shutil.rmtree(self.way.state)
        shutil.copytree(self.saved, self.way.state, symlinks=True)
        if self.way.own_content() != self.left:
            self.way.own_file.write_bytes(self.left)
            self.way.server.query("SELECT pg_reload_conf()")
        self.innocent.write_bytes(b"innocent\n")

    def file(self, pattern: str) -> Path:
        return next(iter(sorted(self.way.state.glob(pattern))))


@pytest.fixture(scope="module")
def wreck(templates: Templates, zygote: Zygote) -> Iterator[Wreck]:
    with made("postgresql", "files", templates) as way, made("postgresql", "files", templates) as second:
        actor = Actor(way, zygote)
        found = way.own_content()
        actor.prove(one=APPLIED)
        assert actor.cli("apply", "one", "--yes").code == 0
        applied = way.own_content()
        left = None
        for n in range(400, 4000, 200):
            ran = actor.trial(OURS, kill_at=n)
            for pid in deadmen(way):
                os.kill(pid, 9)
            actor.wait_for_deadman()
            assert ran.killed, "the trial ended before it was killed with its change in the file"
            left = way.own_content()
            if left != applied:
                break
        assert found is not None
        assert applied is not None
        assert left is not None
        saved = way.folder / "saved"
        shutil.copytree(way.state, saved, symlinks=True)
        yield Wreck(way, actor, saved, found, applied, left, second, way.folder / "innocent")


def _head_with(path: Path, change: Callable[[dict[str, object]], None]) -> None:
    """The first line changed, with a digest that fits: what another version, machine or user has written on purpose."""
    lines = read_lines(path.read_bytes())
    head = lines[0]
    assert head is not None
    change(head)
    path.write_bytes(b"".join(encode_line(line) for line in lines if line is not None))


def _both(wreck: Wreck, damage: Callable[[Path], None]) -> None:
    for pattern in ("journal/*.open", "journal/*.copy"):
        damage(wreck.file(pattern))


def _in_place(path: Path, kind: str) -> None:
    if kind == "symlink":
        goal = path.with_name("moved-away")
        path.rename(goal)
        path.symlink_to(goal)
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    elif kind == "pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        os.chown(path, 65534, 65534)


def _other_server(wreck: Wreck) -> None:
    ports = (f":{wreck.way.server.port}/", f":{wreck.second.server.port}/")

    def change(head: dict[str, object]) -> None:
        head["snapshots"] = [str(text).replace(*ports) for text in head["snapshots"]]  # type: ignore[attr-defined]

    _both(wreck, lambda path: _head_with(path, change))


def _other_file(wreck: Wreck) -> None:
    names = (str(wreck.way.own_file), str(wreck.innocent))

    def change(head: dict[str, object]) -> None:
        head["snapshots"] = [str(text).replace(*names) for text in head["snapshots"]]  # type: ignore[attr-defined]

    _both(wreck, lambda path: _head_with(path, change))


UNDAMAGED = "as it was"
FILES = ("journal/*.open", "journal/*.copy", "rollback/*.json", "locks/*.lock")
CASES: dict[str, Callable[[Wreck], object]] = {
    UNDAMAGED: lambda wreck: None,
    "open missing": lambda wreck: wreck.file("journal/*.open").unlink(),
    "copy missing": lambda wreck: wreck.file("journal/*.copy").unlink(),
    "rollback missing": lambda wreck: wreck.file("rollback/*.json").unlink(),
    "both empty": lambda wreck: _both(wreck, lambda path: path.write_bytes(b"")),
    "rollback empty": lambda wreck: wreck.file("rollback/*.json").write_bytes(b""),
    "open cut in its first line": lambda wreck: os.truncate(wreck.file("journal/*.open"), 300),
    "both cut in their first line": lambda wreck: _both(wreck, lambda path: os.truncate(path, 300)),
    "open without its last byte": lambda wreck: os.truncate(
        path := wreck.file("journal/*.open"), path.stat().st_size - 1
    ),
    "rollback cut": lambda wreck: os.truncate(wreck.file("rollback/*.json"), 500),
    "both binary": lambda wreck: _both(wreck, lambda path: path.write_bytes(bytes(range(256)) * 40)),
    "rollback binary": lambda wreck: wreck.file("rollback/*.json").write_bytes(bytes(range(256)) * 40),
    "both of a later version": lambda wreck: _both(
        wreck, lambda p: _head_with(p, lambda head: head.update(schema_version=99))
    ),
    "rollback of a later version": lambda wreck: _head_with(
        wreck.file("rollback/*.json"), lambda head: head.update(schema_version=99)
    ),
    "both of another server": _other_server,
    "both of another file": _other_file,
    "open huge": lambda wreck: os.truncate(wreck.file("journal/*.open"), 64 << 20),
    "rollback huge": lambda wreck: os.truncate(wreck.file("rollback/*.json"), 64 << 20),
    "lock missing": lambda wreck: wreck.file("locks/*.lock").unlink(),
    "lock binary": lambda wreck: wreck.file("locks/*.lock").write_bytes(bytes(range(256)) * 40),
    "lock huge": lambda wreck: os.truncate(wreck.file("locks/*.lock"), 64 << 20),
    "locks a file": lambda wreck: (shutil.rmtree(p := wreck.way.state / "locks"), p.write_text("x")),
    "news binary": lambda wreck: (wreck.way.state / "journal" / "news.jsonl").write_bytes(b"\xff\x00{[" * 100),
    "news a folder": lambda wreck: (wreck.way.state / "journal" / "news.jsonl").mkdir(),
    "audit a folder": lambda wreck: (
        (p := wreck.way.state / "journal" / "audit.jsonl").unlink(missing_ok=True),
        p.mkdir(),
    ),
    "journal a file": lambda wreck: (shutil.rmtree(p := wreck.way.state / "journal"), p.write_text("x")),
    **{
        f"{pattern.split('/')[0]} {kind}": (lambda p, k: lambda wreck: _in_place(wreck.file(p), k))(pattern, kind)
        for pattern in ("journal/*.open", "rollback/*.json", "locks/*.lock")
        for kind in ("symlink", "folder", "pipe", "of another user")
    },
}


ONLY_LONG = {
    "both empty", "rollback empty", "rollback binary", "rollback huge", "lock huge", "rollback symlink", "locks symlink",
    "rollback of another user", "locks pipe", "open huge",
}  # fmt: skip
"""Damage that another file has in the quick form; links and owners of what `rollback` reads are in tests/cli/test_apply.py."""


def _judged(wreck: Wreck, title: str) -> list[Ran]:
    """`recover`, `rollback`, and what was refused again; the server and everything else looked at after each."""
    instance = wreck.way.instance
    second = wreck.second.own_content()
    ran = []
    for words in (("recover",), ("rollback", "one"), ("recover",)):
        if len(ran) == 2 and ran[0].code == 0 and title != UNDAMAGED and not IS_FULL:
            break
        before = wreck.way.own_content()
        done = wreck.actor.cli(*words)
        ran.append(done)
        after = wreck.way.own_content()
        lines = (_lines(before), _lines(after))
        assert done.code in (0, 2, 3), f"{title}: {done}"
        assert done.code == 0 or done.cause, f"{title}: no word on what happened: {done}"
        assert CANARY not in done.out + done.err
        assert lines[1] <= lines[0], f"{title}: lines that were not there: {lines}"
        assert lines[1] >= _lines(wreck.found), f"{title}: lines of somebody else's are gone: {lines}"
        assert wreck.innocent.read_bytes() == b"innocent\n", f"{title}: another file was written"
        assert wreck.second.own_content() == second, f"{title}: another server was changed"
        assert wreck.way.instance == instance, f"{title}: the server was restarted for nothing: {done}"
    return ran


def _lines(content: bytes | None) -> set[bytes]:
    return {line for line in (content or b"").splitlines() if not line.startswith(b"#")}


def _marks(case: str) -> list[pytest.MarkDecorator]:
    long = [pytest.mark.full] if case in ONLY_LONG else []
    return [*long, pytest.mark.needs("root")] if case.endswith("of another user") else long


@pytest.mark.parametrize("case", [pytest.param(case, marks=_marks(case)) for case in CASES])
def test_a_damaged_state_file_is_told_and_does_no_harm(case: str, wreck: Wreck) -> None:
    wreck.reset()
    CASES[case](wreck)
    ran = _judged(wreck, case)
    if case == UNDAMAGED:
        assert [each.code for each in ran] == [0, 0, 0]
        assert _lines(wreck.way.own_content()) == _lines(wreck.found)


@pytest.mark.full
def test_random_damage_does_no_harm(wreck: Wreck) -> None:
    chance = random.Random(SEED)
    print(f"\nstate files: TRIMTAB_WAYBACK_SEED={SEED}, {N_RANDOM} cases")
    for number in range(N_RANDOM):
        wreck.reset()
        for pattern in chance.sample(FILES, chance.randint(1, len(FILES))):
            path = wreck.file(pattern)
            path.write_bytes(mutated(path.read_bytes(), chance.randrange))
        _judged(wreck, f"case {number} of TRIMTAB_WAYBACK_SEED={SEED}")
