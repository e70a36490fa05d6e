"""Paths of a study file mean the same in every process; what a history has in the place of a password goes to no server."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from trimtab.errors import UsageError
from trimtab.study import load_study_file
from trimtab.study.stage import build_target
from trimtab.systems import credentials
from trimtab.systems.mysql.settings import read_settings as read_mysql
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.settings import read_settings as read_postgresql
from trimtab.systems.settings import full_path

STUDY = """
[study]
name = "paths"
[target.db]
kind = "postgresql"
url = "host=db user=u sslrootcert=certs/ca.crt"
data_dir = "pg/data"
restart = "true"
[workload]
kind = "tpch"
"""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/dba")
    monkeypatch.setenv("PGROOT", "/srv/pg")
    monkeypatch.delenv("NOWHERE", raising=False)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("data", "/study/data"),
        ("../data", "/data"),
        ("/var/lib/../data", "/var/data"),
        ("~/data", "/home/dba/data"),
        ("$HOME/data", "/home/dba/data"),
        ("${PGROOT}/data", "/srv/pg/data"),
    ],
)
def test_paths_are_made_full_once(text: str, path: str) -> None:
    assert full_path(text, Path("/study")) == path


@pytest.mark.parametrize("text", ["$NOWHERE/data", "${NOWHERE}/data"])
def test_a_variable_that_is_not_set_is_told(text: str) -> None:
    with pytest.raises(UsageError, match=r"path='\$.* names a variable that is not set: \$\{?NOWHERE") as caught:
        full_path(text, Path("/study"))
    assert caught.value.hint == "set it, or write the path"


def test_a_study_files_paths_start_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    target = build_target(load_study_file(Path("deep/study.toml")), tmp_path)
    assert isinstance(target, PostgresTarget)
    assert target.settings.data_dir == str(tmp_path / "deep" / "pg" / "data")
    fields = conninfo_to_dict(target.settings.safe_url or "")
    assert fields["sslrootcert"] == str(tmp_path / "deep" / "certs" / "ca.crt")


def test_every_path_inside_a_url() -> None:
    url = "host=db passfile=pw sslcert=c sslkey=~/k sslrootcert=system sslcrldir=crl password=secret-1"
    settings = read_postgresql("db", {"kind": "postgresql", "url": url}, Path("/study"))
    fields = settings.url_parts()
    assert [fields[key] for key in ("passfile", "sslcert", "sslkey", "sslrootcert", "sslcrldir", "password")] == [
        "/study/pw", "/study/c", "/home/dba/k", "system", "/study/crl", "secret-1",
    ]  # fmt: skip
    mysql = read_mysql(
        "db",
        {"kind": "mysql", "url": "mysql://u:p%40ss@h/db?sslmode=verify-full&sslrootcert=ca&defaults_file=~/t.cnf",
         "include_file": "conf.d/zz.cnf", "log_file": "log", "data_dir": "~/data", "restart": "true"},
        Path("/study"),
    )  # fmt: skip
    endpoint = mysql.endpoint()
    assert endpoint.password == "p@ss"
    assert endpoint.options == {
        "sslmode": "verify-full",
        "sslrootcert": "/study/ca",
        "defaults_file": "/home/dba/t.cnf",
    }
    assert (mysql.include_file, mysql.log_file, mysql.data_dir) == (
        "/study/conf.d/zz.cnf",
        "/study/log",
        "/home/dba/data",
    )
    assert "p%40ss" not in str(mysql.public())
    assert read_mysql("db", mysql.public()).endpoint().options == endpoint.options


@pytest.mark.parametrize(
    "url", ["postgresql://u:***@h/db", "host=h user=u password=***", "postgresql://u:%2A%2A%2A@h/db"]
)
def test_the_mask_of_a_password_is_no_password(url: str) -> None:
    settings = read_postgresql("db", {"kind": "postgresql", "url": url})
    assert "password" not in settings.url_parts()
    assert settings.password is None


def test_the_mask_of_a_password_is_no_password_for_mysql() -> None:
    assert read_mysql("db", {"kind": "mysql", "url": "mysql://u:***@h/db"}).endpoint().password is None


def test_what_a_tuner_logged_in_with_is_handed_over_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_kept", {})
    monkeypatch.setattr(credentials, "_received", {})
    credentials.keep("postgresql host=a", {"password": "handed-over-1"})
    credentials.keep("postgresql host=b", {})
    data = credentials.hand_over()
    assert credentials.received("postgresql host=a") == {}, "in the process that has it, nothing was received"
    credentials.receive(data)
    assert credentials.received("postgresql host=a") == {"password": "handed-over-1"}
    assert credentials.received("postgresql host=b") == {}
    assert "handed-over-1" not in str(UsageError("the password is handed-over-1"))
    credentials.receive(b"")
