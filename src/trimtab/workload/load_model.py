"""LoadModel: how many users ask, and when: the [workload.load] table of a study file.

[workload.load]
users = 16                # connections that are kept busy (closed), or that requests are spread over (open)
threads = "auto"          # of the generator; auto: one for each four cores, and more where a study finds that they are needed
from = ["ssh://loadgen1"] # where it runs: processes of their own, here ("local") or elsewhere; without it: in Trimtab itself
model = "closed"          # the next request when the last one is answered; "open": when it is due
think = "10ms"            # closed: pause between an answer and the next request
start = "20s"             # closed: users come at random within this time
rate = 2000               # open: requests per second, whatever the server does
arrivals = "poisson"      # open: or "uniform"
profile = { kind = "ramp", to = 4000, over = "60s" }
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, cast

from trimtab.errors import LoadError, UsageError
from trimtab.units import counted, format_figure
from trimtab.workload.remote.place import Place
from trimtab.workload.table import Table

__all__ = ["KEYS", "MAX_RATE_PER_S", "MAX_USERS", "LoadModel", "Profile", "Ramp", "Sine", "Steps"]

MAX_RATE_PER_S = 5_000_000
"""No machine of today sends more from one process; a larger number is a slip of the pen."""

MAX_USERS = 10_000
MAX_THREADS = 256
_CORES_PER_THREAD = 4
"""A server spends 20 to 60 microseconds on an operation on which the generator spends 6 to 12: a thread for each four cores keeps
up with it, and takes little from it where both share a machine."""

DEFAULT_USERS = 16

_NAME = "[workload.load]"
_CLOSED_KEYS = ("think", "think_time", "start")
_OPEN_KEYS = ("rate", "arrivals", "profile", "backlog", "backlog_age")
KEYS = ("users", "threads", "from", "model", *_CLOSED_KEYS, *_OPEN_KEYS)
"""Of the table."""
_PROFILE_KEYS = {"step": ("kind", "steps"), "ramp": ("kind", "to", "over"), "sine": ("kind", "amplitude", "period")}


@dataclass(frozen=True, slots=True)
class Steps:
    """From each second on (counted from the run's start), that rate."""

    steps: tuple[tuple[float, float], ...]

    @property
    def native(self) -> tuple[Any, ...]:
        """As the engine takes it."""
        return ("step", list(self.steps))


@dataclass(frozen=True, slots=True)
class Ramp:
    """From the model's rate to `to` within `over_s` seconds, in a straight line; then it stays."""

    to: float
    over_s: float

    @property
    def native(self) -> tuple[Any, ...]:
        """As the engine takes it."""
        return ("ramp", self.to, self.over_s)


@dataclass(frozen=True, slots=True)
class Sine:
    """Around the model's rate, up and down by `amplitude`, once in `period_s` seconds."""

    amplitude: float
    period_s: float

    @property
    def native(self) -> tuple[Any, ...]:
        """As the engine takes it."""
        return ("sine", self.amplitude, self.period_s)


Profile = Steps | Ramp | Sine


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModel:
    """When requests are made.

    Attributes:
        users: connections.
        threads: of each generator, which share the users; 0: as many as its machine's cores suggest.
        least_threads: when `threads` is 0: of all generators together, at least so many where their machines have the cores.
        generators: where the load comes from, in processes of their own; none: from this process.
        is_open: whether requests come by a schedule (open loop) and not after the last answer (closed loop).
        think_s: closed loop: pause of a user before its next request.
        is_think_exponential: whether that pause is exponential with mean `think_s`, and not always the same.
        start_s: closed loop: users come at random within this time; all at once for 0.
        rate_per_s: open loop: requests per second; 0 in a closed one.
        arrivals: open loop: "poisson" (as independent users come) or "uniform" (evenly spaced).
        profile: open loop: how the rate changes; None: it does not.
        backlog_max, backlog_age_max_s: requests that wait for a free user, by number and by age; more are shed and counted.
    """

    users: int = DEFAULT_USERS
    threads: int = 0
    least_threads: int = 0
    generators: tuple[Place, ...] = ()
    is_open: bool = False
    think_s: float = 0.0
    is_think_exponential: bool = False
    start_s: float = 0.0
    rate_per_s: float = 0.0
    arrivals: Literal["poisson", "uniform"] = "poisson"
    profile: Profile | None = None
    backlog_max: int = 10_000
    backlog_age_max_s: float = 10.0

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> LoadModel:
        """Built from the table [workload.load]; an empty one is a closed loop of 16 users.

        Raises:
            UsageError: an unknown key, a wrong value, or a key that has no meaning beside the others.
        """
        if not isinstance(settings, Mapping):
            raise UsageError(f"{_NAME}={settings!r} is not a table", hint="write it as in: load = { users = 16 }")
        table = Table(settings, _NAME, KEYS)
        users = table.integer("users", DEFAULT_USERS, 1, MAX_USERS)
        threads = _threads(table)
        generators = _generators(table, users)
        model = table.choice("model", ("closed", "open"), "open" if "rate" in table else "closed")
        _refuse_keys_of_the_other(table, model)
        if "think_time" in table and "think" not in table:
            raise UsageError(
                f"{_NAME} think_time={table.values['think_time']!r} has no meaning without think",
                hint='add think = "10ms", the mean pause; or remove it',
            )
        if model == "closed":
            return cls(
                users=users,
                threads=threads,
                generators=generators,
                think_s=table.seconds("think", "10ms", -1e-9) if "think" in table else 0.0,
                is_think_exponential=table.choice("think_time", ("fixed", "exponential"), "fixed") == "exponential",
                start_s=table.seconds("start", "20s", -1e-9) if "start" in table else 0.0,
            )
        return cls(
            users=users,
            threads=threads,
            generators=generators,
            is_open=True,
            rate_per_s=_rate(table, "rate"),
            arrivals=cast(Literal["poisson", "uniform"], table.choice("arrivals", ("poisson", "uniform"), "poisson")),
            profile=_profile(table) if "profile" in table else None,
            backlog_max=table.integer("backlog", 10_000, 1, 10_000_000),
            backlog_age_max_s=table.seconds("backlog_age", "10s"),
        )

    def with_rate(self, rate_per_s: float) -> LoadModel:
        """The same users in an open loop at a steady `rate_per_s`.

        Raises:
            UsageError: a rate that is not positive, or that no machine reaches.
        """
        table = Table({"rate": rate_per_s}, _NAME, KEYS)
        return replace(
            self,
            is_open=True,
            rate_per_s=_rate(table, "rate"),
            profile=None,
            think_s=0.0,
            is_think_exponential=False,
            start_s=0.0,
        )

    def with_threads(self, least: int) -> LoadModel:
        """The same from generators of at least `least` threads in all; `self` where that changes nothing."""
        other = replace(self, least_threads=least)
        here = len(os.sched_getaffinity(0))
        is_same = self.threads > 0 or (not self.generators and other.n_threads(here) == self.n_threads(here))
        return self if is_same else other

    @property
    def pauses(self) -> bool:
        """Whether a user may have nothing to ask, or not be there yet."""
        return self.is_open or self.think_s > 0 or self.start_s > 0

    def at_full_speed(self) -> LoadModel:
        """A closed loop of users who begin at once and never pause: so few that a server which has room for those of this load,
        of whom most pause, has room for them."""
        return replace(
            self,
            users=max(len(self.generators), min(self.users, DEFAULT_USERS)),
            is_open=False,
            rate_per_s=0.0,
            profile=None,
            think_s=0.0,
            is_think_exponential=False,
            start_s=0.0,
        )

    def n_threads(self, n_cores: int) -> int:
        """Threads of the generator on a machine of so many cores.

        Raises:
            LoadError: the study file asks for more than there are cores; they would wait for each other.
        """
        n_generators = max(1, len(self.generators))
        needed = min(math.ceil(self.least_threads / n_generators), self.users // n_generators, n_cores)
        wanted = min(self.threads or max(1, n_cores // _CORES_PER_THREAD, needed), self.users)
        if wanted > n_cores:
            raise LoadError(
                f"{_NAME} threads={self.threads} is more than the load generator's machine has: cores={n_cores}",
                hint=f'use threads = "auto", or at most {n_cores}',
            )
        return wanted

    def plain(self) -> dict[str, Any]:
        """As a `LoadPlan` holds it."""
        if not self.is_open:
            return {
                "kind": "closed",
                "think_s": self.think_s,
                "exponential": self.is_think_exponential,
                "start_s": self.start_s,
            }
        return {
            "kind": "open",
            "rate": self.rate_per_s,
            "arrivals": self.arrivals,
            "profile": None if self.profile is None else self.profile.native,
            "backlog_max": self.backlog_max,
            "backlog_age_max_s": self.backlog_age_max_s,
        }

    @property
    def features(self) -> dict[str, float]:
        """What a searcher may want to know of it: the rate of an open loop, the think time of a closed one."""
        return {"rate_per_s": self.rate_per_s} if self.is_open else {"think_s": self.think_s}

    def __str__(self) -> str:
        users = counted(self.users, "user")
        if self.is_open:
            changing = "" if self.profile is None else f", {self.profile.native[0]} profile"
            return f"open loop of {format_figure(self.rate_per_s)}/s ({self.arrivals}{changing}) over {users}"
        think = f" that think for {self.think_s * 1e3:g} ms" if self.think_s else ""
        return f"closed loop of {users}{think}"


def _threads(table: Table) -> int:
    asked = table.values.get("threads", "auto")
    if asked == "auto":
        return 0
    if isinstance(asked, bool) or not isinstance(asked, int) or not 1 <= asked <= MAX_THREADS:
        raise UsageError(
            f"{_NAME} threads={asked!r} is out of range", hint=f'use "auto", or a whole number from 1 to {MAX_THREADS}'
        )
    return asked


def _generators(table: Table, users: int) -> tuple[Place, ...]:
    asked = table.values.get("from", [])
    if not isinstance(asked, list):
        raise UsageError(f"{_NAME} from={asked!r} is not a list", hint='for example: from = ["ssh://loadgen1"]')
    if len(asked) > users:
        raise UsageError(
            f"{_NAME} users={users} cannot be shared among {len(asked)} generators",
            hint="use more users, or fewer generators",
        )
    return tuple(map(Place.parse, asked))


def _refuse_keys_of_the_other(table: Table, model: str) -> None:
    others = _OPEN_KEYS if model == "closed" else _CLOSED_KEYS
    for key in others:
        if key in table:
            needed = "open" if model == "closed" else "closed"
            raise UsageError(
                f'{_NAME} {key}={table.values[key]!r} has no meaning with model="{model}"',
                hint=f'remove it, or set model = "{needed}"',
            )
    if model == "open" and "rate" not in table:
        raise UsageError(f'{_NAME} model="open" lacks a rate', hint="add rate = 1000 (requests per second)")


def _rate(table: Table, key: str) -> float:
    rate = table.values.get(key)
    if isinstance(rate, int | float) and not isinstance(rate, bool) and rate > MAX_RATE_PER_S:
        raise UsageError(
            f"{table.name} {key}={rate:g} requests per second is more than any machine reaches",
            hint=f"use at most {MAX_RATE_PER_S:,}",
        )
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not rate > 0:
        raise UsageError(
            f"{table.name} {key}={rate!r} is not a number of requests per second above 0",
            hint=f"for example: {key} = 1000",
        )
    return float(rate)


def _profile(table: Table) -> Profile:
    value = table.values["profile"]
    if not isinstance(value, Mapping) or str(value.get("kind")) not in _PROFILE_KEYS:
        raise UsageError(
            f"{_NAME} profile={value!r} is not known",
            hint='write { kind = "step", steps = [["60s", 2000]] }, { kind = "ramp", to = 4000, over = "60s" } or '
            '{ kind = "sine", amplitude = 500, period = "60s" }',
        )
    kind = str(value["kind"])
    profile = Table(value, "[workload.load.profile]", _PROFILE_KEYS[kind])
    if kind == "ramp":
        return Ramp(_rate(profile, "to"), profile.seconds("over", "60s"))
    if kind == "step":
        return Steps(_steps(profile))
    amplitude, rate = _rate(profile, "amplitude"), _rate(table, "rate")
    if amplitude > rate:
        raise UsageError(
            f"{profile.name} amplitude={amplitude:g} is above rate={rate:g}: the rate would be negative",
            hint="use an amplitude of at most the rate",
        )
    return Sine(amplitude, profile.seconds("period", "60s"))


def _steps(profile: Table) -> tuple[tuple[float, float], ...]:
    given = profile.values.get("steps")
    is_list = isinstance(given, list | tuple) and bool(given)
    if not is_list or not all(isinstance(step, list | tuple) and len(step) == 2 for step in given or ()):
        raise UsageError(
            f"{profile.name} steps={given!r} is not a list of pairs",
            hint='write steps = [["60s", 2000], ["120s", 500]]: from that second on, that rate',
        )
    steps = []
    for at, rate in given or ():
        row = Table({"at": at, "rate": rate}, f"{profile.name} steps", ("at", "rate"))
        steps.append((row.seconds("at", "60s"), _rate(row, "rate")))
    if any(later[0] <= earlier[0] for earlier, later in pairwise(steps)):
        raise UsageError(f"{profile.name} steps={given!r} are not in the order of time", hint="put the earliest first")
    return tuple(steps)
