"""LifecycleTable and Loss: how a system that a catalogue describes is usually run, and what a restart takes from it; the tables
[lifecycle] and [[loses]] of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["LifecycleTable", "Loss"]

_RUNS = ("run", "start", "stop", "restart", "pid_file")


class Loss(BaseModel):
    """What a restart takes from a program.

    Attributes:
        what: it takes.
        shows: address -> what the `read` command prints of it, "" for nothing; it is so where all of them are.
        fact: name of a number that memory terms may speak of: 1 where the program shows that it is so, else 0.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str = Field(min_length=1)
    shows: dict[str, str] = Field(min_length=1)
    fact: str = ""


class LifecycleTable(BaseModel):
    """The keys of a [target.NAME] table that need not be written where the system is run as usual; see `CommandSettings`.

    Attributes:
        run, start, stop, restart, pid_file, process: how it is started, and its process; none of them counts where a study file
            has `run`, `start`, `stop`, `restart` or `pid_file`.
        log_file: of a program that is run so: it does not count where a study file has the same key, or `run`, whose log is
            Trimtab's own.
        reload, health, read, features, counters, url: each counts unless a study file has the same key.
        names, passwords: the same, one by one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str | None = None
    start: str | None = None
    stop: str | None = None
    restart: str | None = None
    pid_file: str | None = None
    process: str | None = None
    reload: str | None = None
    health: str | None = None
    read: str | None = None
    log_file: str | None = None
    features: str | None = None
    counters: str | None = None
    url: str | None = None
    names: dict[str, str] | None = None
    passwords: dict[str, str] | None = None

    def under(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """A [target.NAME] table with what it does not say itself."""
        usual = self.model_dump(exclude_none=True)
        if any(key in table for key in _RUNS):
            others = (*_RUNS, "process", *(("log_file",) if "run" in table else ()))
            usual = {key: text for key, text in usual.items() if key not in others}
        merged = {key: {**usual.pop(key, {}), **table.get(key, {})} for key in ("names", "passwords")}
        return {**usual, **table, **{key: both for key, both in merged.items() if both}}
