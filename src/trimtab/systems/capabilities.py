"""What a target can offer beside `Target`: each a protocol of its own, so that a kind offers what it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.host import VolumeUse
    from trimtab.records import Context, DataRights, Fault, Play, QueryClass
    from trimtab.space import Config
    from trimtab.systems.base import Snapshot

__all__ = [
    "CompilingTarget",
    "CountingTarget",
    "DiscoverableTarget",
    "DiskTarget",
    "Disturbance",
    "Evidence",
    "ForensicTarget",
    "FoundServer",
    "GrantingTarget",
    "LastingTarget",
    "PlayingTarget",
    "RestartableTarget",
    "RestrictedTarget",
    "SelfTuningTarget",
    "Symptom",
    "Vitals",
    "WarmingTarget",
    "Watchable",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What a target and its machine use at one moment; None (or nothing) where it cannot be seen.

    Attributes:
        memory_bytes: of the target's processes, shared memory once.
        memory_limit_bytes: the budget that they share.
        available_bytes: memory that the machine can still give without swapping.
        swap_bytes: of the target's memory, what lies in swap.
        swapped_bytes: moved to and from swap by the whole machine since its start.
        oom_kills: processes of the target that the kernel has killed because memory ran out, since its start.
        volumes: the file systems that the target writes to.
        lag_s: seconds that the slowest standby is behind; None without standbys, too.
        memory_by_tier: of a stack, `memory_bytes` tier by tier; {} of a single target.
    """

    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    available_bytes: int | None = None
    swap_bytes: int | None = None
    swapped_bytes: int | None = None
    oom_kills: int | None = None
    volumes: tuple[VolumeUse, ...] = ()
    lag_s: float | None = None
    memory_by_tier: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class CountingTarget(Protocol):
    """A target that counts its own work.

    * `counters()`: what it has counted so far, by name ("database.blks_read", "Innodb_pages_read"); differences of two calls
      tell what a load made it do. Takes milliseconds, and changes nothing. Raises `TargetError` when it cannot be reached.
    """

    def counters(self) -> Mapping[str, float]: ...


@runtime_checkable
class RestartableTarget(Protocol):
    """A target that can be restarted as it is, because one that it needs was restarted.

    * `no_restart`: why it cannot be; "" when it can.
    * `restart(snapshot)`: a restart that keeps what is set now, ours and others'; returns once it serves. `snapshot`: as it was
      found. Raises `TargetError`: it cannot be restarted, or does not come back. Works on a target that is not open.
    """

    @property
    def no_restart(self) -> str: ...
    def restart(self, snapshot: Snapshot) -> None: ...


@runtime_checkable
class LastingTarget(Protocol):
    """A target that knows before a change whether it can stay; another one says so when it is asked for it (`apply`).

    * `require_lasting(config)`: changes nothing; raises `ApplyError` where a part of it would not outlive the next restart.
    """

    def require_lasting(self, config: Config) -> None: ...


@runtime_checkable
class PlayingTarget(Protocol):
    """A target for which there are plays: what an expert would try.

    * `plays(context, latency_s)`: those that fit the load and this server, the most promising first, over knobs that may be
      changed; None when nobody has written any; `latency_s` is the mean duration of an operation under the found settings.
      Changes nothing.
    """

    def plays(self, context: Context, latency_s: float) -> tuple[Play, ...] | None: ...


@runtime_checkable
class WarmingTarget(Protocol):
    """A target that may be slow for a while after a restart although its load looks steady: it compiles what it runs often.

    * `warmup_floor_s`: seconds of load after which it is as fast as it will be; 0: a steady load says so by itself.
    """

    @property
    def warmup_floor_s(self) -> float: ...


@runtime_checkable
class CompilingTarget(Protocol):
    """A target that compiles what it runs often, in threads of its own, as Java does.

    * `compiles`: whether it does at all.
    * `compile_s()`: CPU seconds that these threads have used; None where they cannot be seen. Cheap: it is asked four
      times a second.
    """

    @property
    def compiles(self) -> bool: ...
    def compile_s(self) -> float | None: ...


@runtime_checkable
class DiskTarget(Protocol):
    """A target that may have settings of the disk, or of the file system, on which others keep their data.

    * `needs_disk`: whether it has such settings and does not know whose: the study file names none.
    * `use_disk(folders)`: those where the others keep their data, that of the lowest one first. Called once all targets are open.
    """

    @property
    def needs_disk(self) -> bool: ...
    def use_disk(self, folders: Sequence[Path]) -> None: ...


