"""SET GLOBAL: what a running server takes at once; and which of its variables are ours to change."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from trimtab.errors import ApplyError, TargetError
from trimtab.space import Value
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.values import is_same, option_text, sql_literal
from trimtab.systems.session import StatementError

__all__ = ["Catalogue", "is_resized", "set_dynamic"]

_POOL = "pool-of-threads"
"""Without it the pool's own variables are not ours: SET GLOBAL thread_pool_size makes MariaDB 10.11 set it to 0."""

_ROUNDS = 3
"""Times that SET GLOBAL is tried: a server may clamp one variable by another that is set only after it."""

_RESIZE_S = 60.0
_POLL_S = 0.02


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


def set_dynamic(session: Session, now: Mapping[str, Reading], wanted: Mapping[str, Value]) -> None:
    """SET GLOBAL for what differs.

    Raises:
        ApplyError: the server refuses a value.
    """
    for _ in range(_ROUNDS):
        late = [n for n, v in now.items() if not v.is_late and n in wanted and not is_same(v.value, wanted[n])]
        if not late:
            return
        for name in late:
            _set(session, name, wanted[name])
        now = {name: _refreshed(session, now[name]) for name in late}


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
    if name == "innodb_buffer_pool_size":
        _await_resize(session)


def _await_resize(session: Session) -> None:
    """MySQL resizes the buffer pool in the background; the variable shows the new size at once or at its end.

    The thread that does it needs a moment to start: only two looks in a row that find it idle say that it has ended.
    """
    until, n_idle = time.monotonic() + _RESIZE_S, 0
    while time.monotonic() < until:
        rows = session.rows("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status%'")
        n_idle = n_idle + 1 if is_resized({str(row[0]).lower(): str(row[1]) for row in rows}) else 0
        if n_idle == 2 or not rows:
            return
        time.sleep(_POLL_S)


def is_resized(status: Mapping[str, str]) -> bool:
    """Whether no resizing of the buffer pool is under way, by its status variables in lower case.

    MySQL has a code from 8.0.31 on (0: idle, 7: failed), before that a text only (its manual, "Configuring InnoDB Buffer
    Pool Size").
    """
    code = status.get("innodb_buffer_pool_resize_status_code")
    if code is not None:
        return code in ("0", "7")
    text = status.get("innodb_buffer_pool_resize_status", "").lower()
    return not text or any(word in text for word in ("complet", "not started", "failed", "did not change"))


def _refreshed(session: Session, variable: Reading) -> Reading:
    value = session.value(f"SELECT @@GLOBAL.`{variable.name}`")
    text = "" if value is None else str(value)
    if variable.kind == "bool":
        text = "ON" if text in ("1", "ON") else "OFF"
    return replace(variable, text=text)
