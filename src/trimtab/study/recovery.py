"""recover: what a dead Trimtab left open is undone, shown, given up, or written out for a repair by hand."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from trimtab.errors import TargetError, TrimtabError, UsageError
from trimtab.host import FileCopy, sweep_scratch, sync_folder
from trimtab.study.rollback_point import RollbackPoint, applied_points, point_of, sweep_points
from trimtab.study.running import sweep_running
from trimtab.systems import Own, Snapshot
from trimtab.systems.files import file_from_json
from trimtab.systems.mount_options import MOUNT, commands_for
from trimtab.systems.table_options import statement_for, table_of, values_of
from trimtab.trial import Entry, Journal, reattach, undo
from trimtab.trial.command_line import command_at
from trimtab.trial.copies import copies_of
from trimtab.trial.entry import MAX_RESTARTS, RETRY
from trimtab.trial.undo import as_target_error
from trimtab.units import format_duration

if TYPE_CHECKING:  # `recover` is the emergency command: it loads no numbers
    from trimtab.space import Value

__all__ = [
    "AppliedKnob",
    "AppliedStudy",
    "OpenEntry",
    "OpenKnob",
    "Recovered",
    "Stuck",
    "applied",
    "by_hand",
    "extract",
    "leave",
    "leave_applied",
    "open_changes",
    "recover",
    "shown",
]

_CLAIM_S = 300.0
_README = "README.txt"
_KERNEL = ("/proc/", "/sys/")


@dataclass(frozen=True, slots=True)
class Recovered:
    """One journal entry that was dealt with: whose, for what purpose, on which targets and files, and what was done."""

    study: str
    purpose: str
    target: str
    files: tuple[str, ...]
    action: str


@dataclass(frozen=True, slots=True)
class Stuck:
    """One journal entry that could not be undone and stays open: whose, on which targets ("": it cannot be read), and why."""

    study: str
    target: str
    error: TrimtabError


@dataclass(frozen=True, slots=True)
class OpenKnob:
    """What is ours on a target, as text: what we set, what was found, what the target uses now ("" unknown), what to do."""

    knob: str
    ours: str
    found: str
    now: str
    action: str


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """One target of an open entry, for people: `failure` is why its last undo failed, `note` why it could not be asked, `copies`
    are databases that runs had there, which are dropped."""

    study: str
    purpose: str
    target: str
    opened_at: float
    pid: int
    is_alive: bool
    failure: str
    may_restart: bool
    files: tuple[str, ...]
    knobs: tuple[OpenKnob, ...]
    note: str
    copies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AppliedKnob:
    """What `apply` has set on a target, and what was found there, as text."""

    knob: str
    ours: str
    found: str


@dataclass(frozen=True, slots=True)
class AppliedStudy:
    """What `rollback` would take back from one target."""

    study: str
    target: str
    applied_at: float
    knobs: tuple[AppliedKnob, ...]


def open_changes(state_dir: Path, folders: Iterable[Path] = (), unread: list[TargetError] | None = None) -> list[Entry]:
    """Journal entries whose owner is dead: what `recover` would deal with.

    Those of other state directories as well that are about a private server in one of `folders`; `unread` as of `Journal`.
    """
    journal = Journal(state_dir)
    strays = journal.strays(folders)
    return [*strays, *(entry for entry in journal.open_entries(unread) if not entry.is_owner_alive)]


def recover(state_dir: Path, *, retry: str = "", folders: Iterable[Path] = ()) -> tuple[list[Recovered], list[Stuck]]:
    """Takes back what a dead Trimtab may have left on its targets; what was done, and what could not be. Idempotent.

    Private servers in `folders` are put back also when the entry about them lies in another state directory, or lay in one that
    was removed.

    An entry whose undo failed after a restart is not given another one, unless its study is the one to `retry`. One that
    the dead-man is just undoing is waited for. One that cannot be read is stuck, and keeps no other from its way back.

    Raises:
        UsageError: there is no open entry to retry, or the journal is not this user's.
    """
    unread: list[TargetError] = []
    entries = open_changes(state_dir, folders, unread)
    if retry:
        entries = _of_study(state_dir, entries, retry)
        for entry in entries:
            entry.note(RETRY)
    done: list[Recovered] = []
    stuck = [Stuck("", "", error) for error in ([] if retry else unread)]
    for entry in entries:
        targets = ", ".join(snapshot.target for snapshot in entry.snapshots)
        with entry.claim(_CLAIM_S) as is_ours:
            if not is_ours:
                stuck += [Stuck(entry.study, targets, _taken())] if entry.is_open else []
                continue
            try:
                action = undo(entry, holder=f"trimtab recover {entry.study}")
                entry.close(f"recovered: {action}")
            except (TrimtabError, OSError) as error:
                found = as_target_error(error, f"entry={entry.path.name} could not be undone")
                stuck.append(Stuck(entry.study, targets, found))
                continue
        done.append(Recovered(entry.study, entry.purpose, targets, _files(entry.snapshots), action))
    sweep_points(state_dir)
    sweep_running(state_dir)
    sweep_scratch()
    return done, stuck


def _taken() -> TargetError:
    return TargetError(
        f"another process has been putting the server back for {format_duration(_CLAIM_S)}, and goes on",
        hint="wait until it is done, and run this again; a server may have a long log to replay",
    )


def _files(snapshots: Sequence[Snapshot]) -> tuple[str, ...]:
    return tuple(name for snapshot in snapshots for name in snapshot.files)


def _of_study(state_dir: Path, entries: Sequence[Entry], study: str) -> list[Entry]:
    found = [entry for entry in entries if entry.study == study]
    if not found:
        _require_not_at_work(state_dir, study)
        names = ", ".join(sorted({entry.study for entry in entries}))
        raise UsageError(
            f"nothing of study={study!r} is open", hint=f"open: {names}" if names else "nothing is open at all"
        )
    return found


def _require_not_at_work(state_dir: Path, study: str) -> None:
    """Raises UsageError when a process that lives has an open entry of that study."""
    for entry in Journal(state_dir).open_entries():
        if entry.study == study and entry.is_owner_alive:
            raise UsageError(
                f"the {entry.purpose} of study={study!r} has not ended: pid {entry.pid} works on it",
                hint=f"wait for it, or stop it (Ctrl-C there, or `kill {entry.pid}`): it puts the server back itself",
            )


def shown(state_dir: Path, unread: list[TargetError] | None = None) -> list[OpenEntry]:
    """What is open, what would be done, and what others have changed; servers are looked at, and nothing is changed."""
    entries = Journal(state_dir).open_entries(unread)
    return [_shown(entry, snapshot) for entry in entries for snapshot in entry.snapshots]


def applied(state_dir: Path, unread: list[TargetError] | None = None) -> list[AppliedStudy]:
    """What stands applied, the first to be rolled back first; servers are not looked at."""
    points = sorted(applied_points(state_dir, unread), key=lambda point: -point.order)
    return [
        AppliedStudy(
            study=point.study,
            target=snapshot.target,
            applied_at=point.applied_at,
            knobs=tuple(
                AppliedKnob(name, str(texts[-1]), _found(snapshot, own, name))
                for name, texts in sorted(own.texts.items())
            ),
        )
        for point in points
        for snapshot, own in zip(point.snapshots, point.owns, strict=True)
    ]


def _shown(entry: Entry, snapshot: Snapshot) -> OpenEntry:
    own = entry.own(snapshot.target)
    now, note = _running(entry, snapshot)
    knobs = tuple(
        OpenKnob(
            knob=name,
            ours=str(texts[-1]),
            found=_found(snapshot, own, name),
            now=own.said(name, now[name]) if name in now else "",
            action=_action(now.get(name), own, snapshot, name),
        )
        for name, texts in sorted(own.texts.items())
    )
    return OpenEntry(
        study=entry.study,
        purpose=entry.purpose,
        target=snapshot.target,
        opened_at=entry.opened_at,
        pid=entry.pid,
        is_alive=entry.is_owner_alive,
        failure=entry.failure,
        may_restart=entry.n_restarts(snapshot.target) < MAX_RESTARTS,
        files=tuple(snapshot.files),
        knobs=knobs,
        note=note,
        copies=copies_of(entry, snapshot.target),
    )


def _found(snapshot: Snapshot, own: Own, name: str) -> str:
    return own.said(name, snapshot.values[name]) if name in snapshot.values else "nothing"


def _running(entry: Entry, snapshot: Snapshot) -> tuple[dict[str, Value], str]:
    """Values in use now, and why they are not known. What Trimtab itself runs is not asked: a look would start it, and end
    it where a killed Trimtab has left it running."""
    if "folder" in snapshot.reach:
        return {}, "an embedded server is not started for a look"
    if snapshot.reach.get("settings", {}).get("run"):
        return {}, "a program that Trimtab itself runs is not started for a look"
    try:
        with closing(reattach(snapshot, entry.state_dir)) as target:
            target.open()
            return {name: state.running for name, state in target.states().items()}, ""
    except (TrimtabError, OSError) as error:
        return {}, as_target_error(error, "it cannot be asked").message


def _action(now: Value | None, own: Own, snapshot: Snapshot, name: str) -> str:
    if now is None:
        return "is put back where it is still ours"
    if str(now) == str(snapshot.values.get(name)):
        return "has its found value already"
    if str(now) in {str(value) for value in own.values.get(name, ())}:
        return "is put back" + (", by a restart" if name in own.late else "")
    return "somebody else has set it since: is left"


def leave(state_dir: Path, study: str) -> Path:
    """Gives up the open entries of `study`: the server keeps what it has; the folder with what was found.

    Raises:
        UsageError: nothing of it is open, or another process has ended it while this one waited.
        TargetError: another process is putting it back just now.
    """
    folder, is_left = _aside(state_dir, study), False
    for entry in _of_study(state_dir, open_changes(state_dir, unread=[]), study):
        with entry.claim(_CLAIM_S) as is_ours:
            if is_ours:
                _make_durable(_write_entry(folder, entry))
                entry.close(f"left as it is by the user; what was found lies in {folder}")
                is_left = True
            elif entry.is_open:
                raise _taken()
    if not is_left:
        raise UsageError(
            f"nothing of study={study!r} is open any more: another process has put the server back meanwhile",
            hint=f"{state_dir / 'journal' / 'audit.jsonl'} says how it ended",
        )
    return folder


def leave_applied(state_dir: Path, study: str) -> Path:
    """Gives up the rollback point of an applied study, which then stays for good; the folder with what was found.

    Raises:
        UsageError: it is not applied, or its apply or its rollback has not ended: the next command would take it back.
    """
    point = point_of(state_dir, study)
    if point is None:
        raise UsageError(f"nothing of study={study!r} is applied", hint="it can neither be taken back nor be left")
    _require_ended(state_dir, study)
    folder = _aside(state_dir, study)
    _make_durable(_write_point(folder, point))
    point.path.unlink(missing_ok=True)
    return folder


def _require_ended(state_dir: Path, study: str) -> None:
    """Raises UsageError when an entry about its apply or its rollback is open."""
    for entry in Journal(state_dir).open_entries():
        if entry.study == study and entry.purpose in ("apply", "rollback"):
            recover = command_at(state_dir, "trimtab recover")
            ways = f"`{recover}` finishes it; `{recover} --leave {study}` ends it with what the server has now"
            raise UsageError(
                f"the {entry.purpose} of study={study!r} has not ended; nothing was changed",
                hint=f"wait for pid {entry.pid}, which works on it" if entry.is_owner_alive else ways,
            )


def _make_durable(files: Sequence[Path]) -> None:
    """Files and their folders, which are all that is left of what was found."""
    for path in {each for file in files for each in (file, *list(file.parents)[:4])}:
        sync_folder(path)


def _aside(state_dir: Path, study: str) -> Path:
    return (
        state_dir.absolute()
        / "left"
        / f"{study}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{time.time_ns() % 10**9}"
    )


def extract(state_dir: Path, folder: Path, unread: list[TargetError] | None = None) -> list[Path]:
    """Writes into `folder` the files as found of all that is open or applied, and how to put them back by hand.

    No server is asked for that, and nothing in the state directory changes. The files written; `unread` as of `Journal`.

    Raises:
        UsageError: the folder holds something, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"folder={str(folder)!r} is not empty", hint="give a new one")
    written: list[Path] = []
    try:
        for entry in Journal(state_dir).open_entries(unread):
            written += _write_entry(folder, entry)
        for point in applied_points(state_dir, unread):
            written += _write_point(folder, point)
    except OSError as error:
        raise UsageError(f"cannot write folder={str(folder)!r}: {error.strerror}", hint="give another one") from error
    return written


