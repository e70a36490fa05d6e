"""The roles of several targets, and their statements: each target that has them is asked, under its own name."""

from __future__ import annotations

import json
import signal
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import pytest

from tests.fakes import FakeStudy
from tests.study.test_stack_study import ThreeFakes, three
from trimtab.cli.doctor_command import command as doctor
from trimtab.cli.profile_command import command as profile_command
from trimtab.errors import LoadError, TargetError, UsageError
from trimtab.records import Context, DataRights, Endpoint
from trimtab.study import grant_sql
from trimtab.study.profile import profile
from trimtab.testing.fake_target import FakeTarget
from trimtab.workload.sql.profile import Profile, Proposal

__all__ = ["three"]

RIGHTS = DataRights(database="shop", makes_databases=False, is_users_own=True, reads_only=True)


class Granting(FakeTarget):
    """Says what it was asked for."""

    is_enough = True

    def grant_sql(self, context: Context, rights: DataRights | None, *, role: str) -> tuple[str, bool]:
        assert self.calls[-1] == "open"
        return f"ROLE {role or 'own'} FOR {rights.database if rights is not None else '?'};\n", self.is_enough


@pytest.fixture
def granting(three: ThreeFakes, monkeypatch: pytest.MonkeyPatch) -> ThreeFakes:
    for name in ("db", "app"):
        three.targets[name].__class__ = Granting
    monkeypatch.setattr(type(three.workload), "rights", RIGHTS, raising=False)
    return three


def grants(study: ThreeFakes, **more: Any) -> dict[str, tuple[str, bool]]:
    found = grant_sql(study.file(), study.path / "state", **more)
    return {name: (grant.sql, grant.is_enough) for name, grant in found.items()}


def test_each_target_with_roles_gets_one_and_only_the_load_touches_data(granting: ThreeFakes) -> None:
    assert grants(granting) == {"db": ("ROLE own FOR shop;\n", True), "app": ("ROLE own FOR ;\n", True)}
    assert grants(granting, role="me")["app"] == ("ROLE me FOR ;\n", True)
    assert [target.calls for target in granting.targets.values()] == [
        [], ["open", "close"] * 2, ["open", "close"] * 2,
    ]  # fmt: skip


def test_a_load_that_could_drive_two_of_them_must_say_which(granting: ThreeFakes) -> None:
    granting.text = granting.text.replace('target = "db"\n', "")
    with pytest.raises(UsageError, match="which of them the load drives is not said"):
        grants(granting)


def test_a_load_on_a_target_without_roles_touches_no_data_of_the_others(granting: ThreeFakes) -> None:
    granting.text = granting.text.replace('target = "db"\n', 'target = "web"\n')
    assert {sql for sql, _ in grants(granting).values()} == {"ROLE own FOR ;\n"}


def test_a_study_without_any_such_target(three: ThreeFakes) -> None:
    with pytest.raises(UsageError, match=r"targets of kind='fake\+fake\+fake' have no rights by knob"):
        grants(three)


def test_a_target_that_cannot_be_reached_is_named(granting: ThreeFakes, monkeypatch: pytest.MonkeyPatch) -> None:
    def down() -> None:
        raise TargetError("the server is down")

    monkeypatch.setattr(granting.targets["app"], "open", down)
    with pytest.raises(TargetError, match="app: the server is down"):
        grants(granting)
    assert granting.targets["db"].calls[-1] == "close"


def printed(study: ThreeFakes, command: click.Command, *arguments: str) -> click.testing.Result:
    study.file()
    runner = click.testing.CliRunner()
    return runner.invoke(
        command, [str(study.path / "study.toml"), "--state", str(study.path / "state"), *arguments],
        standalone_mode=False, catch_exceptions=False,
    )  # fmt: skip


def test_the_command_prints_them_under_their_names(granting: ThreeFakes, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "-- [target.db]: to be run on this server\nROLE own FOR shop;\n\n"
        "-- [target.app]: to be run on this server\nROLE own FOR ;\n"
    )
    ran = printed(granting, doctor, "--grant-sql")
    assert (ran.stdout, ran.return_value) == (text, 0)
    monkeypatch.setattr(granting.targets["app"], "is_enough", False)
    ran = printed(granting, doctor, "--grant-sql", "--json")
    data = json.loads(ran.stdout)
    assert (data["sql"], data["is_enough"], ran.return_value) == (text, False, 1)
    assert data["targets"]["db"] == {"is_enough": True, "sql": "ROLE own FOR shop;\n"}
    assert data["targets"]["app"]["is_enough"] is False


# --- statements ---


def seen(database: str) -> Profile:
    proposal = Proposal(label="q1", text="SELECT 1", calls=3, time_ms=6.0, writes=False, generators={})
    return Profile(database=database, window_s=0.0, proposals=(proposal,), left_out=())


