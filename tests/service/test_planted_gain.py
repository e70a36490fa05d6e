"""A gain that is planted in the workload is found and proven by `tune`, on every kind of server.

Each statement sleeps ten times as long unless one setting has another value than it was found with. So the gain is known. Even
the short sleep is long beside what a busy machine adds to a statement: else the winner's runs scatter, and the proof rejects it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.fetch_servers import MARIADB_11_4, MYSQL_8_0, server_program
from tests.needs import require
from tests.service.conftest import Place

pytestmark = [pytest.mark.service, pytest.mark.slow]

STUDY = """
[study]
name = "planted"
budget = "6 trials"

[target.db]
kind = "{kind}"
embedded = "{program}"
memory = "1GiB"
knobs = ["{knob}", "{idle}"]

[workload]
kind = "sql"
database = "{database}"
files = ["q.sql"]
read_only = true

[workload.load]
users = 8

[search]
searcher = "grid"
levels = 2
ranges = {{ {knob} = {values}, {idle} = {idle_values} }}

[measure]
window = "2s"
window_max = "2s"
warmup_floor = "0s"
warmup_cap = "0s"

[proof]
min_pairs = 4
max_pairs = 4
max_noise = 0.9
advice = false
ablate = false
"""


@dataclass(frozen=True)
class Plant:
    """A kind of server, the knob that carries the gain with what it must become, and a knob that does nothing here."""

    kind: str
    need: str
    program: Callable[[], str]
    database: str
    statement: str
    knob: str
    values: str
    wins: object
    idle: str
    idle_values: str


def _mysql(kind: str, need: str, program: Callable[[], str]) -> Plant:
    statement = "SELECT SLEEP(IF(@@GLOBAL.innodb_flush_neighbors = {wins}, 0.05, 0.5));"
    wins = 1 if kind == "mysql" else 0  # the other one is how that product comes
    return Plant(
        kind, need, program, "mysql", statement.format(wins=wins), "innodb_flush_neighbors", "[0, 1]", wins,
        "eq_range_index_dive_limit", "[100, 300]",
    )  # fmt: skip


PLANTS = {
    "postgresql-18": Plant(
        "postgresql", "postgresql-embedded", lambda: "18", "postgres",
        "SELECT pg_sleep(CASE WHEN current_setting('work_mem') = '8MB' THEN 0.05 ELSE 0.5 END);",
        "work_mem", '["4MB", "8MB"]', 8192, "random_page_cost", "[2.0, 4.0]",
    ),
    "mariadb-10.11": _mysql("mariadb", "mariadb", lambda: "mariadb"),
    "mysql-8.0": _mysql("mysql", "mysql-8.0", lambda: str(server_program(MYSQL_8_0))),
    "mariadb-11.4": _mysql("mariadb", "mariadb-11.4", lambda: str(server_program(MARIADB_11_4))),
}  # fmt: skip


QUICK = ("postgresql-18",)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in PLANTS]
)
def test_a_planted_gain_is_proven(place: Place, name: str) -> None:
    plant = PLANTS[name]
    require(plant.need)
    program = plant.program()
    parts = {field.name: getattr(plant, field.name) for field in dataclasses.fields(plant)}
    (place.folder / "study.toml").write_text(STUDY.format(**{**parts, "program": program}))
    (place.folder / "q.sql").write_text(plant.statement + "\n")
    place.provide(f'embedded = "{program}"')
    ran = place.run("tune", "study.toml", "--json")
    assert ran.code == 0, ran.err + ran.out[-6000:]
    study = json.loads(ran.out)["study"]
    verdict = study["verdict"]
    assert study["status"] == "proven"
    assert verdict["config"][plant.knob] == plant.wins
    assert 4 < verdict["gain"]["estimate"] < 15
    assert verdict["gain"]["low"] > 3
