"""Profile of a live server: what it is asked, from pg_stat_statements, as a weighted mix of statements to be measured with.

Nothing is sent to the server but reads of its statistics and catalogue, and PREPARE (to check a statement and to learn its
parameters). Values are never copied: a parameter that belongs to a column is sampled from that column when the data is
prepared, and one that nothing is known of is left for the user to fill in.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from trimtab.errors import LoadError, TargetError
from trimtab.records import Endpoint
from trimtab.redact import hide_literals, hide_values
from trimtab.units import counted, format_duration, format_percent
from trimtab.workload.connection import Connection, connect
from trimtab.workload.sql.columns import Catalogue, guess, names_their_table
from trimtab.workload.sql.generators import UNKNOWN
from trimtab.workload.sql.statements import writes
from trimtab.workload.stat_statements import schema_of_statistics

__all__ = ["LeftOut", "Profile", "Proposal", "read_profile"]

_READ = (
    "SELECT queryid, query, calls, total_exec_time, rows FROM {schema}pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid"
    " WHERE d.datname = current_database() AND coalesce((to_jsonb(s) ->> 'toplevel')::boolean, true)"
)
"""Without what functions run, which is counted besides with pg_stat_statements.track = all: whoever calls them runs it again.
Before version 1.9 the extension does not tell."""
_HIDDEN = "<insufficient privilege>"
"""What stands for all statements of other roles, without a queryid, where ours may not read them."""
_FIRST_WORD = re.compile(r"\s*(?:/\*.*?\*/\s*|--[^\n]*\n\s*)*\(?\s*(\w+)", re.DOTALL)
_READS = ("select", "values", "table")
_WRITES = ("insert", "update", "delete", "merge")
_CONTROL = re.compile(
    "begin|start|commit|end|rollback|abort|savepoint|release|set|reset|show|deallocate|discard|close|fetch|declare"
)
_OF_SERVER = re.compile(r"\b(?:pg_\w+|information_schema|current_setting|to_regclass)\b|\bversion\(\)", re.IGNORECASE)
"""In questions about the server itself, ours and those of monitoring; and in some of an application (pg_notify...)."""
_PLACEHOLDER = re.compile(r"\$(\d+)")
_SLICE = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|(?<!:):(?=[\w$])""")
"""A text in quotes, or the colon of an array's slice: in [$1:$2] and [i:j] it would stand before a name as that of a placeholder
does, or make a cast of two."""
_SHORTENED = "/*, ... */"
"""What PostgreSQL 18 and later keep in place of all values of a list but the first, however long it was."""


