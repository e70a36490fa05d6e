"""What goes wrong with a Cassandra node: who is blamed, what is said, and that it is as found afterwards.

In the quick form the log's lines stand for the real node that writes them: `test_what_a_node_said_is_blamed_on_the_right_cause`
in test_cassandra.py. A heap that does not fit, other configs that are refused before a start, and a consistency that cannot be
met are there, too.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.systems.cassandra_node import cassandra, quiet, ycsb
from tests.systems.private import killed
from trimtab.errors import ApplyError, LoadError, RestoreError, TargetError
from trimtab.records import Fault, Role, Status, Trial
from trimtab.space import Config, Knob, KnobKind, Value
from trimtab.study import load_study_file, open_stage, recover
from trimtab.study.stage import Stage
from trimtab.systems import cql
from trimtab.systems.session import LoginRefusedError
from trimtab.trial import MeasurePlan, TrialRoom
from trimtab.workload import Frame

RELEASE = "SELECT release_version FROM system.local"
PLAN = MeasurePlan(window_s=1, window_max_s=1, warmup_floor_s=0, warmup_cap_s=0)
STUDY = """
[study]
name = "faults"
budget = "2 trials"

[target.db]
kind = "cassandra"
embedded = "5.0"
memory = "2GiB"
knobs = ["concurrent_reads", "commitlog_sync"]
unlock = ["durability"]
restart_timeout_s = 400

[workload]
kind = "ycsb"
workload = "A"
records = 500
operation_timeout = "60s"

[workload.load]
users = 4
"""


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of something that answers each connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError, struct.error):
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
def test_settings_are_read_over_tls_where_the_url_says_so() -> None:
    first: list[bytes] = []
    with listening(lambda connection: first.append(connection.recv(1))) as port:
        for end in ("", "?sslmode=disable", "?sslmode=require"):
            with pytest.raises(TargetError, match=r"the node at 'cql://.*' does not answer"):
                cql.cql_rows(f"cql://127.0.0.1:{port}/{end}", RELEASE)
    assert [byte for byte in first if byte == b"\x16"] == first[-1:], "a handshake of TLS begins so"
    assert first[0] == b"\x05", "a greeting of the protocol's version 5"


def refusing(connection: socket.socket) -> None:
    """A node of the protocol's version 4 that asks for a password and takes none."""
    while True:
        version, _, stream, opcode, length = struct.unpack(">BBhBI", connection.recv(9, socket.MSG_WAITALL))
        connection.recv(length, socket.MSG_WAITALL)
        code, words = (
            (0x000A, b"version 4, please") if version != 4 else (0x0100, b"username me and/or password are wrong")
        )
        kind, body = 0x00, struct.pack(">ih", code, len(words)) + words
        if version == 4 and opcode == 0x01:
            name = b"org.apache.cassandra.auth.PasswordAuthenticator"
            kind, body = 0x03, struct.pack(">h", len(name)) + name
        connection.sendall(struct.pack(">BBhBI", 0x84, 0, stream, kind, len(body)) + body)


def test_a_wrong_password_is_no_fault_of_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with listening(refusing) as port:
        with pytest.raises(
            LoginRefusedError, match=r"asks for a password \(.*PasswordAuthenticator\), and none is given"
        ):
            cql.cql_rows(f"cql://127.0.0.1:{port}/", RELEASE)
        log_in_as(tmp_path, "me", "ho%rse")
        with pytest.raises(LoginRefusedError, match="0x0100 username me and/or password are wrong") as caught:
            cql.cql_rows(f"cql://me@127.0.0.1:{port}/", RELEASE)
    assert caught.value.hint == "give the user in url, and its password in ~/.cassandra/credentials, as for cqlsh"
    assert "ho%rse" not in caught.value.message


