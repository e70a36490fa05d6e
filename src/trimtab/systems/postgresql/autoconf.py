"""postgresql.auto.conf: what it sets, seen through the server, and changed by ALTER SYSTEM only where it differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from psycopg import sql

from trimtab.errors import ApplyError, TargetError
from trimtab.systems.postgresql.catalogue import CATALOG, read_rows
from trimtab.systems.postgresql.reach import AUTO_CONF
from trimtab.systems.postgresql.session import Connection, ConnectionLostError
from trimtab.systems.postgresql.values import setting_text
from trimtab.systems.session import StatementError

__all__ = ["change_entries", "file_entries", "file_faults", "hidden_entries", "read_entries", "reload_and_wait"]

_RELOAD_S = 20.0
_POLL_S = 0.005


def file_entries(connection: Connection) -> dict[str, str] | None:
    """Knob -> text of every entry in postgresql.auto.conf but those that Trimtab never touches (they may be secret); None when
    this user may not see the file."""
    found = connection.seen(CATALOG.sql["entries"])
    return None if found is None else {name: setting for name, setting in found if not _is_untouched(name)}


def read_entries(connection: Connection) -> dict[str, str]:
    """The same, or what of it is in use.

    Raises:
        TargetError: this user may see neither pg_file_settings nor where settings come from.
    """
    found = file_entries(connection)
    return _effective_entries(connection) if found is None else found


def hidden_entries(connection: Connection) -> str:
    """Why this user may not see the entries, and what to do; "" when it may."""
    try:
        read_entries(connection)
    except TargetError as error:
        return f"{error.message}; {error.hint}"
    return ""


def _is_untouched(name: str) -> bool:
    return bool(CATALOG.forbidden_reason(name)) or name in CATALOG.secret


def _effective_entries(connection: Connection) -> dict[str, str]:
    """The same as far as pg_settings shows it, in the words that we would write: entries that a later source overrides are
    missing."""
    if not connection.value("SELECT pg_has_role(current_user, 'pg_read_all_settings', 'USAGE')"):
        raise TargetError(
            "this user may not see which settings come from postgresql.auto.conf",
            hint="GRANT pg_read_all_settings TO the user (pg_monitor contains it)",
        )
    rows = read_rows(connection)
    return {
        name: setting_text(row.value, row.unit)
        for name, row in rows.items()
        if row.file.endswith(f"/{AUTO_CONF}") and not _is_untouched(name)
    }


def change_entries(connection: Connection, now: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Turns the entries `now` into `wanted`, one ALTER SYSTEM per difference.

    Raises:
        ApplyError: the server refuses a value; entries changed before it stay changed.
        ConnectionLostError: whether the last one was changed is not known.
        TargetError: the server or this user's rights do not let the file be changed at all.
    """
    statements: list[tuple[str, str | None]] = [(name, None) for name in now if name not in wanted]
    statements += [(name, text) for name, text in wanted.items() if now.get(name) != text]
    for name, text in statements:
        if CATALOG.forbidden_reason(name):
            raise ApplyError(f"knob={name!r} is forbidden", hint="it can never be set by Trimtab")
        knob = sql.Identifier(name)
        command = (
            sql.SQL("ALTER SYSTEM RESET {}").format(knob)
            if text is None
            else sql.SQL("ALTER SYSTEM SET {} = {}").format(knob, sql.Literal(text))
        )
        try:
            connection.rows(command)
        except StatementError as error:
            raise _told(error, name, text) from error


def _told(error: StatementError, name: str, text: str | None) -> TargetError:
    what = f"{name}={text!r}" if text is not None else f"RESET {name}"
    if error.is_lost:
        message = f"the connection was lost while changing {what}: {error.message}"
        return ConnectionLostError(message, hint="see the server's log")
    told = CATALOG.change_refused(error)
    if told is None:
        return ApplyError(f"the server refuses {what}: {error.message}", hint="see `trimtab knobs` for ranges")
    return TargetError(f"{told.says.format(what=what)}: {error.message}", hint=told.hint.format(name=name))


def file_faults(connection: Connection) -> list[str]:
    """What is wrong with the configuration files; that a knob waits for a restart is no fault.

    Empty when this user may not look.
    """
    found = connection.seen(CATALOG.sql["file_faults"]) or []
    return [f"{file}:{line} {name}: {fault}" for file, line, name, fault in found]


def reload_and_wait(connect: Callable[[], Connection]) -> None:
    """Lets the server read its files again; back when new connections see what it read. That of a visit ends.

    Raises:
        TargetError: this user may not reload, the files cannot be parsed, or the server does not react.
    """
    deadline = time.monotonic() + _RELOAD_S
    with connect() as connection:
        before = _loaded_at(connection)
        try:
            connection.rows("SELECT pg_reload_conf()")
        except StatementError as error:
            if not error.is_denied:
                raise
            raise TargetError(
                "this user may not reload the configuration",
                hint="GRANT EXECUTE ON FUNCTION pg_reload_conf() TO the user",
            ) from error
        has_loaded = _has_loaded(connection, before, deadline)
        connection.close()  # what a session takes at its beginning alone shows to later ones, in a visit too
    while not has_loaded and time.monotonic() < deadline:
        with connect() as connection:
            has_loaded = _loaded_at(connection) != before
        time.sleep(_POLL_S)
    if not has_loaded:
        raise TargetError(
            f"the server did not read its configuration again within timeout_s={_RELOAD_S:g}",
            hint="does its log show a syntax error in a configuration file?",
        )


def _has_loaded(connection: Connection, before: object, deadline: float) -> bool:
    """Whether it sees another load in time, which it makes after the postmaster has; False too when the connection is lost."""
    try:
        while _loaded_at(connection) == before:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
    except StatementError as error:
        if not error.is_lost:
            raise
        return False
    return True


def _loaded_at(connection: Connection) -> object:
    found: object = connection.value("SELECT pg_conf_load_time()")
    return found
