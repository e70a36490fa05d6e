"""`python -m trimtab.load`: a load generator that is directed over its standard input and output, or over TCP."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from trimtab import __version__
from trimtab.load.listen import TOKEN, Listener
from trimtab.load.serve import PASSWORD, Generator
from trimtab.load.token import MIN_CHARACTERS

_USAGE = f"""usage: python -m trimtab.load [--listen HOST:PORT]

A load generator in a separate process. Trimtab starts it, here or over ssh, for `from` in [workload.load]; it reads what to do
from its standard input and writes what it measured to its standard output. --version prints the version, which must be that of
the Trimtab that directs it.

With --listen it waits for Trimtab on a port, for `from = ["tcp://HOST:PORT"]`. Both sides must have the same token of
{MIN_CHARACTERS} or more characters in the environment variable {TOKEN}. The server's password does not come over the
connection: set {PASSWORD} here."""


def main(argv: list[str]) -> int:
    """The exit code: 0 done, 2 it was not meant."""
    if argv == ["--version"]:
        print(__version__)
        return 0
    if argv[:1] == ["--listen"] and len(argv) == 2:
        return _listen(argv[1])
    if argv or sys.stdin.isatty():
        print(_USAGE, file=sys.stderr)
        return 2
    # Ctrl-C in a terminal is for the process that directs this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outgoing = os.fdopen(os.dup(1), "wb")
    # What a library prints must not come between the messages.
    os.dup2(2, 1)
    with contextlib.suppress(BrokenPipeError, ConnectionError):
        Generator(sys.stdin.buffer, outgoing, __version__).run()
    # The thread that listens may wait in a read, which an orderly end of the interpreter does not survive.
    os._exit(0)


def _listen(where: str) -> int:
    host, _, port = where.rpartition(":")
    token = os.environ.get(TOKEN, "")
    if not port.isdecimal() or int(port) > 65_535:
        return _refuse(f"--listen={where!r} is not an address", "write --listen 0.0.0.0:7800")
    if len(token) < MIN_CHARACTERS:
        return _refuse(
            f"{TOKEN} has {len(token)} characters", f"set it to {MIN_CHARACTERS} or more, here and for Trimtab"
        )
    try:
        listener = Listener(host.strip("[]"), int(port), token, _tell)
    except OSError as error:
        return _refuse(f"--listen={where!r} is not possible: {error.strerror or error}", "take another address or port")
    _tell(f"listening on port {listener.port}")
    with contextlib.suppress(KeyboardInterrupt):
        listener.serve()
    return 0


def _refuse(text: str, hint: str) -> int:
    print(f"error: {text}\nhint: {hint}", file=sys.stderr)
    return 2


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
