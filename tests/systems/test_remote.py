"""A server that is somebody else's: over TCP with a password, with and without its files and a restart command."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.commands import PYTHON
from tests.servers import free_port
from tests.systems.conftest import Server
from trimtab.errors import ApplyError, LockedError, NoRestartError, RestoreError, TargetError, UsageError
from trimtab.records import Context, Fault, Machine
from trimtab.space import Config
from trimtab.systems.postgresql import PostgresTarget

pytestmark = pytest.mark.service

CONTEXT = Context(workload="test", clients=4, read_share=0.5)
DENIED = (
    "this user may not change any setting of the server; GRANT ALTER SYSTEM ON PARAMETER work_mem, ... TO the user "
    "(PostgreSQL 15+), or use a superuser."
)


def made(server: Server, state_dir: Path, table: dict[str, object]) -> PostgresTarget:
    return PostgresTarget.from_settings("own", table, state_dir=state_dir)


@pytest.fixture
def local(server: Server, state_dir: Path) -> Iterator[PostgresTarget]:
    target = made(server, state_dir, server.table())
    target.open()
    found = target.snapshot()
    yield target
    target.restore(found)
    target.close()


@pytest.fixture
def remote(server: Server, state_dir: Path) -> Iterator[PostgresTarget]:
    target = made(server, state_dir, {"kind": "postgresql", "url": server.url(), "memory": "1GiB"})
    target.open()
    found = target.snapshot()
    yield target
    target.restore(found)
    target.close()


@pytest.fixture
def limited(server: Server) -> Iterator[str]:
    """A user without ALTER SYSTEM rights."""
    with server.admin() as admin:
        admin.execute("CREATE ROLE tuner LOGIN PASSWORD 'let-me-in'")
    yield server.url(user="tuner", password="let-me-in")
    with server.admin() as admin:
        admin.execute("DROP OWNED BY tuner")
        admin.execute("DROP ROLE tuner")


def test_with_files_and_restart_everything_works(local: PostgresTarget) -> None:
    found = local.snapshot()
    local.preflight(Config({"shared_buffers": 20000}))
    assert local.apply(Config({"shared_buffers": 20000, "work_mem": 8192})).restarted
    local.restore(found)
    assert local.snapshot() == found
    with pytest.raises(ApplyError, match="shared_memory="):
        local.preflight(Config({"shared_buffers": 1 << 20}))


def test_a_start_that_fails_is_rescued_with_the_servers_log(local: PostgresTarget) -> None:
    found = local.snapshot()
    with pytest.raises(ApplyError, match="the restart command=.* failed with exit_code=1") as caught:
        local.apply(Config({"shared_buffers": 1 << 29}))
    assert "could not map anonymous shared memory" in caught.value.log_excerpt
    local.health()
    assert local.snapshot() == found


def test_by_connection_only_restart_knobs_are_locked(remote: PostgresTarget) -> None:
    states = remote.states()
    assert (
        states["shared_buffers"].lock_reason
        == "needs a restart, and the study file gives no data_dir and restart command"
    )
    assert not states["work_mem"].lock_reason
    assert "shared_buffers" not in remote.selection(Context(workload="test", clients=4, read_share=0.5))
    with pytest.raises(ApplyError, match="knob='shared_buffers' may not be changed: needs a restart"):
        remote.apply(Config({"shared_buffers": 20000}))


def test_by_connection_only_entries_come_back(remote: PostgresTarget) -> None:
    original = remote.snapshot()
    first = remote.apply(Config({"work_mem": 5000, "enable_sort": False})).own
    found = remote.snapshot()
    remote.apply(Config({"work_mem": 8192, "random_page_cost": 1.5}))
    assert remote.states()["enable_sort"].running is False
    remote.restore(found)
    assert remote.snapshot() == found
    remote.restore(original, first)
    assert remote.snapshot() == original
    assert original.files == {}


def test_a_snapshot_finds_its_server_again_without_a_password_in_it(
    local: PostgresTarget, server: Server, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = local.snapshot()
    assert server.password not in str(asdict(found))
    own = local.apply(Config({"work_mem": 8192})).own
    monkeypatch.setenv("PGPASSWORD", server.password)
    again = PostgresTarget.from_snapshot(found, state_dir=state_dir)
    again.restore(found, own)
    assert again.states()["work_mem"].running == 4096
    monkeypatch.delenv("PGPASSWORD")
    pid = local._reach.pid
    with pytest.raises(RestoreError, match="the server asks for a password and none was given"):
        PostgresTarget.from_snapshot(found, state_dir=state_dir).restore(found, own)
    assert local._reach.pid == pid, "a server that only refused the login was restarted"


def test_what_the_url_sets_in_a_session_is_told_to_whoever_drives_a_load(server: Server, state_dir: Path) -> None:
    url = f"{server.url()}?options=-c%20search_path%3Dapp"
    target = made(server, state_dir, {"kind": "postgresql", "url": url, "memory": "1GiB"})
    target.open()
    with closing(target):
        assert target.endpoint().options["options"] == "-c search_path=app"


def test_the_password_is_nowhere(
    server: Server, state_dir: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    target = made(server, state_dir, server.table())
    target.open()
    texts = [
        str(target.doctor()),
        str(target.endpoint()),
        repr(target.endpoint()),
        str(target.snapshot()),
        str(target.machine()),
    ]
    assert target.endpoint().password == server.password
    target.close()
    texts += [caplog.text, *capfd.readouterr()]
    assert not [text for text in texts if server.password in text]


def test_a_wrong_password_is_told_without_it(server: Server, state_dir: Path) -> None:
    table = {"kind": "postgresql", "url": server.url(password="wr0ng-one"), "memory": "1GiB"}
    with pytest.raises(
        TargetError, match=r"the server refused the password: host=127.0.0.1 port=\d+ user=postgres"
    ) as caught:
        made(server, state_dir, table).open()
    assert "wr0ng-one" not in str(caught.value)
    assert ".pgpass" in str(caught.value.hint)


def test_an_unreachable_server_is_told(server: Server, state_dir: Path) -> None:
    url = f"postgresql://postgres@127.0.0.1:{free_port()}/postgres"
    with pytest.raises(TargetError, match="cannot connect to the server: host=127.0.0.1 port="):
        made(server, state_dir, {"kind": "postgresql", "url": url}).open()


def test_a_missing_database_is_told(server: Server, state_dir: Path) -> None:
    with pytest.raises(TargetError, match="the user or the database does not exist"):
        made(server, state_dir, {"kind": "postgresql", "url": server.url(database="none")}).open()


def test_another_data_directory_is_refused(server: Server, state_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"data_dir='.*' is not the server's: it uses '.*data'"):
        made(server, state_dir, server.table(data_dir=str(tmp_path))).open()


def test_a_user_without_rights_is_told_what_to_grant(server: Server, state_dir: Path, limited: str) -> None:
    target = made(server, state_dir, {"kind": "postgresql", "url": limited, "memory": "1GiB"})
    target.open()
    assert target.states()["work_mem"].lock_reason == "this user may not change it (no ALTER SYSTEM privilege)"
    with pytest.raises(TargetError, match="this user may not change any setting of the server") as caught:
        target.selection(Context(workload="test", clients=4, read_share=0.5))
    assert "GRANT ALTER SYSTEM ON PARAMETER work_mem" in str(caught.value.hint)
    seen = target.permitted()
    assert "work_mem" in seen.selection(CONTEXT)
    assert "shared_buffers" not in seen.selection(CONTEXT), "a knob that is locked for another reason"
    assert "work_mem" in seen.advise(CONTEXT)
    assert "work_mem" not in target.advise(CONTEXT)
    (denied,) = [line for line in target.doctor() if line[0] == "changes"]
    assert denied[1:] == (False, f"{DENIED} `trimtab advise` and `trimtab bench` need no right to change")
    hidden = [text for check, is_fine, text in target.doctor() if check == "pending" and not is_fine]
    assert hidden == [
        "this user may not see which settings come from postgresql.auto.conf; "
        "GRANT pg_read_all_settings TO the user (pg_monitor contains it)"
    ]
    with pytest.raises(TargetError, match="may not see which settings come from postgresql.auto.conf") as caught:
        target.snapshot()
    assert "pg_read_all_settings" in str(caught.value.hint)


def test_the_recommended_role_can_do_just_what_was_granted(server: Server, state_dir: Path, limited: str) -> None:
    with server.admin() as admin:
        admin.execute("GRANT ALTER SYSTEM ON PARAMETER work_mem TO tuner")
        admin.execute("GRANT pg_monitor TO tuner")
    target = made(server, state_dir, {"kind": "postgresql", "url": limited, "memory": "1GiB"})
    target.open()
    found = target.snapshot()
    with pytest.raises(TargetError, match="this user may not reload the configuration") as caught:
        target.selection(Context(workload="test", clients=4, read_share=0.5))
    assert caught.value.hint == "GRANT EXECUTE ON FUNCTION pg_reload_conf() TO the user"
    with pytest.raises(ApplyError, match="knob='work_mem' may not be changed: this user may not reload"):
        target.apply(Config({"work_mem": 8192}))
    with server.admin() as admin:
        admin.execute("GRANT EXECUTE ON FUNCTION pg_reload_conf() TO tuner")
    assert target.selection(Context(workload="test", clients=4, read_share=0.5)) == ("work_mem",)
    assert target.apply(Config({"work_mem": 8192})).effective == {"work_mem": 8192}
    with server.admin() as admin:  # as a tuner that dies between its change and its reload
        admin.execute("ALTER SYSTEM SET work_mem = '9MB'")
    target.restore(found, target.announce(Config({"work_mem": 9216})))
    assert target.snapshot() == found
    with server.admin() as admin:
        left = admin.execute("SELECT 1 FROM pg_file_settings WHERE name = 'work_mem'").fetchone()
        admin.execute("REVOKE ALL ON FUNCTION pg_reload_conf() FROM tuner")
    assert left is None


def test_what_is_managed_elsewhere_is_respected(server: Server, state_dir: Path) -> None:
    target = made(server, state_dir, server.table())
    conf = server.data_dir / "postgresql.conf"
    before = conf.read_text()
    conf.write_text(before + "allow_alter_system = off\n")
    server.control("restart")
    try:
        target.open()
        with pytest.raises(TargetError, match=r"the server does not allow ALTER SYSTEM \(allow_alter_system = off\)"):
            target.selection(Context(workload="test", clients=4, read_share=0.5))
        with pytest.raises(ApplyError, match="this server is configured by other means"):
            target.apply(Config({"work_mem": 8192}))
        assert ("alter system", False, "allow_alter_system = off") in target.doctor()
        assert {"work_mem", "shared_buffers"} <= set(target.permitted().selection(CONTEXT))
    finally:
        conf.write_text(before)
        server.control("restart")
        target.close()


def test_a_data_directory_that_cannot_be_written_is_told(local: PostgresTarget, server: Server) -> None:
    server.data_dir.chmod(0o500)
    try:
        with pytest.raises(
            (ApplyError, RestoreError), match=r"the server cannot write postgresql.auto.conf: could not"
        ):
            local.apply(Config({"work_mem": 8192}))
    finally:
        server.data_dir.chmod(0o700)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{PYTHON} -c 'import sys; print(\"no unit\"); sys.exit(5)'", "failed with exit_code=5: no unit"),
        (f"{PYTHON} -c 'import time; time.sleep(60)'", "did not end within timeout_s=1"),
        ("/bin/true", "ended well, but the server was not restarted"),
        ("/no/such/command", "cannot run command='/no/such/command'"),
    ],
)
def test_a_restart_command_that_fails_is_told(
    local: PostgresTarget, server: Server, state_dir: Path, command: str, message: str
) -> None:
    target = made(server, state_dir, server.table(restart=command, restart_timeout_s=1))
    target.open()
    found = target.snapshot()
    with pytest.raises(NoRestartError, match=message) as caught:
        target.apply(Config({"shared_buffers": 20000}))
    assert caught.value.hint, "a study ends with it: the server has seen no config"
    assert target.snapshot() == found


def test_what_libpq_finds_by_itself_reaches_the_load(
    local: PostgresTarget, server: Server, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSSLMODE", "allow")
    target = made(server, state_dir, {"kind": "postgresql", "url": server.url()})
    target.open()
    assert target.endpoint().options == {"sslmode": "allow"}
    target.close()


def test_a_restart_command_that_has_worked_before_ends_no_study(
    local: PostgresTarget, server: Server, state_dir: Path, tmp_path: Path
) -> None:
    """It may have been refused by a limit of systemd's, or by a sudo that asks again."""
    command, refusal = tmp_path / "again", tmp_path / "refused"
    command.write_text(f"#!/bin/sh\ntest ! -e {refusal} && exec {server.restart}\n")
    command.chmod(0o755)
    target = made(server, state_dir, server.table(restart=str(command)))
    target.open()
    found = target.snapshot()
    assert target.apply(Config({"shared_buffers": 20000})).restarted
    target.restore(found)
    refusal.touch()
    with pytest.raises(ApplyError, match="failed with exit_code=1") as caught:
        target.apply(Config({"shared_buffers": 20001}))
    assert caught.value.fault == Fault.ENVIRONMENT, "the server has not seen this config"
    assert target.snapshot().values == found.values


