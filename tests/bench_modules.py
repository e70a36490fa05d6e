"""The modules of a benchmark under benchmarks/, which is a folder of scripts and no package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

__all__ = ["BENCHMARKS", "bench_modules"]

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@contextmanager
def bench_modules(folder: Path, *names: str) -> Iterator[dict[str, ModuleType]]:
    """The modules of `folder` by name, imported as its scripts import each other; forgotten afterwards."""
    former = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        # A script puts benchmarks/ on the path for what all share.
        sys.path[:] = former
        for name in names:
            sys.modules.pop(name, None)