@pytest.fixture
def speaking(three: ThreeFakes, monkeypatch: pytest.MonkeyPatch) -> ThreeFakes:
    """Two of the targets speak to `profile`; what they would tell is their name."""
    for name in ("db", "app"):
        endpoint = Endpoint(protocol="postgresql", host="h", port=1, user="u", database=name)
        monkeypatch.setattr(three.targets[name], "endpoint", lambda endpoint=endpoint: endpoint)

    def read(
        endpoint: Endpoint, *, window_s: float, coverage: float, most: int, wait: Callable[[float], object]
    ) -> Profile:
        if endpoint.database == "silent":
            raise LoadError("it saw nothing")
        return seen(endpoint.database)

    monkeypatch.setattr("trimtab.study.profile.read_profile", read)
    return three


def profiles(study: ThreeFakes, database: str | None = None) -> dict[str, str]:
    found = profile(study.file(), study.path / "state", database=database, window_s=0.0, coverage=1.0, most=9)
    return {name: each.database for name, each in found.items()}


def test_every_target_that_counts_its_statements_is_watched(speaking: ThreeFakes) -> None:
    assert profiles(speaking) == {"db": "db", "app": "app"}
    assert profiles(speaking, "shop") == {"db": "shop", "app": "shop"}
    assert all(target.calls[-1] == "close" for target in speaking.targets.values())


def test_one_that_has_no_statistics_is_named(speaking: ThreeFakes) -> None:
    with pytest.raises(LoadError, match="db: it saw nothing"):
        profiles(speaking, "silent")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_asks_to_stop_does_not_wait_until_the_statements_were_watched(
    speaking: ThreeFakes, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """For a day, perhaps: the threads that watch hear of no signal."""
    main = threading.get_ident()

    def read(endpoint: Endpoint, *, wait: Callable[[float], object] = time.sleep, **more: Any) -> Profile:
        assert signal.getsignal(number) != signal.SIG_DFL, "it would end the process at once"
        if endpoint.database == "db":
            signal.pthread_kill(main, number)
        wait(20.0)
        return seen(endpoint.database)

    monkeypatch.setattr("trimtab.study.profile.read_profile", read)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        profiles(speaking)
    assert time.monotonic() - started < 10.0
    assert all(target.calls[-1] == "close" for target in speaking.targets.values())


def test_an_error_of_one_is_told_before_the_others_were_watched(
    speaking: ThreeFakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(endpoint: Endpoint, *, wait: Callable[[float], object] = time.sleep, **more: Any) -> Profile:
        if endpoint.database == "app":
            raise TargetError("pg_stat_statements is not there")
        wait(20.0)
        raise LoadError("it saw nothing")

    monkeypatch.setattr("trimtab.study.profile.read_profile", read)
    started = time.monotonic()
    with pytest.raises(TargetError, match="app: pg_stat_statements is not there"):
        profiles(speaking)
    assert time.monotonic() - started < 10.0


def test_no_target_counts_its_statements(three: ThreeFakes) -> None:
    with pytest.raises(UsageError, match=r"target kind='fake\+fake\+fake' has no statement statistics"):
        profiles(three)


def test_each_profile_has_a_folder_and_drives_its_target(speaking: ThreeFakes) -> None:
    folder = speaking.path / "out"
    ran = printed(speaking, profile_command, "--output", str(folder))
    assert ran.return_value == 0
    assert [line for line in ran.stdout.splitlines() if line.startswith("[")] == ["[target.db]", "[target.app]"]
    for name in ("db", "app"):
        written = tomllib.loads((folder / name / "study.toml").read_text())
        assert written["workload"]["target"] == name
        assert written["workload"]["database"] == name
        assert set(written["target"]) == {"db", "app", "web"}
        assert (folder / name / "queries" / "q1.sql").exists()


def test_the_profiles_as_json(speaking: ThreeFakes) -> None:
    ran = printed(speaking, profile_command, "--json", "--output", str(speaking.path / "out"))
    targets = json.loads(ran.stdout)["targets"]
    assert {name: each["database"] for name, each in targets.items()} == {"db": "db", "app": "app"}
    assert Path(targets["app"]["study_file"]) == speaking.path / "out" / "app" / "study.toml"


def test_a_single_target_has_no_folder_of_its_own(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint(protocol="postgresql", host="h", port=1, user="u", database="shop")
    monkeypatch.setattr(fake.target, "endpoint", lambda: endpoint)
    monkeypatch.setattr("trimtab.study.profile.read_profile", lambda endpoint, **more: seen(endpoint.database))
    (fake.path / "study.toml").write_text(fake.written)
    folder = fake.path / "out"
    ran = click.testing.CliRunner().invoke(
        profile_command,
        [str(fake.path / "study.toml"), "--state", str(fake.path / "state"), "--json", "--output", str(folder)],
        standalone_mode=False, catch_exceptions=False,
    )  # fmt: skip
    data = json.loads(ran.stdout)
    assert (data["database"], data["study_file"]) == ("shop", str(folder / "study.toml"))
    assert "target" not in tomllib.loads((folder / "study.toml").read_text())["workload"]
