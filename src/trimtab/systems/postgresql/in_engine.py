"""Tuning inside the server by the extension of extensions/postgresql: what is missing, its mode, what it learnt.

Nothing here decides anything: the extension does, in the server. What it learnt is given to those who do not load extensions as
plain statements.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trimtab.errors import TargetError, UsageError
from trimtab.records import QueryClass
from trimtab.systems.doctor import Line
from trimtab.systems.postgresql.grant import word
from trimtab.systems.postgresql.preload import HINT, Preload, literal, preload_of
from trimtab.systems.postgresql.session import Connection
from trimtab.systems.session import StatementError

__all__ = [
    "CHECK",
    "HINT",
    "Learnt",
    "advice_sql",
    "hint",
    "lines",
    "query_classes",
    "state",
    "switch",
    "watched_classes",
]

CHECK = "in-engine tuning"
MODES = ("off", "observe", "tune")
_MAJORITY = 0.5
"""A setting that helps classes with less than this share of a role's time in a database is no default for it."""


def state(connection: Connection) -> tuple[bool, str, str]:
    """Whether it is installed; what stands before the names that it has made in this database, its schema and a dot, "" where it
    has made none; and its mode, "" when it is not loaded."""
    ((is_here, schema, mode),) = connection.rows(
        "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'trimtab'), "
        "coalesce((SELECT quote_ident(nspname) || '.' FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace "
        "WHERE proname = 'trimtab_export' LIMIT 1), ''), coalesce(current_setting('trimtab.mode', true), '')"
    )
    return bool(is_here), str(schema), str(mode)


def lines(connection: Connection, lacks: Callable[[], str]) -> list[Line]:
    """What `trimtab doctor` says of it: the first thing that is missing, or the mode.

    Args:
        connection: to the server.
        lacks: says why the extension cannot be built here; "" when it can.
    """
    is_here, schema, mode = state(connection)
    if not mode:
        missing = (
            "it is installed, and `trimtab engine --mode observe` loads it"
            if is_here
            else "it is not installed: " + (lacks() or "`trimtab engine --install` builds and installs it")
        )
        return [(CHECK, False, f"the extension is not loaded: {missing}; a superuser may")]
    if not schema:
        return [(CHECK, False, "the extension is loaded; in this database run: CREATE EXTENSION trimtab")]
    says = "; while it is, trials measure its changes too" if mode == "tune" else ""
    try:
        problem = connection.value(f"SELECT file_problem FROM {schema}trimtab_status()")
    except StatementError as error:
        if not error.is_denied:
            return [(CHECK, False, f"mode={mode}; {error.message}")]
        grants = f"GRANT pg_read_all_stats TO {word(connection.info.user)}"
        return [(CHECK, False, f"mode={mode}; this user may not see what it learns: {grants}")]
    return [(CHECK, not problem, f"mode={mode}{says}" + (f"; {problem}" if problem else ""))]


def query_classes(connection: Connection, lacks: Callable[[], str]) -> list[QueryClass]:
    """What the extension knows of each class, the most time first; `lacks` as in `lines`.

    Raises:
        TargetError: it is not loaded, or this user may not see it.
    """
    ((check, is_fine, text),) = lines(connection, lacks)
    if not is_fine and "file=" not in text:
        raise TargetError(f"{check}: {text}", hint=HINT)
    return _exported(connection, f"{state(connection)[1]}trimtab_export")


def watched_classes(connection: Connection, preload: Preload) -> list[QueryClass]:
    """The same of a library that is loaded for a study only; nothing of it is made in the database.

    Raises:
        TargetError: it cannot be asked.
    """
    library = preload.libraries[-1]
    if not state(connection)[2]:
        if preload.is_late:
            return []  # the server has been started without it since
        connection.rows(f"LOAD {literal(library)}")
    made = f"CREATE FUNCTION pg_temp.trimtab_export() RETURNS json AS {literal(library)}, 'trimtab_export' LANGUAGE C"
    connection.rows(f"BEGIN; {made}")
    try:
        return _exported(connection, "pg_temp.trimtab_export")
    finally:
        connection.rows("ROLLBACK")


def _exported(connection: Connection, function: str) -> list[QueryClass]:
    document = connection.value(f"SELECT {function}()")
    found = document if isinstance(document, dict) else json.loads(document)
    names: dict[int, str] = dict(connection.rows("SELECT oid::bigint, datname FROM pg_database"))
    roles: dict[int, str] = dict(connection.rows("SELECT oid::bigint, rolname FROM pg_roles"))
    classes = [_class(row, names, roles) for row in found["classes"]]
    return sorted(classes, key=lambda each: -each.total_ms)


def _class(row: Mapping[str, Any], databases: Mapping[int, str], roles: Mapping[int, str]) -> QueryClass:
    return QueryClass(
        query_id=row["query_id"],
        database=databases.get(row["database"], ""),
        role=roles.get(row["role"], ""),
        phase=row["phase"],
        left_alone=row["left_alone"],
        calls=row["calls"],
        probes=row["probes"],
        own_ms=row["base_ms"],
        gain=row["gain"],
        gain_low=row["gain_low"],
        gain_high=row["gain_high"],
        total_ms=row["total_ms"],
        lost_ms=row["loss_ms"],
        gained_ms=row["gained_ms"],
        settings=dict(row["settings"]),
    )


