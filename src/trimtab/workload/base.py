"""Workload and LoadRun: what is asked of a target, and one run of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from trimtab.errors import LoadError
from trimtab.measure import QueryLog, SecondLog
from trimtab.records import Context, DataRights, Endpoint

__all__ = [
    "ArrivingWorkload",
    "CopyingWorkload",
    "CountingWorkload",
    "DeployedWorkload",
    "Deployment",
    "Frame",
    "LoadRun",
    "PausingWorkload",
    "Preparation",
    "ProfiledWorkload",
    "RatedWorkload",
    "RemarkingWorkload",
    "ResettableWorkload",
    "RightsWorkload",
    "ScriptedWorkload",
    "StartState",
    "ThreadedWorkload",
    "Workload",
    "arrivals_s",
    "require_protocol",
]


@dataclass(frozen=True, slots=True)
class Frame:
    """What one second of a run showed; `credited` counts every operation by the share of its run inside the second
    (operations still running are credited by their elapsed time over the label's mean so far, so it is provisional).

    Attributes:
        n_timed_out: operations cut off by their own time-out.
        n_shed: requests of an open loop that were dropped because too many waited already.
        response_p50_us, response_p95_us, response_p99_us: of the successful, from when they were due; 0 for none.
        lateness_p99_us: how late the generator itself was.
        wakeup_p99_us: how late its timer fired, whether or not a user was free.
        wait_s: seconds that its thread which waited longest was ready to run and had no core; None when not known.
        backlog: requests of an open loop that wait for a free user at the second's end.
        client_cpu_s: CPU seconds that the generator used within this second.
        steal_s: CPU seconds that the hypervisor took from the generator's machine within it, all cores together.
        is_open: whether requests come by a schedule: then `credited` follows the schedule, however slow the server is.
        is_observed: whether the operations are an application's own: then `credited` says what its users asked for.
        response_mean_us: of the successful, where the traffic is observed; 0 for none, and where it is not known.
    """

    second: int
    n_ok: int
    n_error: int
    credited: float
    n_timed_out: int = 0
    n_shed: int = 0
    response_p50_us: int = 0
    response_p95_us: int = 0
    response_p99_us: int = 0
    lateness_p99_us: int = 0
    backlog: int = 0
    client_cpu_s: float = 0.0
    is_open: bool = False
    wakeup_p99_us: int = 0
    wait_s: float | None = None
    steal_s: float = 0.0
    is_observed: bool = False
    response_mean_us: float = 0.0


@dataclass(frozen=True, slots=True)
class Preparation:
    """What preparing the data did: seconds, bytes on the server, and whether everything was there already."""

    duration_s: float
    size_bytes: int
    was_cached: bool
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """How an application of a workload is run by an application server of our own.

    Attributes:
        names: {NAME}s of the server's catalogue.
        config: text of the file that its name {config} stands for; may hold a password.
    """

    names: Mapping[str, str]
    config: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class StartState:
    """How a workload that writes made the data what it was before: for people, and printed once a study.

    Attributes:
        method: in few words: "a fresh copy", "inverse operations".
        duration_s: seconds that it took.
        note: what else is worth knowing; may be empty.
        is_once: whether later runs go on from what this one leaves.
        is_fresh: whether data were made anew, which a server has to read again.
    """

    method: str
    duration_s: float
    note: str = ""
    is_once: bool = False
    is_fresh: bool = True


@runtime_checkable
class LoadRun(Protocol):
    """A load that is running in the background."""

    def frame(self, timeout_s: float) -> Frame | None:
        """The next one-second frame; None when the run has ended or nothing came within `timeout_s`."""

    @property
    def is_done(self) -> bool: ...

    def log(self) -> QueryLog | SecondLog:
        """Everything so far, without stopping (running operations are not in it)."""

    def stop(self) -> QueryLog | SecondLog:
        """Cancels what is in flight (within 100 ms), joins, and returns the whole log. Idempotent."""


@runtime_checkable
class Workload(Protocol):
    """What is asked of a target.

    Built by its class's `from_settings(settings, directory=...)` from the study file's [workload] table; files that it names
    are relative to `directory`, where the study file lies (raises `UsageError` on
    unknown or wrong keys).

    * `protocols`: endpoint protocols it can drive.
    * `context`: its description for the searcher.
    * `prepare(endpoint, report)`: makes the data exist on the server; idempotent; raises `LoadError` (for instance when
      the disk is too small) before it writes anything. `report` gets one line of text per step.
    * `start(endpoint, seed, duration_s)`: starts the load and returns at once. The same seed gives the same operations.
      It ends by itself after `duration_s` (the cap), or by `stop`.

    What only some workloads can do is in protocols of their own: `RightsWorkload`, `ScriptedWorkload`, `ResettableWorkload`,
    `RatedWorkload`, `ThreadedWorkload`, `ArrivingWorkload`, `PausingWorkload`, `ProfiledWorkload`, `RemarkingWorkload`,
    `DeployedWorkload`, `CountingWorkload`, `CopyingWorkload`.
    """

    kind: str
    protocols: tuple[str, ...]

    @property
    def context(self) -> Context: ...
    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation: ...
    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun: ...


def require_protocol(kind: str, protocols: Sequence[str], endpoint: Endpoint) -> None:
    """Raises LoadError when a workload of that kind, which drives these protocols, cannot drive the endpoint's."""
    if endpoint.protocol not in protocols:
        raise LoadError(
            f"workload={kind} cannot drive protocol={endpoint.protocol}",
            hint=f"use a target that speaks one of: {', '.join(protocols)}",
        )


@runtime_checkable
class RightsWorkload(Workload, Protocol):
    """A workload that can say what a user must be allowed to do with data."""

    @property
    def rights(self) -> DataRights: ...


@runtime_checkable
class ScriptedWorkload(Workload, Protocol):
    """A workload of statements that the user wrote."""

    @property
    def texts(self) -> Mapping[str, str]:
        """Label -> text of each; the history keeps digests of them unless the user asks for the texts."""


@runtime_checkable
class ResettableWorkload(Workload, Protocol):
    """A workload that writes, and can undo it: every trial then starts from the same data."""

    def reset(self, endpoint: Endpoint, report: Callable[[str], None]) -> StartState | None:
        """Makes the data what `prepare` left, whatever the last run wrote; called before every load.

        None when with these settings nothing is written. `report` gets a line of text per long step.

        Raises:
            LoadError: it cannot be done; the message says why.
        """

    def clean_up(self, endpoint: Endpoint) -> None:
        """Removes what the last run left on the server; called once when no more runs follow.

        Raises:
            LoadError: it cannot be done; the message says why.
        """


@runtime_checkable
class CopyingWorkload(ResettableWorkload, Protocol):
    """A workload whose runs may have a copy of the data, which `reset` makes and `clean_up` drops."""

    @property
    def copies(self) -> tuple[str, ...]:
        """Names of the databases of such copies, with these settings; written down before the first is made."""


@runtime_checkable
class RatedWorkload(Workload, Protocol):
    """A workload whose requests can come by a schedule (open loop), so that its rate can be set from outside."""

    def with_rate(self, rate_per_s: float) -> Workload:
        """The same workload in an open loop of `rate_per_s` requests per second; `self` stays as it is.

        Raises:
            UsageError: its settings allow no open loop, or the rate is not positive or out of reach.
        """


@runtime_checkable
class ThreadedWorkload(Workload, Protocol):
    """A workload whose generator can have more threads."""

    def with_threads(self, least: int) -> Workload:
        """The same load from a generator of at least so many threads, or as many as its machine has cores; `self` stays as it is.

        `self` where that changes nothing: the user has said how many threads there are, or there are no more cores.
        """


@runtime_checkable
class ArrivingWorkload(Workload, Protocol):
    """A workload whose users may come one after the other."""

    @property
    def arrivals_s(self) -> float:
        """Seconds of each run after which all users are there and do what they do on average; 0: at once."""


def arrivals_s(workload: Workload) -> float:
    """See `ArrivingWorkload`; 0 for one whose users are all there at once."""
    return workload.arrivals_s if isinstance(workload, ArrivingWorkload) else 0.0


@runtime_checkable
class PausingWorkload(Workload, Protocol):
    """A workload whose users may pause between operations, or whose operations may come by a schedule."""

    def at_full_speed(self) -> Workload:
        """The same operations from a few users who begin at once and never pause; `self` stays as it is.

        `self` where no user ever pauses.
        """


@runtime_checkable
class ProfiledWorkload(Workload, Protocol):
    """A workload whose operations may come at a rate that changes over a run."""

    @property
    def has_profile(self) -> bool:
        """Whether it changes: only the same seconds of two runs are then alike."""


@runtime_checkable
class RemarkingWorkload(Workload, Protocol):
    """A workload with rules of its own for what a run shows, such as limits for single operations."""

    def remarks(self, log: SecondLog, window_s: tuple[float, float]) -> tuple[str, ...]:
        """What these rules say of the whole seconds of a window, a line each; they change no figure."""


@runtime_checkable
class CountingWorkload(Workload, Protocol):
    """A workload that measures what the server counts, which may not be every metric."""

    def metrics(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Those of `trimtab.records.METRICS` that its runs on this server have. Changes nothing there.

        Raises:
            LoadError: the server does not answer, or does not count what is asked for.
        """


@runtime_checkable
class DeployedWorkload(Workload, Protocol):
    """A workload that brings its application with it."""

    def deployment(self, data: Endpoint, report: Callable[[str], None]) -> Deployment:
        """How the application is run on the database server `data`, which need not be up; builds it first where that is needed.

        Raises:
            LoadError: it cannot be built.
            UsageError: it does not run on such a server.
        """
