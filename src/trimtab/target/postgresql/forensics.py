"""What a PostgreSQL server, its process and the kernel show of a failure; the server's words are data (catalog).

`Forensics.mark` says from where on lines, kills and processes count: what an earlier config did is not held against a later.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import cache

from trimtab.host import kernel_oom_kills, process_state
from trimtab.records import Fault
from trimtab.target.evidence import CRASH_SIGNALS, LINES, FaultLine, Marked, by_rank, classified, fault_lines
from trimtab.target.forensic import Evidence, Symptom
from trimtab.target.postgresql.reach import Reach

__all__ = ["Forensics", "classify"]

_BY_KILL = "was terminated by signal 9"
_BY_STOP = "shutdown request"
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


class Forensics:
    """Gathers the evidence about one server."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._start = Marked()

    def mark(self) -> None:
        """Evidence counts from here."""
        self._start = Marked.now(self._reach)

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

    def gather(self, *, was_restarting: bool = False) -> Evidence:
        """What is seen now; changes nothing, asks the server nothing, never raises.

        Args:
            was_restarting: whether it failed in a change of ours, which stops the server itself.
        """
        pid, log = self._reach.pid, self._start.log_since(self._reach)
        state = process_state(pid) if pid is not None else ""
        own = list(self._kills(log))
        spoken = [symptom for symptom in classify(log) if not (was_restarting and _BY_STOP in symptom.text)]
        if own:  # the kernel knows better who killed than the server, which saw a signal only
            spoken = [symptom for symptom in spoken if _BY_KILL not in symptom.text]
        ranked = by_rank(spoken)
        return Evidence(
            symptoms=(*own, *ranked, *([] if own or spoken else self._death(log))),
            is_up=self._reach.is_up(),
            is_stopped=state in ("T", "t"),
            log="\n".join(log.splitlines()[-LINES:]),
        )

    def _kills(self, log: str) -> Iterator[Symptom]:
        """Kills for want of memory: by the server's own limit, then those that the kernel's log tells of."""
        n_kills = self._reach.n_oom_kills - self._start.n_kills
        if n_kills > 0:
            text = f"the kernel killed {n_kills} of the server's processes at its memory limit (cgroup)"
            yield Symptom(fault=Fault.RESOURCE, text=text, is_own_demand=True, is_death=True)
            return
        if self._reach.pid is None and self._reach.data_dir is None:
            return  # on another machine: this kernel's log is not the server's
        dead = {int(number) for number in _DEAD_PID.findall(log)} | {self._start.pid}
        for kill in kernel_oom_kills(self._start.at):
            if kill.pid in dead:
                limit = "a memory limit (cgroup)" if kill.is_limited else "the machine's memory"
                text = f"the kernel killed the server's process pid={kill.pid} at {limit}"
                yield Symptom(fault=Fault.RESOURCE, text=text, is_own_demand=kill.is_limited, is_death=True)

    def _death(self, log: str) -> Iterator[Symptom]:
        """How a process ended that said nothing that is known here."""
        code = self._reach.exit_code
        last = next((line for line in reversed(log.splitlines()) if "FATAL:" in line or "PANIC:" in line), "")
        if code is not None and -code in CRASH_SIGNALS:
            yield Symptom(fault=Fault.CONFIG, text=f"the server's process ended by signal {-code}")
        elif code is not None and code < 0:
            text = f"the server's process ended by signal {-code}, sent by somebody else: the kernel killed nothing"
            yield Symptom(fault=Fault.ENVIRONMENT, text=text)
        elif code is not None and self._reach.pid is None:
            yield Symptom(fault=Fault.CONFIG, text=f"the server ended by itself with exit_code={code}")
        elif last and not self._reach.is_up():
            yield Symptom(fault=Fault.CONFIG, text=_PREFIX.sub("", last).strip())
