"""The start state of runs: the same data before each run of a workload that writes, and what they left is removed."""

from __future__ import annotations

import time
from collections.abc import Callable

from trimtab.errors import TrimtabError
from trimtab.systems import Stack
from trimtab.trial.copies import note_copies, note_dropped
from trimtab.trial.entry import Entry
from trimtab.trial.listener import Costs
from trimtab.units import format_duration
from trimtab.workload import CopyingWorkload, ResettableWorkload, StartState, Workload

__all__ = ["StartStates"]


class StartStates:
    """Those of the runs on one stack.

    Args:
        stack: open.
        say: told once how every run gets the same start state, and when its data could not be removed.
    """

    def __init__(self, stack: Stack, say: Callable[[str], None]) -> None:
        self._stack = stack
        self._say = say
        self._has_told = False
        self._entry: Entry | None = None
        self._noted: set[str] = set()
        """Copies that the journal has."""

    def begin(self, entry: Entry, workload: Workload) -> None:
        """From here on copies are noted in the journal; those of `workload` now, for its preparation may have tried them out.

        Raises:
            TargetError: they cannot be noted.
        """
        self._entry = entry
        self._note(workload)

    def _note(self, workload: Workload) -> None:
        if self._entry is None or not isinstance(workload, CopyingWorkload):
            return
        new = [name for name in workload.copies if name not in self._noted]
        if new:
            note_copies(self._entry, self._stack.data.name, new)
            self._noted.update(new)

    def reset(self, workload: Workload, costs: Costs) -> bool:
        """The same start state for every run of a workload that writes; whether data were made anew."""
        if not isinstance(workload, ResettableWorkload):
            return False
        self._note(workload)
        started = time.monotonic()
        state = workload.reset(self._stack.endpoint(), self._say)
        if state is None:
            return False
        costs.add("reset", time.monotonic() - started)
        if not self._has_told:
            self._has_told = True
            self._say(_told(state))
        return state.is_fresh

    def clean_up(self, workload: Workload) -> None:
        """What runs have left on the server goes; the target itself is restored already, so a failure is told, not raised."""
        if not (self._has_told or self._noted) or not isinstance(workload, ResettableWorkload):
            return
        try:
            workload.clean_up(self._stack.endpoint())
        except TrimtabError as error:
            self._say(f"the data of the last run is still on the server: {error.message}")
            return
        if self._entry is not None and self._noted:
            note_dropped(self._entry, self._stack.data.name)


def _told(state: StartState) -> str:
    note = f" ({state.note})" if state.note else ""
    if state.is_once:
        return f"the data is made ready once, and every run goes on from what the last one left: {state.method}{note}"
    return f"every run starts from the same data: {state.method}, {format_duration(state.duration_s)} before each run{note}"
