"""The global invariants (i) to (vii) that hold after every case of the fault matrix.

    before = take_picture(place.server)
    ...                                         # the fault
    check_invariants(place, before, ran=ran)    # recovers by itself first, as the next start of Trimtab would

(i) the target runs last-good or baseline, never a mix; (ii) effective = recorded config; (iii) no committed data lost;
(iv) journal replayable, study resumable; (v) exit code and a one-line cause; (vi) no orphan process, lock, temporary
file; (vii) no secret in any output, log, store or argv.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults.place import CANARY, Place, Ran, processes_of
from tests.faults.server import Server, settings_of
from trimtab.history import STUDY_STATUSES
from trimtab.trial import Journal

EXIT_CODES = (0, 1, 2, 3, 4, 130)
"""70 is a bug and never right; a negative one means a signal, which only the test itself may send."""

ORPHANS_S = 30.0
"""How long a process may take to notice that its parent has died, and to end."""

_TEMPORARY = ("*.partial", "*.tmp", "*.new", "*~", "trimtab-*", "tmp*", ".*.trimtab*", "*.trimtab-*")


@dataclass(frozen=True)
class Picture:
    """A server as it is: its configuration's files, what it uses, and what is committed.

    Attributes:
        files: name -> (content, mode, owner, group) of every configuration file; a missing one is absent.
        settings: pg_settings without what belongs to a session.
        names: what lies in the data directory.
        witness: ids and bodies of the witness table.
    """

    files: Mapping[str, tuple[bytes, int, int, int]]
    settings: Mapping[str, str]
    names: frozenset[str]
    witness: Mapping[int, str]


def take_picture(server: Server) -> Picture:
    """The server as it is (started for the look and stopped again when it was down)."""
    files = {}
    for path in sorted(server.data_dir.glob("*.conf")):
        status = path.lstat()
        files[path.name] = (path.read_bytes(), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    with server.up():
        settings = settings_of(server)
        witness = {int(row[0]): str(row[1]) for row in server.query("SELECT id, body FROM public.witness")}
    names = frozenset(path.name for path in server.data_dir.iterdir()) - {"postmaster.pid", "postmaster.opts"}
    return Picture(files, settings, names, witness)


@dataclass(frozen=True)
class Look:
    """What one look at the running server tells beside its picture.

    Attributes:
        was_running: whether the server ran before the look.
        waiting: settings that wait for a restart.
        faults: errors in its files, as it reports them.
        held: sessions that hold an advisory lock.
    """

    was_running: bool
    picture: Picture
    waiting: list[tuple[object, ...]]
    faults: list[tuple[object, ...]]
    held: list[tuple[object, ...]]


def look_at(place: Place) -> Look:
    """All that is asked of the server, in one start of it."""
    server = place.server
    was_running = server.pid is not None and not server.is_stopping
    with server.up():
        waiting = server.query("SELECT name FROM pg_settings WHERE pending_restart")
        faults = server.query("SELECT sourcefile, sourceline, error FROM pg_file_settings WHERE error IS NOT NULL")
        return Look(was_running, take_picture(server), waiting, faults, _held(server))


def _held(server: Server) -> list[tuple[object, ...]]:
    """Sessions that keep an advisory lock: a server needs a moment to see that a client is gone."""
    until = time.monotonic() + ORPHANS_S
    while held := server.query("SELECT pid FROM pg_locks WHERE locktype = 'advisory'"):
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return held


def check_invariants(
    place: Place,
    before: Picture,
    *,
    last_good: Picture | None = None,
    ran: Ran | None = None,
    code: int | tuple[int, ...] | None = None,
    cause: str = "",
    recovers: bool = True,
    study: str = "faults",
    committed: Mapping[int, str] | None = None,
) -> None:
    """Checks all seven.

    Args:
        place: where it happened; commands must have ended.
        before: the baseline's picture, or what the fault itself made of it when that is to be respected.
        last_good: another state that is right too (an applied winner).
        ran: the command that met the fault, for (v); None when the test killed it.
        code: the exit code it must have had (or one of several); default: any of the documented ones.
        cause: a regular expression that its one line must match.
        recovers: whether to run `trimtab recover` first (a user's next step after a kill).
        study: name of the study, for (ii) and (iv).
        committed: witness rows committed since `before`, which must be there.
    """
    if recovers:
        recovered = place.run("recover")
        assert recovered.code == 0, f"(iv) recover: {recovered.err}"
    left = orphans_of(place)
    look = look_at(place)
    check_unmixed(look.picture, before, last_good)
    check_recorded(place, look, study)
    check_committed(look.picture, {**before.witness, **(committed or {})})
    check_resumable(place, study)
    if ran is not None:
        check_exit(ran, code, cause)
    check_no_remains(place, before, look, left)
    check_no_secret(place)


def check_unmixed(now: Picture, before: Picture, last_good: Picture | None = None) -> None:
    """(i): the whole of one known state: bytes, mode and owner of the files, and every value in use."""
    known = [before, *([last_good] if last_good is not None else [])]
    if any(now.files == one.files and now.settings == one.settings for one in known):
        return
    files = {name for name in {*now.files, *before.files} if now.files.get(name) != before.files.get(name)}
    values = {n: (before.settings.get(n), v) for n, v in now.settings.items() if before.settings.get(n) != v}
    raise AssertionError(f"(i) neither baseline nor last-good: files {sorted(files)}, values (was, is) {values}")


def check_recorded(place: Place, look: Look, study: str = "faults") -> None:
    """(ii): a measured trial ran with what it says, and the server uses what its own files say."""
    for trial in place.trials(study):
        if trial.status.is_measured:
            wrong = {n: (trial.config[n], v) for n, v in trial.effective.items() if trial.config[n] != v}
            special = {n for n, (asked, _) in wrong.items() if asked in (-1, 0)}
            assert set(wrong) <= special, f"(ii) trial {trial.number} ran with other values (asked, effective): {wrong}"
    assert look.waiting == [], f"(ii) not in effect: {look.waiting}"
    assert look.faults == [], f"(ii) faults in the files: {look.faults}"


def check_committed(now: Picture, rows: Mapping[int, str]) -> None:
    """(iii): every row that was committed is there."""
    lost = {key for key, body in rows.items() if now.witness.get(key) != body}
    assert not lost, f"(iii) committed rows lost: {sorted(lost)[:10]} of {len(lost)}"


def check_resumable(place: Place, study: str = "faults") -> None:
    """(iv): the journal can be read and holds nothing open; the history has every trial that it ever had, and those that
    must have ended before the last one that the journal announced, in order."""
    assert Journal(place.state).open_entries() == [], "(iv) an entry is still open"
    now = place.stored()
    for key, known in place.known.items():
        kept = now.get(key, [])[: len(known)]
        assert list(map(repr, kept)) == list(map(repr, known)), f"(iv) trials lost: study {key} had {len(known)}"
    trials = place.trials(study)
    assert [trial.number for trial in trials] == list(range(len(trials))), "(iv) a gap in the trials"
    assert len(trials) >= place.n_announced, f"(iv) {len(trials)} trials, and number {place.n_announced} had begun"
    record = place.record(study)
    assert record is None or record.status in STUDY_STATUSES, f"(iv) study status {record.status!r}"


def check_exit(ran: Ran, code: int | tuple[int, ...] | None = None, cause: str = "") -> None:
    """(v): a documented exit code, one line that says why, no traceback."""
    wanted = EXIT_CODES if code is None else (code,) if isinstance(code, int) else code
    assert ran.code in wanted, f"(v) exit code {ran.code} is none of {wanted}: {ran.err}"
    assert "Traceback" not in ran.out + ran.err, f"(v) a traceback: {ran.err}"
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == (1 if ran.code in (2, 3, 4) else 0), f"(v) {len(errors)} lines of cause: {ran.err}"
    if cause:
        assert re.search(cause, ran.err + ran.out), f"(v) {cause!r} is not in: {ran.err}"


def orphans_of(place: Place) -> list[tuple[int, bytes]]:
    """Processes of the place that do not end by themselves within `ORPHANS_S`."""
    until = time.monotonic() + ORPHANS_S
    while (left := processes_of(place)) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def check_no_remains(place: Place, before: Picture, look: Look, left: list[tuple[int, bytes]]) -> None:
    """(vi): no process, lock or temporary file is left, and an embedded server is down."""
    assert left == [], f"(vi) orphans: {left}"
    assert not (place.server.is_embedded and look.was_running), "(vi) the embedded server was left running"
    for path in (*_files_in(place.state), *_files_in(place.cache)):
        assert path.suffix != ".lock" or _is_free(path), f"(vi) still locked: {path}"
    assert look.held == [], "(vi) the server's advisory lock is held"
    temporary = [path for pattern in _TEMPORARY for path in place.state.rglob(pattern)]
    temporary += list((place.folder / "tmp").iterdir())
    assert temporary == [], f"(vi) temporary files: {temporary}"
    new = look.picture.names - before.names
    assert not new, f"(vi) new in the data directory: {sorted(new)}"


def _is_free(path: Path) -> bool:
    handle = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def check_no_secret(place: Place) -> None:
    """(vii): the canary in no output, no argv, and no file that Trimtab wrote."""
    mark = CANARY.encode()
    for ran in place.ran:
        assert CANARY not in ran.out + ran.err, f"(vii) in the output: {ran.out}{ran.err}"
    assert not [argv for argv in place.argvs if mark in argv], "(vii) in an argv"
    secrets = place_secrets(place)
    for path in _files_in(place.folder, without=place.server.folder):  # its own log is the server's
        assert path in secrets or mark not in path.read_bytes(), f"(vii) in {path}"


def _files_in(folder: Path, *, without: Path | None = None) -> Iterator[Path]:
    """Every plain file below a folder; a server has a thousand, of which `without` leaves its folder out."""
    left_out = os.fspath(without) if without is not None else None
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if os.path.join(root, name) != left_out]
        for path in (Path(root, name) for name in names):
            with suppress(FileNotFoundError):
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path


def place_secrets(place: Place) -> set[Path]:
    """Files in which the test itself has put the canary."""
    return {place.folder / ".pgpass", place.study, *place.folder.glob("*.sql")}
