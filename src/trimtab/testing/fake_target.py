"""FakeTarget: an in-memory system with a few knobs that keeps every promise of `Target`, and misbehaves on demand.

    target = FakeTarget(crash_when=lambda values: values["cache"] > 4000)
    target.calls          # ["open", "snapshot", "apply", ...] in order
    target.values         # what is in effect now
    target.speed()        # operations per second that a load would see, without noise

State survives `close`: it stands for a server that goes on running. `disk` is the part that a death of the tuner leaves
behind, so a second FakeTarget over the same `disk` is the same server seen by another process.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trimtab.errors import ApplyError, LockedError, RestoreError, TargetError, UsageError
from trimtab.records import Context, Endpoint, Machine, Play
from trimtab.space import Config, Constraint, Knob, KnobKind, RestartClass, SafetyClass, Value
from trimtab.systems import Applied, KnobState, MemoryModel, Own, Restarts, Snapshot, Undone, always
from trimtab.systems.gate import check_config
from trimtab.systems.memory import memory_model

__all__ = ["FAKE_KNOBS", "Disk", "FakeTarget"]

_MIB = 1 << 20
_RESERVED_MIB = 64
_RESTART_KNOBS = ("cache",)


def _number(name: str, default: int, low: int, high: int, doc: str, **more: Any) -> Knob:
    return Knob(name=name, kind=KnobKind.INTEGER, low=low, high=high, default=default, doc=doc, **more)


FAKE_KNOBS: tuple[Knob, ...] = (
    _number("cache", 128, 16, 4096, "Memory of all connections.", log=True, unit="MB", restart=RestartClass.RESTART),
    _number("sort_memory", 4, 1, 512, "Memory of one sort.", log=True, unit="MB"),
    Knob(name="page_cost", kind=KnobKind.REAL, low=0.5, high=8.0, log=True, default=4.0, doc="Cost of a random read."),
    _number("workers", 2, 1, 16, "Workers; 0 none.", special=(0,)),
    Knob(name="compile", kind=KnobKind.BOOLEAN, default=True, doc="Whether expressions are compiled."),
    Knob(
        name="method", kind=KnobKind.CHOICE, choices=("sync", "worker", "ring"), default="worker", doc="How it reads."
    ),
    Knob(
        name="sync",
        kind=KnobKind.BOOLEAN,
        default=True,
        safety=SafetyClass.DURABILITY,
        doc="Commits wait for the disk.",
    ),
)


@dataclass(slots=True)
class Disk:
    """What the fake server keeps when the tuner dies: its configuration, what it runs with, who holds it, and which
    one it is."""

    configured: dict[str, Value] = field(default_factory=dict)
    running: dict[str, Value] = field(default_factory=lambda: {knob.name: knob.default for knob in FAKE_KNOBS})
    holder: str = ""
    is_up: bool = True
    identifier: str = field(default_factory=lambda: uuid.uuid4().hex)


def _never(values: Mapping[str, Value]) -> bool:
    return False


class FakeTarget:
    """See `Target` and the module.

    Args:
        name: of the table in the study file.
        disk: the server; a new one when None.
        memory_mib: the memory budget in MiB.
        unlock: safety classes to open ("durability").
        knobs: names to tune; None for every unlocked one.
        crash_when, reject_when: on the values that would be in effect; crash shows in `apply`, reject in `preflight`.
        dies_when: `apply` succeeds, and `health` fails until the target is restored.
        slow_s: seconds that apply and restore take.
        fail_restore: how many restores fail before one succeeds.
        speed: operations per second as a function of the values in effect; None for the built-in one.
        plays: what an expert would try.
        warmup_floor_s: see `WarmingTarget`.
    """

    kind = "fake"

    def __init__(
        self,
        name: str = "fake",
        *,
        disk: Disk | None = None,
        memory_mib: int = 1024,
        unlock: Sequence[str] = (),
        knobs: Sequence[str] | None = None,
        crash_when: Callable[[Mapping[str, Value]], bool] = _never,
        reject_when: Callable[[Mapping[str, Value]], bool] = _never,
        dies_when: Callable[[Mapping[str, Value]], bool] = _never,
        slow_s: float = 0.0,
        fail_restore: int = 0,
        speed: Callable[[Mapping[str, Value]], float] | None = None,
        plays: Sequence[Play] = (),
        warmup_floor_s: float = 0.0,
    ) -> None:
        self.name = name
        self.disk = disk if disk is not None else Disk()
        self.calls: list[str] = []
        self._memory_mib = memory_mib
        self._unlock = frozenset(unlock)
        self._knobs = knobs
        self._crash_when = crash_when
        self._reject_when = reject_when
        self._dies_when = dies_when
        self._slow_s = slow_s
        self._fail_restore = fail_restore
        self._speed = speed or _built_in_speed
        self._plays = tuple(plays)
        self.warmup_floor_s = warmup_floor_s
        self._base: Snapshot | None = None
        self._own = Own()
        self._log: list[str] = []

    @classmethod
    def from_settings(
        cls, name: str, settings: Mapping[str, Any], *, state_dir: Path, directory: Path | None = None
    ) -> FakeTarget:
        """A target from a table with `memory_mib` (or `memory`, in bytes), `unlock` and `knobs`.

        Raises:
            UsageError: another key.
        """
        known = {"kind", "memory", "memory_mib", "unlock", "knobs"}
        for key in settings:
            if key not in known:
                raise UsageError(
                    f"unknown key {key!r} in [target.{name}]", hint=f"the keys are: {', '.join(sorted(known))}"
                )
        table = {key: value for key, value in settings.items() if key not in ("kind", "memory")}
        if "memory" in settings:
            table["memory_mib"] = int(settings["memory"]) // _MIB
        return cls(name, **table)

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, *, state_dir: Path, disk: Disk | None = None) -> FakeTarget:
        """The target of a journalled snapshot; `disk` is the server (a new one has nothing to restore)."""
        return cls(snapshot.target, disk=disk)

    @property
    def values(self) -> Mapping[str, Value]:
        """What is in effect now."""
        return dict(self.disk.running)

    @property
    def counts(self) -> Counter[str]:
        """How often each method was called."""
        return Counter(self.calls)

    def speed(self) -> float:
        """Operations per second that a load would see with the values in effect."""
        return self._speed(self.disk.running)

    def open(self) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")

    def machine(self) -> Machine:
        return Machine(cores=4, memory_bytes=self._memory_mib * _MIB, hostname="fake", server_version="Fake 1.0")

    def endpoint(self) -> Endpoint:
        return Endpoint(protocol="fake", host="localhost", port=1, user="fake", database="fake")

    def states(self) -> Mapping[str, KnobState]:
        self.calls.append("states")
        return self._states()

    def _states(self) -> Mapping[str, KnobState]:
        return {
            knob.name: KnobState(
                knob=knob,
                running=self.disk.running[knob.name],
                source="configuration file" if knob.name in self.disk.configured else "default",
                is_curated=True,
                lock_reason=self._lock_reason(knob),
                vendor_low=0 if knob.is_numeric else None,
                vendor_high=1_000_000 if knob.is_numeric else None,
            )
            for knob in FAKE_KNOBS
        }

    def _lock_reason(self, knob: Knob) -> str:
        is_open = knob.safety is SafetyClass.PERFORMANCE or knob.safety.value in self._unlock
        return "" if is_open else f"safety class {knob.safety.value} is locked"

    def selection(self, context: Context) -> tuple[str, ...]:
        unlocked = tuple(knob.name for knob in FAKE_KNOBS if not self._lock_reason(knob))
        for name in self._knobs or ():
            if name not in unlocked:
                raise UsageError(f"knob={name!r} is unknown or locked", hint=f"use some of: {', '.join(unlocked)}")
        return unlocked if self._knobs is None else tuple(self._knobs)

    def advise(self, context: Context) -> Config:
        sort = max(1, (self._memory_mib // 2) // (4 * max(1, context.clients)))
        return Config({"cache": self._memory_mib // 4, "sort_memory": sort, "page_cost": 1.1})

    def plays(self, context: Context, latency_s: float) -> tuple[Play, ...]:
        return self._plays

    def constraints(self, names: Sequence[str], context: Context) -> tuple[Constraint, ...]:
        budget = self.memory(context).constraint(names)
        return (budget,) if budget is not None else ()

    def memory(self, context: Context) -> MemoryModel:
        return memory_model(
            {"cache": "cache", "sort_memory": "sort_memory * clients"},
            self._states(),
            {"clients": float(context.clients)},
            reserved_bytes=float(_RESERVED_MIB * _MIB),
            budget_bytes=self._memory_mib * _MIB,
        )

    def preflight(self, config: Config) -> None:
        self.calls.append("preflight")
        check_config(config, self._states())
        if self._reject_when({**self.disk.running, **config}):
            raise ApplyError(f"the fake target rejects {dict(config)}", hint="reject_when said so")

    def snapshot(self) -> Snapshot:
        self.calls.append("snapshot")
        self._base = Snapshot(
            target=self.name,
            kind=self.kind,
            reach={"configured": dict(self.disk.configured)},
            files={
                "fake.conf": {"content": repr(sorted(self.disk.configured.items())), "mode": 0o600, "uid": 0, "gid": 0}
            },
            values=dict(self.disk.running),
            picture={"identifier": self.disk.identifier},
        )
        self._own = Own()
        return self._base

    def announce(self, config: Config) -> Own:
        return Own(
            texts={name: (repr(value),) for name, value in config.items()},
            values={name: (value,) for name, value in config.items()},
            late=tuple(name for name in _RESTART_KNOBS if name in config),
        )

    def apply(self, config: Config, *, stays: bool = False) -> Applied:
        self.calls.append("apply")
        base = self._base if self._base is not None else self.snapshot()
        check_config(config, self._states())
        started = time.monotonic()
        own = self.announce(config)
        self._own = own.over(self._own)
        time.sleep(self._slow_s)
        wanted = {**base.values, **config}
        restarted = any(wanted[name] != self.disk.running[name] for name in _RESTART_KNOBS)
        self.disk.configured = {**base.reach["configured"], **config}
        if self._crash_when(wanted):
            self._log.append(f"FATAL: cannot run with {dict(config)}")
            excerpt = self.log_excerpt()
            self._take_back(base, self._own, always)
            self._own = Own()
            raise ApplyError("the fake server did not start", hint="crash_when said so", log_excerpt=excerpt)
        self.disk.running = wanted
        self.disk.is_up = not self._dies_when(wanted)
        self._own = replace(own, picture={"identifier": self.disk.identifier})
        return Applied(
            effective={name: wanted[name] for name in config},
            restarted=restarted,
            duration_s=time.monotonic() - started,
            own=self._own,
        )

    def _take_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> Undone:
        back, left, is_restarted = [], [], not self.disk.is_up
        found: Mapping[str, Value] = snapshot.reach["configured"]
        for name, mine in own.values.items():
            if name in self.disk.configured and self.disk.configured[name] in mine:
                self.disk.configured.pop(name)
                self.disk.configured |= {name: found[name]} if name in found else {}
            if self.disk.running[name] in (*mine, snapshot.values[name]):
                is_restarted |= name in _RESTART_KNOBS and self.disk.running[name] != snapshot.values[name]
                back.append(name)
            else:
                left.append(f"{name}={self.disk.running[name]}: somebody else has set it meanwhile")
        if is_restarted:
            restarts()
        self.disk.running |= {name: snapshot.values[name] for name in back}
        self.disk.is_up = True
        return Undone(
            put_back=tuple(f"{name}={self.disk.running[name]}" for name in back),
            left=tuple(left),
            restarted=is_restarted,
        )

    def restore(self, snapshot: Snapshot, own: Own | None = None, *, restarts: Restarts = always) -> Undone:
        self.calls.append("restore")
        time.sleep(self._slow_s)
        if self._fail_restore > 0:
            self._fail_restore -= 1
            raise RestoreError("the fake server could not be put back", hint="by hand: nothing, it is a fake")
        done = self._take_back(snapshot, self._own if own is None else own, restarts)
        self._base, self._own = snapshot, Own()
        return done

    @property
    def no_restart(self) -> str:
        return ""

    def restart(self, snapshot: Snapshot) -> None:
        self.calls.append("restart")
        self.disk.is_up = True

    def where(self) -> Mapping[str, str]:
        return {"server": f"a fake named {self.name}", "files": "fake.conf", "restart": "its own program"}

    def health(self) -> None:
        self.calls.append("health")
        if not self.disk.is_up:
            raise TargetError("the fake server is down", hint="restore it")

    def log_excerpt(self, n_lines: int = 20) -> str:
        return "\n".join(self._log[-n_lines:])

    def fragment(self, config: Config) -> str:
        return "".join(f"{name} = {value}\n" for name, value in config.items())

    @contextmanager
    def lock(self, holder: str) -> Iterator[None]:
        self.calls.append("lock")
        if self.disk.holder:
            raise LockedError(f"another tuner holds this server: {self.disk.holder}", hint="wait until it has ended")
        self.disk.holder = holder
        try:
            yield
        finally:
            self.disk.holder = ""

    def doctor(self) -> Sequence[tuple[str, bool, str]]:
        return (("server", self.disk.is_up, "a fake"),)


def _built_in_speed(values: Mapping[str, Value]) -> float:
    """A smooth hill: best near cache 512, sort_memory 32, page_cost 1.1, compile off, method ring; sync costs half."""
    cache = 1.0 - abs(float(values["cache"]) - 512) / 4096
    sort = 1.0 - abs(float(values["sort_memory"]) - 32) / 512
    cost = 1.0 - abs(float(values["page_cost"]) - 1.1) / 16
    bonus = (1.0 if values["compile"] else 1.2) * (1.15 if values["method"] == "ring" else 1.0)
    return 1000.0 * cache * sort * cost * bonus * (1.0 if values["sync"] else 2.0)
