"""trimtab recover: puts back what a killed Trimtab left changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import GivenText, json_option, print_json, require_one_of, say, state_option, tell_news
from trimtab.units import counted, format_time

if TYPE_CHECKING:
    from trimtab.errors import TargetError, TrimtabError
    from trimtab.study.recovery import AppliedStudy, OpenEntry
    from trimtab.trial import Entry

__all__ = ["command"]


@click.command("recover")
@state_option
@json_option
@click.option("--check", is_flag=True, help="Only list what is open. Exit code 1: something needs recovery.")
@click.option(
    "--show", is_flag=True, help="List what is open, what would be done, and what others have changed. Changes nothing."
)
@click.option(
    "--retry",
    metavar="NAME",
    type=GivenText(),
    help="Retry a failed undo of the study NAME, with one more restart.",
)
@click.option(
    "--leave",
    metavar="NAME",
    type=GivenText(),
    help="Give up the undo of the study NAME: the server keeps its present configuration.",
)
@click.option(
    "--extract",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the original files to a new directory, with instructions. Does not contact any server.",
)
def command(
    state_dir: Path, as_json: bool, check: bool, show: bool, retry: str | None, leave: str | None, extract: Path | None
) -> int:
    """Restore every server that a killed or crashed Trimtab may have left changed. Safe to repeat."""
    require_one_of(
        {"--check": check, "--show": show, "--retry": retry, "--leave": leave, "--extract": extract is not None}
    )
    if not (retry or leave or state_dir.is_dir()):  # "nothing to recover" may be true of this folder only
        say(f"note: there is no state directory {str(state_dir)!r}; --state names the one that the study was run with")
    if check:
        return _check(state_dir, as_json)
    if show:
        return _show(state_dir, as_json)
    if leave:
        return _leave(state_dir, leave, as_json)
    if extract is not None:
        return _extract(state_dir, extract, as_json)
    return _recover(state_dir, retry or "", as_json)


def _recover(state_dir: Path, retry: str, as_json: bool) -> int:
    from trimtab.study import recover

    done, stuck = recover(state_dir, retry=retry)
    tell_news(state_dir)  # of a dead-man that was waited for
    if as_json:
        print_json(
            {
                "recovered": [{"study": d.study, "target": d.target, "action": d.action} for d in done],
                "stuck": [
                    {"study": s.study, "target": s.target, "error": s.error.message, "hint": s.error.hint}
                    for s in stuck
                ],
            }
        )
    elif not done and not stuck:
        click.echo("nothing to recover")
    for item in done if not as_json else []:
        click.echo(f"study {item.study}: target {item.target} {item.action}")
    if not stuck:
        return 0
    words = [f"study={each.study!r}: {each.error.message}" if each.study else each.error.message for each in stuck]
    told = f" ({counted(len(done), 'other entry')} recovered)" if done else ""
    raise _as_one([each.error for each in stuck], f"{'; '.join(words)}{told}")


def _as_one(errors: Sequence[TrimtabError], message: str) -> TrimtabError:
    """`message`, of the first one's class, with what to do about all of them."""
    hints = dict.fromkeys(each.hint for each in errors if each.hint)
    return type(errors[0])(message, hint="; ".join(hints) or None)


def _require_read(unread: Sequence[TrimtabError]) -> None:
    """Raises the errors of what cannot be read as one, once all else was shown."""
    if unread:
        raise _as_one(unread, "; ".join(each.message for each in unread))


def _damaged(unread: Sequence[TrimtabError]) -> list[dict[str, str | None]]:
    return [{"error": each.message, "hint": each.hint} for each in unread]


def _show(state_dir: Path, as_json: bool) -> int:
    from trimtab.study import applied, shown

    unread: list[TargetError] = []
    entries, standing = shown(state_dir, unread), applied(state_dir, unread)
    if as_json:
        tables = {"open": [asdict(e) for e in entries], "applied": [asdict(each) for each in standing]}
        print_json({**tables, "damaged": _damaged(unread)})
    else:
        if not entries and not unread:
            click.echo("nothing is open")
        for study in standing:
            _tell_applied(study, state_dir)
        for entry in entries:
            _tell_open(entry, state_dir)
    _require_read(unread)
    return 0


