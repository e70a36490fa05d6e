"""RemoteRun: the parts of several generators as one run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from trimtab.errors import LoadError
from trimtab.measure.second_log import SecondLog, merge_seconds
from trimtab.workload.base import Frame
from trimtab.workload.engine_run import to_second_log
from trimtab.workload.remote.link import Link
from trimtab.workload.remote.place import Place
from trimtab.workload.server import is_local

if TYPE_CHECKING:
    from trimtab._native import RunLog

__all__ = ["ReceivedLog", "RemoteRun", "merge_frames"]

_STOP_S = 30.0


class RemoteRun:
    """A load that runs in processes of its own (a `LoadRun`); `stop` is idempotent, and the log stays readable after it.

    Args:
        links: the generators, whose loads are started.
        facts: one text about each, for people.
        on_death: called once when a generator has died, before the error is raised.
    """

    def __init__(
        self, links: Sequence[Link], facts: Sequence[str], *, is_open: bool, on_death: Callable[[], None]
    ) -> None:
        self._links, self._facts, self._is_open, self._on_death = links, tuple(facts), is_open, on_death
        self._final: SecondLog | None = None
        self._death: LoadError | None = None

    def frame(self, timeout_s: float) -> Frame | None:
        """The next one-second frame of all generators; None when the run has ended or nothing came within `timeout_s`.

        Raises:
            LoadError: a generator has died; the run is invalid.
        """
        deadline = time.monotonic() + timeout_s
        with _Deaths(self):
            for link in self._links:
                while not (link.frames or link.is_over):
                    if link.take(deadline - time.monotonic()) is None:
                        return None
        ready = [link for link in self._links if link.frames]
        parts, hosts = [link.frames.popleft() for link in ready], [_machine(link.place) for link in ready]
        return merge_frames(parts, hosts=hosts, is_open=self._is_open) if parts else None

    @property
    def is_done(self) -> bool:
        """Whether every user has ended."""
        with _Deaths(self):
            for link in self._links:
                while not link.is_over and link.take(0.0) is not None:
                    pass
        return all(link.is_over for link in self._links)

    def log(self) -> SecondLog:
        """Everything that has ended so far, without stopping.

        Raises:
            LoadError: a generator has died.
        """
        return self._final if self._final is not None else self._collect("log")

    def stop(self) -> SecondLog:
        """Cancels what is in flight, waits for it, and returns the whole log.

        Raises:
            LoadError: a generator has died: what the others have measured is not the load that was asked for.
        """
        if self._death is not None:
            raise self._death
        if self._final is None:
            self._final = self._collect("stop")
            for link in self._links:
                link.is_over = True
                link.close()
        return self._final

    def _collect(self, command: str) -> SecondLog:
        with _Deaths(self):
            for link in self._links:
                link.tell({"do": command})
            messages = [link.wait("log", _STOP_S) for link in self._links]
        parts = [to_second_log(cast("RunLog", ReceivedLog(*message))) for message in messages]
        log = merge_seconds(parts, [_machine(link.place) for link in self._links])
        # Where the load runs in the engine's process its threads are the engine's: they have no priority of a generator's.
        priority = "" if any(link.place.socket for link in self._links) else log.priority
        return replace(log, generators=self._facts, priority=priority)

    def die(self, error: LoadError) -> None:
        """Ends the other generators, and what the dead one has left on the server."""
        if self._death is None:
            self._death = error
            self.close()
            self._on_death()

    def close(self) -> None:
        """Ends all generators."""
        for link in self._links:
            link.close()


@dataclass(slots=True)
class _Deaths:
    """What is raised within it ends the whole run."""

    run: RemoteRun

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LoadError):
            self.run.die(error)


def _machine(place: Place) -> str:
    """Where a generator runs: "" for this machine, by whatever name."""
    return "" if is_local(place.host) else place.host


def merge_frames(parts: Sequence[Mapping[str, Any]], *, hosts: Sequence[str], is_open: bool) -> Frame:
    """One second of several generators, as if they were one: counts and histograms add up, and what the hypervisor takes from one
    of `hosts`, the machine of each, counts once."""
    waits = [part["wait_s"] for part in parts if part["wait_s"] is not None]
    taken_s: dict[str, float] = {}
    for part, host in zip(parts, hosts, strict=True):
        taken_s[host] = max(taken_s.get(host, 0.0), part["steal_s"])
    p50, p95, p99 = (_quantile((part["response"] for part in parts), share) for share in (0.50, 0.95, 0.99))

    def total(name: str) -> Any:
        return sum(part[name] for part in parts)

    return Frame(
        second=parts[0]["second"],
        n_ok=total("n_ok"),
        n_error=total("n_error"),
        credited=total("credited"),
        n_timed_out=total("n_timed_out"),
        n_shed=total("n_shed"),
        response_p50_us=p50,
        response_p95_us=p95,
        response_p99_us=p99,
        lateness_p99_us=_quantile((part["lateness"] for part in parts), 0.99),
        backlog=total("backlog"),
        client_cpu_s=total("client_cpu_s"),
        is_open=is_open,
        wakeup_p99_us=_quantile((part["wakeup"] for part in parts), 0.99),
        wait_s=max(waits) if waits else None,
        steal_s=sum(taken_s.values()),
    )


def _quantile(histograms: Iterable[Sequence[tuple[int, int]]], share: float) -> int:
    """The smallest value that this share of all do not exceed; 0 without any. As the engine does it."""
    counts: dict[int, int] = {}
    for histogram in histograms:
        for value, count in histogram:
            counts[value] = counts.get(value, 0) + count
    rank, n_below = max(1, math.ceil(share * sum(counts.values()))), 0
    for value, count in sorted(counts.items()):
        n_below += count
        if n_below >= rank:
            return value
    return 0


class ReceivedLog:
    """A generator's log with the attributes of the engine's own."""

    def __init__(self, body: Mapping[str, Any], data: bytes) -> None:
        self.__dict__.update({name: value for name, value in body.items() if name not in ("is", "columns")})
        self._columns = {name: data[start : start + size] for name, (start, size) in body["columns"].items()}

    def seconds(self) -> SimpleNamespace:
        """The columns of totals per second."""
        return SimpleNamespace(**{name: column for name, column in self._columns.items() if " " not in name})

    def buckets(self, what: str) -> SimpleNamespace:
        """The columns of one histogram."""
        own = {name: column for name, column in self._columns.items() if name.startswith(f"{what} ")}
        return SimpleNamespace(**{name.partition(" ")[2]: column for name, column in own.items()})
