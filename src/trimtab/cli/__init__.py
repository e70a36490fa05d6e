"""The command line: one file per command, loaded when it is called; no logic of its own."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import Any

import click

from trimtab.cli.shortage import EXIT_CODE, shortage  # now: a process out of files can import nothing more
from trimtab.cli.streams import drop_unwritten, open_streams
from trimtab.errors import TrimtabError
from trimtab.redact import hide_literals, redact

__all__ = ["in_repository", "main"]

_INTERRUPTED = 130
_USAGE = 2
_BUG = 70
_PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")


def _complain(message: str, hint: str | None = None) -> None:
    _print(f"{_coloured('error:', fg='red', bold=True)} {redact(message)}")
    if hint:
        _print(f"{_coloured('hint:', fg='cyan')} {redact(in_repository(hint))}")


def in_repository(hint: str) -> str:
    """`hint`, with where the page of the documentation is that it names: an installation has no such folder."""
    return _PAGE.sub(r"\g<0> in Trimtab's repository", hint)


def _coloured(word: str, **style: Any) -> str:
    """For a terminal, unless NO_COLOR is set: click itself knows only whether it is one."""
    return word if os.environ.get("NO_COLOR") else click.style(word, **style)


def _print(text: str) -> None:
    with suppress(OSError):  # stderr takes nothing more: the exit code has to say enough
        click.echo(text, err=True)


def _report_bug(error: BaseException) -> None:
    """No traceback reaches the user: it goes to a file that can be sent along, where one can be written."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="trimtab-bug-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(hide_literals("".join(traceback.format_exception(error))))
        hint = f"please report it with the file {file.name}"
    except OSError as trouble:
        hint = f"please report it; no file about it could be written: {trouble.strerror or trouble}"
    _complain(f"a bug in Trimtab: {type(error).__name__}: {error}", hint)


def _told(error: BaseException) -> int:
    """Says what ended a command, and returns its exit code."""
    if isinstance(error, click.exceptions.Abort | KeyboardInterrupt | BrokenPipeError | SystemExit):
        return _INTERRUPTED  # click and rich exit with 1 when the reader of their output has gone: that is no verdict
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        _print(error.format_message())
        return _USAGE
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        _complain(error.format_message(), f"see `{context.command_path} --help`" if context else None)
        return _USAGE
    if isinstance(error, TrimtabError):
        if error.exit_code == _INTERRUPTED:
            _print(f"{error.message}; {error.hint}")
        else:
            _complain(error.message, error.hint)
        return error.exit_code
    if (short := shortage(error)) is not None:
        _complain(*short)
        return EXIT_CODE
    _report_bug(error)
    return _BUG


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the `trimtab` command; exits with the codes of docs/reference/cli.md."""
    from trimtab.cli.group import trimtab

    open_streams()
    try:
        code = trimtab.main(args=arguments, prog_name="trimtab", standalone_mode=False)
        sys.stdout.flush()  # here it can still be said that it does not get out
    except BaseException as error:  # noqa: BLE001 - the last line of defence: every bug gets its exit code
        code = _told(error)
    drop_unwritten()
    sys.exit(code if isinstance(code, int) else 0)
