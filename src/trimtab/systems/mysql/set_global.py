"""SET GLOBAL: what a running server takes at once; and which of its variables are ours to change."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from trimtab.errors import ApplyError, TargetError
from trimtab.space import Value
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.values import is_same, option_text, sql_literal
from trimtab.systems.mysql.variables import POOL, waits
from trimtab.systems.session import StatementError

__all__ = ["Catalogue", "Resize", "resize_of", "set_dynamic"]

_POOL = "pool-of-threads"
"""Without it the pool's own variables are not ours: SET GLOBAL thread_pool_size makes MariaDB 10.11 set it to 0."""

_STATUS = "innodb_buffer_pool_resize_status"

_ROUNDS = 3
"""Times that SET GLOBAL is tried: a server may clamp one variable by another that is set only after it."""

_POLL_S = 0.02


class Resize(Enum):
    """How far the server is with its buffer pool."""

    BUSY = "under way"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """How to read the server's variables, and which of them are ours to change."""

    read: Callable[[Session], dict[str, Reading]]
    ours: frozenset[str]

    def variables(self, session: Session) -> dict[str, Reading]:
        """Those of ours that the server has."""
        found = {name: variable for name, variable in self.read(session).items() if name in self.ours}
        pool = found.get("thread_handling")
        if pool is not None and pool.text != _POOL:
            return {name: variable for name, variable in found.items() if not name.startswith("thread_pool_")}
        return found


def set_dynamic(
    session: Session,
    now: Mapping[str, Reading],
    wanted: Mapping[str, Value],
    *,
    resize_s: float,
    is_restart_due: bool = False,
) -> frozenset[str]:
    """SET GLOBAL for what differs and need not wait for a restart; buffer pool and redo log are given `resize_s` for their sizes.

    Returns:
        What the server refuses until it is restarted, where that `is_restart_due`: MariaDB has no log that is smaller than its
        buffer, and makes the buffer smaller at a start only.

    Raises:
        ApplyError: the server refuses a value, or does not get there.
    """
    refused: dict[str, ApplyError] = {}
    with session.patient(resize_s):
        for _ in range(_ROUNDS):
            differing = (n for n, v in now.items() if n in wanted and not is_same(v.value, wanted[n]))
            late = [name for name in differing if not waits(now[name], wanted[name])]
            refused = _set_all(session, {name: wanted[name] for name in late}, resize_s)
            if not late:
                break
            now = {name: _refreshed(session, now[name]) for name in late}
    if refused and not is_restart_due:
        raise next(iter(refused.values()))
    return frozenset(refused)


def _set_all(session: Session, values: Mapping[str, Value], resize_s: float) -> dict[str, ApplyError]:
    """One round; those that the server refuses, perhaps until another one is set, with what it says."""
    refused = {}
    for name, value in values.items():
        if name == POOL:
            _resize(session, value, resize_s)
            continue
        try:
            _set(session, name, value)
        except ApplyError as error:
            refused[name] = error
    return refused


def _set(session: Session, name: str, value: Value) -> None:
    try:
        session.rows(f"SET GLOBAL `{name}` = {sql_literal(value)}")
    except StatementError as error:
        if error.is_lost:
            raise TargetError(
                f"the connection was lost while setting {name}={option_text(value)}: {error.message}", hint=error.hint
            ) from error
        raise ApplyError(
            f"the server refuses {name}={option_text(value)}: {error.message}", hint="see `trimtab knobs` for ranges"
        ) from error


def _resize(session: Session, value: Value, resize_s: float) -> None:
    """SET GLOBAL for the buffer pool, and its end: MySQL, and MariaDB before 10.11.12, 11.4.6 and 11.8.2, resize it in the
    background, where the variable shows the new size at once or at the end; later ones answer when it is done.

    Raises:
        ApplyError: the server refuses the size, could not make it, or has not made it in time.
    """
    _await_resize(session, resize_s)  # one that an earlier change has begun: a second is refused meanwhile
    _set(session, POOL, value)
    state, text = _await_resize(session, resize_s)
    if state is not Resize.DONE:
        what = "could not resize its buffer pool" if state is Resize.FAILED else "is still resizing its buffer pool"
        after = f" after restart_timeout_s={resize_s:g}" if state is Resize.BUSY else ""
        raise ApplyError(
            f"the server {what} to {option_text(value)} bytes{after}: {text}",
            hint="see the server's error log; a higher restart_timeout_s gives it longer, and long transactions hold it up",
        )


def _await_resize(session: Session, resize_s: float) -> tuple[Resize, str]:
    """How it stands once no resizing is under way, or at the deadline, and the server's words for it.

    The thread that does it needs a moment to start: only two looks in a row that find it idle say that it has ended.
    """
    until, n_idle = time.monotonic() + resize_s, 0
    while True:
        rows = session.rows("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status%'")
        status = {str(row[0]).lower(): str(row[1]) for row in rows}
        state = resize_of(status)
        n_idle = n_idle + 1 if state is not Resize.BUSY else 0
        if n_idle == 2 or not rows or time.monotonic() > until:
            return state, status.get(_STATUS, "")
        time.sleep(_POLL_S)


def resize_of(status: Mapping[str, str]) -> Resize:
    """How far the resizing of the buffer pool is, by its status variables in lower case.

    MySQL has a code from 8.0.31 on (0: idle, 7: failed), before that a text only (its manual, "Configuring InnoDB Buffer
    Pool Size"). What the text says is requested has not begun, whatever the last one came to.
    """
    text, code = status.get(_STATUS, "").lower(), status.get(f"{_STATUS}_code")
    if text.startswith("requested"):
        return Resize.BUSY
    if code is not None:
        return {"0": Resize.DONE, "7": Resize.FAILED}.get(code, Resize.BUSY)
    if "failed" in text:
        return Resize.FAILED
    is_done = not text or any(word in text for word in ("complet", "not started", "did not change"))
    return Resize.DONE if is_done else Resize.BUSY


def _refreshed(session: Session, variable: Reading) -> Reading:
    value = session.value(f"SELECT @@GLOBAL.`{variable.name}`")
    text = "" if value is None else str(value)
    if variable.kind == "bool":
        text = "ON" if text in ("1", "ON") else "OFF"
    return replace(variable, text=text)
