"""A run of the load engine as plain data: what can be sent to another process, and how the engine is started from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab._native import (
        Cql,
        Http,
        Load,
        Model,
        Mongodb,
        Mysql,
        Page,
        Pages,
        Postgres,
        Script,
        Scripts,
        Site,
        WiredTiger,
        Ycsb,
        YcsbRows,
    )
    from trimtab.load.engine import Engine

__all__ = ["LoadPlan", "Part", "build_driver", "build_model", "build_source", "launch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """What a load does; everything in it is JSON.

    Attributes:
        protocol: "postgresql", "mysql", "cql", "mongodb", "wiredtiger" or "http".
        access: how the server is entered, as the engine's driver of that protocol takes it; never printed.
        source: the operations: `kind` is "ycsb", "ycsb rows", "scripts", "pages" or "site", and the rest its arguments.
        model: when they are due: `kind` is "closed" or "open", and the rest its arguments.
        users: connections of all generators together.
        duration_s: the load ends by itself after this time.
        operation_timeout_s: an operation is cut off after this time.
        seed: decides every random choice.
        max_tries: how often an operation is tried at most.
    """

    protocol: str
    access: Mapping[str, Any] = field(repr=False)
    source: Mapping[str, Any] = field(repr=False)
    model: Mapping[str, Any]
    users: int
    duration_s: float
    operation_timeout_s: float
    seed: int = 0
    max_tries: int = 1

    def without_password(self) -> LoadPlan:
        """The same, for a wire that others may read."""
        return replace(self, access={**self.access, "password": None}) if "password" in self.access else self

    def to_json(self) -> dict[str, Any]:
        """All fields by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Part:
    """The worker threads of a run that are in this process: `n_threads` from number `first` on, of `n_all` in all processes."""

    n_threads: int
    first: int
    n_all: int


def launch(plan: LoadPlan, part: Part, *, is_held: bool = False) -> Load:
    """Starts the engine; returns when the part's users are all connected. A held load waits for `Load.start`.

    Raises:
        ConnectionError: a user could not connect.
        OSError: the system gives a thread too little: no file descriptors, for instance.
        ValueError: something in the plan makes no sense, or the server refuses a statement.
    """
    from trimtab._native import Load

    return Load(
        driver=build_driver(plan.protocol, plan.access, plan.users),
        source=build_source(plan.source),
        model=build_model(plan.model),
        users=plan.users,
        duration_s=plan.duration_s,
        operation_timeout_s=plan.operation_timeout_s,
        seed=plan.seed,
        max_tries=plan.max_tries,
        threads=part.n_threads,
        first_thread=part.first,
        all_threads=part.n_all,
        is_held=is_held,
    )


engine_here: Engine | None = None
"""The storage engine that is open in this process, for loads that call it as a library."""


def build_driver(
    protocol: str, access: Mapping[str, Any], users: int = 1
) -> Postgres | Mysql | Cql | Mongodb | Http | WiredTiger:
    """The engine's driver; `users` need connections of their own.

    Raises:
        ValueError: an option that makes no sense, or a library that is not open in this process.
    """
    from trimtab._native import Cql, Http, Mongodb, Mysql, Postgres

    if protocol == "wiredtiger":
        if engine_here is None:
            raise ValueError("no WiredTiger is open in this process: the load runs in the engine's own")
        return engine_here.driver(access["database"], users)
    if protocol == "http":
        return Http(**{**access, "headers": _pairs(access["headers"])})
    drivers: dict[str, type[Postgres | Mysql | Cql | Mongodb]] = {
        "postgresql": Postgres,
        "mysql": Mysql,
        "cql": Cql,
        "mongodb": Mongodb,
    }
    return drivers[protocol](**{**access, "settings": _pairs(access.get("settings", ()))})


def build_source(source: Mapping[str, Any]) -> Ycsb | YcsbRows | Scripts | Pages | Site:
    """The engine's source of operations.

    Raises:
        ValueError: a script or a page that cannot be read, or a number that cannot be.
    """
    from trimtab._native import Pages, Scripts, Site, Ycsb, YcsbRows

    values = {name: value for name, value in source.items() if name != "kind"}
    if source["kind"] == "ycsb":
        return Ycsb(**values)
    if source["kind"] == "ycsb rows":
        return YcsbRows(**values)
    if source["kind"] == "pages":
        return Pages([_page(page) for page in values.pop("pages")], **values)
    if source["kind"] == "site":
        return Site(**_site(values))
    scripts = [_script(script) for script in values.pop("scripts")]
    return Scripts(scripts, **{**values, "variables": _pairs(values["variables"])})


def _page(page: Mapping[str, Any]) -> Page:
    from trimtab._native import Page

    return Page(**{**page, "headers": _pairs(page["headers"])})


def _site(values: Mapping[str, Any]) -> dict[str, Any]:
    """With pairs in place of JSON's lists."""
    session = values["session"]
    return {
        **values,
        "transitions": [_pairs(row) for row in values["transitions"]],
        "session": {**session, "lasts": None if session["lasts"] is None else tuple(session["lasts"])},
        "think": None if values["think"] is None else tuple(values["think"]),
        "always": _pairs(values["always"]),
        "states": [{**state, "asks": [_ask(ask) for ask in state["asks"]]} for state in values["states"]],
        "values": [_value(value) for value in values["values"]],
    }


def _ask(ask: Mapping[str, Any]) -> dict[str, Any]:
    return {**ask, "when": None if ask["when"] is None else tuple(ask["when"]), "pairs": _pairs(ask["pairs"])}


def _value(value: Mapping[str, Any]) -> dict[str, Any]:
    number, one_of, letters = value["number"], value["one_of"], value["letters"]
    if number is not None:
        ends = {end: tuple(number[end]) if isinstance(number[end], list) else number[end] for end in ("low", "high")}
        number = {**number, **ends}
    return {
        **value,
        "number": number,
        "one_of": None if one_of is None else _pairs(one_of),
        "letters": None if letters is None else tuple(letters),
        "finds": _pairs(value["finds"]),
    }


def _script(script: Mapping[str, Any]) -> Script:
    from trimtab._native import Script

    label, weight = script["label"], script["weight"]
    if script["kind"] == "builtin":
        return Script.builtin(label, weight)
    if script["kind"] == "pgbench":
        return Script.pgbench(label, weight, script["file"], script["text"])
    return Script.own(
        label, weight, script["file"], script["text"], parameters=script["parameters"], wrap=script["wrap"]
    )


def build_model(model: Mapping[str, Any]) -> Model:
    """The engine's load model.

    Raises:
        ValueError: a rate, profile or bound that makes no sense.
    """
    from trimtab._native import Model

    values = {name: value for name, value in model.items() if name != "kind"}
    if model["kind"] == "closed":
        return Model.closed(**values)
    profile = values.pop("profile")
    if profile is not None:
        kind, *rest = profile
        profile = (kind, _pairs(rest[0])) if kind == "step" else tuple(profile)
    return Model.open(values.pop("rate"), profile=profile, **values)


def _pairs(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, Any]]:
    """JSON has lists only; the engine wants pairs."""
    return [(first, second) for first, second in rows]
