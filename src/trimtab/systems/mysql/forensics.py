"""What a MySQL or MariaDB server, its process and the kernel show of a failure; the server's words are data (catalog)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache

from trimtab.records import Fault
from trimtab.systems.evidence import CRASH_SIGNALS, FaultLine, ServerForensics, classified, fault_lines
from trimtab.systems.forensic import Symptom
from trimtab.systems.mysql.reach import Reach

__all__ = ["Forensics", "classify"]

_ERROR = "[ERROR] "
_PREFIX = re.compile(r"^\S+ +(\S+ +)?\d+ ")
"""Date and time, which MySQL writes as one word, and the thread."""


@cache
def _lines() -> tuple[tuple[re.Pattern[str], FaultLine], ...]:
    return tuple((re.compile(line.log), line) for line in fault_lines("mysql"))


def classify(log: str) -> list[Symptom]:
    """The lines of `log` that say why something failed, in their order; lines that say nothing of it are left out."""
    return classified(log, _lines(), _PREFIX)


class Forensics(ServerForensics[Reach]):
    """Gathers the evidence about one server; see `ServerForensics`."""

    BY_STOP = re.compile("shutdown", re.IGNORECASE)

    def _classify(self, log: str) -> list[Symptom]:
        return classify(log)

    def _is_up(self) -> bool:
        return self._reach.pid is not None or (self._reach.data_dir is None and self._reach.is_up())

    def _limit_text(self, n_kills: int) -> str:
        return "the kernel killed the server at its memory limit (cgroup)"

    def _suspects(self, log: str) -> Collection[int | None]:
        return () if self._start.pid is None else (self._start.pid,)

    def _death(self, log: str, *, is_up: bool) -> Iterator[Symptom]:
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
