"""Snapshot and change a server's configuration: all or nothing, read back every time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from trimtab.errors import ApplyError, ForeignChangeError, TargetError
from trimtab.space import Config, Value
from trimtab.systems.base import Applied, KnobState, Snapshot
from trimtab.systems.files import file_to_json
from trimtab.systems.foreign import STOPPED
from trimtab.systems.postgresql.autoconf import change_entries, file_faults, read_entries, reload_and_wait
from trimtab.systems.postgresql.catalogue import Row, read_rows
from trimtab.systems.postgresql.classes import SECRET
from trimtab.systems.postgresql.pending import require_settled
from trimtab.systems.postgresql.reach import AUTO_CONF, Reach
from trimtab.systems.postgresql.session import ConnectionLostError, LoginRefusedError
from trimtab.systems.postgresql.values import is_same, setting_text
from trimtab.units import format_value

__all__ = ["is_kept", "read_rows_somehow", "set_config", "take_snapshot"]


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
        if (goal := reach.host.link_target(path)) is not None:
            raise TargetError(
                f"file={str(path)!r} is a symbolic link to {goal!r}",
                hint="ALTER SYSTEM would put a plain file in its place; make it one, or tune where it is managed",
            )
        files[str(path)] = file_to_json(reach.host.read_file(path))
    return Snapshot(
        target=target,
        kind="postgresql",
        reach={**reach.describe(), "settings": dict(public), "entries": entries},
        files=files,
        values={name: row.value for name, row in rows.items() if is_kept(row)},
    )


def is_kept(row: Row) -> bool:
    """Whether a value belongs to the server and not to our own session, and may be written down."""
    return row.context != "internal" and row.source not in ("client", "session") and row.name not in SECRET


def set_config(reach: Reach, states: Mapping[str, KnobState], base: Snapshot, config: Config) -> Applied:
    """Sets exactly `config` over `base`, reloads, restarts when a value cannot show otherwise, and reads back.

    Raises:
        ApplyError: the server refuses a value, does not come back, or uses another value. The server is left as it is:
            the caller rescues it.
        ForeignChangeError: somebody else has taken the change back before it could be read.
        TargetError: the configuration cannot be changed at all.
    """
    started = time.monotonic()
    texts = {name: setting_text(value, states[name].knob.unit) for name, value in config.items()}
    wanted = {**base.reach["entries"], **texts}
    now, faults = _set_entries(reach, wanted)
    if faults:
        raise ApplyError(f"the server cannot use its configuration files: {'; '.join(faults)}")
    if now != wanted:
        reload_and_wait(reach.connect)
    touched = sorted({*now, *wanted} & set(base.values))
    values = {name: config.get(name, base.values[name]) for name in touched}
    rows = read_rows_somehow(reach)
    must_restart = any(rows[name].is_pending and not is_same(rows[name].value, values[name]) for name in touched)
    if must_restart:
        reach.restart()
        rows = read_rows_somehow(reach)
    try:
        _check(rows, values, config, states)
    except ApplyError:
        _require_written(reach, texts)
        raise
    effective = {name: rows[name].value for name in config}
    return Applied(effective=effective, restarted=must_restart, duration_s=time.monotonic() - started)


def _set_entries(reach: Reach, wanted: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The entries before, and faults of the files after; a lost connection is made again once, to read what stands."""
    before: dict[str, str] | None = None
    while True:
        is_second = before is not None
        try:
            with reach.connect() as connection:
                now = read_entries(connection)
                before = now if before is None else before
                change_entries(connection, now, wanted)
                return before, file_faults(connection)
        except ConnectionLostError:
            if is_second:
                raise


def _require_written(reach: Reach, texts: Mapping[str, str]) -> None:
    """That our entries still stand in the file: else it is not the config that fails.

    Raises:
        ForeignChangeError: somebody else has changed them.
    """
    with reach.connect() as connection:
        now = read_entries(connection)
    gone = [name for name, text in texts.items() if now.get(name) != text]
    if gone:
        raise ForeignChangeError(
            f"{AUTO_CONF} was changed by somebody else while Trimtab changed it: {', '.join(gone)}", hint=STOPPED
        )


def read_rows_somehow(reach: Reach) -> dict[str, Row]:
    """By a new login; where none works any more, by the connection from better times."""
    try:
        with reach.connect() as connection:
            return read_rows(connection)
    except LoginRefusedError:
        if reach.spare is None or reach.spare.closed:
            raise
        return read_rows(reach.spare)


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
