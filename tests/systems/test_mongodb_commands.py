"""What the catalogue asks of a mongod by commands: values, counters, reloads, and with which password they log in."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.commands import PYTHON
from tests.needs import require
from tests.servers.mongodb import private_mongodb
from tests.systems.fake_mongod import PARAMETERS, FakeClient, FakeMongoError, FakeSilenceError, catalogue
from trimtab import plugins
from trimtab.errors import TargetError
from trimtab.systems.mongodb.__main__ import main
from trimtab.systems.mongodb.client import Mongod
from trimtab.systems.mongodb.values import ENGINE, RUNTIME


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    library, errors = ModuleType("pymongo"), ModuleType("pymongo.errors")
    library.MongoClient = FakeClient  # type: ignore[attr-defined]
    errors.PyMongoError = errors.ConfigurationError = FakeMongoError  # type: ignore[attr-defined]
    errors.ConnectionFailure = FakeSilenceError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pymongo", library)
    monkeypatch.setitem(sys.modules, "pymongo.errors", errors)
    monkeypatch.setattr(FakeClient, "logins", [])
    FakeClient.seen.clear()
    return FakeClient.seen


def test_the_commands_of_the_catalogue(
    client: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = "mongodb://127.0.0.1:27017/"
    assert (
        main([url, "--ping"])
        == main([url, "--counters"])
        == main([url, "--parameters"])
        == main([url, "--values"])
        == 0
    )
    shown = capsys.readouterr().out
    assert "7 opcounters.query\n" in shown
    assert "[ttlMonitorSleepSecs]\n" in shown
    assert "ttlMonitorSleepSecs: '60'\n" in shown
    conf = tmp_path / "mongod.conf"
    conf.write_text("setParameter:\n  ttlMonitorSleepSecs: 5\n")
    assert main([url, "--reload", str(conf)]) == 0
    assert client[-1] == {"setParameter": 1, "ttlMonitorSleepSecs": 5}
    assert main([]) == main([url]) == main([url, "--nonsense"]) == 2


def test_a_parameter_that_the_mongod_refuses_is_told(
    client: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    conf = tmp_path / "mongod.conf"
    conf.write_text("setParameter:\n  ttlMonitorSleepSecs: -1\n")
    assert main(["mongodb://h/", "--reload", str(conf)]) == 1
    assert (
        "the mongod refuses setParameter ttlMonitorSleepSecs=-1: Invalid value for parameter" in capsys.readouterr().err
    )


@pytest.mark.usefixtures("client")
def test_a_mongod_that_cannot_be_reached_is_told_as_such_and_in_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It refuses nothing; and a health command is ended after 10 s, with what it would have said."""
    refused = "127.0.0.1:1: [Errno 111] Connection refused (configured timeouts: connectTimeoutMS: 10000.0ms)"
    monkeypatch.setattr(
        FakeClient, "silence", f"{refused}, Timeout: 5.0s, Topology Description: <TopologyDescription id: 6>"
    )
    monkeypatch.setattr(FakeClient, "waits_ms", [])
    assert main(["mongodb://127.0.0.1:1/", "--ping"]) == main(["mongodb://127.0.0.1:1/", "--values"]) == 1
    assert FakeClient.waits_ms == [5_000, 10_000]
    first, hint, *_ = capsys.readouterr().err.splitlines()
    assert first == f"error: the mongod does not answer: {refused}"
    assert hint.startswith("hint: is this its address (names.server), with tls=true")