@dataclass(frozen=True, slots=True)
class _Seen:
    text: str
    calls: int
    time_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A statement of the mix.

    Attributes:
        label: short name, unique in the profile.
        text: with named placeholders (:name).
        generators: by placeholder; {"type": "?"} where the user must say.
        calls: how often it was called.
        time_ms: its execution time in all.
        writes: whether it changes data.
    """

    label: str
    text: str
    generators: Mapping[str, Mapping[str, Any]]
    calls: int
    time_ms: float
    writes: bool

    @property
    def unknown(self) -> tuple[str, ...]:
        """Placeholders that nothing is known of."""
        return tuple(name for name, options in self.generators.items() if options["type"] == UNKNOWN)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A statement that is not in the mix, without the values in it, and why."""

    text: str
    reason: str
    calls: int
    time_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a server was asked.

    Attributes:
        database: whose statements these are.
        window_s: seconds they were watched; 0 when all since the last reset of the statistics are taken.
        proposals: the mix, the most expensive first.
        left_out: the rest.
    """

    database: str
    window_s: float
    proposals: tuple[Proposal, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def calls(self) -> int:
        """Calls of all statements seen."""
        return sum(p.calls for p in self.proposals) + sum(s.calls for s in self.left_out)

    @property
    def time_ms(self) -> float:
        """Execution time of all statements seen."""
        return sum(p.time_ms for p in self.proposals) + sum(s.time_ms for s in self.left_out)

    @property
    def share_of_calls(self) -> float:
        """Share of the calls that the mix covers, in [0, 1]."""
        return sum(p.calls for p in self.proposals) / self.calls if self.calls else 0.0

    @property
    def share_of_time(self) -> float:
        """Share of the execution time that the mix covers, in [0, 1]."""
        return sum(p.time_ms for p in self.proposals) / self.time_ms if self.time_ms else 0.0

    @property
    def rate_per_s(self) -> float:
        """Calls of the mix per second; 0 when no window was watched."""
        return sum(p.calls for p in self.proposals) / self.window_s if self.window_s else 0.0

    @property
    def mean_active(self) -> float:
        """Statements that ran at the same time on average; 0 when no window was watched."""
        return self.time_ms / 1e3 / self.window_s if self.window_s else 0.0

    def to_json(self, width: int) -> dict[str, Any]:
        """All figures, the mix, and what was left out, of whose statements `width` characters are kept."""
        figures = (
            "database",
            "window_s",
            "calls",
            "time_ms",
            "share_of_calls",
            "share_of_time",
            "rate_per_s",
            "mean_active",
        )
        return {
            **{name: getattr(self, name) for name in figures},
            "statements": [
                {
                    "label": p.label,
                    "calls": p.calls,
                    "time_ms": p.time_ms,
                    "writes": p.writes,
                    "parameters": {name: dict(options) for name, options in p.generators.items()},
                }
                for p in self.proposals
            ],
            "left_out": [
                {"statement": s.text[:width], "reason": s.reason, "calls": s.calls, "time_ms": s.time_ms}
                for s in self.left_out
            ],
        }


def read_profile(
    endpoint: Endpoint, *, window_s: float, coverage: float, most: int, wait: Callable[[float], object] = time.sleep
) -> Profile:
    """Watches `endpoint`'s database for `window_s` seconds (0: takes everything since the statistics were reset).

    Args:
        endpoint: whose database is asked.
        window_s: seconds to watch.
        coverage: share of the execution time, and of the calls, that the mix should cover, in (0, 1].
        most: statements in the mix at most.
        wait: for so many seconds.

    Raises:
        TargetError: pg_stat_statements is not there or may not be read.
        LoadError: it saw nothing, or the server does not let us in.
    """
    with connect(endpoint) as connection:
        before = _read(connection) if window_s else {}
        if window_s:
            wait(window_s)
        seen = _difference(before, _read(connection))
        proposals, left_out = _propose(connection, seen, coverage, most)
        if not proposals and any(statement.text == _HIDDEN for statement in seen):
            raise TargetError(
                f"user={endpoint.user} may not see the statements of other roles in pg_stat_statements, and has none",
                hint=f'GRANT pg_read_all_stats TO "{endpoint.user}"',
            )
        if not proposals and not left_out:
            raise LoadError(
                f"pg_stat_statements saw no statement in database={endpoint.database}"
                + (f" within {format_duration(window_s)}" if window_s else ""),
                hint="watch for longer with --seconds, while the application is at work",
            )
    return Profile(database=endpoint.database, window_s=window_s, proposals=proposals, left_out=left_out)


def _read(connection: Connection) -> dict[object, _Seen]:
    """Calls and time by query; the same query of several roles is one."""
    try:
        schema = schema_of_statistics(lambda text: connection.execute(text).fetchall())
        rows = connection.execute(_READ.format(schema=schema)).fetchall()
    except psycopg.errors.UndefinedTable as error:
        raise TargetError(
            f"pg_stat_statements is not installed in database={connection.info.dbname}",
            hint="set shared_preload_libraries = 'pg_stat_statements' (needs a restart), then run "
            "CREATE EXTENSION pg_stat_statements in that database",
        ) from error
    except psycopg.errors.UndefinedColumn as error:
        raise TargetError(
            f"pg_stat_statements in database={connection.info.dbname} is older than PostgreSQL 13",
            hint="run ALTER EXTENSION pg_stat_statements UPDATE in that database",
        ) from error
    except psycopg.Error as error:
        raise TargetError(
            f"pg_stat_statements cannot be read: {str(error).strip()}",
            hint="it must be in shared_preload_libraries, and the role needs pg_read_all_stats (or pg_monitor)",
        ) from error
    result: dict[object, _Seen] = {}
    for query_id, text, calls, time_ms, _ in rows:
        old = result.get(query_id, _Seen("", 0, 0.0))
        result[query_id] = _Seen(str(text), old.calls + int(str(calls)), old.time_ms + float(str(time_ms)))
    return result


def _difference(before: Mapping[object, _Seen], after: Mapping[object, _Seen]) -> list[_Seen]:
    nothing = _Seen("", 0, 0.0)
    changed = []
    for query_id, seen in after.items():
        old = before.get(query_id, nothing)
        # Fewer calls than before: the entry was evicted or the statistics were reset meanwhile.
        old = nothing if old.calls > seen.calls else old
        if seen.calls > old.calls:
            changed.append(_Seen(seen.text, seen.calls - old.calls, seen.time_ms - old.time_ms))
    return sorted(changed, key=lambda statement: -statement.time_ms)


def _propose(
    connection: Connection, seen: Sequence[_Seen], coverage: float, most: int
) -> tuple[tuple[Proposal, ...], tuple[LeftOut, ...]]:
    catalogue = Catalogue(connection)
    proposals: list[Proposal] = []
    left_out: list[LeftOut] = []
    wanted = [s for s in seen if _kind(s.text) and not _is_of_server(s.text, catalogue)]
    missing = _Seen("", int(coverage * sum(s.calls for s in wanted)), coverage * sum(s.time_ms for s in wanted))
    for statement in seen:
        is_covered = missing.calls <= 0 and missing.time_ms <= 0
        reason = _reason(connection, statement, catalogue)
        if reason == "" and (is_covered or len(proposals) >= most):
            reason = (
                f"beyond the coverage of {format_percent(coverage)}"
                if is_covered
                else f"more than {counted(most, 'statement')}"
            )
        if reason is None:
            continue
        if reason:
            left_out.append(
                LeftOut(hide_values(statement.text, "postgresql"), reason, statement.calls, statement.time_ms)
            )
            continue
        missing = _Seen("", missing.calls - statement.calls, missing.time_ms - statement.time_ms)
        proposals.append(_proposal(statement, len(proposals) + 1, catalogue))
    return tuple(proposals), tuple(left_out)


def _kind(text: str) -> str:
    """ "read", "write", or "" for what is no query (BEGIN, VACUUM, SET...)."""
    word = _first_word(text)
    if word in _WRITES or (word in (*_READS, "with") and writes(text, ("postgresql",))):
        return "write"
    return "read" if word in (*_READS, "with") else ""


def _first_word(text: str) -> str:
    match = _FIRST_WORD.match(text)
    return match[1].lower() if match else ""


def _is_of_server(text: str, catalogue: Catalogue) -> bool:
    """Whether the statement asks about the server itself, and is none of the application's."""
    return bool(_OF_SERVER.search(text)) and not names_their_table(text, catalogue)