def _write_entry(folder: Path, entry: Entry) -> list[Path]:
    parts = [(each, entry.own(each.target), copies_of(entry, each.target)) for each in entry.snapshots]
    return _write_out(folder, entry.study, entry.purpose, parts)


def _write_point(folder: Path, point: RollbackPoint) -> list[Path]:
    parts = [(snapshot, own, ()) for snapshot, own in zip(point.snapshots, point.owns, strict=True)]
    return _write_out(folder, point.study, "applied", parts)


def _write_out(
    folder: Path, study: str, purpose: str, parts: Sequence[tuple[Snapshot, Own, Sequence[str]]]
) -> list[Path]:
    """What was found of each target, what is ours there, and which copies of data runs may have left there."""
    written = []
    for snapshot, own, copies in parts:
        inner = _free(folder, f"{study}-{purpose}-{snapshot.target}")
        inner.mkdir(parents=True, mode=0o700)
        lines = [f"Target {snapshot.target} ({snapshot.kind}) as it was found before Trimtab's change ({purpose}).", ""]
        for number, (name, table) in enumerate(snapshot.files.items(), start=1):
            path = inner / f"{number}-{Path(name).name}"
            copy = file_from_json(table)
            if copy is not None and not name.startswith(MOUNT):
                path.write_bytes(copy.content)
                path.chmod(0o600)
                written.append(path)
            if told := by_hand(name, copy, path.name):
                lines += [*told, ""]
        lines += ["Settings that Trimtab has changed (knob: set to; found):"]
        lines += [f"  {name}: {texts[-1]}; {_found(snapshot, own, name)}" for name, texts in sorted(own.texts.items())]
        lines += ["", "Copies of data that runs used, yours to drop where they are still there:"] if copies else []
        lines += [f"  database={name}" for name in copies]
        lines += ["", "Afterwards: `trimtab recover --leave NAME` (open) or `trimtab rollback NAME --leave` (applied)."]
        readme = inner / _README
        readme.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
        written.append(readme)
    return written