@pytest.mark.usefixtures("client")
def test_parameters_are_those_of_this_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before 6.1 the journal could be off; from 8.0 on another allocator takes tcmallocReleaseRate in bytes a second."""

    def lacks(version: str, allocator: str) -> set[str]:
        monkeypatch.setattr(FakeClient, "version", version)
        monkeypatch.setitem(PARAMETERS, "tcmallocReleaseRate", 1.0)
        monkeypatch.setitem(PARAMETERS, allocator, 1)
        assert main(["mongodb://h/", "--parameters"]) == 0
        shown = capsys.readouterr().out
        monkeypatch.delitem(PARAMETERS, allocator)
        return {name for name in ("journal_enabled", "release_rate") if catalogue().knob[name].needs not in shown}

    assert lacks("6.0.14", "tcmallocMaxTotalThreadCacheBytes") == set()
    assert lacks("7.0.5", "tcmallocMaxTotalThreadCacheBytes") == {"journal_enabled"}
    assert lacks("8.0.4", "tcmallocMaxPerCPUCacheSize") == {"journal_enabled", "release_rate"}


@pytest.mark.usefixtures("client")
def test_a_member_of_a_replica_set_is_healthy_once_there_is_a_primary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It answers before: a load that begins then is refused, and its config would be blamed."""
    after_a_start = {"isWritablePrimary": False, "secondary": True, "setName": "rs0", "ok": 1.0}
    for answer in (after_a_start, {"isWritablePrimary": False, "isreplicaset": True, "ok": 1.0}):
        monkeypatch.setattr(FakeClient, "hello", answer)
        assert main(["mongodb://h/", "--ping"]) == 1
    told = capsys.readouterr().err
    assert "waits for a primary of its replica set, setName='rs0'" in told
    assert "rs.status() in mongosh says why" in told
    for primary in ("h:27017", "other:27017"):
        monkeypatch.setattr(FakeClient, "hello", {**after_a_start, "primary": primary})
        assert main(["mongodb://h/", "--ping"]) == 0


def test_a_reload_of_a_file_with_start_parameters_works(client: list[dict[str, Any]], tmp_path: Path) -> None:
    conf = tmp_path / "mongod.conf"
    conf.write_text("setParameter:\n  logicalSessionRefreshMillis: 9\noperationProfiling:\n  slowOpThresholdMs: 5\n")
    assert main(["mongodb://h/", "--reload", str(conf)]) == 0
    assert client[-1] == {"profile": 1, "slowms": 5}


@pytest.mark.parametrize("before", ["# f\xfcr die Nacht\n".encode("latin-1"), b"\xef\xbb\xbf# f\xc3\xbcr die Nacht\n"])
def test_a_file_of_any_encoding_is_read_for_a_reload(
    client: list[dict[str, Any]], tmp_path: Path, before: bytes
) -> None:
    conf = tmp_path / "mongod.conf"
    conf.write_bytes(before + b"setParameter:\n  ttlMonitorSleepSecs: 5\n")
    assert main(["mongodb://h/", "--reload", str(conf)]) == 0
    assert client[-1] == {"setParameter": 1, "ttlMonitorSleepSecs": 5}


