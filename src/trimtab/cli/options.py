"""Arguments and options that several commands share, and how they print."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from trimtab.cli.streams import is_utf8
from trimtab.errors import TrimtabError, UsageError
from trimtab.redact import without_password

if TYPE_CHECKING:
    from trimtab.history import StudyRecord
    from trimtab.study import Stage, StudyFile

__all__ = [
    "SCHEMA_VERSION",
    "GivenText",
    "NumberRange",
    "commands_at",
    "history_option",
    "in_history",
    "json_option",
    "print_json",
    "require_one_of",
    "say",
    "state_option",
    "study_file_argument",
    "study_history_option",
    "study_named",
    "tell_changed",
    "tell_news",
    "toml_text",
]

SCHEMA_VERSION = 1

F = TypeVar("F", bound=Callable[..., Any])


class NumberRange(click.FloatRange):
    """A number within bounds; "nan" lies outside of all of them, though no comparison says so."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


_EMPTY = "it is empty: is a variable not set?"
"""Without the value that a script meant to give, another server, history or folder would be meant."""


class GivenText(click.types.StringParamType):
    """A text that is not empty."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(value, param, ctx) if value else self.fail(_EMPTY, param, ctx)


class _GivenFolder(click.Path):
    """A folder; "" would be the working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(value, param, ctx) if value != "" else self.fail(_EMPTY, param, ctx)


def study_file_argument(function: F) -> F:
    """STUDY.toml as the first argument."""
    return click.argument("study_file", type=click.Path(path_type=Path), metavar="STUDY.toml")(function)


def study_named(text: str) -> tuple[StudyFile | None, str]:
    """The study file, where `text` is the path of one (it ends in .toml, or is a file in a folder), and the study's name.

    Raises:
        UsageError: the file cannot be read, or is not right.
    """
    if not text.endswith(".toml") and not ("/" in text and Path(text).is_file()):
        return None, text
    from trimtab.study import load_study_file

    file = load_study_file(Path(text))
    return file, file.study.name


def _tell_news(context: click.Context, parameter: click.Parameter, state_dir: Path) -> Path:
    """What the dead-man did since the last command comes first, whichever command this is."""
    tell_news(state_dir)
    return state_dir


def tell_changed(stage: Stage, state_dir: Path) -> None:
    """A study that runs on a server, or was killed there, is why what is read from it now may be none of the user's own."""
    from trimtab.study.first import changed_by

    for text in changed_by(stage.stack, state_dir):
        say(f"note: {text}")


def tell_news(state_dir: Path) -> None:
    """Each of the dead-man's deeds is told once, to the user whose study it was. Others may read the history all the same."""
    # False where one may not look; `Path.exists` raises there.
    if os.path.exists(state_dir / "journal" / "news.jsonl"):
        from trimtab.trial import take_news

        with suppress(UsageError):
            for text in take_news(state_dir):
                say(text)


def state_option(function: F) -> F:
    """Where journal, history and results live; what an error proposes to take back is taken back there, too."""

    @wraps(function)
    def at_state(*arguments: Any, state_dir: Path, **options: Any) -> Any:
        try:
            return function(*arguments, state_dir=state_dir, **options)
        except TrimtabError as error:
            if error.hint and "`trimtab r" in error.hint:
                from trimtab.trial.command_line import text_at

                error.hint = text_at(state_dir, error.hint)
            raise

    option = click.option(
        "--state",
        "state_dir",
        type=_GivenFolder(path_type=Path, file_okay=False),
        default=Path(".trimtab"),
        envvar="TRIMTAB_STATE",
        show_default=True,
        callback=_tell_news,
        help="Directory of journal, history and results (environment: TRIMTAB_STATE).",
    )
    return cast(F, option(at_state))


def history_option(function: F) -> F:
    """--history: another history than the state directory's own."""
    return _history_option(function, "STATE/history.db")


def study_history_option(function: F) -> F:
    """--history of a command for one study: another history than that of the study file, or the state directory's own."""
    return _history_option(function, "[study] history of the study file, or STATE/history.db")


def _history_option(function: F, default: str) -> F:
    return click.option(
        "--history",
        "history_url",
        type=GivenText(),
        metavar="FILE|URL",
        help=f"File or postgresql:// URL of the history; default: {default}.",
    )(function)


def json_option(function: F) -> F:
    """--json: machine-readable output on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON (with schema_version) instead of text.")(
        function
    )


def print_json(data: dict[str, Any]) -> None:
    """One JSON document on stdout, with `schema_version` first."""
    from trimtab.jsonable import strict

    document = {"schema_version": SCHEMA_VERSION, **strict(data)}
    # JSON is UTF-8, whatever the encoding of the terminal is.
    text = json.dumps(document, indent=2, ensure_ascii=not is_utf8())
    click.echo(text.encode("utf-8", "backslashreplace").decode())  # of a path that is no text, as JSON escapes it


def require_one_of(given: Mapping[str, object]) -> None:
    """Raises UsageError where more than one of these options that exclude each other was given: none is ignored silently.

    Args:
        given: option, as it is written -> its value; false when it was not given.
    """
    said = [option for option, value in given.items() if value]
    if len(said) > 1:
        raise UsageError(f"{said[0]} and {said[1]} exclude each other", hint="give one of them")


def toml_text(value: Any) -> str:
    """`value` as a study file would hold it; "" for None, which a study file cannot say."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_text(item)}" for key, item in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_text(item) for item in value)}]"
    return repr(value)


def in_history(command: str, history_url: str | None) -> str:
    """`command` for the history that was given (no password is shown), where another study may have the same name."""
    return f"{command} --history {quote(without_password(history_url))}" if history_url else command


def commands_at(state_dir: Path, record: StudyRecord, history_url: str | None = None) -> StudyRecord:
    """`record`, whose commands to apply and undo it name the state directory where they need to, and the history that was
    given."""
    from dataclasses import replace

    from trimtab.trial.command_line import command_at

    verdict = record.verdict
    if not verdict.apply_command:
        return record
    apply = command_at(state_dir, in_history(verdict.apply_command, history_url))
    undo = command_at(state_dir, verdict.undo_command)
    return replace(record, verdict=replace(verdict, apply_command=apply, undo_command=undo))


def say(text: str) -> None:
    """Progress goes to stderr."""
    click.echo(text, err=True)
