"""Where a command prints what rich has laid out: a terminal, or plain text for files, pipes and mail."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console

__all__ = ["PLAIN_WIDTH", "plain_console", "plain_lines", "printing", "progress_console"]

PLAIN_WIDTH = 110
"""Columns when the output is not a terminal: wide enough for the tables, narrow enough for mail."""


@contextmanager
def printing(console: Console | None = None, *, width: int = PLAIN_WIDTH) -> Iterator[Console]:
    """What to print on: `console`, or else stdout.

    Where stdout is no terminal, it gets `width` columns, no colours, and no blanks at the ends of lines; all at once, at the end.
    """
    terminal = console or Console()
    if console is not None or terminal.is_terminal:
        yield terminal
        return
    out = io.StringIO()
    yield plain_console(out, width)
    sys.stdout.write(plain_lines(out.getvalue()))


def progress_console(*, quiet: bool = False) -> Console:
    """Stderr, for progress; interactive where a live table can be redrawn. FORCE_COLOR asks a pipe for colours, not for that."""
    return Console(stderr=True, quiet=quiet, force_interactive=None if sys.stderr.isatty() else False)


def plain_console(out: TextIO, width: int) -> Console:
    """Prints into `out` what a file may hold."""
    return Console(file=out, width=width, color_system=None, force_terminal=False, legacy_windows=False)


def plain_lines(text: str) -> str:
    """`text` without the blanks with which tables are padded to the right edge."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())