def test_a_user_who_may_not_see_the_profiler_reloads_the_rest(
    client: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(FakeClient, "hides_profile", True)
    conf = tmp_path / "mongod.conf"
    conf.write_text("setParameter:\n  ttlMonitorSleepSecs: 5\n")
    assert main(["mongodb://h/", "--values"]) == main(["mongodb://h/", "--reload", str(conf)]) == 0
    assert client[-1] == {"setParameter": 1, "ttlMonitorSleepSecs": 5}


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("url", "login"),
    [
        ("mongodb://a%40b@h/?authSource=admin", ("a@b", "p,=w")),
        ("mongodb://h/", (None, None)),
        ("mongodb://me:own@h/", (None, None)),
        ("mongodb://CN%3Dme@h/?authMechanism=MONGODB-X509", (None, None)),
    ],
)
def test_the_password_comes_from_the_environment(
    url: str, login: tuple[str | None, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGO_PASSWORD", "p,=w")
    assert main([url, "--ping"]) == 0
    assert FakeClient.logins == [(url, *login)]


def test_a_reload_of_named_settings_leaves_the_others(client: list[dict[str, Any]], tmp_path: Path) -> None:
    conf = tmp_path / "mongod.conf"
    conf.write_text("setParameter:\n  ttlMonitorSleepSecs: 5\nstorage:\n  syncPeriodSecs: 20\n")
    assert "{changed}" in (catalogue().lifecycle.reload or "")
    assert main(["mongodb://h/", "--reload", str(conf), "storage.syncPeriodSecs"]) == 0
    assert [command for command in client if "setParameter" in command] == [{"setParameter": 1, "syncdelay": 20}]


def test_a_reload_of_a_file_with_a_mark_before_its_first_character_works(
    client: list[dict[str, Any]], tmp_path: Path
) -> None:
    conf = tmp_path / "mongod.conf"
    conf.write_text("setParameter:\n  ttlMonitorSleepSecs: 5\n", encoding="utf-8-sig")
    assert main(["mongodb://127.0.0.1:27017/", "--reload", str(conf)]) == 0
    assert client[-1] == {"setParameter": 1, "ttlMonitorSleepSecs": 5}


def test_a_wrong_address_is_told(client: list[dict[str, Any]]) -> None:
    with pytest.raises(TargetError, match="the address of the mongod cannot be read: Invalid URI scheme"):
        Mongod("http://x")


def test_the_missing_client_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymongo", None)
    with pytest.raises(TargetError, match="needs the package pymongo") as raised:
        Mongod("mongodb://h/")
    assert raised.value.hint == "pip install 'trimtab[mongodb]'"


def test_the_reload_of_the_catalogue_says_what_goes_back(client: list[dict[str, Any]], tmp_path: Path) -> None:
    conf = tmp_path / "mongod.conf"
    conf.write_text("storage:\n  dbPath: /data\n")
    assert "{back}" in (catalogue().lifecycle.reload or "")
    address = f"{ENGINE}eviction_trigger"
    assert main(["mongodb://h/", "--reload", str(conf), "setParameter.ttlMonitorSleepSecs=50", f"{address}=90"]) == 0
    assert client[-2:] == [
        {"setParameter": 1, "ttlMonitorSleepSecs": 50},
        {"setParameter": 1, RUNTIME: "eviction_dirty_target=10,eviction_trigger=90"},
    ]


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.needs("secantus", "pymongo")
def test_commands_log_in_with_a_password_that_no_command_line_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By SCRAM-SHA-256, at a server that is no mongod; the words of each command are what its process is started with."""
    require("secantus", "pymongo")
    with private_mongodb(tmp_path) as port:
        admin = Mongod(f"mongodb://127.0.0.1:{port}/")
        admin.run({"createUser": "tuner", "pwd": "p:/w,=@x", "roles": [{"role": "root", "db": "admin"}]})
        admin.close()
    monkeypatch.delenv("MONGO_PASSWORD", raising=False)
    conf = tmp_path / "mongod.conf"
    conf.write_text("net:\n  port: 1\n")
    with private_mongodb(tmp_path, "--auth") as port:

        def target(user: str) -> Any:
            table = {
                "names": {"server": f"mongodb://{user}@127.0.0.1:{port}/?authSource=admin"},
                "files": {"conf": str(conf)},
            }
            more = {"run": f"{PYTHON} -V", "url": f"mongodb://{user}@127.0.0.1:{port}/"}
            return plugins.load("targets", "mongodb").from_settings("db", {**table, **more}, state_dir=tmp_path)

        def pinged(user: str) -> Any:
            reach = target(user)._reach
            return reach.ask(reach.settings.health)

        asked = pinged("tuner:p%3A%2Fw%2C%3D%40x")
        assert (asked.exit_code, asked.output) == (0, "")
        assert not any("p%3A" in word or "p:/w" in word for word in asked.argv)
        assert pinged("tuner:wrong-one").exit_code == 1
        assert pinged("tuner").exit_code == 1
        monkeypatch.setenv("MONGO_PASSWORD", "p:/w,=@x")
        assert pinged("tuner").exit_code == 0
        assert target("tuner")._reach.endpoint().password == "p:/w,=@x"