def test_a_user_who_lacks_a_right_is_told_which_and_not_of_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """system_views is not among what every user may read, other than the tables of the schema."""
    words = "0x2100 User me has no SELECT permission on <table system_views.settings> or any of its parents"

    def rows(*_: object, **__: object) -> None:
        raise PermissionError(words)

    @contextmanager
    def console(_url: str) -> Iterator[Any]:
        yield SimpleNamespace(rows=rows)

    monkeypatch.setattr(cql, "_console", console)
    with pytest.raises(
        LoginRefusedError, match="does not allow its user 'SELECT name, value FROM .*: 0x2100 User me"
    ) as no:
        cql.cql_settings("cql://me@127.0.0.1:9042/")
    assert (no.value.hint or "").startswith("GRANT it that: a study reads KEYSPACE system_views")


def log_in_as(home: Path, user: str, password: str) -> None:
    """What cqlsh and Trimtab log in with from now on."""
    (home / ".cassandra").mkdir(exist_ok=True)
    text = f"[PlainTextAuthProvider]\nusername = {user}\npassword = {password}\n"
    (home / ".cassandra" / "credentials").write_text(text)


@dataclass
class Bench:
    """A trial room on a private node.

    Attributes:
        on_step: step -> what is done once when the room announces it.
        on_second: what is done once in the first second of a load.
        said: what the room told people.
    """

    stage: Stage
    on_step: dict[str, Callable[[], object]] = field(default_factory=dict)
    on_second: Callable[[], object] | None = None
    said: list[str] = field(default_factory=list)

    @property
    def target(self) -> Any:
        return self.stage.stack.tiers[0].target

    @property
    def folder(self) -> Path:
        found: Path = self.target._reach.folder
        return found

    def step(self, name: str) -> None:
        self.on_step.pop(name, lambda: None)()

    def second(self, frame: Frame) -> None:
        act, self.on_second = self.on_second, None
        if act is not None:
            act()

    def run(self, room: TrialRoom, **changes: Value) -> Trial:
        return room.run(self.stage.baseline.replace(changes), number=0, role=Role.SEARCH, plan=PLAN, seed=1)


