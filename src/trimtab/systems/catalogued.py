"""Catalogued: what follows from a catalogue and the live knobs: rules, memory, advice and checks, the same for every kind."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from trimtab.errors import TargetError
from trimtab.host import Limits, most_open_files, read_limits
from trimtab.records import Context, Machine
from trimtab.space import Config, Constraint
from trimtab.systems.base import KnobState, Snapshot
from trimtab.systems.doctor import Line, memory_lines
from trimtab.systems.gate import check_config
from trimtab.systems.memory import MemoryModel
from trimtab.systems.overlay import Bounds, Overlay
from trimtab.systems.reach import ServerReach
from trimtab.systems.rules import advised, check_memory, check_rules, constraints, memory_of
from trimtab.systems.selection import select
from trimtab.systems.settings import ServerSettings

__all__ = ["Catalogued"]

_UNKNOWN_DISK_BYTES = 64 << 30
_TOLD = "study file"
_EXAMPLES = {"memory": 'memory = "16GiB"', "cores": "cores = 8"}

S = TypeVar("S", bound=ServerSettings)
R = TypeVar("R", bound=ServerReach)


class _Visits(threading.local):
    """Looks that follow one another at once: how many enclose this one, and this machine's limits, read in them. Each thread has
    its own: another one's visit ends when it will."""

    def __init__(self) -> None:
        self.n = 0
        self.limits: Limits | None = None


