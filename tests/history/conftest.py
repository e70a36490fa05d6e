"""What the tests of the history share: both kinds of database."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.history.samples import study_values
from tests.servers.postgresql import TRUST, started
from trimtab.history import History, StudyRecord


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a real PostgreSQL, started from the wheel for this session; its role may make databases."""
    with started("18", hba=TRUST) as mine:
        with mine.admin() as admin:
            admin.execute("CREATE ROLE tester SUPERUSER LOGIN")
        yield f"postgresql://tester@127.0.0.1:{mine.port}/postgres"


@pytest.fixture
def database(postgres: str) -> str:
    """URL of a fresh, empty database."""
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
    return postgres.rpartition("/")[0] + f"/{name}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a history may be made: both kinds of database."""
    if request.param == "sqlite":
        return str(tmp_path / "history.db")
    found: str = request.getfixturevalue("database")
    return found


@pytest.fixture
def history(url: str) -> Iterator[History]:
    with History.open(url) as opened:
        yield opened


@pytest.fixture
def study(history: History) -> StudyRecord:
    return history.create_study(**study_values())
