"""The sweep: `apply` and `rollback` are killed after each of their system calls, and the server looked at each time."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.faults.place import Place, processes_of
from trimtab.trial import Journal

CHILD = Path(__file__).with_name("crash_child.py")
AS_FOUND = ("4MB", "4", "16MB")
AS_APPLIED = ("8MB", "1.5", "24000kB")
_CALL = re.compile(r"^(\w+)\(")
_CHANGES = re.compile(
    "p?write(v|64)?|send(to|msg)|rename(at2?)?|unlink(at)?|link(at)?|f(data)?sync|f?truncate|f?chmod(at)?|f?chown(at)?|"
    "mkdir(at)?|rmdir|kill|tgkill|clone3?|v?fork|connect|flock|openat"
)
_MAX_CALLS = 100_000


@dataclass(frozen=True)
class Point:
    """Where the tuner dies: at the entry of the n-th system call `name`, or at the n-th call of a C function ("calls")."""

    verb: str
    name: str
    n: int


@dataclass
class Sweep:
    """What became of the points.

    Attributes:
        ended: how often which state was found: "baseline", "last-good".
        failures: points after which the server was in neither.
        n_not_reached: points that the run ended before.
        slowest_s: the longest recovery.
    """

    ended: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    n_not_reached: int = 0
    slowest_s: float = 0.0


class Zygote:
    """Tuners made by one process that has imported everything."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.base = place.server.auto_conf.read_bytes()
        self.good: bytes | None = None
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD), str(place.study), str(place.state)],
            cwd=place.folder, env=place.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def _send(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.communicate("\n", timeout=30)

    def run(self, point: Point, guard: str, options: Sequence[str] = ()) -> bool:
        """Runs one tuner, under strace with `options` when there are any; whether it was killed."""
        how = "calls" if point.name == "calls" else "strace"
        self._send(f"{point.verb}\t{how}\t{point.n}\t{guard}")
        pid = self._line()
        tracer = None
        if options:
            tracer = subprocess.Popen(["strace", "-p", pid, *options], stderr=subprocess.PIPE, text=True)
            assert tracer.stderr is not None
            first = tracer.stderr.readline()
            assert "attached" in first, first
        self._send("go")
        ended = self._line()
        if tracer is not None:
            tracer.communicate(timeout=30)
        assert ended in ("killed", "ended 0"), ended
        return ended == "killed"

    def kill_at(self, point: Point, guard: str) -> bool:
        if point.name == "calls":
            return self.run(point, guard)
        inject = f"inject={point.name}:signal=SIGKILL:when={point.n}"
        return self.run(point, guard, ["-o", "/dev/null", "-e", f"trace={point.name}", "-e", inject])

    def points(self, verb: str) -> list[Point]:
        """All of a whole run, in order."""
        trace = self.place.folder / "trace"
        if can_trace():
            self.run(Point(verb, "", 0), "alone", ["-o", str(trace)])
            names = [found.group(1) for line in trace.read_text().splitlines() if (found := _CALL.match(line))]
            trace.unlink()
            seen: Counter[str] = Counter()
            found_points = []
            for name in names:
                seen[name] += 1
                found_points.append(Point(verb, name, seen[name]))
            return [point for point in found_points if point.name not in ("exit_group", "exit")]
        low, high = 1, _MAX_CALLS  # bisection: the run ends by itself past its last call
        while low < high:
            middle = (low + high) // 2
            if self.run(Point(verb, "calls", middle), "alone"):
                low = middle + 1
            else:
                high = middle
            self.recover()
            self.reset(verb)
        return [Point(verb, "calls", n) for n in range(1, low)]

    def recover(self) -> str:
        self._send("recover")
        return self._line()

    def state(self) -> str:
        """Which known state the server is in, whole: file and values; raises when it is in none."""
        with self.place.server.up():
            row = tuple(
                str(self.place.server.query(f"SHOW {name}")[0][0])
                for name in ("work_mem", "random_page_cost", "shared_buffers")
            )
        content = self.place.server.auto_conf.read_bytes()
        if row == AS_FOUND and content == self.base:
            return "baseline"
        if row == AS_APPLIED and content == self.good:
            return "last-good"
        raise AssertionError(f"neither: values {row}, file as found: {content == self.base}")

    def reset(self, verb: str) -> None:
        """The state that a run of `verb` begins in."""
        now = self.state()
        if verb == "apply" and now == "last-good":
            self.run(Point("rollback", "", 0), "alone")
        if verb == "rollback" and now == "baseline":
            self.run(Point("apply", "", 0), "alone")
        shutil.rmtree(self.place.folder / "tmp", ignore_errors=True)
        (self.place.folder / "tmp").mkdir()


def can_trace() -> bool:
    """Whether strace is there and may trace our own children."""
    program = shutil.which("strace")
    return (
        program is not None
        and subprocess.run([program, "-o", "/dev/null", "true"], capture_output=True).returncode == 0
    )


def sweep(zygote: Zygote, points: Sequence[Point], *, deadman_every: int, until: float) -> Sweep:
    """Kills at each of `points` in turn; the dead-man helps at every so-manieth one, `recover` at the others."""
    done = Sweep()
    for index, point in enumerate(points):
        if time.monotonic() > until:
            break
        zygote.reset(point.verb)
        guard = "deadman" if index % deadman_every == 0 else "alone"
        try:
            was_killed = zygote.kill_at(point, guard)
            started = time.monotonic()
            if guard == "deadman":
                _wait_for_deadman(zygote.place)
            zygote.recover()
            done.slowest_s = max(done.slowest_s, time.monotonic() - started)
            assert Journal(zygote.place.state).open_entries() == [], "the journal is still open"
            done.ended[zygote.state()] += 1
            done.n_not_reached += not was_killed
        except (AssertionError, psycopg.Error) as error:
            done.failures.append(f"{point} ({guard}): {error}")
            zygote.place.server.auto_conf.write_bytes(zygote.base)
            zygote.place.server.control("restart", check=False)
    return done


def _wait_for_deadman(place: Place) -> None:
    """Until it has ended; there is none yet while the entry is being written, and nothing is changed then."""
    until = time.monotonic() + 60
    mark = str(place.state)
    while any(b"deadman_process" in argv and mark.encode() in argv for _, argv in processes_of(place)):
        assert time.monotonic() < until, "the dead-man does not come to an end"
        time.sleep(0.02)


def chosen(points: Sequence[Point], *, n_changing: int | None, n_others: int | None) -> list[Point]:
    """Of the calls that change something (a file, a socket, a process) and of the others (reads, waits), so many, evenly.

    None stands for all. They come in a random order, the same each time, so that a sweep cut short is still even.
    """
    changing = [point for point in points if _CHANGES.fullmatch(point.name)]
    others = [point for point in points if not _CHANGES.fullmatch(point.name)]
    found = [*_evenly(changing, n_changing), *_evenly(others, n_others)]
    random.Random(1).shuffle(found)
    return found


def _evenly(points: Sequence[Point], n: int | None) -> list[Point]:
    if n is None or n >= len(points):
        return list(points)
    return [points[index * len(points) // n] for index in range(n)]
