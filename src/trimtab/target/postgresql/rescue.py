"""Rescue: a server that is down, hangs, or lets nobody in is brought back with the files as they were found.

In this order, each step once: the files as found → reload by a signal → restart → start with the values as found on the
command line (which beats every file), the entries put back through the server itself, restart without them. What fails
after that is for people: the error says how.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import psycopg

from trimtab.errors import RestoreError, TargetError
from trimtab.host import process_state
from trimtab.space import Value
from trimtab.target.base import Snapshot
from trimtab.target.files import file_from_json
from trimtab.target.postgresql.autoconf import change_entries, read_entries, reload_and_wait
from trimtab.target.postgresql.reach import AUTO_CONF, Reach
from trimtab.target.postgresql.recovery import servers_in
from trimtab.target.postgresql.session import Connection, LoginRefusedError, NotYetError

__all__ = ["bring_back", "entries_back_by_spare"]

_RELOAD_S = 3.0
_LOGIN_S = 10.0
_SPARE_S = 0.5
"""Until a session that runs has seen a reload."""
_POLL_S = 0.05
_ENTRY = re.compile(r"^\s*([A-Za-z_][\w.]*)\s*=?\s*'?", re.MULTILINE)


def bring_back(reach: Reach, snapshot: Snapshot) -> bool:
    """Files as found, and a server that uses them and lets us in; whether it was restarted. Idempotent.

    Raises:
        TargetError: it cannot be done.
    """
    was_up = reach.is_up()
    try:
        changed = _files_back(reach, snapshot)
    except RestoreError:
        raise
    except TargetError as error:
        if not reach.no_restart:
            _through_the_server(reach, snapshot, error)
            return True
        raise
    is_well = was_up and (_answers(reach, changed) or (_wake(reach) and _answers_within(reach, _RELOAD_S)))
    if is_well and (not changed or _reloads(reach)):
        return False
    if was_up and changed and _answers_after_signal(reach):
        return False
    try:
        reach.restart() if was_up else reach.ensure_up()
    except LoginRefusedError:
        return True  # it has started with the files as found: nothing of ours keeps us out
    except TargetError as error:
        _through_the_server(reach, snapshot, error)
    return True


def _files_back(reach: Reach, snapshot: Snapshot) -> bool:
    changed = False
    for name, table in snapshot.files.items():
        path, saved = reach.data_dir / AUTO_CONF if reach.data_dir is not None else None, file_from_json(table)
        if path is None or str(path) != name:
            raise RestoreError(f"the snapshot's file={name!r} is not this server's", hint="use the study's own target")
        reach.host.remove_leftover(path)
        if reach.host.read_file(path) == saved:
            continue
        changed = True
        if saved is None:
            reach.host.remove_file(path)
        else:
            reach.host.write_file(path, saved)
    return changed


def _answers(reach: Reach, changed: bool) -> bool:
    """Whether a login works: a server process may be there and hang.

    Raises:
        LoginRefusedError: it does not let us in, and nothing of ours can be the reason.
    """
    try:
        _ask(reach)
    except NotYetError:
        return _answers_within(reach, _LOGIN_S)
    except LoginRefusedError:
        if changed:
            return False
        raise
    except TargetError:
        return False
    return True


def _ask(reach: Reach) -> None:
    """A login and a query: a time-out may end a session between the two."""
    try:
        with reach.connect() as connection:
            connection.execute("SELECT 1")
    except psycopg.Error as error:
        raise TargetError(f"the server accepts logins but no query: {str(error).strip()}") from error


def _reloads(reach: Reach) -> bool:
    try:
        reload_and_wait(reach.connect)
    except (TargetError, psycopg.Error):
        return False
    return True


def _answers_within(reach: Reach, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with suppress(TargetError):
            _ask(reach)
            return True
        time.sleep(_POLL_S)
    return False


def _wake(reach: Reach) -> bool:
    """Lets processes of the server that somebody has stopped (SIGSTOP) go on; no shutdown would end while one stands."""
    stopped = [pid for pid in _servers(reach) if process_state(pid) == "T"]
    for pid in stopped:
        with suppress(OSError):
            os.kill(pid, signal.SIGCONT)
    return bool(stopped)


def _servers(reach: Reach) -> list[int]:
    return servers_in(reach.data_dir) if reach.data_dir is not None else []


def _answers_after_signal(reach: Reach) -> bool:
    """Lets the server read its files again without a login; enough for settings that a reload makes effective."""
    pid = reach.pid
    if pid is None or pid not in _servers(reach):
        return False
    try:
        os.kill(pid, signal.SIGHUP)
    except OSError:
        return False
    return _answers_within(reach, _RELOAD_S)


def _through_the_server(reach: Reach, snapshot: Snapshot, first: TargetError) -> None:
    """Starts it with the values as found on the command line, lets it put its own file right, and restarts it without.

    Raises:
        TargetError: the first trouble, when that does not help either.
    """
    try:
        reach.start_with(_overrides(reach, snapshot))
        with reach.connect() as connection:
            change_entries(connection, read_entries(connection), snapshot.reach["entries"])
        with suppress(TargetError):
            _files_back(reach, snapshot)
        reach.restart()
    except TargetError as error:
        raise TargetError(
            f"{first.message}; and with the values as found on its command line: {error.message}", hint=first.hint
        ) from error


def _overrides(reach: Reach, snapshot: Snapshot) -> dict[str, str]:
    """The value as found of everything that the server's own file sets now."""
    copy = reach.host.read_file(reach.data_dir / AUTO_CONF) if reach.data_dir is not None else None
    text = copy.content.decode("latin-1") if copy is not None else ""
    names = {match.group(1) for match in _ENTRY.finditer(text)} & set(snapshot.values)
    return {name: _text(snapshot.values[name]) for name in sorted(names)}


def _text(value: Value) -> str:
    """In the server's own unit, as pg_settings shows it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def entries_back_by_spare(spare: Connection, entries: Mapping[str, str], connect: Callable[[], Connection]) -> None:
    """By a connection from better times, where no new login works: entries as found, and back when a login works.

    Raises:
        TargetError: that connection is gone too, or nobody can log in afterwards.
    """
    try:
        change_entries(spare, read_entries(spare), entries)
        spare.execute("SELECT pg_reload_conf()")
    except psycopg.Error as error:
        raise TargetError(
            f"no new login works, and the spare connection is gone: {str(error).strip()}",
            hint="let somebody with access to the server's files restore them",
        ) from error
    deadline = time.monotonic() + _LOGIN_S
    while True:
        try:
            connect().close()
            return
        except LoginRefusedError:
            time.sleep(_SPARE_S)  # it runs; that it keeps everybody out has another reason than our entries
            return
        except TargetError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)
