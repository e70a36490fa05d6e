"""The cache of a folder of tests: of its own, entered by servers' own users, with what `make servers` has fetched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fetch_servers import APPLICATIONS, PROGRAMS
from tests.servers.java import quick_java
from tests.servers.run import made

__all__ = ["own_cache"]


@contextmanager
def own_cache() -> Iterator[Path]:
    """`TRIMTAB_CACHE` inside; Java programs that are made there start quickly."""
    with made("c") as folder, pytest.MonkeyPatch.context() as patch, quick_java():
        if os.path.isdir(PROGRAMS):
            (folder / "programs").symlink_to(PROGRAMS)
        (folder / "apps").mkdir()
        for built in APPLICATIONS.iterdir() if os.path.isdir(APPLICATIONS) else ():
            (folder / "apps" / built.name).symlink_to(built)
        patch.setenv("TRIMTAB_CACHE", str(folder))
        yield folder