def _reason(connection: Connection, statement: _Seen, catalogue: Catalogue) -> str | None:
    """Why the statement cannot be in the mix; "" when it can; None when it is none of the application's."""
    if _is_of_server(statement.text, catalogue) or _CONTROL.fullmatch(_first_word(statement.text)):
        return None
    if statement.text == _HIDDEN:
        return "of other roles, which may only be seen with pg_read_all_stats"
    if not _kind(statement.text):
        return "no query"
    if _SHORTENED in statement.text:
        return "how many values its list had is not known"
    try:
        connection.execute(f"PREPARE trimtab_profile AS {statement.text}")
    except psycopg.Error as error:
        return "cannot be prepared: " + hide_literals(str(error).strip().splitlines()[0])
    connection.execute("DEALLOCATE trimtab_profile")
    return ""


def _proposal(statement: _Seen, number: int, catalogue: Catalogue) -> Proposal:
    text = _SLICE.sub(lambda found: found[1] or ": ", statement.text.strip().rstrip(";"))
    prefix = f"s{number:02d}"
    names: dict[int, str] = {}
    generators: dict[str, Mapping[str, Any]] = {}
    for placeholder in sorted({int(n) for n in _PLACEHOLDER.findall(text)}):
        guessed, generator = guess(text, placeholder, catalogue)
        name = f"{prefix}_{guessed}"
        if name in generators:
            name = f"{name}_{placeholder}"
        names[placeholder], generators[name] = name, generator
    return Proposal(
        label=f"{prefix}_{_first_word(text)}",
        text=_PLACEHOLDER.sub(lambda found: f":{names[int(found[1])]}", text),
        generators=generators,
        calls=statement.calls,
        time_ms=statement.time_ms,
        writes=_kind(text) == "write",
    )
