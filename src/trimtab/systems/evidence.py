"""Evidence: what a server's log says of a failure, by the catalogue's lines (catalog/KIND_faults.toml), from a mark on."""

from __future__ import annotations

import re
import time
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from trimtab.host import kernel_oom_kills, process_state
from trimtab.records import Fault
from trimtab.systems.forensic import Evidence, Symptom
from trimtab.systems.log import log_bytes, open_log
from trimtab.systems.process import await_end
from trimtab.systems.reach import ServerReach

__all__ = ["CRASH_SIGNALS", "FaultLine", "Marked", "ServerForensics", "classified", "fault_lines"]

_LINES = 20
"""Of the log, in evidence."""

CRASH_SIGNALS = (4, 6, 7, 8, 11)
"""Of a process that went wrong by itself."""

_LOG_BYTES = 64 * 1024
_RANK = {Fault.CONFIG: 1, Fault.RESOURCE: 2, Fault.ENVIRONMENT: 3}


class FaultLine(BaseModel):
    """One line of the catalogue; see the head of that file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    log: str
    fault: Literal["config", "resource", "environment"]
    sqlstate: str = ""
    own: bool = False
    death: bool = False


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Literal[1]
    line: tuple[FaultLine, ...]


def fault_lines(kind: str) -> tuple[FaultLine, ...]:
    """What the catalogue knows of that kind of server's words."""
    table = tomllib.loads((files("trimtab.catalog") / f"{kind}_faults.toml").read_text(encoding="utf-8"))
    return _Table(schema_=table.pop("schema"), **table).line


def classified(log: str, lines: Sequence[tuple[re.Pattern[str], FaultLine]], prefix: re.Pattern[str]) -> list[Symptom]:
    """The lines of `log` that say why something failed, in their order; lines that say nothing of it are left out.

    Args:
        log: the server's own.
        lines: of the catalogue, each with the pattern that finds it.
        prefix: what a line begins with before its words.
    """
    found = []
    for text in log.splitlines():
        known = next((line for pattern, line in lines if pattern.search(text)), None)
        if known is not None:
            words = prefix.sub("", text).strip()
            found.append(Symptom(fault=Fault(known.fault), text=words, is_own_demand=known.own, is_death=known.death))
    return found


@dataclass(slots=True)
class Marked:
    """From where on lines, kills and processes count: what an earlier config did is not held against a later.

    Attributes:
        at: time.monotonic().
        log: the log's file then, None when unknown.
        log_bytes: its size.
        n_kills: of the server's processes at its own memory limit, so far.
        pid: of the server.
    """

    at: float = 0.0
    log: Path | None = None
    log_bytes: int = 0
    n_kills: int = 0
    pid: int | None = None

    @classmethod
    def now(cls, reach: ServerReach) -> Marked:
        """Evidence counts from here."""
        log = reach.log_file
        return cls(time.monotonic(), log, log_bytes(log), reach.n_oom_kills, reach.pid)

    def log_since(self, reach: ServerReach) -> str:
        """The server's lines since the mark; where its file cannot be read, what its way to it has to say."""
        log = reach.log_file
        if log is None:
            return reach.log_excerpt(_LINES)
        start = self.log_bytes if log == self.log and log_bytes(log) >= self.log_bytes else 0
        try:
            with open_log(log) as file:
                file.seek(max(start, log_bytes(log) - _LOG_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return reach.log_excerpt(_LINES)


R = TypeVar("R", bound=ServerReach)


class ServerForensics(ABC, Generic[R]):
    """Gathers the evidence about one server; a kind of server knows its own words.

    Args:
        reach: the way to the server.

    Attributes:
        BY_STOP: words of a symptom that says that the server was stopped.
        BY_KILL: words of one that the kernel tells better, which knows who killed.
    """

    BY_STOP: ClassVar[re.Pattern[str]]
    BY_KILL: ClassVar[re.Pattern[str] | None] = None

    def __init__(self, reach: R) -> None:
        self._reach = reach
        self._start = Marked()

    @abstractmethod
    def _classify(self, log: str) -> list[Symptom]:
        """What the lines of `log` say."""

    @abstractmethod
    def _is_up(self) -> bool:
        """Whether the server runs."""

    @abstractmethod
    def _limit_text(self, n_kills: int) -> str:
        """What the kernel did at the server's own memory limit."""

    @abstractmethod
    def _suspects(self, log: str) -> Collection[int | None]:
        """Processes whose kills, by this machine's kernel, are the server's; none when it is on another machine."""

    @abstractmethod
    def _death(self, log: str, *, is_up: bool) -> Iterator[Symptom]:
        """How a process ended that said nothing that is known here."""

    def mark(self) -> None:
        """Evidence counts from here."""
        self._start = Marked.now(self._reach)

    def gather(self, *, was_restarting: bool = False) -> Evidence:
        """What is seen now, once a server that is ending has ended; changes nothing, asks the server nothing, never raises.

        Args:
            was_restarting: whether it failed in a change of ours, which stops the server itself.
        """
        await_end(lambda: self._reach.pid)
        pid, log = self._reach.pid, self._start.log_since(self._reach)
        state = process_state(pid) if pid is not None else ""
        own = list(self._kills(log))
        spoken = [one for one in self._classify(log) if not (was_restarting and self.BY_STOP.search(one.text))]
        if own and self.BY_KILL is not None:
            spoken = [one for one in spoken if not self.BY_KILL.search(one.text)]
        is_up = self._is_up()
        return Evidence(
            symptoms=(*own, *_by_rank(spoken), *([] if own or spoken else self._death(log, is_up=is_up))),
            is_up=is_up,
            is_stopped=state in ("T", "t"),
            log="\n".join(log.splitlines()[-_LINES:]),
        )

    def _kills(self, log: str) -> Iterator[Symptom]:
        """Kills because memory ran out: by the server's own limit, then those that the kernel's log tells of."""
        n_kills = self._reach.n_oom_kills - self._start.n_kills
        if n_kills > 0:
            text = self._limit_text(n_kills)
            yield Symptom(fault=Fault.RESOURCE, text=text, is_own_demand=True, is_death=True)
            return
        suspects = self._suspects(log)
        for kill in kernel_oom_kills(self._start.at) if suspects else ():
            if kill.pid in suspects:
                limit = "a memory limit (cgroup)" if kill.is_limited else "the machine's memory"
                text = f"the kernel killed the server's process pid={kill.pid} at {limit}"
                yield Symptom(fault=Fault.RESOURCE, text=text, is_own_demand=kill.is_limited, is_death=True)


def _by_rank(symptoms: Sequence[Symptom]) -> list[Symptom]:
    """The config's own first, then those of resources, then those of the environment."""
    return sorted(symptoms, key=lambda symptom: _RANK[symptom.fault])