def test_the_command_is_run_without_a_shell(
    local: PostgresTarget, server: Server, state_dir: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    target = made(server, state_dir, server.table(restart=f"/bin/true; touch {mark}"))
    target.open()
    with pytest.raises(NoRestartError, match="cannot run command='/bin/true;'"):
        target.apply(Config({"shared_buffers": 20000}))
    assert not mark.exists()


def test_memory_of_a_far_machine_must_be_given(
    local: PostgresTarget, server: Server, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the server's own process, whatever its address says; see test_right_server for servers that are elsewhere."""
    target = made(server, state_dir, {"kind": "postgresql", "url": server.url()})
    target.open()
    assert target.budget_bytes == target.limits.memory_bytes
    monkeypatch.setattr("trimtab.systems.postgresql.identity.processes", list)
    far = made(server, state_dir, {"kind": "postgresql", "url": server.url()})
    far.open()
    with pytest.raises(TargetError, match="the server at host=127.0.0.1 does not show as a process of this") as caught:
        far.states()
    assert "its memory and cores are not known here" in caught.value.message
    assert caught.value.hint == 'give them in the target\'s table: memory = "16GiB", cores = 8'
    far.close()
    with pytest.raises(TargetError, match="its cores are not known here"):
        made(server, state_dir, {"kind": "postgresql", "url": server.url(), "memory": "1GiB"}).states()


def test_a_far_machine_is_that_of_the_study_file(
    local: PostgresTarget, server: Server, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger than the one that Trimtab runs on: neither budget nor ranges nor the history's machine are this one's."""
    memory = local.limits.memory_bytes * 2
    monkeypatch.setattr("trimtab.systems.postgresql.identity.processes", list)
    table: dict[str, object] = {"kind": "postgresql", "url": server.url(), "memory": memory, "cores": 64}
    with closing(made(server, state_dir, table)) as far:
        far.open()
        lines = {check: (is_fine, text) for check, is_fine, text in far.doctor()}
        assert lines["memory"][0]
        assert "the server is on another machine" in lines["memory"][1]
        assert lines["cores"] == (True, "64, as the study file says: the server is on another machine")
        assert far.states()["max_parallel_workers"].knob.high == 128
        machine = far.machine()
    assert machine == Machine(
        cores=64, memory_bytes=memory, hostname="127.0.0.1", server_version=local.machine().server_version
    )


def test_given_cores_count_on_this_machine_too(local: PostgresTarget, server: Server, state_dir: Path) -> None:
    with closing(made(server, state_dir, server.table(cores=3))) as target:
        target.open()
        assert (target.machine().cores, target.machine().hostname) == (3, local.machine().hostname)
        assert "cores" not in {check for check, _, _ in target.doctor()}


def test_two_tuners_in_two_databases_and_two_state_directories(server: Server, state_dir: Path, tmp_path: Path) -> None:
    first = made(server, state_dir, server.table())
    with server.admin() as admin:
        admin.execute("CREATE DATABASE other")
    try:
        table = {"kind": "postgresql", "url": server.url(database="other"), "memory": "1GiB"}
        second = made(server, tmp_path, table)
        first.open()
        second.open()
        with first.lock("night study"):
            with pytest.raises(
                LockedError, match=r"another tuner holds this server: host=\S+ pid=\d+ study=night study since=20"
            ):
                second.lock("other").__enter__()
            found = first.snapshot()
            first.apply(Config({"shared_buffers": 20000}))  # the restart must not lose the lock
            with pytest.raises(LockedError, match="study=night study"):
                second.lock("other").__enter__()
            first.restore(found)
        with second.lock("other"):
            pass
        first.close()
        second.close()
    finally:
        with server.admin() as admin:
            admin.execute("DROP DATABASE other WITH (FORCE)")


def test_two_tuners_on_one_machine_see_the_file(server: Server, state_dir: Path) -> None:
    first, second = (made(server, state_dir, server.table()) for _ in range(2))
    with first.lock("one"):
        with pytest.raises(LockedError, match=r"study=one pid=\d+ host=\S+ since=20") as caught:
            second.lock("two").__enter__()
        assert "that releases the lock" in str(caught.value.hint)
    first.close()


def test_named_knobs(local: PostgresTarget, server: Server, state_dir: Path) -> None:
    cases: list[tuple[list[str], str]] = [
        (["work_men"], "unknown knob or set='work_men' in knobs"),
        (["fsync"], "knob='fsync' is locked: safety class durability is locked; unlock = ."),
        (["archive_command"], "knob='archive_command' is locked: forbidden: runs code"),
        (["statement_timeout"], "knob='statement_timeout' is not curated: Trimtab knows no useful range for it"),
    ]
    for knobs, message in cases:
        target = made(server, state_dir, server.table(knobs=knobs))
        target.open()
        with pytest.raises(UsageError, match=message):
            target.selection(Context(workload="test", clients=4, read_share=0.5))
    target = made(server, state_dir, server.table(knobs=["work_mem", "vacuum", "fsync"], unlock=["durability"]))
    target.open()
    names = target.selection(Context(workload="test", clients=4, read_share=0.5))
    assert names[0] == "work_mem"
    assert "fsync" in names
    assert "autovacuum_naptime" in names
    no_restart = made(server, state_dir, server.table(allow_restart=False))
    no_restart.open()
    assert no_restart.states()["shared_buffers"].lock_reason == "needs a restart, and allow_restart = false"


def test_doctor_says_what_is_locked_and_why(local: PostgresTarget) -> None:
    lines = {check: (is_fine, text) for check, is_fine, text in local.doctor()}
    assert lines["server"][1].startswith("PostgreSQL 18")
    assert lines["restart"][0]
    assert "which is not tried here" in lines["restart"][1]
    assert "safety class durability is locked" in lines["knobs"][1]
    assert [check for check, (is_fine, _) in lines.items() if not is_fine] == ["recover"]
    assert lines["recover"][1].startswith("the password is only in url: after a power cut `trimtab recover` could not")
