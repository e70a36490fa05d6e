"""Place: a folder with a study file, a state, a cache and a server; commands run in it as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.commands import start_trimtab
from tests.faults.server import Server
from tests.needs import IS_FULL
from trimtab.errors import TrimtabError
from trimtab.history import History, StudyRecord
from trimtab.records import Trial

CANARY = "canary-Pa55-"
"""Start of every secret of these tests: no output, log, store or argv may hold it."""

STUDY = """
[study]
name = "{name}"
budget = "{budget}"
{study}

[target.db]
kind = "postgresql"
memory = "1GiB"
knobs = {knobs}
{target}

{workload}

{search}

[measure]
window = "{window}"
window_max = "{window}"
warmup_floor = "0s"
warmup_cap = "0s"

[proof]
min_pairs = 2
max_pairs = 2
advice = false
"""
if not IS_FULL:  # no fault test is about it
    STUDY += "ablate = false\n"
WORKLOAD = """
[workload]
kind = "sql"
database = "postgres"
files = ["read.sql"]
read_only = true

[workload.load]
users = 4
"""
READ = (
    "SELECT count(*), sum(length(body)), pg_sleep(CASE WHEN current_setting('work_mem') = '4MB'"
    " AND current_setting('random_page_cost') = '4' THEN 0.1 ELSE 0.13 END) FROM witness WHERE id % 7 = 3;\n"
)
"""It mostly sleeps, so that no busy machine makes a run invalid: these tests are about the tuner, not about speed. What is tried
seems a tenth slower than what was found, so that most studies end without a proof, which is half of their runs."""
KNOBS = ("work_mem", "random_page_cost", "shared_buffers")
"""Two that need a reload and one that needs a restart."""


@dataclass(frozen=True)
class Ran:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def cause(self) -> str:
        """The one line that says what happened, "" when nothing is wrong."""
        return next((line.removeprefix("error: ") for line in self.err.splitlines() if line.startswith("error: ")), "")


@dataclass
class Place:
    """Where one test happens.

    Attributes:
        folder: of everything.
        server: the target's.
        canary: the password of the target's user, given in PGPASSWORD.
        environment: of every command.
        ran: every command that ended, with its output.
        argvs: command lines seen in /proc while commands ran.
        children: every command started.
        known: study id -> trials that the history held when a command ended; it must hold them for ever.
        is_forked: whether commands are forked from a loaded process; their own command lines are not in `argvs` then.
        n_announced: the highest number of a trial that the journal announced since the last command began: all before it
            must be stored.
    """

    folder: Path
    server: Server
    canary: str
    environment: dict[str, str] = field(default_factory=dict)
    ran: list[Ran] = field(default_factory=list)
    argvs: set[bytes] = field(default_factory=set)
    children: list[subprocess.Popen[str]] = field(default_factory=list)
    known: dict[int, list[Trial]] = field(default_factory=dict)
    n_announced: int = 0
    is_forked: bool = True

    def __post_init__(self) -> None:
        for name in ("state", "tmp"):
            (self.folder / name).mkdir()
        self.environment = {
            **os.environ,
            "TRIMTAB_CACHE": str(self.cache),
            "TRIMTAB_STATE": str(self.state),
            "TMPDIR": str(self.folder / "tmp"),
            "PGPASSWORD": self.canary,
            "NO_COLOR": "1",
        }
        self.write()

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def study(self) -> Path:
        return self.folder / "study.toml"

    def write(
        self,
        *,
        name: str = "faults",
        budget: str = "2 trials",
        knobs: tuple[str, ...] | str = KNOBS,
        window: str = "1s",
        target: str = "",
        study: str = "",
        search: str = '[search]\nsearcher = "random"\n',
        workload: str = WORKLOAD,
        reach: str | None = None,
    ) -> None:
        """Writes study.toml and the statements; every part may be replaced, `target` lines are added to the table."""
        names = json.dumps(knobs if isinstance(knobs, str) else list(knobs))
        own = f'url = "{self.server.url()}"\ndata_dir = "{self.server.data_dir}"\nrestart = "{self.server.restart_command}"'
        way = (
            reach if reach is not None else (f'embedded = "{self.server.version}"' if self.server.is_embedded else own)
        )
        self.study.write_text(
            STUDY.format(name=name, budget=budget, knobs=names, window=window, target=f"{way}\n{target}", study=study,
                         search=search, workload=workload)
        )  # fmt: skip
        (self.folder / "read.sql").write_text(READ)

    def start(self, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """A `trimtab` command that goes on; in a session of its own, as from a terminal."""
        pipe = subprocess.PIPE
        child = start_trimtab(
            arguments, cwd=self.folder, stdin=subprocess.DEVNULL, env={**self.environment, **(environment or {})}, stdout=pipe,
            stderr=pipe, start_new_session=True, is_forked=self.is_forked,
        )  # fmt: skip
        self.children.append(child)
        self.n_announced = 0 if arguments[:1] == ("tune",) else self.n_announced
        threading.Thread(target=self._watch_argvs, args=(child,), daemon=True).start()
        return child

    def _watch_argvs(self, child: subprocess.Popen[str]) -> None:
        n_looks = 0
        while child.poll() is None:
            if n_looks % 5 == 0:  # each look at all processes costs as much as a small command
                self.argvs |= {argv for _, argv in processes_of(self)}
            n_looks += 1
            self.steps()
            time.sleep(0.2)

    def end(self, child: subprocess.Popen[str], timeout_s: float = 120.0) -> Ran:
        """Waits for a command started with `start`."""
        out, err = child.communicate(timeout=timeout_s)
        ran = Ran(child.returncode, out, err)
        self.ran.append(ran)
        if ran.code >= 0:  # after a kill the product is to be the first that opens its history
            with suppress(TrimtabError, OSError):  # a test may have damaged it on purpose
                self.known.update(self.stored())
        return ran

    def run(self, *arguments: str, timeout_s: float = 120.0, environment: dict[str, str] | None = None) -> Ran:
        """A command from start to end."""
        return self.end(self.start(*arguments, environment=environment), timeout_s)

    def kill(self, child: subprocess.Popen[str], number: int = signal.SIGKILL) -> Ran:
        """Sends a signal and waits for the end."""
        child.send_signal(number)
        return self.end(child)

    def steps(self) -> list[tuple[str, dict[str, Any]]]:
        """(step, detail) of every open journal entry, in order; [] when none is open."""
        found = []
        for path in sorted((self.state / "journal").glob("*.open")):
            try:
                lines = path.read_text(errors="replace").splitlines()
            except FileNotFoundError:  # it has just been closed
                continue
            for line in lines[1:]:
                try:
                    step = json.loads(line[line.index("{") : line.rindex("}") + 1])
                except ValueError:
                    continue
                found.append((str(step.get("step")), dict(step.get("detail") or {})))
        numbers = [detail["trial"] for _, detail in found if isinstance(detail.get("trial"), int)]
        self.n_announced = max(self.n_announced, *numbers, 0)
        return found

    def wait_step(
        self, child: subprocess.Popen[str], step: str, *, trial: int | None = None, timeout_s: float = 60.0
    ) -> dict[str, Any]:
        """Waits until the journal announces `step` (of trial number `trial`, or any); its detail."""

        def seen() -> dict[str, Any] | None:
            for name, detail in self.steps():
                if name == step and (trial is None or detail.get("trial") == trial):
                    return detail
            return None

        return self.wait_until(child, seen, f"journal step {step!r} trial={trial}", timeout_s)

    def wait_until(
        self,
        child: subprocess.Popen[str],
        seen: Callable[[], Any],
        what: str,
        timeout_s: float = 60.0,
        pause_s: float = 0.03,
    ) -> Any:
        """Waits for `seen()` to be truthy (or {}) while `child` runs; with a longer pause where a look costs more."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            value = seen()
            if value is not None and value is not False:
                return value
            if child.poll() is not None:
                ran = self.end(child)
                raise AssertionError(f"ended with {ran.code} before {what}: {ran.err}")
            time.sleep(pause_s)  # a look at the journal takes a tenth of the shortest
        raise AssertionError(f"{what} did not happen; steps: {self.steps()}")

    def trials(self, name: str = "faults") -> list[Trial]:
        """What the history holds of the newest study of that name; [] when there is none."""
        found = self.record(name)
        if found is None:
            return []
        with History.open(self.state / "history.db") as history:
            return history.trials(found.id)

    def stored(self) -> dict[int, list[Trial]]:
        """Study id -> its trials, of all studies in the history."""
        if not (self.state / "history.db").exists():
            return {}
        with History.open(self.state / "history.db") as history:
            return {study.id: history.trials(study.id) for study in history.studies()}

    def record(self, name: str = "faults") -> StudyRecord | None:
        if not (self.state / "history.db").exists():
            return None
        with History.open(self.state / "history.db") as history:
            return history.find_study(name)


def processes_of(place: Place) -> list[tuple[int, bytes]]:
    """(pid, argv) of every live process that carries this place in its environment, argv or working directory,
    without the server's own and without this test's."""
    mark, ours, found = os.fsencode(place.folder), os.getpid(), []
    server = place.server.pid
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) in (ours, server):
            continue
        argv = _argv_of_ours(entry.path, mark, server)
        if argv is not None:
            found.append((int(entry.name), argv))
    return found


def _argv_of_ours(entry: str, mark: bytes, server: int | None) -> bytes | None:
    """The argv of a process that carries `mark` and is not the server's; what is cheap to read comes first."""
    try:
        argv = _content(f"{entry}/cmdline")
        if not argv or argv.startswith(b"postgres: "):  # the kernel's and the dead have none
            return None
        has_mark = mark in argv or os.fsencode(os.readlink(f"{entry}/cwd")).startswith(mark)
        if not has_mark and mark not in _content(f"{entry}/environ"):
            return None
        state, parent = _content(f"{entry}/stat").rpartition(b")")[2].split()[:2]
    except OSError:
        return None
    return None if state in b"ZX" or int(parent) == server else argv


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()
