"""dies_with_us: what is started for this process ends with it, also where it is killed by kill -9 and can end nothing itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["dies_with_us"]

_SCRIPT = 'echo; group=; while read -r line; do group=$line; done; [ -z "$group" ] || kill -s KILL -- "-$group"'


@contextmanager
def dies_with_us() -> Iterator[Callable[[int], None]]:
    """Gives what is to be told the group of a process: all of it is killed if this process ends inside, however it ends.

    A shell waits for that at the other end of a pipe, which the kernel closes then. It is in a session of its own, so that no
    signal of a terminal ends it, and it waits already when this begins, so that no measurement sees it start. On a system without
    a shell nothing is done.
    """
    pipe = subprocess.PIPE
    try:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            bufsize=0,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        yield lambda group: None
        return
    with shell:  # closes the pipe, and waits
        if shell.stdin is None or shell.stdout is None:
            raise AssertionError("unreachable")
        shell.stdout.read(1)
        told = shell.stdin.fileno()
        try:
            yield lambda group: _say(told, str(group))
        finally:
            _say(told, "")


def _say(told: int, text: str) -> None:
    with suppress(BrokenPipeError):  # somebody has killed the shell
        os.write(told, f"{text}\n".encode())
