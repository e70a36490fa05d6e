"""The disk model: what a config may take of the disk at most, checked against what is free before anything is changed.

Like the memory budget it is an upper bound and not a forecast. Of the write-ahead log (pg_wal):

    max(max_wal_size * 1.1, min_wal_size)  max_wal_size is a soft limit: a checkpoint begins in time to keep to it
    + wal_keep_size                        kept for standbys, beyond the checkpoints
    + max_slot_wal_keep_size               while there are replication slots; -1: without a bound

and of temporary files temp_file_limit, for one process (-1: without a bound). The server's log grows without a bound under
some settings (`log_statement = all` and its like); none of them is curated, so none can be set.

Counted against it: the free bytes of the volume, plus what the log takes already, minus a reserve for everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import ApplyError
from trimtab.host import folder_bytes
from trimtab.space import Config, Value
from trimtab.systems.base import KnobState
from trimtab.systems.postgresql.reach import Reach
from trimtab.units import format_size, unit_factor

__all__ = ["DISK_NEEDS", "DiskNeed", "check_disk", "disk_use", "low_disk"]

_RESERVE_SHARE = 0.05
_RESERVE_BYTES = 64 << 20
_LOW_BYTES = 48 << 20
"""Below this nothing is applied: three segments of write-ahead log, without which the server itself may stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskNeed:
    """What one knob may take of the disk.

    Attributes:
        knob: its name.
        folder: where, under the data directory.
        factor: bytes taken for each byte of the value.
        is_unbounded_below_0: whether -1 stands for "no limit".
    """

    knob: str
    folder: str
    factor: float = 1.0
    is_unbounded_below_0: bool = False


DISK_NEEDS: tuple[DiskNeed, ...] = (
    DiskNeed(knob="max_wal_size", folder="pg_wal", factor=1.1),
    DiskNeed(knob="min_wal_size", folder="pg_wal"),
    DiskNeed(knob="wal_keep_size", folder="pg_wal"),
    DiskNeed(knob="max_slot_wal_keep_size", folder="pg_wal", is_unbounded_below_0=True),
    DiskNeed(knob="temp_file_limit", folder="base", is_unbounded_below_0=True),
)
_ALTERNATIVES = ("max_wal_size", "min_wal_size")
"""The larger of the two counts: the files kept for re-use are part of what may gather."""


def disk_use(config: Mapping[str, Value], states: Mapping[str, KnobState], *, has_slots: bool) -> dict[str, float]:
    """Bytes by knob under `config` over the running values; inf: without a bound. What the server lacks is left out."""
    use = {}
    for need in DISK_NEEDS:
        state = states.get(need.knob)
        if state is None or (need.knob == "max_slot_wal_keep_size" and not has_slots):
            continue
        value = float(config.get(need.knob, state.running))
        if value < 0:
            use[need.knob] = float("inf") if need.is_unbounded_below_0 else 0.0
        else:
            use[need.knob] = value * float(unit_factor(state.knob.unit)[0]) * need.factor
    return use


def _in_folder(use: Mapping[str, float], folder: str) -> float:
    either = max((use.get(name, 0.0) for name in _ALTERNATIVES), default=0.0) if folder == "pg_wal" else 0.0
    others = (n.knob for n in DISK_NEEDS if n.folder == folder and n.knob not in _ALTERNATIVES)
    return either + sum(use.get(name, 0.0) for name in others)


def check_disk(config: Config, states: Mapping[str, KnobState], reach: Reach) -> None:
    """That what `config` may take of the disk is there; a config that takes no more than the running one always passes.

    Nothing is checked where the server's disk cannot be seen.

    Raises:
        ApplyError: it is not there; nothing was changed.
    """
    touched = [need for need in DISK_NEEDS if need.knob in config]
    if not touched or reach.data_dir is None:
        return
    has_slots = _has_slots(reach)
    now, then = disk_use({}, states, has_slots=has_slots), disk_use(config, states, has_slots=has_slots)
    for folder in dict.fromkeys(need.folder for need in touched):
        need_bytes = _in_folder(then, folder)
        if need_bytes <= _in_folder(now, folder):
            continue
        names = ", ".join(f"{need.knob}={config[need.knob]}" for need in touched if need.folder == folder)
        if need_bytes == float("inf"):
            raise ApplyError(f"{names} lets files grow without a bound", hint="give a limit in bytes")
        _check_room(names, int(need_bytes), (reach.data_dir / folder).resolve(), reach)


def _has_slots(reach: Reach) -> bool:
    with reach.connect() as connection:
        return connection.execute("SELECT FROM pg_replication_slots LIMIT 1").fetchone() is not None


def _check_room(names: str, need_bytes: int, folder: Path, reach: Reach) -> None:
    size = reach.host.disk_size_bytes(folder)
    free = reach.host.disk_free_bytes(folder)
    reserve = max(_RESERVE_BYTES, int(_RESERVE_SHARE * size))
    room = free + (folder_bytes([folder]) if folder.name == "pg_wal" else 0) - reserve
    if need_bytes > room:
        raise ApplyError(
            f"{names} may take disk={format_size(need_bytes)} under {folder}, where free={format_size(free)}"
            f" and reserve={format_size(reserve)} is kept",
            hint="lower it, or make room on that volume",
        )


def low_disk(reach: Reach) -> str:
    """What is wrong when the server's volumes are all but full; "" when they are not, or cannot be seen."""
    if reach.data_dir is None:
        return ""
    for folder in (reach.data_dir, (reach.data_dir / "pg_wal").resolve()):
        free = reach.host.disk_free_bytes(folder)
        if free < _LOW_BYTES:
            return f"the server's disk is full: free={format_size(free)} under {folder}; nothing is applied to it"
    return ""
