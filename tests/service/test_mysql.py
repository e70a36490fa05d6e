"""The commands on a real MySQL 8.0: doctor, advise, tune, report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fetch_servers import MYSQL_8_0, require_server
from tests.service.conftest import Place
from tests.service.test_mariadb import OLTP, YCSB, write
from trimtab.systems.mysql.program import data_label

pytestmark = [pytest.mark.service, pytest.mark.slow]

TARGET = """embedded = "{program}"
memory = "2GiB"
knobs = ["innodb_buffer_pool_size", "innodb_flush_neighbors", "innodb_buffer_pool_instances", "sort_buffer_size"]"""


@pytest.fixture
def program() -> Path:
    return require_server(MYSQL_8_0)


@pytest.mark.full  # in the quick form test_planted_gain.py tunes a MySQL to the end, and tests/workload loads one
@pytest.mark.parametrize("workload", [YCSB, OLTP], ids=["ycsb", "oltp"])
def test_a_study_runs_to_its_end_and_leaves_the_server_as_it_was(place: Place, program: Path, workload: str) -> None:
    write(place, target=TARGET.format(program=program), workload=workload, budget="2 trials")
    doctor = place.run("doctor", "study.toml")
    assert doctor.code == 0, doctor.out + doctor.err
    assert "MySQL 8.0.31" in doctor.out
    data = place.json("tune", "study.toml")
    assert data["study"]["status"] in ("proven", "no_improvement")
    assert {trial["status"] for trial in data["trials"]} >= {"ok"}
    assert list((place.cache / "mysql" / f"{data_label(str(program))}-db" / "conf.d").iterdir()) == []
    report = place.run("report", "maria")
    assert report.code == 0
    assert "Traceback" not in report.out + report.err


def test_the_advice_gives_memory_to_innodb_and_not_to_temporary_tables(place: Place, program: Path) -> None:
    write(place, target=f'embedded = "{program}"\nmemory = "2GiB"\nknobs = "all"')
    lines = dict(
        line.split(" = ")
        for line in place.run("advise", "study.toml").out.splitlines()
        if " = " in line and line[0] != "#"
    )
    assert int(lines["innodb_buffer_pool_size"]) >= 1 << 30
    assert int(lines["temptable_max_ram"]) == 128 << 20
    assert int(lines["sort_buffer_size"]) >= 256 << 10
