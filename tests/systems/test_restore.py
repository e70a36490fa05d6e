"""Restore gives back the very bytes and values, from any state, as often as it is asked."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from tests.commands import start_script
from tests.servers.embedded import provide
from trimtab.errors import RestoreError
from trimtab.host import LocalHost
from trimtab.space import Config
from trimtab.systems import Own, Snapshot
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.autoconf import reload_and_wait
from trimtab.systems.postgresql.reach import AUTO_CONF

pytestmark = pytest.mark.service


def auto_conf(target: PostgresTarget) -> Path:
    assert target._reach.data_dir is not None
    return target._reach.data_dir / AUTO_CONF


def test_a_snapshot_survives_json(target: PostgresTarget) -> None:
    snapshot = target.snapshot()
    assert Snapshot(**json.loads(json.dumps(asdict(snapshot)))) == snapshot


def test_bytes_mode_and_owner_come_back(target: PostgresTarget) -> None:
    path = auto_conf(target)
    host = LocalHost()
    original = host.read_file(path)
    assert original is not None
    odd = type(original)(
        content=b"# by hand: \xfc\xff\nwork_mem = '5MB'\n", mode=0o640, uid=original.uid, gid=original.gid
    )
    host.write_file(path, odd)
    reload_and_wait(target._reach.connect)
    found = target.snapshot()
    target.apply(Config({"work_mem": 8192, "shared_buffers": 20000}))
    assert host.read_file(path) != odd
    target.restore(found)
    assert host.read_file(path) == odd
    target.restore(found)
    assert host.read_file(path) == odd
    assert target.states()["work_mem"].running == 5120
    host.write_file(path, original)
    reload_and_wait(target._reach.connect)


@pytest.mark.slow
def test_what_the_server_had_computed_comes_back_by_a_restart(target: PostgresTarget) -> None:
    """The files say -1 of it, and what was found is a number."""
    found = target.snapshot()
    name = "io_max_concurrency" if "io_max_concurrency" in found.values else "wal_buffers"
    assert target.apply(Config({name: 8})).restarted
    done = target.restore(found)
    assert (done.restarted, done.left) == (True, ())
    assert target.states()[name].running == found.values[name]


def test_letters_of_somebody_else_s_are_no_ends_of_lines(target: PostgresTarget) -> None:
    """As a change that failed before it was finished: what is ours is then found line by line."""
    found = target.snapshot()
    own = target.announce(Config({"work_mem": 8192}))
    with target._reach.connect() as connection:
        connection.execute("ALTER SYSTEM SET log_line_prefix = 'х ą %m '")
        connection.execute("ALTER SYSTEM SET work_mem = '8MB'")
    reload_and_wait(target._reach.connect)
    pid = target._reach.pid
    target.restore(found, own)
    text = auto_conf(target).read_text()
    assert "log_line_prefix = 'х ą %m '" in text
    assert "work_mem" not in text
    assert target.states()["work_mem"].running == 4096
    assert target._reach.pid == pid


def test_restart_only_when_a_value_needs_it(target: PostgresTarget) -> None:
    found = target.snapshot()
    pid = target._reach.pid
    target.apply(Config({"work_mem": 8192}))
    target.restore(found)
    assert target._reach.pid == pid
    target.apply(Config({"shared_buffers": 20000}))
    restarted = target._reach.pid
    target.restore(found)
    assert len({pid, restarted, target._reach.pid}) == 3
    assert target.states()["shared_buffers"].running == found.values["shared_buffers"]


def test_a_missing_file_is_missing_again(target: PostgresTarget) -> None:
    path = auto_conf(target)
    host = LocalHost()
    original = host.read_file(path)
    assert original is not None
    host.remove_file(path)
    found = target.snapshot()
    target.apply(Config({"work_mem": 8192}))
    assert path.exists()
    target.restore(found)
    assert not path.exists()
    host.write_file(path, original)


def test_a_server_that_is_down_comes_up(target: PostgresTarget) -> None:
    found = target.snapshot()
    target.apply(Config({"work_mem": 8192}))
    pid = target._reach.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    target.restore(found)
    target.health()
    assert target.states()["work_mem"].running == 4096


def test_a_file_that_somebody_else_has_broken_is_not_touched(target: PostgresTarget) -> None:
    found = target.snapshot()
    target.apply(Config({"work_mem": 8192, "shared_buffers": 20000}))
    path, pid = auto_conf(target), target._reach.pid
    ours = path.read_bytes()
    broken = ours + b"work_mem = = 'x\n"
    path.write_bytes(broken)
    with pytest.raises(RestoreError, match="was changed by somebody else since, and cannot be parsed") as caught:
        target.restore(found)
    assert "repair or remove the wrong line" in str(caught.value.hint)
    assert path.read_bytes() == broken
    assert target._reach.pid == pid, "nothing was restarted"
    path.write_bytes(ours)
    target.restore(found)
    assert target.snapshot().files == found.files
    assert target.states()["work_mem"].running == 4096


def test_a_server_that_hangs_is_restarted(target: PostgresTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.systems.postgresql.session.CONNECT_TIMEOUT_S", 2)
    found = target.snapshot()
    target.apply(Config({"work_mem": 8192}))
    pid = target._reach.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    target.restore(found)
    assert target.states()["work_mem"].running == 4096


def test_a_server_killed_under_a_config_is_rescued(target: PostgresTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    from trimtab.errors import ApplyError

    found = target.snapshot()
    pid = target._reach.pid
    assert pid is not None

    def die(connect: object) -> None:
        os.kill(pid, signal.SIGKILL)
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        monkeypatch.undo()
        target._reach.connect()

    monkeypatch.setattr("trimtab.systems.postgresql.change.reload_and_wait", die)
    with pytest.raises(ApplyError, match="cannot connect to the server"):
        target.apply(Config({"work_mem": 8192}))
    target.health()
    assert target.snapshot() == found


def test_a_snapshot_of_another_server_is_refused(target: PostgresTarget) -> None:
    found = target.snapshot()
    other = Snapshot(
        target="x",
        kind="postgresql",
        reach=found.reach,
        files={"/etc/passwd": {"content": "", "mode": 0o600, "uid": 0, "gid": 0}},
        values=found.values,
    )
    with pytest.raises(RestoreError, match="file='/etc/passwd' is not this server's") as caught:
        target.restore(other)
    assert caught.value.hint == "use the study's own target"


def test_files_of_another_server_are_not_touched(target: PostgresTarget) -> None:
    found = target.snapshot()
    own = target.apply(Config({"work_mem": 8192})).own
    before = auto_conf(target).read_bytes()
    with pytest.raises(
        RestoreError, match="work_mem=8MB: not touched, because it is not known to be the server"
    ) as caught:
        target.restore(found, replace(own, picture={**own.picture, "identifier": "1"}))
    assert "`trimtab recover --show`" in str(caught.value.hint)
    assert auto_conf(target).read_bytes() == before


_TUNER = """
import json, sys, time
from dataclasses import asdict, replace
from pathlib import Path
from trimtab.space import Config
from trimtab.systems import Own
from trimtab.systems.postgresql import PostgresTarget
target = PostgresTarget.from_settings(
    "killed", {"kind": "postgresql", "embedded": sys.argv[1], "memory": "1GiB"}, state_dir=Path(sys.argv[2])
)
target.open()
print(json.dumps(asdict(target.snapshot())), flush=True)
configs = [
    Config({"work_mem": work_mem, "shared_buffers": shared_buffers, "random_page_cost": 1.5})
    for work_mem, shared_buffers in ((8192, 20000), (16384, 24000))
]
own = Own()
for config in configs:
    own = target.announce(config).over(own)
