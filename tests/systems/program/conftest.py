"""A small program with a catalogue, a file and a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import PYTHON
from trimtab.records import Context
from trimtab.systems.program import ProgramTarget

CATALOG = """
schema = 2
kind = "squeezer"
[channel.conf]
codec = "keyvalue"
path = "squeeze.conf"
[units]
k = "1kB"
[knob.level]
doc = "How hard it squeezes."
type = "integer"
low = 1
high = 19
default = 3
hard = [1, 22]
[knob.threads]
doc = "How many threads squeeze at once."
type = "integer"
low = 1
high = "cores"
default = 1
hard = [1, 64]
restart = "restart"
[knob.window]
doc = "How far back it looks for repetitions."
type = "integer"
unit = "kB"
suffix = "k"
low = "64kB"
high = "memory / 16"
log = true
default = 256
hard = [1, 1048576]
[knob.checksum]
doc = "Whether a checksum is written at the end."
type = "boolean"
default = true
safety = "durability"
[[constraint]]
text = "level <= 19 or threads == 1"
[memory]
windows = "window * threads"
rest = "1MB"
[advice]
threads = "cores"
window = "memory / 64"
"""
CONF = "# by hand\nlevel = 3   # found best in May\nwindow = 512k\nname = x\n"
CONTEXT = Context(workload="w", clients=1)
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
values = dict(line.split(" = ") for line in (folder / "squeeze.conf").read_text().split("\\n") if " = " in line)
if "13" in values.get("level", ""):
    print("FATAL: level 13 brings bad luck", flush=True)
    sys.exit(7)
(folder / "seen").write_text(str(values.get("threads")))
(folder / "pid").write_text(f"{os.getpid()}\\n")
def end(*_):
    (folder / "seen").unlink()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGHUP, lambda *_: (folder / "reloads").open("a").write("x"))
while True:
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "catalog.toml").write_text(CATALOG)
    (tmp_path / "squeeze.conf").write_text(CONF)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def made(folder: Path, **more: Any) -> ProgramTarget:
    table = {"kind": "program", "catalog": "catalog.toml", "memory": "64MB", "knobs": "all", **more}
    return ProgramTarget.from_settings("zip", table, state_dir=folder / "state", directory=folder)


def conf(folder: Path) -> str:
    return (folder / "squeeze.conf").read_text()


@pytest.fixture
def running(folder: Path) -> Iterator[ProgramTarget]:
    target = made(
        folder,
        run=f"{PYTHON} program.py {folder}",
        health=f"test -f {folder}/seen",
        reload=f"/bin/sh -c 'kill -HUP $(cat {folder}/pid)'",
        restart_timeout_s=10,
    )
    target.open()
    yield target
    target.close()
