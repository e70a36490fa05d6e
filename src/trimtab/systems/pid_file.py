"""PidFile: the file with a program's process number, and whether the process of that number is the program."""

from __future__ import annotations

import re
import time
from pathlib import Path

from trimtab.host import (
    is_kernel_thread,
    is_running,
    process_mark,
    process_name,
    process_numbers,
    process_started_s,
    process_title,
    processes,
    works_in,
)

__all__ = ["PidFile", "run_of"]

_STALE_S = 2.0
"""A pid file is written soon after its process began: one older than the process is of an earlier one."""

_LATE_S = 86400.0
"""A start that replays a log writes its pid file late, and some programs write it again at a reload: not of a process that has
run for a day, unless it is like the file."""

_ANY_FILE = frozenset(
    {"pid", "pids", "run", "var", "tmp", "log", "logs", "data", "server", "daemon", "service", "process"}
)
"""Names of files and folders that say nothing of the program."""

_ANY_PROGRAM = re.compile(r"java|(python|ruby|php|perl|lua)[\d.]*|node(js)?|dotnet|mono|beam\.smp|\w*sh")
"""Processes of many programs have such a name: it says nothing of which one this is."""


def run_of(pid: int | None) -> str:
    """Tells this run of a program from the next one; "" when nothing runs."""
    return f"{pid} {process_mark(pid)}" if pid is not None else ""


class PidFile:
    """See the module.

    Args:
        path: of the file; "" names none.
        process: name of the program's process; None when it is not known.
    """

    def __init__(self, path: str, process: str | None) -> None:
        self.path = Path(path)
        self._process = process
        self._known: set[str] = set()

    @property
    def pid(self) -> int | None:
        """The number in it, when such a process runs."""
        try:
            pid = int(self.path.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None
        return pid if is_running(pid) else None

    def know(self, run: str) -> None:
        """A run that was seen to be the program's: it stays so, whatever the clock says later."""
        if run.partition(" ")[2]:  # without the mark it may be any later process of that number
            self._known.add(run)

    def stranger(self, pid: int) -> str:
        """Why the process of that number is not the program; "" when it is, as far as can be seen."""
        name, run = process_name(pid), run_of(pid)
        if not self._has_its_name(pid):
            return f"its name is {name!r}, not process={self._process!r}"
        if is_kernel_thread(pid):  # the number may be one of a container, or of another machine
            return f"it ({name!r}) is a thread of the kernel"
        if run in self._known:
            return ""
        is_told_by_name = self._process is not None and not _ANY_PROGRAM.fullmatch(self._process)
        if not is_told_by_name and self._is_older_than(pid):
            return f"it ({name!r}) began after the pid file was written"
        if not is_told_by_name and self._was_brought(pid):
            return f"it ({name!r}) ran for more than a day when the pid file was written, which may be a copy from elsewhere"
        if (inner := self._writer_inside(pid)) is not None:
            return f"pid={inner} ({process_name(inner)!r}), of a container, has that number there, and began later"
        self.know(run)
        return ""

    def _is_older_than(self, pid: int) -> bool:
        """Whether the file was written before the process began, by the clock of now: after a step of it that is not so any more
        for a process that began before."""
        age_s, written_s = process_started_s(pid), self._written_s()
        return age_s is not None and written_s is not None and age_s < written_s - _STALE_S

    def _was_brought(self, pid: int) -> bool:
        """Whether the file was written long after the process began, and nothing of that is like the file: one that was copied
        from another machine has the number of any process here."""
        age_s, written_s = process_started_s(pid), self._written_s()
        if age_s is None or written_s is None or age_s - written_s < _LATE_S or works_in(pid, self.path.parent):
            return False
        names = {each.lower().rstrip("0123456789") for each in (self.path.stem, self.path.parent.name)} - _ANY_FILE
        said = f"{process_name(pid)} {process_title(pid)}".lower()
        return not any(name in said for name in names if len(name) > 2)

    def _writer_inside(self, pid: int) -> int | None:
        """A process that has this number in a namespace inside ours, and began after `pid` and before the file was written: of
        two that may have written it the later one did, for that is done soon after the start."""
        age_s, written_s = process_started_s(pid), self._written_s()
        if age_s is None or written_s is None:
            return None
        for other in processes():
            if other != pid and process_numbers(other)[-1:] == (pid,) and self._has_its_name(other):
                other_s = process_started_s(other)
                if other_s is not None and written_s - _STALE_S <= other_s < age_s:
                    return other
        return None

    def _has_its_name(self, pid: int) -> bool:
        return self._process is None or process_name(pid) == self._process[:15]

    def _written_s(self) -> float | None:
        """How long ago the file was written, by the clock of now; None when there is none."""
        try:
            return time.time() - self.path.stat().st_mtime
        except OSError:
            return None
