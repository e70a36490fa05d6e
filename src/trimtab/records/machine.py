"""Machine: what a trial ran on, kept with every study."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Machine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Facts about a host that decide what a knob's value means.

    Attributes:
        cores: usable cores (affinity and cgroup quota taken into account), at least 1.
        memory_bytes: usable memory (the smaller of RAM and cgroup limit).
        cpu_model, kernel, disk: as the system names them; "" when unknown. `disk` is "ssd", "hdd" or "".
        hostname: name of the host.
        server_version: the target's version text.
    """

    cores: int
    memory_bytes: int
    cpu_model: str = ""
    kernel: str = ""
    disk: str = ""
    hostname: str = ""
    server_version: str = ""
