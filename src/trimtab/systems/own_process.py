"""OwnProcess: a program that Trimtab itself runs for a study; its process is known by a record of our own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import is_running, process_mark, processes
from trimtab.systems.account import Account
from trimtab.systems.process import ServerProcess

__all__ = ["OwnProcess"]


class OwnProcess(ServerProcess):
    """See `ServerProcess`.

    Args:
        argv: of the command that runs it in the foreground, as it is now.
        folder: where it runs.
        place: folder of our own for its log and the record of its process.
        account: who runs it.
    """

    def __init__(
        self, argv: Callable[[], Sequence[str]], folder: Path, place: Path, account: Account, *, stop_s: float
    ) -> None:
        super().__init__(account, place / "program.log", owns_log=True)
        self._argv = argv
        self._folder = folder
        self._record = place / "program.pid"
        self.STOP_S, self.NOUN = stop_s, "program"

    def start(self) -> None:
        """Starts it; does not wait until it serves.

        Raises:
            TargetError: the command cannot be run, or it cannot be recorded which process it is: it is ended again then.
        """
        try:
            self._record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise self._unrecorded(error) from error
        self.end_orphans()
        self._spawn(self._argv(), self._folder, self._note)

    def _note(self, pid: int) -> None:
        try:
            self._record.write_text(f"{pid} {process_mark(pid)}\n")
        except OSError as error:
            self._end(pid, self.FORCE)
            with suppress(OSError):
                self._record.unlink(missing_ok=True)
            raise self._unrecorded(error) from error

    def _unrecorded(self, error: OSError) -> TargetError:
        return TargetError(
            f"the record of the program's process, file={str(self._record)!r}, cannot be written: {error.strerror}",
            hint="make room on its disk, or set TRIMTAB_CACHE to a folder that can be written",
        )

    def _recorded(self) -> tuple[int, str] | None:
        try:
            pid, mark = self._record.read_text().split()
            return int(pid), mark
        except (OSError, ValueError):
            return None

    def _recorded_pid(self) -> int | None:
        record = self._recorded()
        return record[0] if record is not None else None

    def _is_ours(self, pid: int) -> bool:
        record = self._recorded()
        return record is not None and process_mark(pid) == record[1]

    def stop(self, *, immediate: bool) -> None:
        """As any; nothing is recorded then."""
        super().stop(immediate=immediate)
        self.end_orphans()
        self._record.unlink(missing_ok=True)

    def end_orphans(self) -> None:
        """Ends processes that it has started and left behind: those of a web server keep its port when it is killed.

        Its number is the group's; as long as one of the group lives, the kernel gives that number to nobody else.
        """
        record = self._recorded()
        if record is None or is_running(record[0]) or not record[1].startswith(_boot()):
            return
        for pid in _of_group(record[0], self._account.uid):
            self._end(pid, self.FORCE)


def _boot() -> str:
    return process_mark(os.getpid()).partition(":")[0]


def _of_group(group: int, uid: int) -> list[int]:
    """The processes of a user in a group that is a session of its own, as every program here is started."""
    found = []
    for pid in processes():
        try:
            is_ours = os.getpgid(pid) == os.getsid(pid) == group and Path(f"/proc/{pid}").stat().st_uid == uid
        except OSError:
            continue
        found += [pid] if is_ours else []
    return found
