"""How alike two machines are, so that what one has measured may serve the other."""

from __future__ import annotations

from trimtab.records import Machine

__all__ = ["ALIKE", "machine_likeness"]

ALIKE = 0.5
"""From here on machines count as alike: half the cores, or half the memory, or a quarter less of both."""

_OTHER_DISK = 0.5
_UNKNOWN_DISK = 0.9
_OTHER_CPU = 0.9


def machine_likeness(a: Machine, b: Machine) -> float:
    """From 0 (nothing in common) to 1 (the same in all that decides what a knob's value means).

    The ratio of the cores times that of the memory (the smaller over the larger), less where the kinds of disk differ
    (half) or the CPU's model does (a tenth). Symmetric. What is not known of a machine counts as equal, but for the disk.
    """
    found = _ratio(a.cores, b.cores) * _ratio(a.memory_bytes, b.memory_bytes)
    if a.disk != b.disk:
        found *= _OTHER_DISK if a.disk and b.disk else _UNKNOWN_DISK
    if a.cpu_model and b.cpu_model and a.cpu_model != b.cpu_model:
        found *= _OTHER_CPU
    return found


def _ratio(a: int, b: int) -> float:
    return min(a, b) / max(a, b) if a > 0 and b > 0 else 1.0
