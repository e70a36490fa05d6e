"""Two tiers as one: an embedded PostgreSQL and Debian's Redis share one memory budget, tuned from a study file; and killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from tests.commands import start_trimtab
from tests.needs import IS_FULL
from tests.servers import free_port, made
from tests.servers.embedded import provide
from tests.wayback.tuner import prove

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = """
[measure]
window = "1s"
window_max = "1s"
warmup_floor = "0s"
warmup_cap = "0s"

[search]
searcher = "random"

[proof]
min_pairs = 2
max_pairs = 2
advice = false
ablate = false
max_noise = 5.0
"""
CONFIG = {"db.work_mem": 8192, "db.maintenance_work_mem": 32768, "cache.hz": 50, "cache.maxmemory": 192 << 20}
pytestmark = [pytest.mark.service, pytest.mark.needs("redis", "postgresql-embedded")]


@dataclass(frozen=True)
class Place:
    """The example in a folder of its own."""

    folder: Path
    environment: dict[str, str]

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def study(self) -> Path:
        return self.folder / "stack.toml"

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return start_trimtab(words, cwd=self.folder, env=self.environment, stdout=pipe, stderr=pipe)

    def run(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        process = self.start(*words)
        out, err = process.communicate(timeout=300)
        assert process.returncode in codes, out + err
        return out

    def files(self) -> dict[str, str]:
        """What both servers are configured by."""
        (auto,) = (self.folder / "cache").rglob("postgresql.auto.conf")
        return {"cache": (self.folder / "redis.conf").read_text(), "db": auto.read_text()}

    def changed(self) -> set[str]:
        """Which of them hold the config."""
        now = self.files()
        marks = {"cache": "hz 50", "db": "work_mem = '8MB'"}
        return {name for name, mark in marks.items() if mark in now[name] or mark.replace("8MB", "8192kB") in now[name]}


@pytest.fixture
def place() -> Iterator[Place]:
    with made("stack") as folder:
        port = str(free_port())
        shutil.copytree(EXAMPLES / "catalogs", folder / "catalogs")
        (folder / "redis.conf").write_text((EXAMPLES / "redis.conf").read_text().replace("6399", port))
        text = (EXAMPLES / "stack.toml").read_text().replace("6399", port).partition("\n[measure]")[0]
        text = re.sub(r'budget = "\d+m"', 'budget = "2 trials"', text).replace("scale = 10", "scale = 1")
        # Statements that sleep: not the load counts here, and the other tests get the processor.
        text = text.replace('script = "tpcb-like"\nscale = 1', 'scripts = ["sleep.sql"]\ndatabase = "postgres"')
        # And what is tried of the database seems slower than what was found, so that it needs no proof.
        sleep = "SELECT pg_sleep(CASE WHEN current_setting('work_mem') = '4MB' THEN 0.02 ELSE 0.025 END);\n"
        (folder / "sleep.sql").write_text(sleep)
        (folder / "stack.toml").write_text(text + SHORT)
        provide(folder / "cache", "18")
        own = {"TRIMTAB_CACHE": str(folder / "cache"), "TRIMTAB_STATE": str(folder / "state"), "NO_COLOR": "1"}
        yield Place(folder, {**os.environ, **own})


def test_a_database_and_a_cache_are_tuned_as_one(place: Place) -> None:
    checks = place.run("doctor", "stack.toml")
    assert "db: server" in checks
    assert re.search(r"ok +cache: program: redis, pid=", checks)
    found = place.files()
    place.run("tune", "stack.toml", codes=(0, 1))
    assert place.files() == found
    trials = json.loads(place.run("history", "show", "stack", "--json"))["trials"]
    assert {trial["status"] for trial in trials} <= {"ok", "stopped_early"}, [trial.get("reason") for trial in trials]
    tried = [trial["effective"] for trial in trials if trial["role"] == "search"]
    assert tried
    assert {name.partition(".")[0] for effective in tried for name in effective} == {"db", "cache"}
    knobs = json.loads(place.run("knobs", "stack.toml", "--json"))["knobs"]
    assert {"db.work_mem", "cache.hz"} <= {knob["name"] for knob in knobs}
    assert place.files() == found


def test_a_winner_is_applied_to_both_or_to_none_whenever_trimtab_is_killed(place: Place) -> None:
    """kill -9 as soon as the journal has its n-th line, for each n; and `apply` undisturbed, shown and rolled back."""
    with mock.patch.dict(os.environ, place.environment):
        prove(place.study, place.state, {"winner": CONFIG})
    found = place.files()
    outcomes = []
    for n_lines in (1, 2, 3, 4, 5, 6) if IS_FULL else (1, 4):
        was_killed = _killed_at_line(place, n_lines)
        place.run("recover")
        changed = place.changed()
        assert changed in (set(), {"db", "cache"}), f"half a change after a kill at line {n_lines} of the journal"
        if changed:
            assert "work_mem" in place.run("recover", "--show")
            place.run("rollback", "winner")
        assert place.files() == found
        outcomes.append((was_killed, bool(changed)))
    assert sum(was_killed for was_killed, _ in outcomes) >= 2
    assert (True, False) in outcomes
    place.run("apply", "winner", "--yes")
    assert place.changed() == {"db", "cache"}
    assert place.run("recover", "--show").count("applied to") == 2
    place.run("rollback", "winner")
    assert place.files() == found


def _killed_at_line(place: Place, n_lines: int) -> bool:
    process = place.start("apply", "winner", "--yes")
    journal = place.state / "journal"
    while process.poll() is None:
        lines = [path.read_bytes().count(b"\n") for path in journal.glob("*.open")] if journal.is_dir() else []
        if max(lines, default=0) >= n_lines:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.002)
    out, err = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), out + err
    _await_dead_man(place)
    return process.returncode == -signal.SIGKILL


def _await_dead_man(place: Place) -> None:
    """It sees the death of the tuner at once, and takes a moment to put things right."""
    until = time.monotonic() + 60
    while list((place.state / "journal").glob("*.open")) and time.monotonic() < until:
        time.sleep(0.05)
