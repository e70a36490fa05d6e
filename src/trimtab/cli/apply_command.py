"""trimtab apply: sets a proven winner to stay."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from trimtab.cli.options import (
    in_history,
    json_option,
    print_json,
    say,
    state_option,
    study_history_option,
    study_named,
)
from trimtab.errors import UsageError

if TYPE_CHECKING:
    from trimtab.history import History, StudyRecord
    from trimtab.space import Config
    from trimtab.study import Proposal

__all__ = ["command"]


@click.command("apply")
@click.argument("name", metavar="NAME|STUDY.toml")
@state_option
@study_history_option
@json_option
@click.option(
    "--study",
    "study_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Your study file, whose [target] table says which server; default: the file that `tune` was given here.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(
    name: str, state_dir: Path, history_url: str | None, as_json: bool, study_file: Path | None, yes: bool
) -> int:
    """Set the proven winner of the study NAME on its server permanently. Shows current → proposed first.

    The server, its files and the restart command are read from your study file, never from the history.
    """
    from trimtab.history import find_study, read_history_at
    from trimtab.report.words import counted
    from trimtab.study import apply_winner, history_of, load_study_file, remembered_file
    from trimtab.trial.command_line import command_at

    again = _again(name, study_file, history_url)
    file, study = study_named(name)
    path = Path(name) if study_file is None and file is not None else study_file
    given = file if study_file is None else load_study_file(study_file)
    # A file of another study says which server, and not where this study is.
    its_own = next((each for each in (file, given) if each is not None and each.study.name == study), None)
    with read_history_at(place := history_url or history_of(state_dir, study, its_own), state_dir) as history:
        record = find_study(history, study)
        config = _winner(history, record, lambda older: command_at(state_dir, _again(older, path, place)))
    if given is None:
        _require_own_server(record, study, state_dir, history_url)
        given = load_study_file(remembered_file(state_dir, record.name, history=history_url))

    def agrees(proposal: Proposal) -> bool:
        _show(proposal)
        return yes or _says_yes(command_at(state_dir, f"{again} --yes"))

    effective = apply_winner(record, given, state_dir, agrees=agrees, say=say)
    if effective is None:
        say("nothing was changed")
        raise click.exceptions.Abort
    # The point is kept under the study's name, not under its number.
    undo = command_at(state_dir, f"trimtab rollback {quote(record.name)}")
    if as_json:
        print_json({"applied": dict(config), "effective": dict(effective), "undo": undo})
    else:
        click.echo(f"applied {counted(len(config), 'setting')}; undo: {undo}")
    return 0


def _winner(history: History, record: StudyRecord, apply: Callable[[str], str]) -> Config:
    """The proven winner; `apply` is the command for the study of a number, for the hint where an older one has a winner."""
    from trimtab.history import find_studies
    from trimtab.study import winner_of

    try:
        return winner_of(record)
    except UsageError as error:
        older = [each for each in find_studies(history, record.name) if each.id < record.id and each.status == "proven"]
        if not older:
            raise
        hint = f"an older study of this name has one; to apply it: {apply(f'#{older[-1].id}')}"
        raise UsageError(error.message, hint=hint) from error


def _again(name: str, study_file: Path | None, history_url: str | None) -> str:
    """This command: without its options it could mean another server, or another study."""
    words = [] if study_file is None else ["--study", str(study_file)]
    return in_history(" ".join(map(quote, ("trimtab", "apply", name, *words))), history_url)


def _require_own_server(record: StudyRecord, name: str, state_dir: Path, history_url: str | None) -> None:
    """Raises UsageError where no study file of a server was ever given here."""
    from trimtab.trial.command_line import command_at

    apply, report = (
        command_at(state_dir, in_history(command, history_url))
        for command in (f"trimtab apply {quote(name)} --study FILE", f"trimtab report {quote(name)}")
    )
    if record.origin:
        raise UsageError(
            f"study={name!r} was imported: its target is not obeyed", hint=f"give your own study file: {apply}"
        )
    if "session" in record.settings:
        raise UsageError(
            f"study={name!r} is a session: no server but a program was tuned, which sets its values itself",
            hint=f"give it the values that `{report}` shows",
        )


def _show(proposal: Proposal) -> None:
    """One line each: what a history says may come from somebody else, and must not hide or add any before the question."""
    from trimtab.report.words import one_line

    for word, text in proposal.where.items():
        say(one_line(f"{word}: {text}"))
    for change in proposal.changes:
        late = " (restart)" if change.needs_restart else ""
        say(one_line(f"  {change.knob}: {change.current} → {change.proposed}{late}"))


def _says_yes(command: str) -> bool:
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        raise UsageError(
            "cannot ask for confirmation: stdin is not a terminal; nothing was changed",
            hint=f"to apply without a question: {command}",
        )
    return click.confirm("Set these on the server?", err=True)
