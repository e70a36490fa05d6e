"""OwnProcess: a program that Trimtab itself runs for a study; its process is known by a record of our own."""

from __future__ import annotations

import shlex
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import process_mark
from trimtab.systems.account import Account
from trimtab.systems.process import ServerProcess

__all__ = ["OwnProcess"]


class OwnProcess(ServerProcess):
    """See `ServerProcess`.

    Args:
        command: that runs it in the foreground.
        folder: where it runs.
        place: folder of our own for its log and the record of its process.
        account: who runs it: this user.
    """

    def __init__(self, command: str, folder: Path, place: Path, account: Account, *, stop_s: float) -> None:
        super().__init__(account, place / "program.log", owns_log=True)
        self._argv = shlex.split(command)
        self._folder = folder
        self._record = place / "program.pid"
        self.STOP_S, self.NOUN = stop_s, "program"

    def start(self) -> None:
        """Starts it; does not wait until it serves.

        Raises:
            TargetError: the command cannot be run.
        """
        self._record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._spawn(self._argv, self._folder, self._note)
        except OSError as error:
            raise TargetError(
                f"cannot run command={self._argv[0]!r}: {error.strerror}",
                hint="give the path of an installed program; its PATH is /usr/bin:/bin",
            ) from error

    def _note(self, pid: int) -> None:
        self._record.write_text(f"{pid} {process_mark(pid)}\n")

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
        self._record.unlink(missing_ok=True)
