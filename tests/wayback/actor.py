"""Actor: runs Trimtab's commands on a `Way`, whole or killed somewhere; see `tuner` for the process that it speaks with."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.commands import start_trimtab
from tests.wayback.ways import Way
from trimtab.trial import Journal

__all__ = ["Actor", "Ran", "Zygote", "deadmen", "write_study"]

_STUDY = """[study]
name = "{name}"
budget = "2 trials"

[target.db]
{target}

[workload]
kind = "sql"
database = "{database}"
files = ["read.sql"]
read_only = true

[search]
searcher = "random"

[proof]
advice = false
"""
_PROGRAM = Path(__file__).with_name("tuner.py")
_PATIENCE_S = 120.0


def write_study(way: Way, *, name: str = "one", with_password: bool = False, is_relative: bool = False) -> Path:
    """The study file of `way`; `is_relative`: files of the server are named relative to the folder of the study file."""
    table = way.table(with_password=with_password, knobs=list(way.config))
    for key in ("data_dir", "include_file"):
        if is_relative and key in table:
            table[key] = os.path.relpath(str(table[key]), way.folder)
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
    database = "postgres" if way.product == "postgresql" else "test"
    (way.folder / "read.sql").write_text("SELECT 1;\n")
    path = way.folder / f"{name}.toml"
    path.write_text(_STUDY.format(name=name, target=lines, database=database))
    return path


@dataclass(frozen=True)
class Ran:
    """A command that ended or was killed; `n_calls` and `changing_s` since it began to write the journal's entry."""

    title: str
    killed: bool
    code: int
    out: str
    err: str
    n_calls: int
    changing_s: float

    def __str__(self) -> str:
        end = "killed" if self.killed else f"code {self.code}"
        return f"{self.title}: {end}: {(self.err + self.out).strip()[-600:]}"

    @property
    def cause(self) -> str:
        return next((line.removeprefix("error: ") for line in self.err.splitlines() if line.startswith("error: ")), "")


class Zygote:
    """A process that has imported everything, from which tuners are forked; for any number of ways, one after another."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        pipe = subprocess.PIPE
        self._process = start_trimtab([], script=_PROGRAM, env=os.environ, stdin=pipe, stdout=pipe)
        assert self.line() == {"ready": True}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.communicate("\n", timeout=30)

    def line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            text = self._process.stdout.readline()
        except BaseException:  # a test over its time: an answer that came later would be taken for the next test's
            self._process.kill()
            raise
        assert text, "the tuner's process is gone"
        found: dict[str, Any] = json.loads(text)
        return found

    def send(self, text: str) -> None:
        if self._process.poll() is not None:
            with self._process:  # closes its pipes
                self._start()
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()


class Actor:
    """Runs commands for one `Way`, each in a process of its own.

    Args:
        way: whose server.
        zygote: forks the commands.
        study: file; default: as `write_study` makes it.
        without: variables that are not in the commands' environment.
    """

    def __init__(self, way: Way, zygote: Zygote, *, study: Path | None = None, without: Sequence[str] = ()) -> None:
        self.way, self._zygote = way, zygote
        self.study = study or write_study(way)
        self.ran: list[Ran] = []
        self._environment = {name: text for name, text in way.environment.items() if name not in without}

    def _send(self, request: Mapping[str, Any]) -> None:
        environment = {**self._environment, **(request.get("environment") or {})}
        own = {"study": str(self.study), "state": str(self.way.state), "environment": environment}
        self._zygote.send(json.dumps({**request, **own}))

    def _ended(self, title: str) -> Ran:
        ran = Ran(title, **self._zygote.line())
        self.ran.append(ran)
        assert "Traceback" not in ran.err + ran.out, f"a traceback reached the user: {ran}"
        assert ran.killed or ran.code in (0, 1, 2, 3, 4), f"an exit code of no document: {ran}"
        return ran

    def request(self, title: str, **request: Any) -> Ran:
        self._send(request)
        return self._ended(title)

    @contextmanager
    def traced(self, title: str, tracer: Sequence[str], **request: Any) -> Iterator[list[Ran]]:
        """Under strace, attached when the journal's entry is about to be written; [] when the command never came there."""
        self._send({**request, "trace": True})
        first = self._zygote.line()
        found: list[Ran] = []
        if "pid" not in first:
            found.append(Ran(title, **first))
            yield found
            return
        process = subprocess.Popen(["strace", "-p", str(first["pid"]), *tracer], stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "attached" in line, line
        self._zygote.send("go")
        found.append(self._ended(title))
        process.communicate(timeout=30)
        yield found

    def cli(self, *words: str, **more: Any) -> Ran:
        return self.request(" ".join(words), verb="cli", words=list(words), **more)

    def trial(self, *configs: Mapping[str, Any], **more: Any) -> Ran:
        chosen = [dict(each) for each in configs or [self.way.config]]
        return self.request("trial", verb="trial", configs=chosen, **more)

    def prove(self, **winners: Mapping[str, Any]) -> None:
        ran = self.request("prove", verb="prove", winners={name: dict(config) for name, config in winners.items()})
        assert ran.code == 0, ran

    def wait_for_deadman(self) -> float:
        """Until no dead-man of this place runs any more; seconds that it took."""
        started = time.monotonic()
        while deadmen(self.way):
            assert time.monotonic() < started + _PATIENCE_S, "the dead-man does not come to an end"
            time.sleep(0.01)
        return time.monotonic() - started

    def has_open_entries(self) -> bool:
        folder = self.way.state / "journal"
        return any(folder.glob("*.open")) or any(folder.glob("*.copy"))

    def has_begun(self, purpose: str) -> bool:
        """Whether a command that died had begun to change something for `purpose`; one that ended everything before may have."""
        purposes = {entry.purpose for entry in Journal(self.way.state).open_entries()}
        return not purposes or purpose in purposes


def deadmen(way: Way) -> list[int]:
    """Their processes, of this place alone."""
    mark = os.fsencode(way.state)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            argv = (entry / "cmdline").read_bytes()
            is_alive = (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            continue
        if is_alive and b"deadman_process" in argv and mark in argv:
            found.append(int(entry.name))
    return found
