"""The role with just the rights that tuning needs, as SQL: from PostgreSQL 15 on the database itself enforces the allow-list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trimtab.records import DataRights
from trimtab.systems.grants import granted
from trimtab.systems.server_catalog import server_catalog

__all__ = ["RESERVED", "SINCE", "grant_text", "word"]

SINCE = 15
"""First version with GRANT ... ON PARAMETER and with the role pg_checkpoint."""


_WORDS = """
all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column
concurrently constraint create cross current_catalog current_date current_role current_schema current_time current_timestamp
current_user default deferrable desc distinct do else end except false fetch for foreign freeze from full grant group having
ilike in initially inner intersect into is isnull join lateral leading left like limit localtime localtimestamp natural not
notnull null offset on only or order outer overlaps placing primary references returning right select session_user similar
some symmetric system_user table tablesample then to trailing true union unique user using variadic verbose when where window
with
"""
RESERVED = frozenset(_WORDS.split())
"""Words of the language that no role and no database is called by without quotes, up to version 18."""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def word(name: str) -> str:
    """An identifier, quoted only where it must be."""
    is_plain = name.isidentifier() and name.islower() and name.isascii() and name not in RESERVED
    return name if is_plain else _quoted(name)


def _wrapped(words: Iterable[str], width: int = 110) -> Iterator[str]:
    line = ""
    for word in words:
        if line and len(line) + len(word) > width:
            yield line.rstrip()
            line = ""
        line += f"{word} "
    yield line.rstrip()


def grant_text(major: int, database: str, names: Sequence[str], rights: DataRights | None, role: str) -> str:
    """The statements for `role` to tune `names`; below version 15 comments say what is missing.

    To be run by a superuser. The role must not exist, and gets its password afterwards (`\\password`), so that none
    stands in a statement or in the server's log. `database` is the one that it connects to.
    """
    words = {
        "n_knobs": str(len(names)),
        "knobs": "\n".join(_wrapped(f"{word(name)}{',' if name != names[-1] else ''}" for name in names)),
        "role": word(role),
        "login_database": word(database),
        "database": word(rights.database) if rights is not None else "",
        "version": str(major),
    }
    return granted(server_catalog("postgresql").grant, rights, {"version": float(major)}, words)
