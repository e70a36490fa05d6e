"""The role with just the rights that tuning needs, as SQL: from PostgreSQL 15 on the database itself enforces the allow-list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trimtab.records import DataRights

__all__ = ["DEFAULT_ROLE", "SINCE", "Server", "grant_text"]

DEFAULT_ROLE = "trimtab"
SINCE = 15
"""First version with GRANT ... ON PARAMETER and with the role pg_checkpoint."""


@dataclass(frozen=True, slots=True)
class Server:
    """What the statements depend on.

    Attributes:
        major: the server's version.
        database: the database that the tuner connects to.
    """

    major: int
    database: str


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _word(name: str) -> str:
    """An identifier, quoted only where it must be."""
    return name if name.isidentifier() and name.islower() and name.isascii() else _quoted(name)


def _wrapped(words: Iterable[str], width: int = 110) -> Iterator[str]:
    line = ""
    for word in words:
        if line and len(line) + len(word) > width:
            yield line.rstrip()
            line = ""
        line += f"{word} "
    yield line.rstrip()


def grant_text(server: Server, names: Sequence[str], rights: DataRights | None, role: str) -> str:
    """The statements for `role` to tune `names`; below version 15 comments say what is missing.

    To be run by a superuser. The role must not exist, and gets its password afterwards (`\\password`), so that none
    stands in a statement or in the server's log.
    """
    makes = rights is not None and rights.makes_databases
    lines = [
        f"-- A role that may change {len(names)} knobs and nothing else of the server. Run as a superuser, in database",
        f"-- {_word(server.database)} (a right on a function counts in one database). No password is set here: afterwards use",
        f"-- \\password {_word(role)} in psql, or let pg_hba.conf admit the role in another way.",
        f"CREATE ROLE {_word(role)} LOGIN{' CREATEDB' if makes else ''};",
        "",
        "-- To see settings, their sources and the server's activity:",
        f"GRANT pg_monitor TO {_word(role)};",
        f"GRANT SELECT ON pg_catalog.pg_file_settings TO {_word(role)};",
        f"GRANT EXECUTE ON FUNCTION pg_catalog.pg_show_all_file_settings() TO {_word(role)};",
        "-- To let the server read its configuration again:",
        f"GRANT EXECUTE ON FUNCTION pg_catalog.pg_reload_conf() TO {_word(role)};",
        "",
        *_knob_lines(server, names, role),
        *_data_lines(server, rights, role),
    ]
    return "\n".join(lines) + "\n"


def _knob_lines(server: Server, names: Sequence[str], role: str) -> list[str]:
    if server.major < SINCE:
        return [
            f"-- NOT ENOUGH: PostgreSQL {server.major} cannot grant ALTER SYSTEM on single knobs ({SINCE} and later can).",
            "-- Only a superuser may change the configuration; Trimtab's own allow-list is then the only one.",
        ]
    return [
        "-- To set and to reset these knobs; the server refuses every other one (fsync, archive_command, RESET ALL, ...):",
        "GRANT ALTER SYSTEM ON PARAMETER",
        *_wrapped(f"{_word(name)}{',' if name != names[-1] else ''}" for name in names),
        f"TO {_word(role)};",
    ]


def _data_lines(server: Server, rights: DataRights | None, role: str) -> list[str]:
    if rights is None:
        return ["", "-- The workload does not say what it does with data: grant what its statements need."]
    lines = []
    if rights.makes_databases and server.major >= SINCE:
        lines += [
            "",
            "-- The workload creates its own databases (CREATEDB above) and issues a CHECKPOINT before it measures:",
            f"GRANT pg_checkpoint TO {_word(role)};",
        ]
    if rights.is_users_own:
        verbs = "SELECT" if rights.reads_only else "SELECT, INSERT, UPDATE, DELETE"
        schema = "public"
        lines += [
            "",
            f"-- The workload {'reads' if rights.reads_only else 'reads and writes'} your tables. Run this part in database"
            f" {_word(rights.database)}; repeat it for every schema:",
            f"GRANT CONNECT ON DATABASE {_word(rights.database)} TO {_word(role)};",
            f"GRANT USAGE ON SCHEMA {schema} TO {_word(role)};",
            f"GRANT {verbs} ON ALL TABLES IN SCHEMA {schema} TO {_word(role)};",
        ]
        if not rights.reads_only:
            lines.append(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {_word(role)};")
        if rights.makes_databases:
            lines.append(
                f"-- A copy for every run needs its owner: ALTER DATABASE {_word(rights.database)} OWNER TO {_word(role)};"
            )
    return lines
