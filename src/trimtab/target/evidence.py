"""Evidence: what a server's log says of a failure, by the catalogue's lines (catalog/KIND_faults.toml), from a mark on."""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict

from trimtab.records import Fault
from trimtab.target.forensic import Symptom

__all__ = ["CRASH_SIGNALS", "LINES", "FaultLine", "Marked", "by_rank", "classified", "fault_lines"]

LINES = 20
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


def by_rank(symptoms: Sequence[Symptom]) -> list[Symptom]:
    """The config's own first, then those of resources, then those of the environment."""
    return sorted(symptoms, key=lambda symptom: _RANK[symptom.fault])


class _Reach(Protocol):
    @property
    def log_file(self) -> Path | None: ...
    @property
    def n_oom_kills(self) -> int: ...
    @property
    def pid(self) -> int | None: ...
    def log_excerpt(self, n_lines: int) -> str: ...


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
    def now(cls, reach: _Reach) -> Marked:
        """Evidence counts from here."""
        log = reach.log_file
        return cls(time.monotonic(), log, _size(log), reach.n_oom_kills, reach.pid)

    def log_since(self, reach: _Reach) -> str:
        """The server's lines since the mark; where its file cannot be read, what its way to it has to say."""
        log = reach.log_file
        if log is None:
            return reach.log_excerpt(LINES)
        start = self.log_bytes if log == self.log and _size(log) >= self.log_bytes else 0
        try:
            with log.open("rb") as file:
                file.seek(max(start, _size(log) - _LOG_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return reach.log_excerpt(LINES)


def _size(path: Path | None) -> int:
    try:
        return path.stat().st_size if path is not None else 0
    except OSError:
        return 0