class Learnt:
    """What a server has learnt over all of its starts: of each class the state that saw most executions."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], list[QueryClass]] = {}

    def add(self, found: Sequence[QueryClass]) -> None:
        """What it knows now."""
        groups: dict[tuple[str, str, str], list[QueryClass]] = defaultdict(list)
        for each in found:
            groups[each.query_id, each.database, each.role].append(each)
        for key, group in groups.items():
            if _calls(group) >= _calls(self._known.get(key, ())):
                self._known[key] = group

    @property
    def classes(self) -> list[QueryClass]:
        """All, the most time first."""
        return sorted((each for group in self._known.values() for each in group), key=lambda each: -each.total_ms)


def _calls(group: Sequence[QueryClass]) -> int:
    return sum(each.calls for each in group)


def switch(connection: Connection, mode: str) -> str:
    """Sets the mode for the whole server, for good; loads the library and makes the views where they are missing.

    Returns:
        When the library is in use, for people; "" if it is already.

    Raises:
        UsageError: an unknown mode.
        TargetError: it is not installed, or this user may not.
    """
    if mode not in MODES:
        raise UsageError(f"mode={mode!r} is unknown", hint=f"one of {', '.join(MODES)}")
    is_here, _, now = state(connection)
    if not now and not is_here:
        raise TargetError(
            "the extension is not installed", hint=f"trimtab engine --install builds and installs it; {HINT}"
        )
    says = "" if now else _load(connection)
    _set(connection, "mode", mode)
    return says


def _load(connection: Connection) -> str:
    """Has the server load the library, for good: in new sessions, or with the next restart where only that shares knowledge."""
    preload = preload_of(connection, "trimtab")
    try:
        preload.set(connection)
    except StatementError as error:
        raise TargetError(
            f"the extension cannot be loaded: {error.message}", hint=f"a superuser may; {HINT}"
        ) from error
    return f"{preload.name} has trimtab: {'restart the server' if preload.is_late else 'new sessions load it'}"


def _set(connection: Connection, name: str, value: str) -> None:
    is_here, schema, now = state(connection)
    if not now:
        raise TargetError("the extension is not loaded", hint=f"trimtab engine --mode observe loads it; {HINT}")
    try:
        if is_here and not schema:
            connection.rows("CREATE EXTENSION trimtab")
        connection.rows(f"ALTER SYSTEM SET trimtab.{name} = {literal(value)}")
        connection.rows("SELECT pg_reload_conf()")
    except StatementError as error:
        raise TargetError(f"trimtab.{name} cannot be set: {error.message}", hint="a superuser may") from error


def hint(connection: Connection, settings: Mapping[str, str]) -> dict[str, str]:
    """Has new classes try those of `settings` first that can be set for a statement; those.

    Raises:
        UsageError: none of them can.
        TargetError: it is not loaded, or this user may not.
    """
    _, schema, mode = state(connection)
    if not mode:
        raise TargetError("the extension is not loaded", hint=f"trimtab engine --mode observe loads it; {HINT}")
    try:
        known = {str(name) for (name,) in connection.rows(f"SELECT name FROM {schema}trimtab_parameters")}
    except StatementError as error:
        raise TargetError(f"{CHECK}: {error.message}", hint="in this database run: CREATE EXTENSION trimtab") from error
    found = {name: value for name, value in settings.items() if name in known}
    if not found:
        raise UsageError(
            f"none of the settings can be set for one statement: {', '.join(sorted(settings)) or 'there are none'}",
            hint="SELECT name FROM trimtab_parameters lists those that can",
        )
    _set(connection, "hints", ", ".join(f"{name}={value}" for name, value in found.items()))
    return found


def advice_sql(classes: Sequence[QueryClass]) -> str:
    """What was learnt, for a server without it: defaults of a role in a database where they help most of its time, and hints.

    Changes nothing; a comment at each line says what it rests on.
    """
    return "\n".join([*_defaults(classes), *_hints(classes)]) + "\n"


def _defaults(classes: Sequence[QueryClass]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[QueryClass]] = defaultdict(list)
    for each in classes:
        if each.database and each.role:
            groups[each.database, each.role].append(each)
    yield "-- Defaults of a role in a database, where most of its measured time gains by them. Measure before you keep them."
    for (database, role), group in sorted(groups.items()):
        total = sum(each.total_ms for each in group) or 1.0
        helped: dict[tuple[str, str], float] = defaultdict(float)
        for each in group:
            if each.is_faster:
                for name, value in each.settings.items():
                    helped[name, value] += each.total_ms
        for (name, value), ms in sorted(helped.items()):
            if ms / total > _MAJORITY:
                share = f"-- faster for {ms / total:.0%} of the time"
                yield f"ALTER ROLE {word(role)} IN DATABASE {word(database)} SET {name} = {literal(value)};  {share}"


def _hints(classes: Sequence[QueryClass]) -> Iterator[str]:
    yield "-- Hints in the syntax of pg_hint_plan, by query id (see pg_stat_statements.queryid for the texts)."
    for each in classes:
        if each.settings and each.is_faster:
            sets = " ".join(f'Set({name} "{value}")' for name, value in each.settings.items())
            gain = f"{each.gain:.2f} times as fast ({each.gain_low:.2f} to {each.gain_high:.2f})"
            yield f"-- {each.query_id}: /*+ {sets} */  {gain}"