print(json.dumps(asdict(own)), flush=True)
while True:
    for config in configs:
        target.apply(config)
        print("applied", flush=True)
"""


@pytest.mark.parametrize(
    ("version", "delay_s"),
    [
        ("18", 0.0),
        pytest.param("18", 0.03, marks=pytest.mark.full),
        ("18", 0.08),
        ("18", None),
        *(pytest.param("16", delay_s, marks=pytest.mark.full) for delay_s in (0.05, None)),
    ],
)
def test_a_tuner_killed_at_any_moment_leaves_nothing_that_recover_cannot_undo(
    version: str, delay_s: float | None, state_dir: Path, cache: Path
) -> None:
    provide(cache, version, name="killed")
    with start_script(_TUNER, version, state_dir) as process:
        assert process.stdout is not None
        found = Snapshot(**json.loads(process.stdout.readline()))
        own = Own(**json.loads(process.stdout.readline()))
        if delay_s is None:
            assert process.stdout.readline() == "applied\n"
        else:
            time.sleep(delay_s)
        process.kill()
    recovered = PostgresTarget.from_snapshot(found, state_dir=state_dir)
    try:
        recovered.restore(found, own)
        assert recovered.snapshot() == found
        recovered.restore(found, own)
    finally:
        recovered.close()
    assert recovered._reach.pid is None, "the server outlived its last tuner"
    recovered.close()
