"""The disk model: what a config may take of the disk at most, checked against what is free before anything is changed.

Like the memory budget it is an upper bound and no forecast, and the catalogue's: folder by folder, in the constraint language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from trimtab.errors import ApplyError
from trimtab.host import LocalHost, folder_bytes
from trimtab.space import Config, Value, amount
from trimtab.systems.base import KnobState
from trimtab.systems.memory import MemoryModel, memory_model
from trimtab.systems.reach import ServerReach
from trimtab.systems.server_catalog import DiskNeed
from trimtab.units import format_size

__all__ = ["check_disk", "disk_model", "low_disk"]

_UNBOUNDED_BYTES = 1 << 59
"""A catalogue says 1000000TB of what grows without a bound."""


def disk_model(need: DiskNeed, states: Mapping[str, KnobState], facts: Mapping[str, Value]) -> MemoryModel | None:
    """What the settings take of one folder; None on a server that lacks one of its knobs."""
    if any(name not in states and name not in facts for name in need.names):
        return None
    constants = {name: facts[name] for name in need.names if name in facts}
    return memory_model({need.folder or "data": need.bytes}, states, constants, budget_bytes=0)


def check_disk(
    needs: Sequence[DiskNeed],
    config: Config,
    states: Mapping[str, KnobState],
    reach: ServerReach,
    facts: Callable[[], Mapping[str, Value]],
) -> None:
    """That what `config` may take of the disk is there; a config that takes no more than the running one always passes.

    Nothing is checked where the server's disk cannot be seen.

    Args:
        needs: of the catalogue.
        config: to be applied.
        states: the knobs as they run.
        reach: the way to the server.
        facts: what the texts may refer to beside knobs; asked only when a knob of `config` takes disk.

    Raises:
        ApplyError: it is not there; nothing was changed.
    """
    data_dir = reach.data_dir
    for need in needs:
        touched = [name for name in need.names if name in config]
        model = disk_model(need, states, facts()) if touched and data_dir is not None else None
        if data_dir is None or model is None or model.total(config) <= model.total({}):
            continue
        names = ", ".join(f"{name}={config[name]}" for name in touched)
        if model.total(config) >= _UNBOUNDED_BYTES:
            raise ApplyError(f"{names} lets files grow without a bound", hint="give a limit in bytes")
        _check_room(names, int(model.total(config)), need, (data_dir / need.folder).resolve(), reach.host)


def _check_room(names: str, need_bytes: int, need: DiskNeed, folder: Path, host: LocalHost) -> None:
    free = host.disk_free_bytes(folder)
    used = folder_bytes([folder]) if "used" in need.room else 0
    room = amount(need.room, {"free": float(free), "size": float(host.disk_size_bytes(folder)), "used": float(used)})
    if need_bytes > room:
        raise ApplyError(
            f"{names} may take disk={format_size(need_bytes)} under {folder}, where free={format_size(free)}"
            f" and room={format_size(max(0.0, room))} is left for it",
            hint="lower it, or make room on that volume",
        )


def low_disk(least_bytes: float, folders: Iterable[Path], host: LocalHost) -> str:
    """What is wrong when a volume of the server's has less than that free; "" when none has."""
    for folder in folders:
        free = host.disk_free_bytes(folder)
        if free < least_bytes:
            return f"the server's disk is full: free={format_size(free)} under {folder}; nothing is applied to it"
    return ""