def _free(folder: Path, name: str) -> Path:
    """A place in `folder`; another one where two servers have been targets of one name in one study."""
    places = (folder / name if n == 1 else folder / f"{name}-{n}" for n in count(1))
    return next(place for place in places if not place.exists())


def by_hand(name: str, copy: FileCopy | None, kept: str) -> list[str]:
    """What a person does to put back a file, a table's options or those of a file system; `kept` is its content beside them."""
    if name.startswith(MOUNT):
        commands = [f"  {command}" for command in commands_for(copy)] if copy is not None else []
        return [f"{name}: options of a mounted file system. To put them back:", *commands] if commands else []
    if name.startswith(_KERNEL):
        return _by_hand_in_kernel(name, copy)
    if copy is None:
        return [f"{name}: there was no such file. To put it back: stop the server, remove the file."]
    if (table := table_of(name)) is not None:
        statement = statement_for(table, values_of(copy.content.decode("latin-1")))
        return [f"{name}: its options lie here as {kept}. To put them back, with cqlsh:", f"  {statement};"]
    return [
        f"{name}: lies here as {kept}. To put it back while the server is down, or before a restart:",
        f"  cp {quote(kept)} {quote(name)}",
        "  That keeps its access control list and label. Where the file is gone, or has another mode or owner, instead:",
        f"  install -m {copy.mode:o} -o {copy.uid} -g {copy.gid} {quote(kept)} {quote(name)}",
        "  Compare first (diff): what others have changed since would be lost.",
    ]


def _by_hand_in_kernel(name: str, copy: FileCopy | None) -> list[str]:
    """The same of a file of the kernel, which takes a value and no file in its place; nothing of one that it does not have."""
    from trimtab.systems.codec.scalar import SCALAR_ADDRESS, Scalar  # here: only few entries have such files

    found = Scalar().find(copy.content.decode("latin-1"), SCALAR_ADDRESS) if copy is not None else None
    if found is None:
        return []
    return [
        f"{name}: a setting of the kernel. To put it back, as root:",
        f"  echo {quote(found.value)} > {quote(name)}",
    ]
