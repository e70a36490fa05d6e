"""Changes in the files that the server does not use yet stop us before we touch anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import TargetError
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.autoconf import reload_and_wait
from trimtab.systems.postgresql.catalogue import read_rows
from trimtab.systems.postgresql.pending import unsettled

pytestmark = pytest.mark.service


def write(target: PostgresTarget, text: str) -> None:
    path = Path(next(iter(target.snapshot().files)))
    path.write_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "work_mem = 5MB",
        "random_page_cost = 1.5",
        "enable_sort = off",
        "wal_compression = on",
        "bgwriter_delay = 1s",
        "max_parallel_workers_per_gather = 3",
        "log_min_duration_statement = 0",
    ],
)
def test_what_is_not_loaded_is_refused(target: PostgresTarget, text: str) -> None:
    write(target, text + "\n")
    name = text.partition(" ")[0]
    with pytest.raises(TargetError, match=rf"changes that the server has not loaded: {name}\n"):
        target.snapshot()
    line = next(line for line in target.doctor() if line[0] == "pending")
    assert line == ("pending", False, f"in the files, not yet in use: {name}")
    reload_and_wait(target._reach.connect)
    target.snapshot()
    write(target, "")
    with pytest.raises(TargetError, match=rf"changes that the server has not loaded: {name}\n"):
        target.snapshot()


def test_what_waits_for_a_restart_is_refused(target: PostgresTarget) -> None:
    write(target, "shared_buffers = 200MB\n")
    reload_and_wait(target._reach.connect)
    with pytest.raises(TargetError, match=r"changes that wait for a restart: shared_buffers\n") as caught:
        target.snapshot()
    assert "allow_restart = false" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["work_mem = 4096kB", "work_mem = '0.00390625GB'", "enable_sort = yes", "shared_buffers = 131075kB",
     "datestyle = 'iso, mdy'",
     "search_path = 'x'", "log_file_mode = 0600", "wal_buffers = -1"],
)  # fmt: skip
def test_another_spelling_of_the_running_value_is_fine(target: PostgresTarget, text: str) -> None:
    write(target, text + "\n")
    with target._reach.connect() as connection:
        assert unsettled(connection, read_rows(connection)) == []
