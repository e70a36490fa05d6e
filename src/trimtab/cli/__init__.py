"""The command line: one file per command, loaded when it is called; no logic of its own."""

from __future__ import annotations

import re
import sys

import click

from trimtab.cli.shortage import EXIT_CODE, shortage  # now: a process out of files can import nothing more
from trimtab.errors import TrimtabError
from trimtab.redact import hide_literals, redact

__all__ = ["main"]

_INTERRUPTED = 130
_BUG = 70
_PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")


def _complain(message: str, hint: str | None = None) -> None:
    click.echo(f"{click.style('error:', fg='red', bold=True)} {redact(message)}", err=True)
    if hint:
        hint = _PAGE.sub(r"\g<0> in Trimtab's repository", hint)  # an installation has no such folder
        click.echo(f"{click.style('hint:', fg='cyan')} {redact(hint)}", err=True)


def _report_bug(error: BaseException) -> None:
    """No traceback reaches the user: it goes to a file that can be sent along, where one can be written."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="trimtab-bug-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(hide_literals("".join(traceback.format_exception(error))))
        hint = f"please report it with the file {file.name}"
    except OSError as trouble:
        hint = f"please report it; no file about it could be written: {trouble.strerror or trouble}"
    _complain(f"a bug in Trimtab: {type(error).__name__}: {error}", hint)


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the `trimtab` command; exits with the codes of docs/reference/cli.md."""
    from trimtab.cli.group import trimtab

    try:
        code = trimtab.main(args=arguments, prog_name="trimtab", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(_INTERRUPTED)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        _complain(error.format_message(), f"see `{context.command_path} --help`" if context else None)
        sys.exit(2)
    except TrimtabError as error:
        if error.exit_code == _INTERRUPTED:
            click.echo(f"{error.message}; {error.hint}", err=True)
        else:
            _complain(error.message, error.hint)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the last line of defence: every bug gets its exit code
        if (short := shortage(error)) is not None:
            _complain(*short)
            sys.exit(EXIT_CODE)
        _report_bug(error)
        sys.exit(_BUG)
    sys.exit(code if isinstance(code, int) else 0)
