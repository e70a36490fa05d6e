"""Channel: where a system's values are written, made to take effect, read back, and taken out of again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from trimtab.space import Config, Knob, Value
from trimtab.systems.base import KnobState, Snapshot
from trimtab.systems.undo import Undoing

__all__ = ["Change", "Channel"]


class Change(Protocol):
    """One config on its way into a system, in this order; a failure leaves it as it is, for the undo.

    * `write()`: into files, all or nothing. Raises `ApplyError` when the system refuses it, `ForeignChangeError` when what it
      would write over is neither as found nor as our last change left it.
    * `take_effect()`: whatever works without a restart; called again after one. Reads what the system then uses.
    * `must_restart()`: whether a value cannot show otherwise.
    * `check()`: that the system uses what it was asked for. Raises `ApplyError`.
    * `require_ours()`: that what was written still stands, and nothing else there has changed: else it is not the config that
      fails, and what somebody else has written would count as ours. Raises `ForeignChangeError`.
    * `effective()`: the values in use of the knobs that were set.
    """

    def write(self) -> None: ...
    def take_effect(self) -> None: ...
    def must_restart(self) -> bool: ...
    def check(self) -> None: ...
    def require_ours(self) -> None: ...
    def effective(self) -> Mapping[str, Value]: ...


class Channel(Undoing, Protocol):
    """One kind's way to write; see `Undoing` for the way back.

    * `files`: those that it writes to.
    * `fleeting(names)`: why what it writes of these knobs does not outlive the next restart, and what to do; "" when it does.
    * `texts(knob, value)`: as the value may stand in these files; the last one is for people.
    * `saved(can_restart)`: what a snapshot holds: files by path, values by knob, and what else the way back needs. Raises
      `TargetError` when changes that the system does not use yet could not be kept apart from ours.
    * `change(config, states, base, stays)`: exactly `config` over `base`.
    """

    @property
    def files(self) -> Sequence[Path]: ...
    def fleeting(self, names: Collection[str]) -> str: ...
    def texts(self, knob: Knob, value: Value) -> tuple[str, ...]: ...
    def saved(
        self, *, can_restart: bool
    ) -> tuple[Mapping[str, Mapping[str, Any]], Mapping[str, Value], Mapping[str, Any]]: ...
    def change(self, config: Config, states: Mapping[str, KnobState], base: Snapshot, *, stays: bool) -> Change: ...
