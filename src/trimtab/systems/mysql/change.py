"""Snapshot and change a server's configuration: all or nothing, read back every time.

Knobs that SET GLOBAL changes are set so; those that need a restart go into the option file of our own, which the server
reads last. The file always holds the whole config, so that a restart for one knob does not lose another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trimtab.errors import ApplyError, ForeignChangeError, TargetError
from trimtab.host import FileCopy
from trimtab.space import Config, Value
from trimtab.systems.base import Applied, Snapshot
from trimtab.systems.files import file_from_json, file_to_json
from trimtab.systems.foreign import STOPPED
from trimtab.systems.mysql.pending import require_settled
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.rescue import redo_files
from trimtab.systems.mysql.session import Session, StatementError
from trimtab.systems.mysql.values import is_same, option_text, sql_literal
from trimtab.systems.mysql.variables import Variable

__all__ = ["GROUP", "HEADS", "Catalogue", "is_resized", "set_config", "set_dynamic", "take_snapshot"]

HEADS = {
    False: "# Written by Trimtab while it tunes; removed or put back afterwards.",
    True: "# Written by `trimtab apply`, to stay; `trimtab rollback` takes it out again.",
}
"""The first line of ours, by whether the config stays."""
GROUP = "[mysqld]"
_FILE_MODE = 0o644
_POOL = "pool-of-threads"
"""Without it the pool's own variables are not ours: SET GLOBAL thread_pool_size makes MariaDB 10.11 set it to 0."""

_ROUNDS = 3
"""Times that SET GLOBAL is tried: a server may clamp one variable by another that is set only after it."""

_RESIZE_S = 60.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Catalogue:
    """How to read the server's variables, and which of them are ours to change."""

    read: Callable[[Session], dict[str, Variable]]
    ours: frozenset[str]

    def variables(self, session: Session) -> dict[str, Variable]:
        """Those of ours that the server has."""
        found = {name: variable for name, variable in self.read(session).items() if name in self.ours}
        pool = found.get("thread_handling")
        if pool is not None and pool.text != _POOL:
            return {name: variable for name, variable in found.items() if not name.startswith("thread_pool_")}
        return found


def take_snapshot(
    target: str, kind: str, reach: Reach, catalogue: Catalogue, public: Mapping[str, Any], *, can_restart: bool
) -> Snapshot:
    """The server's configuration as it is; `public` is the study file's table without secrets.

    Raises:
        TargetError: a restart of ours would change something by itself, or the server does not answer.
    """
    with reach.connect() as session:
        everything = catalogue.read(session)
        require_settled(session, reach, everything, catalogue.ours, can_restart=can_restart)
    variables = {name: variable for name, variable in everything.items() if name in catalogue.ours}
    files = {}
    if reach.include_file is not None:
        _require_plain(reach, reach.include_file)
        files[str(reach.include_file)] = file_to_json(reach.host.read_file(reach.include_file))
    return Snapshot(
        target=target,
        kind=kind,
        reach={**reach.describe(), "settings": dict(public), "redo_files": redo_files(reach)},
        files=files,
        values={name: variable.value for name, variable in variables.items()},
    )


def _require_plain(reach: Reach, path: Path) -> None:
    """That the option file is no link: replacing it would cut the link, and writing through it change another's file.

    Raises:
        TargetError: it is one.
    """
    goal = reach.host.link_target(path)
    if goal is not None:
        raise TargetError(
            f"include_file={str(path)!r} is a symbolic link to {goal!r}; nothing was changed",
            hint="give a file of Trimtab's own; it need not exist",
        )


def set_config(reach: Reach, catalogue: Catalogue, base: Snapshot, config: Config, *, stays: bool) -> Applied:
    """Sets exactly `config` over `base`: file first, then SET GLOBAL, then a restart when a value cannot show otherwise.

    `effective` holds what the server really uses: it may have rounded a number or clamped it to a limit of its own.

    Raises:
        ApplyError: the server refuses a value, does not come back, or keeps the old value. The server is left as it is: the
            caller rescues it.
        ForeignChangeError: somebody else has changed the option file before the server read it.
        TargetError: the configuration cannot be changed at all.
    """
    started = time.monotonic()
    written = _write_file(reach, base, config, HEADS[stays])
    wanted = {**base.values, **config}
    with reach.connect() as session:
        now = catalogue.variables(session)
        set_dynamic(session, now, wanted)
        now = catalogue.variables(session)
    must_restart = _needs_restart(now, wanted)
    if must_restart:
        reach.restart()
        with reach.connect() as session:
            set_dynamic(session, catalogue.variables(session), wanted)
            now = catalogue.variables(session)
    try:
        _check(now, base, config)
    except ApplyError:
        _require_written(reach, written)
        raise
    effective = {name: now[name].value for name in config if name in now}
    return Applied(effective=effective, restarted=must_restart, duration_s=time.monotonic() - started)


