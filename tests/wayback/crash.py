"""The crash sweep: a trial, `apply` and `rollback` are killed at one call after another, and the server is looked at each time.

After each kill either the dead-man ends its work, or it is killed too (a power cut); then `trimtab recover` runs. The server
must be in one of two known states, whole: as found, or as applied.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.wayback.actor import Actor, Ran, deadmen
from tests.wayback.ways import Way

__all__ = ["Point", "Sweep", "Sweeper", "can_trace", "changing", "sample", "verbs_of"]

_CALL = re.compile(r"^(?:\d+ +)?(\w+)\(")
_CHANGES = re.compile(
    "p?write(v|64)?|send(to|msg)|rename(at2?)?|unlink(at)?|link(at)?|f(data)?sync|f?truncate|f?chmod(at)?|f?chown(at)?|"
    "mkdir(at)?|rmdir|kill|tgkill|clone3?|v?fork|connect|flock|openat"
)
NAME = "one"


@dataclass(frozen=True)
class Point:
    """Where the tuner dies: at the entry of the n-th system call `name`, at the n-th call of a C function ("calls"), or after the
    n-th note of the journal's entry ("notes")."""

    verb: str
    name: str
    n: int


@dataclass
class Sweep:
    """What became of the points.

    Attributes:
        n_killed: points at which the tuner died.
        n_not_reached: points that the run ended before.
        ended: how often which state was found: "as found", "as applied".
        failures: points after which the server was in neither, or a command failed.
        slowest_s: the longest time from the kill to the server's being put back.
    """

    n_killed: int = 0
    n_not_reached: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    @property
    def n_done(self) -> int:
        return self.n_killed + self.n_not_reached

    def check(self) -> None:
        """A sweep in which hardly anybody was killed proves nothing."""
        assert self.failures == [], "\n".join(self.failures)
        assert self.n_killed > 0, "no tuner was killed"
        assert self.n_not_reached <= self.n_done // 4, f"{self.n_not_reached} of {self.n_done} points were not reached"


def verbs_of(way: Way) -> tuple[str, ...]:
    """What can be swept: what MySQL and MariaDB take by connection alone outlives no restart and is not applied."""
    return ("trial",) if way.product != "postgresql" and way.reach == "connection" else ("trial", "apply", "rollback")


def can_trace() -> bool:
    """Whether strace is there, may trace our own children, and its injected signals kill."""
    program = shutil.which("strace")
    if program is None:
        return False
    inject = ["-e", "trace=write", "-e", "inject=write:signal=SIGKILL:when=1"]
    done = subprocess.run([program, "-o", "/dev/null", *inject, "echo", "alive"], capture_output=True)
    return done.returncode == -signal.SIGKILL and not done.stdout


