"""`python -m trimtab.load`: a load generator that is directed over its standard input and output."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from trimtab import __version__
from trimtab.load.serve import Generator

_USAGE = """usage: python -m trimtab.load

A load generator in a separate process. Trimtab starts it, here or over ssh, for `from` in [workload.load]; it reads what to do
from its standard input and writes what it measured to its standard output. --version prints the version, which must be that of
the Trimtab that directs it."""


def main(argv: list[str]) -> int:
    """The exit code: 0 done, 2 it was not meant."""
    if argv == ["--version"]:
        print(__version__)
        return 0
    if argv or sys.stdin.isatty():
        print(_USAGE, file=sys.stderr)
        return 2
    # Ctrl-C in a terminal is for the process that directs this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outgoing = os.fdopen(os.dup(1), "wb")
    # What a library prints must not come between the messages.
    os.dup2(2, 1)
    with contextlib.suppress(BrokenPipeError):
        Generator(sys.stdin.buffer, outgoing, __version__).run()
    # The thread that listens may wait in a read, which an orderly end of the interpreter does not survive.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
