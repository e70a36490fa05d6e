"""Changes in the configuration files that the server does not use yet, found before anything is changed.

Our reload or restart would bring them into force, and no restore could take them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trimtab.errors import TargetError, UsageError
from trimtab.space import Value
from trimtab.systems.knobs import Reading
from trimtab.systems.postgresql.catalogue import CATALOG
from trimtab.systems.postgresql.session import Connection
from trimtab.systems.postgresql.values import is_same
from trimtab.units import parse_value

__all__ = ["require_settled", "starts_with", "unsettled"]

_TRUE, _FALSE = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
_FROM_FILES = ("default", "configuration file")
_COMPUTED = frozenset(
    {"commit_timestamp_buffers", "io_max_concurrency", "subtransaction_buffers", "transaction_buffers", "wal_buffers"}
)
"""Knobs of a restart that show what the server made of an automatic value (-1 or 0) when it started."""
_ALIASES = {"wal_compression": ({"on", "pglz"},)}


def require_settled(connection: Connection, rows: Mapping[str, Reading], *, can_restart: bool) -> None:
    """That a reload (and a restart, where we can make one) changes nothing by itself.

    Raises:
        TargetError: it would; nothing was changed.
    """
    waiting = unsettled(connection, rows)
    late = [name for name in waiting if not rows[name].is_late]
    if late:
        raise TargetError(
            f"the configuration files hold changes that the server has not loaded: {', '.join(late)}",
            hint="reload the server (SELECT pg_reload_conf()), or undo them, and start again",
        )
    if can_restart and waiting:
        raise TargetError(
            f"the configuration files hold changes that wait for a restart: {', '.join(waiting)}",
            hint="restart the server, or undo them, and start again; or set allow_restart = false",
        )


def unsettled(connection: Connection, rows: Mapping[str, Reading]) -> list[str]:
    """Knobs whose value would be another after a reload and a restart; those of texts and lists are not looked at.

    Empty when this user may not see the files.
    """
    entries = _file_entries(connection)
    if entries is None:
        return []
    return [
        name
        for name, row in rows.items()
        if row.source in _FROM_FILES and not _is_settled(row, entries.get(name.lower()))
    ]


def starts_with(connection: Connection, rows: Mapping[str, Reading], values: Mapping[str, Value]) -> dict[str, bool]:
    """Knob -> whether the files give it this value at the next start, True where that cannot be told; {} when this user
    may not see them.
    """
    entries = _file_entries(connection)
    if entries is None:
        return {}
    texts = {name: entries.get(name.lower(), rows[name].default or "") for name in values}
    return {
        name: _is_automatic(name, texts[name]) or _means(replace(rows[name], text=_setting(value)), texts[name])
        for name, value in values.items()
    }


def _is_automatic(name: str, text: str) -> bool:
    return name in _COMPUTED and text.strip() in ("-1", "0")


def _setting(value: Value) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _file_entries(connection: Connection) -> dict[str, str] | None:
    """Name in lower case -> the text that counts, of all configuration files; None when this user may not see them."""
    found = connection.seen(CATALOG.sql["file_entries"])
    return dict(found) if found is not None else None


def _is_settled(row: Reading, text: str | None) -> bool:
    if row.is_late and not row.is_pending:
        return True
    if text is None:
        return row.source == "default" or _means(row, row.default or "")
    return _means(row, text)


def _means(row: Reading, text: str) -> bool:
    """Whether `text` stands for the running value; True where that cannot be told."""
    try:
        if row.kind == "bool":
            word = text.lower()
            return word not in _TRUE + _FALSE or (word in _TRUE) == row.value
        if row.kind in ("integer", "real"):
            return _is_number(row, parse_value(text, row.unit))
        if row.kind == "choice":
            same = next((group for group in _ALIASES.get(row.name, ()) if row.text in group), {row.text})
            return text.lower() in same or text.lower() not in row.choices
    except UsageError:
        return True
    return True


def _is_number(row: Reading, number: float) -> bool:
    if isinstance(row.value, int):  # the server rounds "100kB" to whole pages
        return abs(row.value - number) <= 0.5
    return is_same(row.value, number)
