"""The standard streams: there for every command, and written out before the process says how it has ended."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

__all__ = ["drop_unwritten", "is_utf8", "open_streams"]

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_streams() -> None:
    """A stream that the caller has closed becomes /dev/null: else the next file that is opened, such as the history, would
    take its number, and get what is printed. A character that the terminal's encoding lacks is printed as its code, and a path
    that is no text as it is."""
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as the process
    if hasattr(sys.stdout, "reconfigure"):
        with suppress(OSError):  # of a stream that was given another file since it was made: it is set all the same
            sys.stdout.reconfigure(errors="surrogateescape" if is_utf8() else "backslashreplace")


def is_utf8() -> bool:
    """Whether stdout takes every character as whoever reads JSON expects it."""
    return (sys.stdout.encoding or "utf-8").lower() == "utf-8"


def drop_unwritten() -> None:
    """What a stream does not take (its reader has gone, its disk is full) is given up: at the end of the process Python would
    try it again, and exit with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):  # it has no file behind it, or is closed
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, stream.fileno())
                os.close(null)
