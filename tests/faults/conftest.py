"""A place with a fresh real server for each case of the fault matrix; PostgreSQL 18 and 16.

* `place`: the study's target is an embedded server, which Trimtab starts and stops.
* `own_place`: the server is somebody else's: it runs, is reached over TCP with a password, restarted by a command.
* `place_18`, `own_place_18`: the same on 18 only, where the version cannot matter.

TRIMTAB_TESTS=full runs the long form (`IS_FULL`): more points, more repetitions, every setting.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.matrix import outcome_lines
from tests.faults.place import CANARY, Place, processes_of
from tests.faults.server import copy_server, make_template, set_password
from tests.needs import IS_FULL
from tests.servers import run_folder
from tests.wayback.fixtures import templates, zygote

__all__ = ["templates", "zygote"]


@pytest.fixture(scope="session")
def root_folder() -> Path:
    """Outside pytest's private folders: the server's own user must be able to enter it."""
    return run_folder()


MakePlace = Callable[[str, bool], Place]


@contextmanager
def made_places(root_folder: Path) -> Iterator[MakePlace]:
    """Makes places: `make("18", is_embedded)`; cleaned up afterwards whatever was done in them."""
    made: list[Place] = []

    def make(version: str, is_embedded: bool) -> Place:
        folder = root_folder / secrets.token_hex(3)
        folder.mkdir(mode=0o755)
        source = make_template(version)
        (folder / "cache").mkdir(mode=0o755)
        installed = root_folder / "cache" / "install"
        if installed.exists():
            (folder / "cache" / "install").symlink_to(installed)
        home = folder / "cache" / "postgresql" / f"{version}-db" if is_embedded else folder / "server"
        server = copy_server(source, home, version, is_embedded=is_embedded)
        place = Place(folder, server, CANARY + secrets.token_hex(6))
        made.append(place)
        if not is_embedded:
            server.control("start")
            set_password(server, "postgres", place.canary)
        return place

    yield make
    for place in made:
        end_children(place)
        for pid, _ in processes_of(place):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        place.server.destroy()
        shutil.rmtree(place.folder, ignore_errors=True)


def end_children(place: Place) -> None:
    """Those that still run."""
    for child in place.children:
        if child.poll() is None:
            child.kill()
            child.communicate()


@pytest.fixture
def make_place(root_folder: Path) -> Iterator[MakePlace]:
    """Makes the places of a test; see `made_places`."""
    with made_places(root_folder) as make:
        yield make


@pytest.fixture(params=["18", "16"])
def place(request: pytest.FixtureRequest, make_place: MakePlace) -> Place:
    return make_place(request.param, True)


@pytest.fixture(params=["18", "16"])
def own_place(request: pytest.FixtureRequest, make_place: MakePlace) -> Place:
    return make_place(request.param, False)


@pytest.fixture
def place_18(make_place: MakePlace) -> Place:
    return make_place("18", True)


@pytest.fixture
def own_place_18(make_place: MakePlace) -> Place:
    return make_place("18", False)


ON_16_TOO = ("test_T3_", "test_D14_what", "test_C2_", "test_N5_", "test_W1_", "test_S2_")
"""Rows of the quick form that run on PostgreSQL 16 as well: one a letter; the long form runs all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the others on 16 `full`; tests/rules.py leaves these out of the quick form."""
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        is_16 = "16" in (parameters.get("place"), parameters.get("own_place"))
        if is_16 and not item.name.startswith(ON_16_TOO):
            item.add_marker(pytest.mark.full)


_outcomes: list[tuple[str, str, str]] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collects what `make test-full` prints."""
    if report.when == "call" or report.outcome != "passed":
        reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
        _outcomes.append((report.nodeid, report.outcome, reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line a row, in the long form."""
    if IS_FULL:
        terminalreporter.section("fault matrix")
        for line in outcome_lines(_outcomes):
            terminalreporter.write_line(line)
