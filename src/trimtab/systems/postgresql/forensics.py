"""What a PostgreSQL server, its process and the kernel show of a failure; the server's words are data (catalog)."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator
from functools import cache

from trimtab.records import Fault
from trimtab.systems.evidence import CRASH_SIGNALS, FaultLine, ServerForensics, classified, fault_lines
from trimtab.systems.forensic import Symptom
from trimtab.systems.postgresql.reach import Reach

__all__ = ["Forensics", "classify"]

_DEAD_PID = re.compile(r"\(PID (\d+)\) was terminated by signal")
_ENDED = re.compile(
    r"(server process|client backend) \(PID \d+\) (was terminated by signal|exited with exit code)|terminating connection"
)
"""What the log has on a session that ended: the words for its process differ from PostgreSQL 18 on."""
_REASON_S = 3.0
_POLL_S = 0.02
_PREFIX = re.compile(r"^\S+ \S+ \S+ \[\d+\] ")


@cache
def _lines() -> tuple[tuple[re.Pattern[str], FaultLine], ...]:
    return tuple(
        (re.compile(f"{line.log}|{_by_code(line.sqlstate)}" if line.sqlstate else line.log), line)
        for line in fault_lines("postgresql")
    )


def _by_code(sqlstate: str) -> str:
    """Where a code stands in a line: before the severity (`%e ` in log_line_prefix) or after it (verbose errors)."""
    return rf"\b{sqlstate} [A-Z]+: |: +{sqlstate}: "


def classify(log: str) -> list[Symptom]:
    """The lines of `log` that say why something failed, in their order; lines that say nothing of it are left out."""
    return classified(log, _lines(), _PREFIX)


class Forensics(ServerForensics[Reach]):
    """Gathers the evidence about one server; see `ServerForensics`."""

    BY_STOP = re.compile("shutdown request")
    BY_KILL = re.compile("was terminated by signal 9")

    def _classify(self, log: str) -> list[Symptom]:
        return classify(log)

    def _is_up(self) -> bool:
        return self._reach.is_up()

    def _limit_text(self, n_kills: int) -> str:
        return f"the kernel killed {n_kills} of the server's processes at its memory limit (cgroup)"

    def _suspects(self, log: str) -> Collection[int | None]:
        if self._reach.pid is None and self._reach.data_dir is None:
            return ()
        return {int(number) for number in _DEAD_PID.findall(log)} | {self._start.pid}

    def await_reason(self) -> None:
        """After a session was cut off: waits until the log since the mark says of what it ended.

        The server reaps a dead process, and writes of it, a moment after the connection is gone. Ends at once when no log
        can be read or the server itself is gone, and after `_REASON_S` in any case (words in another language).
        """
        until = time.monotonic() + _REASON_S
        while self._reach.log_file is not None and time.monotonic() < until:
            is_gone = self._start.pid is not None and self._reach.pid is None
            if is_gone or _ENDED.search(self._start.log_since(self._reach)):
                return
            time.sleep(_POLL_S)

    def _death(self, log: str, *, is_up: bool) -> Iterator[Symptom]:
        code = self._reach.exit_code
        last = next((line for line in reversed(log.splitlines()) if "FATAL:" in line or "PANIC:" in line), "")
        if code is not None and -code in CRASH_SIGNALS:
            yield Symptom(fault=Fault.CONFIG, text=f"the server's process ended by signal {-code}")
        elif code is not None and code < 0:
            text = f"the server's process ended by signal {-code}, sent by somebody else: the kernel killed nothing"
            yield Symptom(fault=Fault.ENVIRONMENT, text=text)
        elif code is not None and self._reach.pid is None:
            yield Symptom(fault=Fault.CONFIG, text=f"the server ended by itself with exit_code={code}")
        elif last and not is_up:
            yield Symptom(fault=Fault.CONFIG, text=_PREFIX.sub("", last).strip())
