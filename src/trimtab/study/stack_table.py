"""The [stack] table of a study file, and what several [target] tables say of each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from trimtab.errors import UsageError, as_value_errors
from trimtab.host import is_word
from trimtab.systems import bottom_first
from trimtab.units import parse_size

__all__ = ["StackTable", "check_targets", "flat", "own_table", "tiers_of"]

Tables = Mapping[str, Mapping[str, Any]]
"""[target.NAME] tables by name."""


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted names."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return found


class StackTable(BaseModel):
    """What holds for all targets of a study that has several."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory: int | None = Field(
        None,
        description='memory that all targets of one machine share, such as "8GiB"; default: the memory of the machine, or the '
        "cgroup limit",
    )
    constraints: tuple[str, ...] = Field(
        (), description='constraints between targets, such as "app.pool_size + 10 <= db.max_connections"'
    )

    clients: dict[str, int | str] = Field(
        default_factory=dict,
        description="clients of a target that the load does not drive: a number, or the setting that limits "
        'them: { db = "app.maxTotal" }; default: the users of the load',
    )

    @field_validator("memory", mode="before")
    @classmethod
    def _memory(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        with as_value_errors():
            return int(parse_size(value))

    @field_validator("clients")
    @classmethod
    def _are_clients(cls, value: dict[str, int | str]) -> dict[str, int | str]:
        for tier, clients in value.items():
            if isinstance(clients, int) and clients < 1:
                raise ValueError(f"{tier} has one client at least")
        return value

    @field_validator("memory")
    @classmethod
    def _is_positive(cls, value: int | None) -> int | None:
        if value is not None and value <= 0:
            raise ValueError("must be more than nothing")
        return value


def tiers_of(targets: Tables) -> dict[str, tuple[str, ...]]:
    """Target -> targets that it needs, from the bottom of the stack up.

    Raises:
        UsageError: a target needs what is none, or targets need each other in a circle.
    """
    if len(targets) == 1:
        return dict.fromkeys(targets, ())
    needs = {}
    for name, table in targets.items():
        value = table.get("needs", [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise UsageError(
                f"[target.{name}] needs={value!r} is not a list of targets", hint='write it as in: needs = ["db"]'
            )
        needs[name] = tuple(value)
    return {name: needs[name] for name in bottom_first(tuple(targets), needs)}


def own_table(targets: Tables, name: str, stack: StackTable | None) -> dict[str, Any]:
    """The table of one target as its kind reads it: with the budget of the stack, and without what only the stack knows."""
    table = dict(targets[name])
    if len(targets) > 1:
        for key in ("needs", "follows"):
            table.pop(key, None)
        if stack is not None and stack.memory is not None:
            table["memory"] = stack.memory
    return table


def check_targets(targets: Tables, workload: Mapping[str, Any], stack: StackTable | None) -> None:
    """What [stack], the names of the targets and the target of the load say of each other.

    Raises:
        UsageError: they contradict each other.
    """
    driven = workload.get("target")
    if driven is not None and driven not in targets:
        raise UsageError(
            f"workload.target={driven!r} is not a target of this study", hint=f"the targets are: {', '.join(targets)}"
        )
    for name in targets:
        if not is_word(name):
            raise UsageError(
                f"[target.{name!r}] is not one word", hint="name it with letters, digits, '.', '_' and '-'"
            )
    if len(targets) == 1:
        if stack is not None:
            raise UsageError("[stack] has no effect on a single target", hint="its memory is [target.NAME] memory")
        return
    for name in stack.clients if stack is not None else ():
        if name not in targets:
            raise UsageError(
                f"[stack] clients names {name!r}: there is no such target",
                hint=f"the targets are: {', '.join(targets)}",
            )
    lowest = next(iter(tiers_of(targets)))
    for name, table in targets.items():
        if not isinstance(table.get("follows", False), bool):
            raise UsageError(
                f"[target.{name}] follows={table['follows']!r} is not true or false", hint="follows = true"
            )
        if table.get("follows") and name == lowest:
            raise UsageError(
                f"[target.{name}] follows = true, and no target lies below it", hint="write it for the one above"
            )
        if "memory" in table:
            raise UsageError(
                f"[target.{name}] memory={table['memory']!r}: targets of one study share one budget",
                hint='write it once: [stack] memory = "8GiB"',
            )
