"""CycledWorkload: one workload under several contexts that follow each other: the table [workload.cycle] of a study file.

[workload.cycle]
iterations = 5                                         # search trials of a visit
cycles = 10                                            # rounds, at most; without it the budget ends the search
data = "keep"                                          # "fresh": every run starts from the same data again

[[workload.cycle.contexts]]
name = "morning"
users = 60                                             # short for load = { users = 60 }
workload = "A"                                         # and every other key of [workload], for this context alone
duration = "10m"                                       # in place of iterations: as many as fit

Between contexts nothing but the load changes: all run on the same database, which is made ready once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from trimtab.errors import LoadError, UsageError
from trimtab.records import Context, Cycle, DataRights, Endpoint, Visit
from trimtab.workload.base import (
    CopyingWorkload,
    DeployedWorkload,
    Deployment,
    LoadRun,
    PausingWorkload,
    Preparation,
    ProfiledWorkload,
    ResettableWorkload,
    RightsWorkload,
    ScriptedWorkload,
    StartState,
    ThreadedWorkload,
    Workload,
    arrivals_s,
)
from trimtab.workload.table import Table

__all__ = ["CycledWorkload", "Make"]

Make = Callable[[Mapping[str, Any]], Workload]
"""The workload of a table [workload] without a cycle."""

_NAME = "[workload.cycle]"
_KEYS = ("contexts", "iterations", "cycles", "data")
_OWN = ("name", "users", "iterations", "duration")
_ITERATIONS = 5
_MOST = 1_000_000


Data = tuple[str, str]
"""Where the data of a context is, and the script that undoes what its runs write, "" for none: contexts that have both in common
are made ready, and cleaned up, together."""


_Ready = dict[Data, tuple[Workload, str | None]]
"""Who has made what ready, and the options of tables that the target had then; None: it is under way, or was cut off."""


def _data_of(inner: Workload) -> Data:
    settings = getattr(inner, "settings", None)
    place = getattr(getattr(inner, "database", None), "name", "") or getattr(settings, "database", "")
    # A command has no database of ours: what is run before it makes its data ready.
    return str(place or " ".join(getattr(settings, "before", ()))), str(getattr(settings, "undo", ""))


class _Under:
    """The workload of one context: its data is made ready once, and not touched between runs, unless `is_fresh`."""

    def __init__(self, inner: Workload, context: Context, ready: _Ready, is_fresh: bool) -> None:
        self.inner, self.kind, self.protocols = inner, inner.kind, inner.protocols
        self.context, self._ready, self._is_fresh = context, ready, is_fresh

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """As the workload itself."""
        return self.inner.prepare(endpoint, report)

    @property
    def arrivals_s(self) -> float:
        """As the workload itself."""
        return arrivals_s(self.inner)

    @property
    def has_profile(self) -> bool:
        """As the workload itself."""
        return isinstance(self.inner, ProfiledWorkload) and self.inner.has_profile

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """As the workload itself."""
        return self.inner.start(endpoint, seed=seed, duration_s=duration_s)

    def at_full_speed(self) -> Self:
        """See `PausingWorkload`."""
        return self._with(self.inner.at_full_speed() if isinstance(self.inner, PausingWorkload) else self.inner)

    def _with(self, inner: Workload) -> Self:
        return self if inner is self.inner else type(self)(inner, self.context, self._ready, self._is_fresh)

    @property
    def copies(self) -> tuple[str, ...]:
        """See `CopyingWorkload`."""
        return self.inner.copies if isinstance(self.inner, CopyingWorkload) else ()

    def reset(self, endpoint: Endpoint, report: Callable[[str], None]) -> StartState | None:
        """The start state, once for all contexts that share it.

        Raises:
            LoadError: it was written under other options of tables than the target says now, and is not written again.
        """
        if not isinstance(self.inner, ResettableWorkload):
            return None
        data, tables = _data_of(self.inner), endpoint.options.get("tables.changed", "")
        written_under = self._ready[data][1] if data in self._ready else None
        if written_under is not None and not self._is_fresh:
            if written_under != tables:
                raise LoadError(
                    f"options of tables ({tables or 'as found'}) would not show: the data was written before they were set",
                    hint=f'give {_NAME} data = "fresh", or tune no options of tables',
                )
            return None
        # What one leaves behind that does not come to its end goes, too.
        self._ready[data] = self.inner, None
        state = self.inner.reset(endpoint, report)
        self._ready[data] = self.inner, tables
        return state if state is None or self._is_fresh else replace(state, is_once=True)

    def clean_up(self, endpoint: Endpoint) -> None:
        """What was made ready for any context goes, whichever of them cannot be cleaned up.

        Raises:
            LoadError: one of them; of several the first.
        """
        made = list(self._ready.values())
        self._ready.clear()
        failures: list[LoadError] = []
        for inner, _ in made:
            if isinstance(inner, ResettableWorkload):
                try:
                    inner.clean_up(endpoint)
                except LoadError as error:
                    failures.append(error)
        if failures:
            raise failures[0]


class _ThreadedUnder(_Under):
    """The same of a workload that is a `ThreadedWorkload`; a command is none, and hence never ended after a second."""

    def with_threads(self, least: int) -> Self:
        """See `ThreadedWorkload`."""
        return self._with(self.inner.with_threads(least) if isinstance(self.inner, ThreadedWorkload) else self.inner)


class CycledWorkload:
    """See the module; a `Workload` that runs under its first context unless it is told another.

    Attributes:
        cycle: its visits.
    """

    def __init__(self, inner: Sequence[Workload], visits: Sequence[Visit], most: int, *, is_fresh: bool) -> None:
        ready: _Ready = {}
        self.cycle = Cycle(visits=tuple(visits), most=most)
        self._under = [
            (_ThreadedUnder if isinstance(w, ThreadedWorkload) else _Under)(w, v.context, ready, is_fresh)
            for w, v in zip(inner, visits, strict=True)
        ]
        self.kind, self.protocols = inner[0].kind, inner[0].protocols

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], make: Make) -> CycledWorkload:
        """Built from the table [workload] with its `cycle`.

        Raises:
            UsageError: no context, an unknown key or a wrong value; of a context it is named.
        """
        given = settings["cycle"]
        if not isinstance(given, Mapping):
            raise UsageError(f"{_NAME}={given!r} is not a table", hint=_hint())
        table = Table(given, _NAME, _KEYS)
        rows = given.get("contexts")
        if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
            raise UsageError(f"{_NAME} contexts={rows!r} names no context", hint=_hint())
        usual = table.integer("iterations", _ITERATIONS, 1, _MOST)
        most = table.integer("cycles", 0, 1, _MOST) if "cycles" in table else 0
        is_fresh = table.choice("data", ("keep", "fresh"), "keep") == "fresh"
        base = {key: value for key, value in settings.items() if key != "cycle"}
        named = [_Row.of(row, number, base) for number, row in enumerate(rows, 1)]
        _require_distinct([row.name for row in named])
        made = [row.made(make, {}) for row in named]
        copying = next((w for w in made if isinstance(w, CopyingWorkload) and w.copies), None)
        if "start_state" not in base and copying is not None:
            # What one writes to a copy of the data, the others must find there.
            made = [row.made(make, _one_copy(copying)) for row in named]
        if not is_fresh:
            _require_lasting(made, [row.name for row in named])
        _require_one_application(made, [row.name for row in named], is_fresh=is_fresh)
        contexts = _told_apart([w.context for w in made], [row.settings for row in named], [row.name for row in named])
        visits = [row.visit(context, usual) for row, context in zip(named, contexts, strict=True)]
        return _class_of(made)(made, visits, most, is_fresh=is_fresh)

    @property
    def context(self) -> Context:
        """Of the cycle as a whole: most clients, which memory has to suffice for, and the mean share of reads."""
        contexts = [visit.context for visit in self.cycle.visits]
        names = ", ".join(f"{v.name} ({v.context.workload}, {v.context.clients} clients)" for v in self.cycle.visits)
        share = sum(context.read_share for context in contexts) / len(contexts)
        return Context(f"cycle of {len(contexts)}: {names}", max(context.clients for context in contexts), share)

    @property
    def texts(self) -> Mapping[str, str]:
        """Of all contexts; empty where the user wrote no statements."""
        return {
            label: text
            for each in self._under
            if isinstance(each.inner, ScriptedWorkload)
            for label, text in each.inner.texts.items()
        }

    @property
    def arrivals_s(self) -> float:
        """Of the context whose users take longest to come: all have one plan."""
        return max(arrivals_s(each) for each in self._under)

    def under(self, context: Context) -> Workload:
        """The workload while `context` is present.

        Raises:
            UsageError: it is none of the cycle's.
        """
        found = next((each for each in self._under if each.context == context), None)
        if found is None:
            raise UsageError(f"context={context.workload!r} is not in the cycle", hint="start again with --again")
        return found

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """The data of every context; what one needs as another does is made once."""
        done = [each.prepare(endpoint, report) for each in self._under]
        return replace(
            done[0],
            duration_s=sum(each.duration_s for each in done),
            size_bytes=max(each.size_bytes for each in done),
            was_cached=all(each.was_cached for each in done),
        )

    @property
    def copies(self) -> tuple[str, ...]:
        """See `CopyingWorkload`; of all contexts."""
        return tuple(dict.fromkeys(name for each in self._under for name in each.copies))

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """The load of the first context."""
        return self._under[0].start(endpoint, seed=seed, duration_s=duration_s)


class _RightsCycle(CycledWorkload):
    """One whose workload can say what a user must be allowed to do with data."""

    @property
    def rights(self) -> DataRights:
        """Those of a context that writes, where there is one."""
        found = [each.inner.rights for each in self._under if isinstance(each.inner, RightsWorkload)]
        return next((rights for rights in found if not rights.reads_only), found[0])


class _DeployedCycle(_RightsCycle):
    """One whose workload brings its application with it, which is the same for all contexts."""

    def deployment(self, data: Endpoint, report: Callable[[str], None]) -> Deployment:
        """See `DeployedWorkload`.

        Raises:
            LoadError, UsageError: as the workload itself.
        """
        first = self._under[0].inner
        assert isinstance(first, DeployedWorkload)
        return first.deployment(data, report)


def _class_of(made: Sequence[Workload]) -> type[CycledWorkload]:
    """The one that has what these have: of a protocol each member counts as there that a class has, whatever it raises."""
    if all(isinstance(workload, DeployedWorkload) and isinstance(workload, RightsWorkload) for workload in made):
        return _DeployedCycle
    return _RightsCycle if any(isinstance(workload, RightsWorkload) for workload in made) else CycledWorkload


class _Row:
    """One row of `contexts`, merged with the table [workload]."""

    def __init__(self, own: Table, name: str, settings: Mapping[str, Any]) -> None:
        self.own, self.name, self.settings = own, name, settings

    @classmethod
    def of(cls, row: Mapping[str, Any], number: int, base: Mapping[str, Any]) -> _Row:
        own = Table({key: row[key] for key in _OWN if key in row}, f"{_NAME} contexts[{number}]", _OWN)
        name = own.text("name", f"context {number}")
        if "iterations" in own and "duration" in own:
            raise UsageError(
                f"{own.name} has iterations={row['iterations']!r} and duration={row['duration']!r}",
                hint="a visit ends by one of them: remove the other",
            )
        changed = {key: value for key, value in row.items() if key not in _OWN}
        merged = {**base, **changed}
        load = {**_table(base.get("load")), **_table(changed.get("load"))}
        if "users" in own:
            load["users"] = row["users"]
        return cls(own, name, {**merged, "load": load} if load else merged)

    def made(self, make: Make, usual: Mapping[str, Any]) -> Workload:
        """With `usual` settings in place of those that neither the row nor [workload] has."""
        try:
            return make({**usual, **self.settings})
        except UsageError as error:
            raise UsageError(f"context={self.name!r} of {_NAME}: {error.message}", hint=error.hint) from error

    def visit(self, context: Context, usual: int) -> Visit:
        if "duration" in self.own:
            return Visit(name=self.name, context=context, duration_s=self.own.seconds("duration", "10m"))
        return Visit(name=self.name, context=context, iterations=self.own.integer("iterations", usual, 1, _MOST))


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _one_copy(workload: Workload) -> Mapping[str, Any]:
    """Of a workload whose runs have a copy of the data: let every context use that."""
    choice = getattr(getattr(workload, "settings", None), "start_state", None)
    return {"start_state": "template"} if choice in ("auto", "template") else {}


def _told_apart(contexts: list[Context], settings: list[Mapping[str, Any]], names: list[str]) -> list[Context]:
    """Contexts that differ in what a `Context` does not show are told apart by their names."""
    return [
        replace(context, workload=f"{context.workload} ({names[i]})")
        if any(other == context and settings[j] != settings[i] for j, other in enumerate(contexts))
        else context
        for i, context in enumerate(contexts)
    ]


def _require_distinct(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"{_NAME} has {names.count(name)} contexts named {name!r}", hint="give each a different name"
            )


def _require_lasting(made: Sequence[Workload], names: Sequence[str]) -> None:
    for workload, name in zip(made, names, strict=True):
        if getattr(workload, "needs_fresh_data", False):
            raise UsageError(
                f"context={name!r} of {_NAME}: its runs cannot go on from the data that another run has left",
                hint='set data = "fresh" in [workload.cycle], or use a workload that inserts no records',
            )


def _require_one_application(made: Sequence[Workload], names: Sequence[str], *, is_fresh: bool) -> None:
    """It is deployed once, and finds its data under one name."""
    first = made[0]
    for workload, name in zip(made, names, strict=True):
        if not isinstance(workload, DeployedWorkload):
            continue
        mine, theirs = getattr(workload, "data", None), getattr(first, "data", None)
        if workload.kind != first.kind or getattr(mine, "options", None) != getattr(theirs, "options", None):
            raise UsageError(
                f"context={name!r} of {_NAME} needs another application than context={names[0]!r}, or other options of it",
                hint="all contexts use one application, which runs all the time: leave that to [workload]",
            )
        if not is_fresh and mine != theirs:
            raise UsageError(
                f"context={name!r} of {_NAME} has other data than context={names[0]!r}, and all run on one copy",
                hint='set data = "fresh" in [workload.cycle], or leave the data to [workload]',
            )


def _hint() -> str:
    return 'write contexts = [{ name = "day", users = 60 }, { name = "night", users = 4 }]'