def _require_written(reach: Reach, written: bytes | None) -> None:
    """That the option file still holds what we wrote: else it is not the config that fails.

    Raises:
        ForeignChangeError: somebody else has changed it.
    """
    path = reach.include_file
    if path is None or written is None:
        return
    now = reach.host.read_file(path)
    if now is None or now.content != written:
        raise ForeignChangeError(
            f"file={str(path)!r} was changed by somebody else while Trimtab changed it", hint=STOPPED
        )


def _write_file(reach: Reach, base: Snapshot, config: Mapping[str, Value], head: str) -> bytes | None:
    """The file as found, with `config` after it: of two settings in one file the later counts; what was written."""
    path = reach.include_file
    if path is None:
        return None
    found = file_from_json(base.files[str(path)])
    lines = "".join(f"{name} = {option_text(value)}\n" for name, value in config.items())
    before = found.content if found is not None else b""
    if before and not before.endswith(b"\n"):
        before += b"\n"
    if not config:
        reach.host.remove_leftover(path)
        if found is None:
            reach.host.remove_file(path)
        elif reach.host.read_file(path) != found:
            reach.host.write_file(path, found)
        return None
    content = before + f"{head}\n{GROUP}\n{lines}".encode()
    owner = (found.mode, found.uid, found.gid) if found is not None else _owner(reach)
    reach.host.write_file(path, FileCopy(content=content, mode=owner[0], uid=owner[1], gid=owner[2]))
    return content


def _owner(reach: Reach) -> tuple[int, int, int]:
    """Of a new file: readable for the server; root's belongs to whom its folder belongs to, nobody else may give files away."""
    if reach.include_file is None:
        raise RuntimeError("there is no option file")
    if os.geteuid() != 0:
        return _FILE_MODE, os.geteuid(), os.getegid()
    status = reach.include_file.parent.stat()
    return _FILE_MODE, status.st_uid, status.st_gid


def set_dynamic(session: Session, now: Mapping[str, Variable], wanted: Mapping[str, Value]) -> None:
    """SET GLOBAL for what differs.

    Raises:
        ApplyError: the server refuses a value.
    """
    for _ in range(_ROUNDS):
        late = [n for n, v in now.items() if v.is_dynamic and n in wanted and not is_same(v.value, wanted[n])]
        if not late:
            return
        for name in late:
            _set(session, name, wanted[name])
        now = {name: _refreshed(session, now[name]) for name in late}


def _set(session: Session, name: str, value: Value) -> None:
    try:
        session.execute(f"SET GLOBAL `{name}` = {sql_literal(value)}")
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
        rows = session.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status%'")
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


def _refreshed(session: Session, variable: Variable) -> Variable:
    value = session.value(f"SELECT @@GLOBAL.`{variable.name}`")
    text = "" if value is None else str(value)
    if variable.kind == "bool":
        text = "ON" if text in ("1", "ON") else "OFF"
    return replace(variable, text=text)


def _needs_restart(now: Mapping[str, Variable], wanted: Mapping[str, Value]) -> bool:
    return any(
        not variable.is_dynamic and name in wanted and not is_same(variable.value, wanted[name])
        for name, variable in now.items()
    )


def _check(now: Mapping[str, Variable], base: Snapshot, config: Config) -> None:
    """That each knob has moved from where it was, to what was asked or to what the server made of it.

    Raises:
        ApplyError: one kept its old value, although another was asked for.
    """
    for name, value in config.items():
        if name not in now:
            continue
        found = now[name].value
        if is_same(found, value) or not is_same(found, base.values.get(name, found)):
            continue
        where = f" ({now[name].source} {now[name].path})".rstrip() if now[name].path else ""
        raise ApplyError(
            f"the server keeps {name}={option_text(found)}{where} although {option_text(value)} was set",
            hint="another file or option wins over Trimtab's own, or the value is beyond a limit of the server's",
        )
