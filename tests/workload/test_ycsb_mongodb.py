"""YCSB over OP_MSG: A to F against a server of MongoDB's protocol that is no mongod, rows checked; passwords, TLS, bad input."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.needs import require
from tests.servers.certificates import Authority
from tests.servers.mongodb import private_mongodb
from trimtab.errors import LoadError
from trimtab.measure import SecondLog
from trimtab.records import Endpoint
from trimtab.workload.mongodb_access import mongodb_access
from trimtab.workload.server import ServerError, store_of
from trimtab.workload.server.mongodb import MongoSession, mongodb_url
from trimtab.workload.ycsb import YcsbWorkload

RECORDS = 300


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    require("secantus", "pymongo")
    with private_mongodb(tmp_path_factory.mktemp("mongodb")) as port:
        yield at(port)


def at(port: int, **more: Any) -> Endpoint:
    return Endpoint(**{"protocol": "mongodb", "host": "127.0.0.1", "port": port, "user": "", "database": "", **more})


def ycsb(**settings: Any) -> YcsbWorkload:
    return YcsbWorkload.from_settings(
        {"kind": "ycsb", "records": RECORDS, "load": {"users": 2, "think": "5ms"}, **settings}
    )


def ran(workload: YcsbWorkload, endpoint: Endpoint) -> SecondLog:
    workload.prepare(endpoint, lambda text: None)
    workload.reset(endpoint, lambda text: None)
    run = workload.start(endpoint, seed=1, duration_s=60.0)
    try:
        while run.frame(60.0) is None:
            assert not run.is_done
    finally:
        log = run.stop()
        workload.clean_up(endpoint)
    assert isinstance(log, SecondLog)
    return log


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.needs("secantus", "pymongo")
class TestServed:
    @pytest.mark.parametrize("letter", ["A", "B", "C", "D", "E", "F"])
    def test_core_workloads_run_and_their_rows_are_checked(self, endpoint: Endpoint, letter: str) -> None:
        log = ran(ycsb(workload=letter, read_all_fields=letter != "A"), endpoint)
        assert (log.errors, log.error_classes) == ((), {})
        assert log.credited.sum() > 1

    def test_prepared_data_is_kept_and_a_run_works_on_a_copy(self, endpoint: Endpoint) -> None:
        workload = ycsb(workload="D")
        ran(workload, endpoint)
        assert workload.prepare(endpoint, lambda text: None).was_cached
        store = store_of(endpoint)
        with store.connect(workload.settings.database) as session:
            assert session.n_records() == RECORDS  # type: ignore[attr-defined]
            assert not store.exists(session, workload.database.name)

    def test_somebody_elses_database_is_left_alone(self, endpoint: Endpoint) -> None:
        with store_of(endpoint).connect("theirs") as session:
            session.client["theirs"]["things"].insert_one({"_id": 1})  # type: ignore[attr-defined]
        with pytest.raises(LoadError, match="database=theirs exists and was not made by Trimtab"):
            ycsb(workload="C", database="theirs").prepare(endpoint, lambda text: None)

    def test_wrong_rows_are_seen(self, endpoint: Endpoint) -> None:
        ycsb(workload="C", field_length=50, database="shape").prepare(endpoint, lambda text: None)
        run = ycsb(workload="C", database="shape").start(endpoint, seed=1, duration_s=60.0)
        assert run.frame(60.0) is not None
        log = run.stop()
        assert isinstance(log, SecondLog)
        assert set(log.error_classes) == {"validation"}

    def test_users_log_in_and_others_do_not(self, tmp_path: Path) -> None:
        require("openssl")
        authority = Authority.made(tmp_path)
        certificate, key = authority.sign("server", "/CN=db", names="IP:127.0.0.1")
        with private_mongodb(tmp_path) as port:
            plain = store_of(at(port))
            with plain.connect() as session:
                roles = [{"role": "root", "db": "admin"}]
                session.client.admin.command("createUser", "bench", pwd="p,=w", roles=roles)  # type: ignore[attr-defined]
        more = ("--auth", "--tls-cert-file", str(certificate), "--tls-key-file", str(key))
        options = {"tls": "true", "tlsCAFile": str(authority.root), "authSource": "admin"}
        with private_mongodb(tmp_path, *more) as port:
            known = at(port, user="bench", password="p,=w", options=options)
            assert ran(ycsb(workload="C"), known).errors == ()
            workload = ycsb(workload="C")
            stranger = at(port, user="bench", password="wrong-one", options=options)
            with pytest.raises(LoadError, match="cannot log in") as raised:
                workload.start(stranger, seed=1, duration_s=1.0)
            assert "wrong-one" not in raised.value.message
            with pytest.raises(LoadError, match="the load cannot connect"):
                workload.start(at(port, user="bench", password="p,=w"), seed=1, duration_s=1.0)


@pytest.mark.needs("pymongo")
def test_a_server_that_goes_away_during_a_copy_is_named_as_trouble_of_the_load() -> None:
    """The error comes with the second batch of records, and not from the call that asks for them."""
    require("pymongo")
    from pymongo.errors import AutoReconnect, PyMongoError

    def records() -> Iterator[dict[str, Any]]:
        yield from ({"_id": i} for i in range(1500))
        raise AutoReconnect("connection closed")

    def refused(*_: Any) -> None:
        raise PyMongoError("$out into another database")

    kept: list[int] = []
    collection = SimpleNamespace(
        find=records, aggregate=refused, find_one=lambda _: {"_id": 1}, replace_one=lambda *_, **__: None,
        insert_many=lambda batch: kept.append(len(batch)),
    )  # fmt: skip
    session = MongoSession.__new__(MongoSession)
    session._error = PyMongoError
    session.client = defaultdict(lambda: defaultdict(lambda: collection))
    with pytest.raises(ServerError, match="connection closed"):
        store_of(at(1)).clone(session, "data", "copy")
    assert kept == [1000]


def test_an_address_has_its_options_and_no_password() -> None:
    options = {"tls": "true", "folder": "/x", "value.a": "1", "authSource": "admin"}
    url = mongodb_url(at(27017, user="me", password="horse", options=options))
    assert url == "mongodb://127.0.0.1:27017/?tls=true&authSource=admin"
    assert mongodb_url(at(27017, host="fe80::1")) == "mongodb://[fe80::1]:27017/?"


@pytest.mark.parametrize(
    ("options", "tls"),
    [
        ({}, "disable"),
        ({"tls": "true"}, "verify-full"),
        ({"ssl": "true", "tlsAllowInvalidHostnames": "true"}, "verify-ca"),
        ({"tls": "true", "tlsAllowInvalidCertificates": "true"}, "require"),
    ],
)
def test_tls_is_that_of_the_address(options: dict[str, str], tls: str) -> None:
    assert mongodb_access(at(1, options=options))["tls"] == tls


def test_another_mechanism_is_refused() -> None:
    with pytest.raises(LoadError, match="does not speak authMechanism=MONGODB-X509") as raised:
        mongodb_access(at(1, options={"authMechanism": "MONGODB-X509"}))
    assert raised.value.hint == "use a user of SCRAM-SHA-256"


def test_nobody_at_the_port() -> None:
    with pytest.raises(LoadError, match="the load cannot connect: endpoint=mongodb://"):
        ycsb(workload="C").start(at(1), seed=1, duration_s=1.0)
