"""What a MySQL or MariaDB server, its process and the kernel show of a failure; the server's words are data (catalog).

`Forensics.mark` says from where on lines, kills and processes count: what an earlier config did is not held against a later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from trimtab.host import kernel_oom_kills, process_state
from trimtab.records import Fault
from trimtab.target.evidence import CRASH_SIGNALS, LINES, FaultLine, Marked, by_rank, classified, fault_lines
from trimtab.target.forensic import Evidence, Symptom
from trimtab.target.mysql.reach import Reach

__all__ = ["Forensics", "classify"]

_BY_STOP = re.compile("shutdown", re.IGNORECASE)
_ERROR = "[ERROR] "
_PREFIX = re.compile(r"^\S+ +\S+ +\d+ ")


@cache
def _lines() -> tuple[tuple[re.Pattern[str], FaultLine], ...]:
    return tuple((re.compile(line.log), line) for line in fault_lines("mysql"))


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

    def gather(self, *, was_restarting: bool = False) -> Evidence:
        """What is seen now; changes nothing, asks the server nothing, never raises.

        Args:
            was_restarting: whether it failed in a change of ours, which stops the server itself.
        """
        pid, log = self._reach.pid, self._start.log_since(self._reach)
        state = process_state(pid) if pid is not None else ""
        own = list(self._kills())
        spoken = [one for one in classify(log) if not (was_restarting and _BY_STOP.search(one.text))]
        ranked = by_rank(spoken)
        is_up = pid is not None or (self._reach.data_dir is None and self._reach.is_up())
        return Evidence(
            symptoms=(*own, *ranked, *([] if own or spoken else self._death(log, is_up=is_up))),
            is_up=is_up,
            is_stopped=state in ("T", "t"),
            log="\n".join(log.splitlines()[-LINES:]),
        )

    def _kills(self) -> Iterator[Symptom]:
        """Kills for want of memory: by the server's own limit, then those that the kernel's log tells of."""
        n_kills = self._reach.n_oom_kills - self._start.n_kills
        if n_kills > 0:
            text = "the kernel killed the server at its memory limit (cgroup)"
            yield Symptom(fault=Fault.RESOURCE, text=text, is_own_demand=True, is_death=True)
            return
        if self._start.pid is None:
            return  # on another machine: this kernel's log is not the server's
        for kill in kernel_oom_kills(self._start.at):
            if kill.pid == self._start.pid:
                limit = "a memory limit (cgroup)" if kill.is_limited else "the machine's memory"
                text = f"the kernel killed the server's process pid={kill.pid} at {limit}"
                yield Symptom(fault=Fault.RESOURCE, text=text, is_own_demand=kill.is_limited, is_death=True)

    def _death(self, log: str, *, is_up: bool) -> Iterator[Symptom]:
        """How a process ended that said nothing that is known here."""
        code = self._reach.exit_code
        last = next((line for line in log.splitlines() if _ERROR in line), "")
        if is_up:
            return
        if code is not None and -code in CRASH_SIGNALS:
            yield Symptom(fault=Fault.CONFIG, text=f"the server's process ended by signal {-code}", is_death=True)
        elif code is not None and code < 0:
            text = f"the server's process ended by signal {-code}, sent by somebody else: the kernel killed nothing"
            yield Symptom(fault=Fault.ENVIRONMENT, text=text, is_death=True)
        elif last:
            yield Symptom(fault=Fault.CONFIG, text=last.partition(_ERROR)[2])
        elif code is not None:
            yield Symptom(fault=Fault.CONFIG, text=f"the server ended by itself with exit_code={code}")