def _tell_applied(study: AppliedStudy, state_dir: Path) -> None:
    from trimtab.trial.command_line import command_at

    click.echo(f"study {study.study}: applied to {study.target} at {format_time(study.applied_at)}")
    for line in study.knobs:
        click.echo(f"  {line.knob}: set to {line.ours}, found {line.found}")
    rollback = command_at(state_dir, f"trimtab rollback {study.study}")
    click.echo(f"  ways out: {rollback} | {rollback} --leave")


def _tell_open(entry: OpenEntry, state_dir: Path) -> None:
    from trimtab.trial.command_line import command_at

    since = format_time(entry.opened_at)
    who = f"pid {entry.pid} works on it" if entry.is_alive else f"pid {entry.pid} is gone"
    click.echo(f"study {entry.study}: {entry.purpose} of {entry.target} since {since}; {who}")
    if entry.failure:
        restart = "" if entry.may_restart else "; the server is not restarted again"
        click.echo(f"  the last attempt failed: {entry.failure}{restart}")
    for file in entry.files:
        click.echo(f"  file: {file}")
    for name in entry.copies:
        click.echo(f"  copy of data that runs use: database={name}: is dropped")
    if entry.note:
        click.echo(f"  not looked at: {entry.note}")
    for knob in entry.knobs:
        now = f", now {knob.now}" if knob.now else ""
        click.echo(f"  {knob.knob}: set to {knob.ours}, found {knob.found}{now}: {knob.action}")
    if not entry.is_alive:
        recover = command_at(state_dir, "trimtab recover")
        click.echo(f"  ways out: {recover} | {recover} --retry {entry.study} | {recover} --leave {entry.study}")


def _leave(state_dir: Path, study: str, as_json: bool) -> int:
    from trimtab.study import leave

    folder = leave(state_dir, study)
    if as_json:
        print_json({"left": study, "found": str(folder)})
    else:
        click.echo(f"study {study}: the server keeps what it has now; the files as found lie in {folder}")
    return 0


def _extract(state_dir: Path, folder: Path, as_json: bool) -> int:
    from trimtab.study import extract

    unread: list[TargetError] = []
    written = extract(state_dir, folder, unread)
    if as_json:
        print_json({"written": [str(path) for path in written], "damaged": _damaged(unread)})
    elif not written and not unread:
        click.echo("nothing is open, and nothing is applied")
    for path in written if not as_json else []:
        click.echo(str(path))
    _require_read(unread)
    return 0


def _check(state_dir: Path, as_json: bool) -> int:
    from trimtab.trial import Journal
    from trimtab.trial.command_line import command_at

    recover = command_at(state_dir, "trimtab recover")
    unread: list[TargetError] = []
    entries = Journal(state_dir).open_entries(unread)
    tell_news(state_dir)  # of a dead-man that has ended since this command began
    if as_json:
        print_json({"open": [_row(entry) for entry in entries], "damaged": _damaged(unread)})
    elif not entries and not unread:
        click.echo("nothing is open")
    for entry in entries if not as_json else []:
        row = _row(entry)
        who = f"pid {entry.pid} works on it" if row["is_alive"] else f"pid {entry.pid} is gone: run `{recover}`"
        click.echo(f"study {entry.study}: {entry.purpose} of {row['target']} since {row['opened_at']}; {who}")
    _require_read(unread)
    return 1 if any(not entry.is_owner_alive for entry in entries) else 0


def _row(entry: Entry) -> dict[str, object]:
    return {
        "study": entry.study,
        "purpose": entry.purpose,
        "target": ", ".join(snapshot.target for snapshot in entry.snapshots),
        "pid": entry.pid,
        "is_alive": entry.is_owner_alive,
        "opened_at": format_time(entry.opened_at),
        "last_step": next((step for step, _ in reversed(entry.steps())), ""),
        "n_damaged_lines": entry.n_damaged,
    }
