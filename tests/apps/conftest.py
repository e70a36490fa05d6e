"""The web applications on a real Tomcat and a real database, each in a folder of the tests' own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fetch_servers import APPLICATIONS, PROGRAMS
from tests.servers.java import quick_java
from trimtab import plugins


@pytest.fixture(scope="session", autouse=True)
def cache() -> Iterator[Path]:
    """A cache that the servers' user can enter, with what `make servers` has fetched and built."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="tt-", dir=memory if os.access(memory, os.W_OK) else None))
    folder.chmod(0o755)
    if PROGRAMS.is_dir():
        (folder / "programs").symlink_to(PROGRAMS)
    (folder / "apps").mkdir()
    for built in APPLICATIONS.iterdir() if APPLICATIONS.is_dir() else ():
        (folder / "apps" / built.name).symlink_to(built)
    before = os.environ.get("TRIMTAB_CACHE")
    os.environ["TRIMTAB_CACHE"] = str(folder)
    with quick_java():
        yield folder
    if before is None:
        del os.environ["TRIMTAB_CACHE"]
    else:
        os.environ["TRIMTAB_CACHE"] = before
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def state_dir(cache: Path) -> Path:
    return cache / "state"


def target(kind: str, name: str, state_dir: Path, **table: Any) -> Any:
    """A private server of that kind, not open."""
    made = plugins.load("targets", kind)
    return made.from_settings(name, {"kind": kind, "memory": "1GiB", "knobs": "all", **table}, state_dir=state_dir)
