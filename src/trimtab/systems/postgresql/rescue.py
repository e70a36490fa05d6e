"""Rescue: a server that is down, hangs, or lets nobody in is brought back without our entries in its file.

In this order, each step once: our entries out of the file → reload by a signal → restart → start with our knobs as found
on the command line (which beats every file), the entries put back through the server itself, restart without them. What
fails after that is for people: the error says how.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from trimtab.errors import RestoreError, TargetError
from trimtab.host import process_state
from trimtab.space import Value
from trimtab.systems.base import Own, Restarts, Snapshot
from trimtab.systems.files import file_digest, files_back
from trimtab.systems.knobs import Reading
from trimtab.systems.postgresql.autoconf import change_entries, file_faults, read_entries, reload_and_wait
from trimtab.systems.postgresql.catalogue import read_rows
from trimtab.systems.postgresql.entries import file_without, still_ours
from trimtab.systems.postgresql.reach import AUTO_CONF, Reach
from trimtab.systems.postgresql.recovery import servers_in
from trimtab.systems.postgresql.session import Connection, FullError
from trimtab.systems.session import LoginRefusedError, NotYetError, StatementError, require_answer
from trimtab.systems.undo import LeftDownError

__all__ = ["bring_back", "entries_back_by_spare", "read_rows_somehow", "require_parsable", "wanted_entries"]

_RELOAD_S = 3.0
_LOGIN_S = 10.0
_SPARE_S = 0.5
"""Until a session that runs has seen a reload."""
_GONE_S = 1.0
"""Without a process of the server: between the stop and the start of a restart there is none for a moment."""
_POLL_S = 0.05


def bring_back(reach: Reach, snapshot: Snapshot, own: Own, restarts: Restarts) -> bool:
    """Our entries out of the file, and a server that has read it and lets us in; whether it was restarted. Idempotent.

    Raises:
        LeftDownError: the server is down and was not started.
        TargetError: it cannot be done.
    """
    was_up = reach.is_up()
    try:
        changed = _files_back(reach, snapshot, own)
    except UnwritableError as error:
        if was_up and _entries_back(reach, snapshot, own):
            changed = True
        elif reach.no_restart:
            raise
        else:
            restarts()
            _through_the_server(reach, snapshot, own, error)
            return True
    if was_up and _is_well(reach, own, changed):
        return False
    if not was_up:
        require_wanted_up(reach, snapshot, own)
    restarts()
    try:
        reach.restart() if was_up else reach.ensure_up()
    except LoginRefusedError:
        return True  # it has started with a file without ours: nothing of ours keeps us out
    except TargetError as error:
        _through_the_server(reach, snapshot, own, error)
    return True


class UnwritableError(TargetError):
    """This user cannot write the server's own file."""


def _is_well(reach: Reach, own: Own, changed: bool) -> bool:
    """Whether it answers and has read its file, or needs no login for that.

    Raises:
        LoginRefusedError: it does not let us in, and nothing of ours can be the reason.
        TargetError: its files cannot be parsed.
    """
    is_well = _answers(reach, own, changed) or (_wake(reach) and _answers_within(reach, _RELOAD_S))
    if is_well and (not changed or _reloads(reach)):
        return True
    if not changed:
        return False
    if _answers_after_signal(reach):
        return True
    try:
        require_answer(reach.connect)
    except LoginRefusedError:
        return not own.late  # it has read the file; only a knob that needs a restart would still be ours
    except TargetError:
        return False
    return True


def require_wanted_up(reach: Reach, snapshot: Snapshot, own: Own) -> None:
    """That a server which is down may be started: it died, or nobody else has touched its files since we left it.

    Raises:
        LeftDownError: it was stopped in good order, by somebody who has changed its files.
    """
    folder, left = reach.data_dir, (own.picture or snapshot.picture).get("files", {})
    if folder is None or not own.is_whole or (folder / "postmaster.pid").exists():
        return
    for path, digest in left.items():
        if Path(path).name == AUTO_CONF:
            continue
        try:
            now = file_digest(reach.host.read_file(Path(path)))
        except TargetError:
            continue
        if now != digest:
            raise LeftDownError(
                f"the server is down, and file={path!r} was changed by somebody else since",
                hint="start the server when that change is ready",
            )


def _files_back(reach: Reach, snapshot: Snapshot, own: Own) -> bool:
    """Whether the file had to be written.

    Raises:
        UnwritableError: it cannot be.
        RestoreError: the snapshot is another server's.
        TargetError: somebody else has made it unreadable.
    """
    path = reach.data_dir / AUTO_CONF if reach.data_dir is not None else None
    try:
        return files_back(reach.host, snapshot, own, path, file_without)
    except RestoreError:
        raise
    except TargetError as error:
        if "cannot be parsed" in error.message:
            raise
        raise UnwritableError(error.message, hint=error.hint) from error


