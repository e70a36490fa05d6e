"""The same start state for every trial: which database a run writes to, and how it gets back to what it was.

* "none": nothing is written, or the user wants it so: runs use the data as it is.
* "template": every run gets a fresh copy of the data's database, made by the server from its files; under a name of its own, or
  under a fixed one that an application is wired to.
* "rollback": every transaction is rolled back by the load itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trimtab.errors import LoadError, UsageError
from trimtab.records import Endpoint
from trimtab.workload.base import StartState
from trimtab.workload.database import clone, drop_clone

__all__ = ["RunDatabase"]

_SUFFIX = "_run"


@dataclass(frozen=True, slots=True)
class RunDatabase:
    """Where runs take place.

    Attributes:
        data: the database with the data as prepared.
        is_copied: whether each run gets a copy of it.
        fixed: the copy's name; "" for one made of that of the data.
    """

    data: str
    is_copied: bool
    fixed: str = ""

    def __post_init__(self) -> None:
        """A copy cannot take the place of what it is made of.

        Raises:
            UsageError: both have the same name.
        """
        if self.is_copied and self.fixed == self.data:
            raise UsageError(
                f"database={self.data!r} cannot be the copy and the original", hint="give the original another name"
            )

    @property
    def name(self) -> str:
        """The database that a run uses."""
        if self.is_copied and self.fixed:
            return self.fixed
        return self.data[: 63 - len(_SUFFIX)] + _SUFFIX if self.is_copied else self.data

    @property
    def copies(self) -> tuple[str, ...]:
        """The databases that `reset` makes and `drop` removes."""
        return (self.name,) if self.is_copied else ()

    def reset(self, endpoint: Endpoint, report: Callable[[str], None]) -> StartState | None:
        """A fresh copy for the next run; None when runs use the data itself.

        Raises:
            LoadError: the data cannot be copied, or must be for what the target says of tables, and is not.
        """
        if not self.is_copied:
            if changed := endpoint.options.get("tables.changed"):
                raise LoadError(
                    f"{changed}: would not show, because runs use database={self.data} as it was written",
                    hint='add start_state = "template" to [workload]: each run then has a copy that is written with them',
                )
            return None
        seconds = clone(endpoint, self.data, self.name, report)
        return StartState("a fresh copy", seconds, f"{self.data} copied to {self.name}")

    def drop(self, endpoint: Endpoint) -> None:
        """Removes the copy; nothing happens when there is none."""
        if self.is_copied:
            drop_clone(endpoint, self.name)
