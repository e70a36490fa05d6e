"""Whether a process is a Java machine: who asks another process as `jcmd` does sends it SIGQUIT, which ends whatever is none."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import is_ending

__all__ = ["require_java"]


def require_java(pid: int) -> None:
    """That a process can be asked so. One of which nothing can be seen, or that has ended, does no harm.

    Raises:
        TargetError: it would end by that signal.
    """
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return
    found = None if is_ending(pid) else re.search(r"^SigCgt:\s*([0-9a-f]+)$", text, re.MULTILINE)
    if found is not None and not int(found[1], 16) >> (signal.SIGQUIT - 1) & 1:
        raise TargetError(
            f"pid={pid} is not a Java machine, perhaps the shell that runs one: it does not take SIGQUIT, and is not asked",
            hint="let the script start Java by `exec`, or give the pid_file of the Java process",
        )