class Catalogued(ABC, Generic[S, R]):
    """The part of a `System` that changes nothing.

    Args:
        name: of the table in the study file.
        settings: the table, checked.
        reach: the way to the system.

    Attributes:
        name, settings: the same.
        catalog: what is known of this kind of system.
        SKIPS_ABSENT: whether a knob of the catalogue that is named and that this system lacks is passed over.
    """

    catalog: Overlay[Any]
    SKIPS_ABSENT: ClassVar[bool] = False

    def __init__(self, name: str, settings: S, reach: R) -> None:
        self.name = name
        self.settings = settings
        self._reach = reach
        self._base: Snapshot | None = None
        self._visits = _Visits()

    @contextmanager
    def _visit(self) -> Iterator[None]:
        """For looks that follow one another at once: this machine's limits are read once, and one connection serves for all."""
        self._visits.n += 1
        try:
            with self._shared():
                yield
        finally:
            self._visits.n -= 1
            if not self._visits.n:
                self._visits.limits = None

    def _shared(self) -> AbstractContextManager[None]:
        """What else looks share within a visit."""
        return nullcontext()

    @abstractmethod
    def _look(self) -> Any:
        """What the server shows of itself.

        Raises:
            TargetError: it cannot be looked at, or is of an unknown version.
        """

    @abstractmethod
    def states(self) -> Mapping[str, KnobState]:
        """Every knob of the live server, by name."""

    @abstractmethod
    def _version(self) -> str:
        """Product and version of the server."""

    def _require_changeable(self, states: Mapping[str, KnobState]) -> None:
        """That anything may be changed here at all.

        Raises:
            TargetError: nothing may.
        """

    def _check(self, config: Config, states: Mapping[str, KnobState]) -> None:
        """What else is known to this kind of system.

        Raises:
            ApplyError: the config cannot work, with the reason.
        """

    def _more_facts(self) -> Mapping[str, float]:
        """What rules may refer to beside the bounds: the files that its process may open, where that shows."""
        pid = self._reach.pid
        limit = most_open_files(pid) if pid is not None else None
        return {} if limit is None else {"open_files": float(limit)}

    def _product(self) -> str:
        """Of the server, where its kind has several; else ""."""
        return ""

    @property
    def limits(self) -> Limits:
        """Cores and memory that the server may use: by this machine, or as the study file tells them of another one.

        Raises:
            TargetError: the server is on another machine, and one of them is not given.
        """
        own, told = self.settings, _TOLD
        if self._reach.is_here:
            seen = self._visits.limits or read_limits(pid=self._reach.pid)
            self._visits.limits = seen if self._visits.n else None
            return seen if own.cores is None else replace(seen, cores=own.cores, cores_source=told)
        if own.cores is None or own.memory is None:
            raise self._unknown()
        return Limits(cores=own.cores, memory_bytes=own.memory, cores_source=told, memory_source=told)

    def _unknown(self) -> TargetError:
        """What is to be told of a machine that cannot be seen from here."""
        missing = [key for key in _EXAMPLES if getattr(self.settings, key) is None]
        what = f"{' and '.join(missing)} {'are' if 'cores' in missing else 'is'}"
        return TargetError(
            f"the server at host={self._reach.endpoint().host} does not show as a process of this machine: its {what} not"
            " known here",
            hint=f"give {'them' if len(missing) > 1 else 'it'} in the target's table:"
            f" {', '.join(_EXAMPLES[key] for key in missing)}",
        )

    @property
    def budget_bytes(self) -> int:
        """What all memory knobs together may use: `memory` of the study file, else RAM or the cgroup's limit.

        Raises:
            TargetError: the server is on another machine and `memory` is not given.
        """
        return self.limits.memory_bytes if self.settings.memory is None else self.settings.memory

    @property
    def warmup_floor_s(self) -> float:
        """See `WarmingTarget`: of the study file, else as its kind says."""
        own = self.settings.warmup_floor
        return self.catalog.warmup_floor_s if own is None else own

    @property
    def host_name(self) -> str:
        """The machine that it runs on; "" for this one."""
        return "" if self._reach.is_here else self._reach.endpoint().host

    def _bounds_with(self, connections: float, limits: Limits | None = None) -> Bounds:
        """What useful ranges may refer to, where the server takes so many connections; `limits` in place of what it may use."""
        folder = self._reach.data_dir
        return {
            "memory": float(self.budget_bytes if limits is None else limits.memory_bytes),
            "cores": float((limits or self.limits).cores),
            "connections": connections,
            "disk": float(self._reach.host.disk_free_bytes(folder) if folder is not None else _UNKNOWN_DISK_BYTES),
        }

    def _some_bounds(self) -> Bounds:
        """The same for whoever looks at no system: this machine's where those of its own are not known. A way back needs none."""
        try:
            return self._bounds_with(1.0)
        except TargetError:
            return self._bounds_with(1.0, read_limits())

    def _bounds(self, states: Mapping[str, KnobState]) -> Bounds:
        """What useful ranges and rules may refer to."""
        return self._bounds_with(float(states["max_connections"].running) if "max_connections" in states else 1.0)

    def machine(self) -> Machine:
        """Facts about the server's machine, as far as they are known, and the server's version."""
        limits = self.limits
        if not self._reach.is_here:
            return Machine(
                cores=limits.cores,
                memory_bytes=limits.memory_bytes,
                hostname=self.host_name,
                server_version=self._version(),
            )
        facts = self._reach.host.facts(self._reach.data_dir or Path("/"))
        return Machine(
            cores=limits.cores,
            memory_bytes=limits.memory_bytes,
            cpu_model=facts.cpu_model,
            kernel=facts.kernel,
            disk=facts.disk,
            hostname=facts.hostname,
            server_version=self._version(),
        )

    def _states_as_found(self) -> Mapping[str, KnobState]:
        """The catalogue with the snapshot's values: what runs now may be a config of ours, handed over by a trial."""
        states = self.states()
        if self._base is None:
            return states
        found = self._base.values
        return {name: replace(state, running=found.get(name, state.running)) for name, state in states.items()}

    def selection(self, context: Context) -> tuple[str, ...]:
        """The knobs that the settings ask to tune; of a set only those that a workload like `context` can feel.

        Raises:
            UsageError: an unknown name, or one that is named and locked.
            TargetError: nothing at all may be changed here.
        """
        states = self.states()
        self._require_changeable(states)
        reads_only = context.read_share == 1.0
        return select(
            self.settings.knobs,
            states,
            self.catalog,
            reads_only=reads_only,
            skips_absent=self.SKIPS_ABSENT,
            unfelt=self._unfelt(context),
        )

    def _unfelt(self, context: Context) -> Collection[str]:
        """The knobs that make no difference here to such a load, as far as that shows."""
        return ()

    def advise(self, context: Context) -> Config:
        """The catalogue's advice over the changeable knobs."""
        with self._visit():
            states, disk = self.states(), self.machine().disk
            kinds = {"ssd": float(disk == "ssd"), "hdd": float(disk == "hdd")}
            facts = {**self._bounds(states), "clients": float(context.clients), **kinds}
            return advised(self.catalog, states, facts, self._memory_of(states, context))

    def constraints(self, names: Sequence[str], context: Context) -> tuple[Constraint, ...]:
        """The memory budget and the catalogue's rules over those of `names` that matter."""
        with self._visit():
            states = self._states_as_found()
            facts = {**self._bounds(states), "clients": float(context.clients), **self._more_facts()}
            budgets = (self._memory_of(states, context).constraint(names), self._room(states, names))
            rules = constraints(self.catalog, names, states, facts, product=self._product())
        return (*(budget for budget in budgets if budget is not None), *rules)

    def _room(self, states: Mapping[str, KnobState], names: Sequence[str]) -> Constraint | None:
        """What `preflight` asks of one client's memory, where the budget in the study file is larger than what there is."""
        if self._room_bytes >= self.budget_bytes:
            return None
        model = self._memory_of_one(states)
        allowed = max(model.budget_bytes, math.ceil(model.total({})))
        return replace(model, budget_bytes=allowed).constraint(names, label="memory of one client")

    def memory(self, context: Context) -> MemoryModel:
        """What the settings take of its host's memory, over the values as found."""
        return self._memory_of(self._states_as_found(), context)

    def _memory_facts(self) -> Mapping[str, float]:
        """What the memory terms may refer to beside the bounds."""
        return {}

    def _absent(self) -> Collection[str]:
        """The knobs of the catalogue that the system here does not have, as far as that shows."""
        return ()

    def _memory_of(self, states: Mapping[str, KnobState], context: Context) -> MemoryModel:
        facts = {**self._bounds(states), **self._memory_facts(), "clients": float(context.clients)}
        model = memory_of(self.catalog, states, facts, budget_bytes=self.budget_bytes, absent=self._absent())
        return replace(model, host=self.host_name)

    @property
    def _room_bytes(self) -> int:
        """What one config may take at most, whatever the study file says."""
        return self.budget_bytes

    def preflight(self, config: Config) -> None:
        """Everything that can be known without changing anything.

        Raises:
            ApplyError: the config cannot work, with the reason.
        """
        with self._visit():
            states = self._states_as_found()
            check_config(config, states)
            facts = {**self._bounds(states), "clients": 1.0}
            check_rules(self.catalog, config, states, facts, product=self._product())
            self._check(config, states)
            check_memory(config, self._memory_of_one(states))

    def _memory_of_one(self, states: Mapping[str, KnobState]) -> MemoryModel:
        """What one client at work takes of the memory that there is."""
        facts = {**self._bounds(states), **self._memory_facts(), "clients": 1.0}
        return memory_of(self.catalog, states, facts, budget_bytes=self._room_bytes, absent=self._absent())

    def _memory_lines(self, states: Mapping[str, KnobState]) -> list[Line]:
        """Of `doctor`."""

        def total_with(clients: int) -> float:
            return self._memory_of(states, Context("", clients=clients)).total({})

        is_limited, is_here = bool(getattr(self.settings, "memory_limit", False)), self._reach.is_here
        return memory_lines(total_with, self.budget_bytes, self.limits, is_here=is_here, is_limited=is_limited)