class Sweeper:
    """Kills tuners of one way at points of `verbs`."""

    def __init__(self, actor: Actor, verbs: Sequence[str]) -> None:
        self.actor, self.way = actor, actor.way
        with self.way.up():
            self._settings = self.way.settings()
        self._base = self.way.own_content()
        self._good: bytes | None = None
        self._n_calls: dict[str, int] = {}
        if set(verbs) != {"trial"}:
            actor.prove(**{NAME: self.way.config})
            self._n_calls["apply"] = self._well(self._run("apply", count=True)).n_calls
            self._good = self.way.own_content()
            assert self.state() == "as applied"
            self._n_calls["rollback"] = self._well(self._run("rollback", count=True)).n_calls
        assert self.state() == "as found"

    def _well(self, ran: Ran) -> Ran:
        assert ran.code == 0, ran
        return ran

    def _run(self, verb: str, **more: Any) -> Ran:
        if verb == "trial":
            return self.actor.trial(**more)
        words = ("apply", NAME, "--yes") if verb == "apply" else ("rollback", NAME)
        return self.actor.cli(*words, **more)

    def state(self) -> str:
        """Which known state the server is in, whole: file and values; raises when it is in none."""
        with self.way.up():
            values, everything = self.way.values(), self.way.settings()
        content = self.way.own_content()
        found = dict(self.way.found)
        changed = {n: (self._settings.get(n), v) for n, v in everything.items() if self._settings.get(n) != v}
        if values == found and content == self._base and not changed:
            return "as found"
        if values == {**found, **self.way.config} and content == self._good:
            return "as applied"
        raise AssertionError(
            f"neither as found nor as applied: values {values}, file as found {content == self._base}, as applied"
            f" {content == self._good}, changed settings {changed}"
        )

    def reset(self, verb: str) -> None:
        """The state that a run of `verb` begins in."""
        now = self.state()
        if verb == "rollback" and now == "as found":
            self._well(self._run("apply"))
        if verb != "rollback" and now == "as applied":
            self._well(self._run("rollback"))

    def points(self, verb: str, *, traced: bool = False) -> list[Point]:
        """All of a whole run, in order."""
        if not traced:
            if verb not in self._n_calls:
                self._n_calls[verb] = self._well(self._run(verb, count=True)).n_calls
            return [Point(verb, "calls", n + 1) for n in range(self._n_calls[verb])]
        self.reset(verb)
        trace = self.way.folder / "trace"
        with self._traced(verb, ["-o", str(trace)]) as ran:
            self._well(ran[0])
        seen: Counter[str] = Counter()
        found = []
        for line in trace.read_text().splitlines():
            if (match := _CALL.match(line)) and match.group(1) not in ("exit_group", "exit"):
                seen[match.group(1)] += 1
                found.append(Point(verb, match.group(1), seen[match.group(1)]))
        trace.unlink()
        return found

    def _traced(self, verb: str, options: Sequence[str]) -> Any:
        words = {"apply": ["apply", NAME, "--yes"], "rollback": ["rollback", NAME]}.get(verb, [])
        request: Mapping[str, Any] = (
            {"verb": "cli", "words": words} if words else {"verb": "trial", "configs": [dict(self.way.config)]}
        )
        return self.actor.traced(verb, options, **request)

    def kill_at(self, point: Point) -> bool:
        """Runs one tuner; whether it was killed."""
        if point.name == "calls":
            return self._run(point.verb, kill_at=point.n).killed
        if point.name == "notes":
            return self._run(point.verb, kill_at_note=point.n).killed
        inject = f"inject={point.name}:signal=SIGKILL:when={point.n}"
        with self._traced(point.verb, ["-o", "/dev/null", "-e", f"trace={point.name}", "-e", inject]) as ran:
            return ran[0].killed

    def sweep(self, points: Sequence[Point], *, until: float = float("inf"), with_deadman: bool = True) -> Sweep:
        """Kills at each of `points` in turn; at every second one the dead-man dies too, at the first unless `with_deadman`."""
        done = Sweep()
        for index, point in enumerate(points):
            if time.monotonic() > until:
                break
            is_power_cut = (index % 2 == 0) is not with_deadman
            try:
                self.reset(point.verb)
                if not self.kill_at(point):
                    done.n_not_reached += 1
                    continue
                done.n_killed += 1
                done.ended[self._look_after(is_power_cut, done)] += 1
            except AssertionError as error:
                done.failures.append(f"{point} ({'power cut' if is_power_cut else 'dead-man lives'}): {error}")
                self._mend()
        return done

    def _look_after(self, is_power_cut: bool, done: Sweep) -> str:
        """The state after the kill: that of the dead-man alone, which `recover` must not change any more, or of `recover`."""
        started = time.monotonic()
        if is_power_cut:
            for pid in deadmen(self.way):
                os.kill(pid, signal.SIGKILL)
        self.actor.wait_for_deadman()
        alone = None
        if not is_power_cut:
            self.way.wait_up()
            alone = self.state()
        self._well(self.actor.cli("recover"))
        done.slowest_s = max(done.slowest_s, time.monotonic() - started)
        state = self.state()
        assert not self.actor.has_open_entries(), "the journal is still open"
        assert alone in (None, state), f"the dead-man left the server {alone}, and recover {state}"
        assert self._well(self.actor.cli("recover")).out.strip().endswith("nothing to recover")
        return state

    def _mend(self) -> None:
        """For the points after a failure."""
        for path in (*self.way.state.glob("journal/*.open"), *self.way.state.glob("journal/*.copy")):
            path.unlink()
        shutil.rmtree(self.way.state / "rollback", ignore_errors=True)
        self.way.put_own_content(self._base)
        self.way.control("restart")
        if self.way.is_embedded:
            self.way.control("stop")


def changing(points: Sequence[Point]) -> list[Point]:
    """Those that change something, when that can be told by the name."""
    return [each for each in points if each.name == "calls" or _CHANGES.fullmatch(each.name)]


def sample(points: Sequence[Point], n: int, *, shift: int) -> list[Point]:
    """So many of them: with another `shift` others, and all shifts together spread evenly (the golden ratio's sequence)."""
    reachable = len(points) * 9 // 10  # how often a run polls differs from run to run
    return [points[int(reachable * ((shift + index + 1) * 0.618034 % 1.0))] for index in range(n)]