@runtime_checkable
class Watchable(Protocol):
    """A target whose resources can be watched while a load runs; every method may be called from a thread of its own.

    * `vitals()`: cheap enough for once a second; never raises, for the load itself shows whether the target is well.
    * `data_bytes()`: what the target itself occupies on its volumes; may take seconds. None when it cannot be seen.
    * `unwatch()`: gives back what `vitals` keeps open (a connection); idempotent, never waits long.
    """

    def vitals(self) -> Vitals: ...
    def data_bytes(self) -> int | None: ...
    def unwatch(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One thing that the target's own words, or the system under it, show of a failure.

    Attributes:
        fault: the class of cause that it speaks for.
        text: what was seen, in one line.
        is_own_demand: of a resource: the target itself asked for more than it may have (killed within its own limit).
        is_death: whether the target, or a process of it, died of it: no measurement of that time counts.
    """

    fault: Fault
    text: str
    is_own_demand: bool = False
    is_death: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of a failure, as found before anything was repaired.

    Attributes:
        symptoms: the most telling first.
        is_up: whether the target's process runs.
        is_stopped: whether its process is held by a signal (SIGSTOP) or a debugger.
        log: its own last lines since the last change that we made.
    """

    symptoms: tuple[Symptom, ...] = ()
    is_up: bool = True
    is_stopped: bool = False
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Something that somebody else did to the target since we last left it.

    Attributes:
        fault: the class of it, for the trial that it spoils.
        text: what, with `name=value`.
        stops: whether tuning must end: the files, the settings or the role are not what we left. Otherwise only the
            trial is spoilt.
        hint: what to do about it.
    """

    fault: Fault
    text: str
    stops: bool
    hint: str = ""


@runtime_checkable
class ForensicTarget(Protocol):
    """A target that can say what went wrong with it, and what somebody else did to it. None of these changes
    anything.

    * `evidence()`: of the last failure: gathered when `apply` failed (before its rescue), else now. Never raises.
    * `disturbances()`: what has changed since `snapshot`, `apply` or `restore` last left the target, or since the last
      call: each is told once. Raises `TargetError` when the target cannot be reached.
    * `notes()`: what people should know of the target before tuning starts, one line each.
    """

    def evidence(self) -> Evidence: ...
    def disturbances(self) -> tuple[Disturbance, ...]: ...
    def notes(self) -> tuple[str, ...]: ...


@runtime_checkable
class GrantingTarget(Protocol):
    """A target whose own system can enforce which knobs may change."""

    def grant_sql(self, context: Context, rights: DataRights | None, *, role: str) -> tuple[str, bool]:
        """The statements that an administrator runs once, with comments; and whether they suffice to tune.

        The knobs are those that the settings ask to tune, whatever the user who asks may change. No statement holds a
        password. Changes nothing.

        Args:
            context: of the workload, which decides what a set of knobs holds.
            rights: what the workload does with data; None when it cannot say.
            role: name of the role; "" for the user that the settings name when it is no administrator, else "trimtab".

        Raises:
            TargetError: the system cannot be reached or read.
            UsageError: a knob that the settings name cannot be tuned.
        """


@runtime_checkable
class RestrictedTarget(Protocol):
    """A target that may let its user change nothing at all: a managed service, or a role without rights.

    * `permitted()`: itself where something may be changed; else one of the same system, whose `states`, `selection` and `advise`
      are those of a user who may change its settings by whatever means. It is only looked at; this one stays open. Raises
      `TargetError` when the system cannot be read.
    """

    def permitted(self) -> Self: ...


@runtime_checkable
class SelfTuningTarget(Protocol):
    """A target whose own system can tune each class of its queries while it works. It must be open."""

    def query_classes(self) -> Sequence[QueryClass]:
        """What it has learnt, the most time first.

        Raises:
            TargetError: it cannot be reached, or does not tune its queries.
        """

    def query_advice(self) -> str:
        """The same as statements for a system that does not tune its queries; changes nothing. Raises as `query_classes`."""

    def hint_engine(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Has each new class try these settings first, for good; those of them that it can set for a statement.

        Raises:
            UsageError: it can set none of them.
            TargetError: it cannot be reached, does not tune its queries, or refuses.
        """

    def switch_engine(self, mode: str) -> str:
        """Sets "off", "observe" or "tune" for the whole system, for good, and loads what it needs where that is not loaded.

        Returns:
            When that is in use, for people; "" if it is already.

        Raises:
            UsageError: another mode.
            TargetError: it cannot be reached, does not tune its queries, or refuses.
        """

    def install_engine(self) -> Sequence[Path]:
        """Builds what it needs for that, and puts it where the system looks, to stay; the files written.

        Raises:
            TargetError: something is missing for that, or this user may not; nothing was changed.
        """

    def watch_engine(self) -> None:
        """From now on every change that does not stay has it observe its queries too; undone with the change. Changes nothing.

        Does nothing where it does so already.

        Raises:
            TargetError: it cannot be had here; the message says why.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """One server that a study could tune.

    Attributes:
        kind: of the target.
        what: product and version, for people; without a version when we may not log in.
        url: how to reach it; "" for one that the target would start itself.
        lines: of the [target.NAME] table, `kind` left out, each with its comment.
        problem: why we could not log in; "" when we could.
        hint: what to do about `problem`.
    """

    kind: str
    what: str
    url: str = ""
    lines: tuple[str, ...] = ()
    problem: str = ""
    hint: str = ""


@runtime_checkable
class DiscoverableTarget(Protocol):
    """A target class that finds servers; both methods only look, and never raise for what they do not find.

    * `found_servers()`: those that run on this machine, in the order in which to propose them.
    * `embedded_server()`: one that the target starts by itself; None when its programs are not installed.
    """

    @classmethod
    def found_servers(cls) -> Sequence[FoundServer]: ...
    @classmethod
    def embedded_server(cls) -> FoundServer | None: ...
