"""`trimtab profile` on Debian's PostgreSQL 15 with pg_stat_statements: a live server's statements become a workload."""

from __future__ import annotations

import tomllib
from pathlib import Path

import psycopg
import pytest

from tests.service.conftest import Debian, Place

pytestmark = pytest.mark.service

SCHEMA = """
CREATE TABLE customers (id serial PRIMARY KEY, name text, city text);
CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id int REFERENCES customers, total numeric(10, 2));
INSERT INTO customers (name, city) SELECT 'c' || i, 'city' || i % 5 FROM generate_series(1, 100) i;
INSERT INTO orders (customer_id, total) SELECT 1 + i % 100, i FROM generate_series(1, 500) i;
"""
SECRET = "canary-4711"


def _connect(debian: Debian, database: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(f"{debian.dsn} dbname={database}", autocommit=True)


def _watch(debian: Debian) -> None:
    """A database `shop` whose statements are counted from now on."""
    with (debian.data_dir / "postgresql.auto.conf").open("a") as file:
        file.write("shared_preload_libraries = 'pg_stat_statements'\n")
    debian.server.control("restart")
    with _connect(debian, "postgres") as admin:
        admin.execute("CREATE DATABASE shop")
    with _connect(debian, "shop") as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements")
        connection.execute(SCHEMA)
        connection.execute("ANALYZE")
        connection.execute("SELECT pg_stat_statements_reset()")


def _work(debian: Debian) -> None:
    with _connect(debian, "shop") as connection:
        for i in range(1, 21):
            connection.execute(
                "SELECT c.* FROM customers c JOIN orders o ON o.customer_id = c.id WHERE o.id = %s", (i,)
            )
            connection.execute("SELECT id FROM orders WHERE customer_id = %s ORDER BY id LIMIT 5", (i,))
        connection.execute(f"SELECT count(*) FROM customers WHERE city LIKE '{SECRET}%'")
        with connection.transaction():
            connection.execute("INSERT INTO customers (id, name, city) VALUES (%s, %s, %s)", (1001, "x", "city1"))
        connection.execute("VACUUM customers")


def test_a_profile_becomes_a_study(place: Place, debian: Debian) -> None:
    place.write(debian.target.replace("dbname=postgres", "dbname=shop"))
    _watch(debian)
    _work(debian)
    data = place.json("profile", "study.toml", "--coverage", "1.0", "--output", "out")
    assert data["share_of_time"] > 0
    assert data["share_of_calls"] > 0.9
    assert any(left["reason"] == "no query" and "vacuum" in left["statement"].lower() for left in data["left_out"])
    study = tomllib.loads((place.folder / "out" / "study.toml").read_text())
    assert study["study"]["name"] == "e2e"
    assert study["workload"] | {"weights": 0, "parameters": 0, "load": 0} == {
        "kind": "sql", "database": "shop", "folder": "queries", "start_state": "rollback",
        "weights": 0, "parameters": 0, "load": 0,
    }  # fmt: skip
    assert {"type": "column", "table": "customers", "column": "city"} in study["workload"]["parameters"].values()
    assert {"type": "column", "table": "orders", "column": "id"} in study["workload"]["parameters"].values()
    assert {"type": "serial", "start": 1002} in study["workload"]["parameters"].values()
    assert {"type": "int", "low": 10, "high": 10} in study["workload"]["parameters"].values()
    assert {"type": "?"} in study["workload"]["parameters"].values(), "what follows LIKE cannot be known"
    written = "".join(path.read_text() for path in (place.folder / "out").rglob("*") if path.is_file())
    assert SECRET not in written


def test_a_profile_is_explained_and_never_overwrites(place: Place, debian: Debian) -> None:
    place.write(debian.target.replace("dbname=postgres", "dbname=shop"))
    _watch(debian)
    _work(debian)
    ran = place.run("profile", "study.toml", "--coverage", "1.0")
    assert ran.code == 0
    assert "the mix covers" in ran.out
    assert "to be filled in" in ran.out
    assert 'next: fill in 1 parameter of type "?"' in ran.out
    again = place.run("profile", "study.toml")
    assert (again.code, again.out) == (2, "")
    assert "folder='profile' exists already" in again.err
    bench = place.run("bench", "profile/study.toml", "--runs", "1")
    assert bench.code == 2
    assert "has no generator yet: type='?'" in bench.err


def test_a_server_without_statistics_is_told_what_to_do(place: Place, debian: Debian) -> None:
    place.write(debian.target)
    ran = place.run("profile", "study.toml")
    assert ran.code == 3
    assert "pg_stat_statements is not installed in database=postgres" in ran.err
    assert "shared_preload_libraries" in ran.err
    assert not (place.folder / "profile").exists()


def test_a_silent_window_is_said(place: Place, debian: Debian) -> None:
    place.write(debian.target.replace("dbname=postgres", "dbname=shop"))
    _watch(debian)
    ran = place.run("profile", "study.toml", "--seconds", "1")
    assert ran.code == 4
    assert "pg_stat_statements saw no statement in database=shop within 1s" in ran.err


def test_a_stack_is_looked_at_under_the_names_of_its_targets(place: Place, debian: Debian) -> None:
    examples = Path(__file__).parents[2] / "examples" / "catalogs"
    more = f"""
[target.flags]
kind = "program"
catalog = "{examples / "zstd.toml"}"
files = {{ flags = "zstd.flags" }}
"""
    place.write(debian.target.replace("dbname=postgres", "dbname=shop") + more)
    study = place.folder / "study.toml"
    study.write_text(study.read_text().replace('memory = "1GiB"\n', "") + '[stack]\nmemory = "1GiB"\n')
    _watch(debian)
    _work(debian)
    data = place.json("profile", "study.toml", "--output", "out")
    assert list(data["targets"]) == ["db"]
    assert data["targets"]["db"]["database"] == "shop"
    written = tomllib.loads((place.folder / "out" / "db" / "study.toml").read_text())
    assert (written["workload"]["target"], written["workload"]["database"]) == ("db", "shop")
    assert written["target"]["flags"]["files"] == {"flags": str(place.folder / "zstd.flags")}, (
        "two folders further down"
    )
    grants = place.run("doctor", "study.toml", "--grant-sql")
    assert grants.code == 0, grants.err
    assert grants.out.startswith("-- [target.db]: to be run on this server\n")
    assert "[target.flags]" not in grants.out