@pytest.fixture(scope="module")
def bench(state_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    path = tmp_path_factory.mktemp("faults") / "study.toml"
    path.write_text(STUDY)
    with open_stage(load_study_file(path), state_dir) as stage, stage.stack.lock("test"):
        stage.workload.prepare(stage.stack.endpoint(), quiet)
        yield Bench(stage)


@contextmanager
def room_of(bench: Bench, state_dir: Path) -> Iterator[TrialRoom]:
    stage = bench.stage
    room = TrialRoom(
        stage.stack, stage.workload, stage.space, stage.baseline,
        objective=stage.objective, state_dir=state_dir, study="faults", say=bench.said.append, listener=bench,
    )  # fmt: skip
    with room:
        yield room


def on_a_node(test: Any) -> Any:
    """The marks of a test that starts one several times."""
    for mark in (pytest.mark.service, pytest.mark.slow, pytest.mark.full, pytest.mark.needs("cassandra", "java")):
        test = mark(test)
    return test


@on_a_node
def test_a_config_that_the_node_refuses_is_rejected_with_its_words(bench: Bench, state_dir: Path) -> None:
    """The period of the other way to sync stands in its file, which only the node knows to be wrong."""
    yaml = bench.folder / "conf" / "cassandra.yaml"
    before = yaml.read_text()
    with room_of(bench, state_dir) as room:
        trial = bench.run(room, commitlog_sync="batch")
        assert (trial.status, trial.fault) == (Status.CRASHED, Fault.CONFIG)
        assert "commitlog_sync_period" in trial.reason
        assert yaml.read_text() == before
        bench.target.health()


@on_a_node
def test_a_node_that_is_killed_under_load_is_no_fault_of_the_config(bench: Bench, state_dir: Path) -> None:
    bench.said.clear()
    before = (bench.folder / "conf" / "cassandra.yaml").read_text()
    with room_of(bench, state_dir) as room:
        bench.on_second = lambda: killed(bench.target)
        trial = bench.run(room, concurrent_reads=50)
        assert (trial.status, trial.fault) == (Status.OK, Fault.NONE), trial.reason
        assert any("ended by signal 9, sent by somebody else" in said for said in bench.said), bench.said
    bench.target.health()
    assert (bench.folder / "conf" / "cassandra.yaml").read_text() == before


def tried_in_a_room(bench: Bench, state_dir: Path) -> None:
    with room_of(bench, state_dir) as room:
        bench.run(room, concurrent_reads=50)


def unreadable_table(folder: Path) -> Path:
    """A file of data of a version that this one does not know."""
    (home,) = (folder / "data" / "system").glob("local-*")
    return home / "zz-77-big-Data.db"


def broken_log(folder: Path) -> Path:
    """A commit log whose head is damaged."""
    return folder / "commitlog" / "CommitLog-8-1795432347368.log"


@on_a_node
@pytest.mark.parametrize(
    ("place", "words"),
    [(unreadable_table, "unreadable sstables"), (broken_log, "Could not read commit log descriptor")],
)
def test_data_that_the_node_cannot_read_are_no_fault_of_the_config(
    bench: Bench, state_dir: Path, place: Callable[[Path], Path], words: str
) -> None:
    yaml = bench.folder / "conf" / "cassandra.yaml"
    before, harm = yaml.read_text(), place(bench.folder)

    def spoil() -> None:
        harm.write_bytes(b"\xff" * 64)
        owner = harm.parent.stat()
        os.chown(harm, owner.st_uid, owner.st_gid)

    try:
        bench.on_step["apply"] = spoil
        with pytest.raises(RestoreError, match="the environment is at fault and not the config") as caught:
            tried_in_a_room(bench, state_dir)
        assert words in caught.value.message
        assert yaml.read_text() == before
    finally:
        harm.unlink(missing_ok=True)
    bench.target._reach.ensure_up()
    recover(state_dir)
    bench.target.health()
    assert yaml.read_text() == before


@on_a_node
def test_a_node_takes_either_name_of_a_setting_and_not_both(state_dir: Path) -> None:
    """So a knob whose file has the earlier one is locked; a key without a value gets one and loses it again."""
    node = cassandra(state_dir, "names")
    node.open()
    try:
        yaml = node._reach.folder / "conf" / "cassandra.yaml"
        text = yaml.read_text().replace(
            "compaction_throughput: 64MiB/s", "compaction_throughput_mb_per_sec: 32\nkey_cache_size:"
        )
        yaml.write_text(text)
        node._reach.restart()
        found, states = node.snapshot(), node.states()
        assert states["compaction_throughput"].running == 32
        assert "its earlier name, compaction_throughput_mb_per_sec" in states["compaction_throughput"].lock_reason
        assert node.apply(Config({"key_cache_size": 16})).effective == {"key_cache_size": 16}
        assert "\nkey_cache_size: 16MiB\n" in yaml.read_text()
        node.restore(found)
        assert yaml.read_text() == text
        yaml.write_text(f"{text}compaction_throughput: 32MiB/s\n")
        with pytest.raises(TargetError, match="the program is down"):
            node._reach.restart()
        assert "compaction_throughput_mb_per_sec" in node.log_excerpt()
        yaml.write_text(text)
        node._reach.ensure_up()
    finally:
        node.close()


AGAINST_RULES = {
    "counter_cache_size", "key_cache_size", "memtable_heap_space",
    "native_transport_max_request_data_in_flight", "native_transport_max_request_data_in_flight_per_ip",
}  # fmt: skip
"""Knobs an end of whose range breaks a rule of the catalogue while all else is as found."""


def outermost(knob: Knob) -> list[Value]:
    """Values that a node may not take although the catalogue has them."""
    if knob.kind is KnobKind.BOOLEAN:
        return [True, False]
    return list(knob.choices) if knob.choices else [knob.low or 0, knob.high or 0, *knob.special]


@on_a_node
def test_the_node_takes_and_tells_every_special_value_choice_and_end_of_a_range(state_dir: Path) -> None:
    node = cassandra(state_dir, "values", memory="8GiB")
    node.open()
    try:
        found, states, yaml = node.snapshot(), node.states(), node._reach.folder / "conf" / "cassandra.yaml"
        before = yaml.read_text()
        open_ones = [n for n, s in states.items() if not s.lock_reason and node.catalog.channel_of(n) == "yaml"]
        left = {(name, value) for name in open_ones for value in outermost(states[name].knob)}
        assert len(open_ones) > 60
        while config := _fitting(node, left):
            node.apply(Config(config))
            left -= set(config.items())
        assert {name for name, _ in left} <= AGAINST_RULES, left
        node.restore(found)
        assert yaml.read_text() == before
    finally:
        node.close()


def _fitting(node: Any, left: set[tuple[str, Value]]) -> dict[str, Value]:
    """One value of each knob, as far as they are allowed together."""
    config: dict[str, Value] = {}
    for name, value in sorted(left, key=str):
        if name not in config:
            with suppress(ApplyError):
                node.preflight(Config({**config, name: value}))
                config[name] = value
    return config


ENCRYPTED = """
authenticator: PasswordAuthenticator
client_encryption_options:
  enabled: true
  keystore: {store}
  keystore_password: changeit
  store_type: PKCS12
"""


@pytest.fixture
def secured(state_dir: Path) -> Iterator[tuple[str, Path]]:
    """The url of a node that takes encrypted connections with a password alone, and its certificate."""
    node = cassandra(state_dir, "secured")
    node.open()
    url, conf = node._reach.filled("{url}"), node._reach.folder / "conf"
    store, certificate = conf / "keystore.p12", conf / "node.pem"
    keytool = ["keytool", "-keystore", str(store), "-storepass", "changeit", "-alias", "node", "-noprompt"]
    name = ["-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1"]
    try:
        node._reach._process.stop(immediate=True)
        subprocess.run([*keytool, "-genkeypair", "-keyalg", "RSA", "-storetype", "PKCS12", *name], check=True)
        subprocess.run([*keytool, "-exportcert", "-rfc", "-file", str(certificate)], check=True)
        store.chmod(0o644)
        with (conf / "cassandra.yaml").open("a") as file:
            file.write(ENCRYPTED.format(store=store))
        with (conf / "jvm.options").open("a") as file:
            file.write("-Dcassandra.superuser_setup_delay_ms=0\n")
        node._reach._process.start()
        yield url, certificate
    finally:
        if node._reach.pid is not None:
            killed(node)
        node.close()


def answers(url: str) -> None:
    """Waits until it lets us in."""
    until = time.monotonic() + 300
    while True:
        with suppress(TargetError):
            cql.cql_rows(url, RELEASE)
            return
        assert time.monotonic() < until
        time.sleep(0.2)


@on_a_node
def test_a_real_node_with_a_password_over_tls(
    secured: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    url, certificate = secured
    mine = url.replace("cql://", "cql://cassandra@") + f"?sslmode=verify-full&sslrootcert={certificate}"
    log_in_as(tmp_path, "cassandra", "cassandra")
    answers(mine)
    ycsb("A").prepare(cql.cql_endpoint(mine, {}), quiet)
    with pytest.raises(TargetError, match="does not answer"):
        cql.cql_rows(mine.partition("?")[0], RELEASE)
    with pytest.raises(LoginRefusedError, match="and none is given"):
        cql.cql_rows(f"{url}?sslmode=require", RELEASE)
    log_in_as(tmp_path, "cassandra", "wrong")
    with pytest.raises(LoginRefusedError, match="0x0100 Provided username .* and/or password are incorrect"):
        cql.cql_rows(mine, RELEASE)
    with pytest.raises(LoadError, match=r"cannot connect: endpoint=.*password are incorrect") as caught:
        ycsb("A").prepare(cql.cql_endpoint(mine, {}), quiet)
    assert "that this user may log in" in (caught.value.hint or "")
