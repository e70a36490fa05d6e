"""Undo: what is ours taken back out of a PostgreSQL server, and nothing else.

While nobody else has written postgresql.auto.conf since, the file has its found bytes again. Otherwise only the entries that
still read as we wrote them go back. A restart is made only for a knob of ours that is in effect and must go back, and that
brings no change of somebody else's into force. Only our own knobs are compared afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg

from trimtab.errors import RestoreError, TargetError
from trimtab.space import Value
from trimtab.systems.base import Own, Restarts, Snapshot, Undone
from trimtab.systems.files import told_left
from trimtab.systems.postgresql.autoconf import change_entries, read_entries, reload_and_wait
from trimtab.systems.postgresql.catalogue import Row, read_rows
from trimtab.systems.postgresql.change import read_rows_somehow
from trimtab.systems.postgresql.entries import still_ours
from trimtab.systems.postgresql.foreign import who_answers
from trimtab.systems.postgresql.pending import starts_with, unsettled
from trimtab.systems.postgresql.reach import AUTO_CONF, Reach
from trimtab.systems.postgresql.rescue import (
    LeftDownError,
    bring_back,
    entries_back_by_spare,
    require_parsable,
    wanted_entries,
)
from trimtab.systems.postgresql.session import LoginRefusedError
from trimtab.systems.postgresql.values import is_same
from trimtab.units import format_value

__all__ = ["take_back"]


def take_back(reach: Reach, snapshot: Snapshot, own: Own, restarts: Restarts) -> Undone:
    """Takes `own` back to `snapshot`. Idempotent.

    Raises:
        RestoreError: something of ours still stands, or it cannot be seen whether it does.
    """
    try:
        _require_same_server(reach, snapshot, own)
        restarted = bring_back(reach, snapshot, own, restarts) if snapshot.files else _by_sql(reach, snapshot, own)
        return _settled(reach, snapshot, own, restarts, restarted=restarted)
    except LeftDownError as error:
        return Undone(put_back=tuple(sorted(own.texts)), left=(f"{error.message}: {error.hint}",))
    except (TargetError, psycopg.Error) as error:
        if isinstance(error, RestoreError):
            raise
        text = error.message if isinstance(error, TargetError) else str(error).strip()
        hint = error.hint if isinstance(error, TargetError) else None
        raise RestoreError(
            f"the server could not be put back as it was found: {text}",
            hint="; ".join(filter(None, (hint, _by_hand(snapshot, own)))),
        ) from error


def _by_hand(snapshot: Snapshot, own: Own) -> str:
    if snapshot.files:
        return "by hand: `trimtab recover --extract DIR` writes the files as found, and how to put them back"
    found: Mapping[str, str] = snapshot.reach["entries"]
    words = [
        f"ALTER SYSTEM SET {name} = '{found[name]}'" if name in found else f"ALTER SYSTEM RESET {name}"
        for name in sorted(own.texts)
    ]
    return f"by hand: {'; '.join((*words, 'SELECT pg_reload_conf()'))}"


def _require_same_server(reach: Reach, snapshot: Snapshot, own: Own) -> None:
    """That the server that answers, or whose files lie there, is the one that we changed, in the same role.

    Raises:
        RestoreError: it is another one; nothing was touched.
    """
    left = own.picture or snapshot.picture
    now = who_answers(reach)
    for key in ("identifier", "is_standby", "timeline"):
        known = (left.get(key), now.get(key))
        if any(each is None or (each in ("", 0) and each is not False) for each in known):
            continue
        if now[key] != left[key]:
            knobs = ", ".join(f"{name}={texts[-1]}" for name, texts in sorted(own.texts.items()))
            raise RestoreError(
                f"{knobs}: not touched, because it is not known to be the server that was tuned:"
                f" {key}={now[key]}, it was {left[key]}",
                hint="check where the url leads; `trimtab recover --show` lists what is open and what you can do",
            )


def _by_sql(reach: Reach, snapshot: Snapshot, own: Own) -> bool:
    """Our entries back by SQL alone; False: nothing was restarted."""
    try:
        # a tuner may have died between its change and its reload; without rights on the files only loaded entries are seen
        require_parsable(reach)
        reload_and_wait(reach.connect)
    except TargetError:
        if reach.spare is None:
            raise
        entries_back_by_spare(reach, reach.spare, snapshot, own)
        return False
    with reach.connect() as connection:
        now = read_entries(connection)
        wanted = wanted_entries(now, snapshot, own)
        change_entries(connection, now, wanted)
    if now != wanted:
        reload_and_wait(reach.connect)
    return False


@dataclass(frozen=True)
class _Seen:
    """What the server shows after its files are right."""

    rows: Mapping[str, Row]
    waiting: frozenset[str]
    starts_as_found: Mapping[str, bool]
    still: frozenset[str]


def _see(reach: Reach, snapshot: Snapshot, own: Own) -> _Seen | None:
    """None where nobody lets us in to look, and the server has read its file since."""
    try:
        with reach.connect() as connection:
            rows = read_rows(connection)
            late = {name: snapshot.values[name] for name in own.late if name in rows and name in snapshot.values}
            still = still_ours(read_entries(connection), snapshot.reach["entries"], own)
            waiting = frozenset(unsettled(connection, rows))
            return _Seen(rows, waiting, starts_with(connection, rows, late), frozenset(still))
    except (LoginRefusedError, psycopg.Error):
        if snapshot.files:
            return None
        return _Seen(read_rows_somehow(reach), frozenset(), {}, frozenset())


def _settled(reach: Reach, snapshot: Snapshot, own: Own, restarts: Restarts, *, restarted: bool) -> Undone:
    """Restarts when only that brings our own knobs back; then says knob by knob what stands.

    Raises:
        RestoreError: a value of ours is still in use.
    """
    seen = _see(reach, snapshot, own)
    if seen is not None and any(_is_unread(seen.rows, snapshot, own, name) for name in own.texts):
        # a restorer may have died between the file and the reload
        reload_and_wait(reach.connect)
        seen = _see(reach, snapshot, own)
    if seen is None:
        return Undone(put_back=tuple(f"{name} (not seen: no login)" for name in sorted(own.texts)), restarted=restarted)
    late = [name for name in own.late if _differs(seen.rows, snapshot, name) and seen.rows[name].is_pending]
    held = ""
    if late:
        held = _why_not_restart(reach, seen, own, late)
        if not held:
            restarts()
            reach.restart()
            restarted = True
            seen = _see(reach, snapshot, own)
            if seen is None:
                return Undone(put_back=tuple(sorted(own.texts)), restarted=True)
    return _told(reach, seen, snapshot, own, held, restarted=restarted)


def _differs(rows: Mapping[str, Row], snapshot: Snapshot, name: str) -> bool:
    return name in rows and name in snapshot.values and not is_same(rows[name].value, snapshot.values[name])


def _is_unread(rows: Mapping[str, Row], snapshot: Snapshot, own: Own, name: str) -> bool:
    """Whether the server may not have read its file yet: it uses our value, and waits for nothing."""
    return _differs(rows, snapshot, name) and not rows[name].is_pending and _has_our_value(rows[name], own)


def _has_our_value(row: Row, own: Own) -> bool:
    if row.source != "configuration file" or (row.file and not row.file.endswith(f"/{AUTO_CONF}")):
        return False  # somebody has written the same value somewhere else
    return any(is_same(row.value, each) for each in own.values.get(row.name, ()))


def _why_not_restart(reach: Reach, seen: _Seen, own: Own, late: list[str]) -> str:
    """Why a restart is not made for `late`; "" when it is."""
    if reach.no_restart:
        return "this study has no restart command"
    others = sorted(
        (seen.waiting - set(own.texts)) | {name for name in late if not seen.starts_as_found.get(name, True)}
    )
    if others:
        return f"it would bring changes of somebody else's into force ({', '.join(others)})"
    return ""


def _told(reach: Reach, seen: _Seen, snapshot: Snapshot, own: Own, held: str, *, restarted: bool) -> Undone:
    back, left, wrong = [], [], []
    for name in sorted(own.texts):
        if name not in seen.rows or name not in snapshot.values:
            continue
        row = seen.rows[name]
        value = format_value(row.value, row.unit)
        if is_same(row.value, snapshot.values[name]):
            back.append(f"{name}={value}")
        elif name in own.late and row.is_pending and held:
            left.append(f"{name}={value}: waits for a restart, which was not made because {held}")
        elif name in seen.still:
            wrong.append(f"{name}={value}")
        else:
            left.append(told_left(name, value, own.texts[name][-1], _shown(row, snapshot.values[name])))
    if wrong:
        raise RestoreError(
            f"after the restore the server still uses values that Trimtab set: {', '.join(wrong)}",
            hint=_by_hand(snapshot, own),
        )
    return Undone(put_back=tuple(back), left=tuple(left), restarted=restarted)


def _shown(row: Row, found: Value) -> str:
    return format_value(found, row.unit)
