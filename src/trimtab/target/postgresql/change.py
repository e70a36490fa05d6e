"""Snapshot, change and put back a server's configuration: all or nothing, read back every time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from trimtab.errors import ApplyError, RestoreError, TargetError
from trimtab.space import Config, Value
from trimtab.target.base import Applied, KnobState, Snapshot
from trimtab.target.postgresql.autoconf import change_entries, file_faults, read_entries, reload_and_wait
from trimtab.target.postgresql.catalogue import Row, read_rows
from trimtab.target.postgresql.classes import SECRET
from trimtab.target.postgresql.pending import require_settled
from trimtab.target.postgresql.reach import AUTO_CONF, Reach, file_from_json, file_to_json
from trimtab.target.postgresql.session import LoginRefusedError
from trimtab.target.postgresql.values import is_same, setting_text
from trimtab.units import format_value

__all__ = ["put_back", "set_config", "take_snapshot"]

_LOG_LINES = 20


def take_snapshot(target: str, reach: Reach, public: Mapping[str, Any], *, can_restart: bool) -> Snapshot:
    """The server's configuration as it is; `public` is the study file's table without secrets.

    Raises:
        TargetError: the files hold changes that the server does not use yet: they could not be kept apart from ours.
    """
    with reach.connect() as connection:
        entries = read_entries(connection)
        rows = read_rows(connection)
        require_settled(connection, rows, can_restart=can_restart)
    files = {}
    if reach.data_dir is not None:
        path = reach.data_dir / AUTO_CONF
        files[str(path)] = file_to_json(reach.host.read_file(path))
    return Snapshot(
        target=target,
        kind="postgresql",
        reach={**reach.describe(), "settings": dict(public), "entries": entries},
        files=files,
        values={name: row.value for name, row in rows.items() if _is_kept(row)},
    )


def _is_kept(row: Row) -> bool:
    """Whether a value belongs to the server and not to our own session, and may be written down."""
    return row.context != "internal" and row.source not in ("client", "session") and row.name not in SECRET


def set_config(reach: Reach, states: Mapping[str, KnobState], base: Snapshot, config: Config) -> Applied:
    """Sets exactly `config` over `base`, reloads, restarts when a value cannot show otherwise, and reads back.

    Raises:
        ApplyError: the server refuses a value, does not come back, or uses another value. The server is left as it is:
            the caller rescues it.
        TargetError: the configuration cannot be changed at all.
    """
    started = time.monotonic()
    texts = {name: setting_text(value, states[name].knob.unit) for name, value in config.items()}
    wanted = {**base.reach["entries"], **texts}
    with reach.connect() as connection:
        now = read_entries(connection)
        change_entries(connection, now, wanted)
        faults = file_faults(connection)
    if faults:
        raise ApplyError(f"the server cannot use its configuration files: {'; '.join(faults)}")
    if now != wanted:
        reload_and_wait(reach.connect)
    touched = sorted({*now, *wanted} & set(base.values))
    values = {name: config.get(name, base.values[name]) for name in touched}
    rows = _rows(reach)
    must_restart = any(rows[name].is_pending and not is_same(rows[name].value, values[name]) for name in touched)
    if must_restart:
        reach.restart()
        rows = _rows(reach)
    _check(rows, values, config, states)
    effective = {name: rows[name].value for name in config}
    return Applied(effective=effective, restarted=must_restart, duration_s=time.monotonic() - started)


def _rows(reach: Reach) -> dict[str, Row]:
    with reach.connect() as connection:
        return read_rows(connection)


def _check(
    rows: Mapping[str, Row], values: Mapping[str, Value], config: Config, states: Mapping[str, KnobState]
) -> None:
    """That the server uses what it was asked for; a special value (-1) shows as what the server made of it."""
    for name, value in values.items():
        row, knob = rows[name], states[name].knob
        # a knob that is not named may be one that the server derives from others (wal_buffers from shared_buffers)
        is_derived = config.get(name, knob.default) in knob.special
        if is_same(row.value, value) or (is_derived and not row.is_pending):
            continue
        where = f"{row.source} {row.file}:{row.line}" if row.file else row.source
        raise ApplyError(
            f"the server uses {name}={format_value(row.value, row.unit)} ({where}),"
            f" not {format_value(value, row.unit)}",
            hint="another source wins over postgresql.auto.conf, or the server rounds the value",
        )


def put_back(reach: Reach, snapshot: Snapshot) -> bool:
    """Puts files and values of `snapshot` back exactly; returns whether the server was restarted. Idempotent.

    Raises:
        RestoreError: the files cannot be written, the server does not come up, or does not use the old values.
    """
    try:
        was_up = reach.is_up()
        changed = _put_files_back(reach, snapshot) if snapshot.files else _put_entries_back(reach, snapshot)
        restarted = not was_up or not _answers(reach)
        if not was_up:
            reach.ensure_up()
        elif restarted:
            reach.restart()
        elif changed:
            reload_and_wait(reach.connect)
        wrong = _wrong_values(reach, snapshot)
        if wrong and not reach.no_restart:
            restarted = True
            reach.restart()
            wrong = _wrong_values(reach, snapshot)
    except TargetError as error:
        raise RestoreError(
            f"the server could not be put back as it was found: {error.message}", hint=_by_hand(snapshot)
        ) from error
    if wrong:
        raise RestoreError(
            f"after the restore the server still uses other values than before: {', '.join(wrong)}",
            hint=_by_hand(snapshot),
        )
    return restarted


def _answers(reach: Reach) -> bool:
    """Whether a login works: a server process may be there and hang. One that refuses us does answer.

    Raises:
        LoginRefusedError: it does not let us in.
    """
    try:
        reach.connect().close()
    except LoginRefusedError:
        raise
    except TargetError:
        return False
    return True


def _by_hand(snapshot: Snapshot) -> str:
    if snapshot.files:
        path = next(iter(snapshot.files))
        return f"by hand: write the content kept in the journal back to {path}, and restart the server"
    entries = snapshot.reach["entries"]
    return f"by hand: ALTER SYSTEM RESET every knob but {', '.join(entries) or 'none'}, and SELECT pg_reload_conf()"


def _put_files_back(reach: Reach, snapshot: Snapshot) -> bool:
    changed = False
    for name, table in snapshot.files.items():
        path, saved = reach.data_dir / AUTO_CONF if reach.data_dir is not None else None, file_from_json(table)
        if path is None or str(path) != name:
            raise RestoreError(f"the snapshot's file={name!r} is not this server's", hint="use the study's own target")
        if reach.host.read_file(path) == saved:
            continue
        changed = True
        if saved is None:
            reach.host.remove_file(path)
        else:
            reach.host.write_file(path, saved)
    return changed


def _put_entries_back(reach: Reach, snapshot: Snapshot) -> bool:
    entries: Mapping[str, str] = snapshot.reach["entries"]
    # a tuner may have died between its change and its reload; without rights on the files only loaded entries are seen
    reload_and_wait(reach.connect)
    with reach.connect() as connection:
        now = read_entries(connection)
        change_entries(connection, now, entries)
    return now != entries


def _wrong_values(reach: Reach, snapshot: Snapshot) -> list[str]:
    rows = _rows(reach)
    return [
        f"{name}={format_value(rows[name].value, rows[name].unit)}"
        for name, value in snapshot.values.items()
        if name in rows and _is_kept(rows[name]) and not is_same(rows[name].value, value)
    ]