def _entries_back(reach: Reach, snapshot: Snapshot, own: Own) -> bool:
    """By the server itself, where a login works; whether it was done."""
    try:
        with reach.connect() as connection:
            change_entries(connection, now := read_entries(connection), wanted_entries(now, snapshot, own))
    except TargetError:
        return False
    return True


def wanted_entries(now: Mapping[str, str], snapshot: Snapshot, own: Own) -> dict[str, str]:
    """The entries `now` with those that are ours as they were found."""
    found: Mapping[str, str] = snapshot.reach["entries"]
    still = still_ours(now, found, own)
    rest = {name: text for name, text in now.items() if name not in still}
    return rest | {name: found[name] for name in still if name in found}


def _answers(reach: Reach, own: Own, changed: bool) -> bool:
    """Whether a login works: a server process may be there and hang.

    Raises:
        LoginRefusedError: it does not let us in, and nothing of ours can be the reason.
    """
    try:
        require_answer(reach.connect)
    except FullError:
        if changed or own.late:
            return False
        raise
    except NotYetError:
        return _answers_within(reach, _LOGIN_S)
    except LoginRefusedError:
        if changed:
            return False
        raise
    except TargetError:
        return False
    return True


def _reloads(reach: Reach) -> bool:
    """Whether the server has read its files again.

    Raises:
        TargetError: they cannot be parsed: no restart would help.
    """
    try:
        require_parsable(reach)
    except StatementError:
        return False
    try:
        reload_and_wait(reach.connect)
    except TargetError:
        return False
    return True


def require_parsable(reach: Reach) -> None:
    """That the server can read its configuration files, as far as this user may see it.

    Raises:
        TargetError: it cannot.
    """
    with reach.connect() as connection:
        faults = file_faults(connection)
    if faults:
        raise TargetError(
            f"the configuration files cannot be parsed ({faults[0]})",
            hint="repair that line, then run `trimtab recover`",
        )


def _answers_within(reach: Reach, timeout_s: float) -> bool:
    """Whether a login works in time. One that was stopping and is gone for good is not waited for any longer."""
    now = time.monotonic()
    deadline, seen_at = now + timeout_s, now
    while now < deadline:
        with suppress(TargetError):
            require_answer(reach.connect)
            return True
        if reach.data_dir is None or _servers(reach):
            seen_at = time.monotonic()
        elif time.monotonic() > seen_at + _GONE_S:
            return False
        time.sleep(_POLL_S)
        now = time.monotonic()
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


def _through_the_server(reach: Reach, snapshot: Snapshot, own: Own, first: TargetError) -> None:
    """Starts it with our knobs as found on the command line, lets it put its own file right, and restarts it without.

    Raises:
        TargetError: the first trouble, when that does not help either.
    """
    try:
        reach.start_with({name: _text(snapshot.values[name]) for name in sorted(own.texts) if name in snapshot.values})
        with reach.connect() as connection:
            change_entries(connection, now := read_entries(connection), wanted_entries(now, snapshot, own))
        with suppress(TargetError):
            _files_back(reach, snapshot, own)
        reach.restart()
    except TargetError as error:
        raise TargetError(
            f"{first.message}; and with the values as found on its command line: {error.message}", hint=first.hint
        ) from error


def _text(value: Value) -> str:
    """In the server's own unit, as pg_settings shows it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def entries_back_by_spare(reach: Reach, spare: Connection, snapshot: Snapshot, own: Own) -> None:
    """By a connection from better times, where no new login works: entries as found, and back when a login works.

    Raises:
        TargetError: that connection is gone too, or nobody can log in afterwards.
    """
    try:
        change_entries(spare, now := read_entries(spare), wanted_entries(now, snapshot, own))
        spare.rows("SELECT pg_reload_conf()")
    except StatementError as error:
        raise TargetError(
            f"no new login works, and the spare connection is gone: {error.message}",
            hint="let somebody with access to the server's files restore them",
        ) from error
    deadline = time.monotonic() + _LOGIN_S
    while True:
        try:
            reach.connect().close()
            return
        except LoginRefusedError:
            time.sleep(_SPARE_S)  # it runs; that it keeps everybody out has another reason than our entries
            return
        except TargetError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)


def read_rows_somehow(reach: Reach) -> dict[str, Reading]:
    """By a new login; where none works any more, by the connection from better times."""
    try:
        with reach.connect() as connection:
            return read_rows(connection)
    except LoginRefusedError:
        if reach.spare is None or reach.spare.closed:
            raise
        return read_rows(reach.spare)
