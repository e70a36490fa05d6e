"""How long and how often everything runs, and where the peers are."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

QUICK_OPEN_S, OPEN_S = 10, 60


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a benchmark; `go_ycsb` is its program, or None."""

    seconds: int
    pairs: int
    open_s: int
    stalls: int
    rows: int
    go_ycsb: Path | None
    browsers: int
    browsers_s: int
    browsers_start_s: float

    @classmethod
    def of(cls, is_quick: bool, go_ycsb: Path | None) -> Plan:
        """The whole benchmark, or a short one that only shows that everything works."""
        if is_quick:
            return cls(1, 2, QUICK_OPEN_S, 1, 20_000, go_ycsb, 500, 10, 4.0)
        return cls(2, 11, OPEN_S, 3, 100_000, go_ycsb, 2_000, 60, 20.0)

    @property
    def has_sysbench(self) -> bool:
        """Whether sysbench is on the PATH."""
        return shutil.which("sysbench") is not None
