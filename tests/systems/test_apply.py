"""Apply sets exactly the config, reads it back, and leaves the server as it was when it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import ApplyError, ForeignChangeError, TargetError
from trimtab.host import LocalHost
from trimtab.space import Config
from trimtab.systems import Snapshot, Target
from trimtab.systems.postgresql import PostgresTarget
from trimtab.systems.postgresql.autoconf import reload_and_wait

pytestmark = pytest.mark.service


def auto_conf(snapshot: Snapshot) -> Path:
    return Path(next(iter(snapshot.files)))


def running(target: PostgresTarget, *names: str) -> list[object]:
    states = target.states()
    return [states[name].running for name in names]


def test_it_is_a_target(target: PostgresTarget) -> None:
    assert isinstance(target, Target)


def test_reload_knobs_need_no_restart(target: PostgresTarget) -> None:
    applied = target.apply(Config({"work_mem": 8192, "random_page_cost": 1.1, "enable_sort": False}))
    assert applied.effective == {"work_mem": 8192, "random_page_cost": 1.1, "enable_sort": False}
    assert not applied.restarted
    assert running(target, "work_mem", "random_page_cost", "enable_sort") == [8192, 1.1, False]


def test_restart_knobs_restart_once_and_only_when_they_change(target: PostgresTarget) -> None:
    assert target.apply(Config({"shared_buffers": 32768})).restarted
    assert not target.apply(Config({"shared_buffers": 32768, "work_mem": 8192})).restarted
    assert running(target, "shared_buffers") == [32768]


def test_a_value_equal_to_the_running_one_needs_no_restart(target: PostgresTarget) -> None:
    assert not target.apply(Config({"shared_buffers": 16384})).restarted


def test_knobs_not_named_go_back(target: PostgresTarget) -> None:
    target.apply(Config({"work_mem": 8192, "jit_above_cost": 5000.0, "shared_buffers": 32768}) if _has_jit(target)
                 else Config({"work_mem": 8192, "shared_buffers": 32768}))  # fmt: skip
    target.apply(Config({"random_page_cost": 2.0}))
    assert running(target, "work_mem", "shared_buffers", "random_page_cost") == [4096, 16384, 2.0]


def _has_jit(target: PostgresTarget) -> bool:
    return not target.states()["jit"].lock_reason


def test_what_was_there_before_stays(target: PostgresTarget) -> None:
    original = target.snapshot()
    target.apply(Config({"work_mem": 5000, "maintenance_work_mem": 70000}))
    target.snapshot()  # as if a user had set these
    target.apply(Config({"work_mem": 6000}))
    assert running(target, "work_mem", "maintenance_work_mem") == [6000, 70000]
    target.apply(Config({}))
    assert running(target, "work_mem", "maintenance_work_mem") == [5000, 70000]
    target.restore(original)


def test_reals_are_exact(target: PostgresTarget) -> None:
    value = 1.0516158801
    assert target.apply(Config({"vacuum_cost_delay": value})).effective["vacuum_cost_delay"] == pytest.approx(
        value, rel=1e-5
    )


def test_a_special_value_shows_as_what_the_server_made_of_it(target: PostgresTarget) -> None:
    assert target.apply(Config({"wal_buffers": 64})).effective == {"wal_buffers": 64}
    assert target.apply(Config({"wal_buffers": -1})).effective == {"wal_buffers": 512}


def test_a_derived_knob_may_follow_another(target: PostgresTarget) -> None:
    target.apply(Config({"wal_buffers": 64}))
    target.apply(Config({"shared_buffers": 32768}))  # wal_buffers is automatic again: twice what it was
    assert running(target, "wal_buffers") == [1024]


def test_new_connections_of_a_load_see_it(target: PostgresTarget) -> None:
    import psycopg

    target.apply(Config({"work_mem": 9999}))
    endpoint = target.endpoint()
    with psycopg.connect(host=endpoint.host, port=endpoint.port, user=endpoint.user, dbname=endpoint.database) as load:
        found = load.execute("SHOW work_mem").fetchone()
    assert found == ("9999kB",)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"no_such": 1}, r"the server has no knob='no_such'"),
        ({"work_mem": "4MB'; DROP TABLE x; --"}, r"work_mem=.* is not of kind=integer"),
        ({"work_mem": True}, "work_mem=True is not of kind=integer"),
        ({"work_mem": 1}, r"work_mem=1 is outside the server's range of 64 to 2147483647 \(unit kB\)"),
        ({"random_page_cost": float("nan")}, "random_page_cost=nan is not of kind=real"),
        ({"enable_sort": 1}, "enable_sort=1 is not of kind=boolean"),
        ({"wal_compression": "gzip"}, "wal_compression='gzip' is none of its choices"),
        ({"archive_command": "rm -rf /"}, "knob='archive_command' may not be changed: forbidden: runs code"),
        ({"shared_preload_libraries": "x"}, "knob='shared_preload_libraries' may not be changed: forbidden: runs code"),
        ({"statement_timeout": 1}, "knob='statement_timeout' may not be changed: not curated"),
        ({"work_mem; DROP TABLE x": 1}, "knob='work_mem; DROP TABLE x' is not the name of a setting"),
        ({"work_me": 1}, "the server has no knob='work_me'"),
    ],
)
def test_what_is_not_allowed_is_refused_before_anything_changes(
    target: PostgresTarget, config: dict[str, int], message: str
) -> None:
    before = target.snapshot()
    for act in (target.preflight, target.apply):
        with pytest.raises(ApplyError, match=message):
            act(Config(config))
    assert LocalHost().read_file(auto_conf(before)) == LocalHost().read_file(auto_conf(target.snapshot()))
    assert target.snapshot() == before


def test_a_server_that_does_not_start_is_rescued(target: PostgresTarget) -> None:
    before = target.snapshot()
    with pytest.raises(ApplyError, match="the server did not start") as caught:
        target.apply(Config({"shared_buffers": 1 << 29, "work_mem": 8192}))
    assert "could not map anonymous shared memory" in caught.value.log_excerpt
    target.health()
    assert target.snapshot() == before


def test_half_an_apply_is_undone(target: PostgresTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    before = target.snapshot()

    def lost(connect: object) -> None:
        raise TargetError("the connection was lost")

    monkeypatch.setattr("trimtab.systems.postgresql.change.reload_and_wait", lost, raising=True)
    with pytest.raises(TargetError, match="the connection was lost"):
        target.apply(Config({"work_mem": 8192}))
    monkeypatch.undo()
    target.restore(before)
    assert target.snapshot() == before


def test_a_value_that_another_source_wins_over_is_told(target: PostgresTarget) -> None:
    with target._reach.connect() as connection:
        connection.execute("ALTER ROLE postgres SET work_mem = '3MB'")
    try:
        with pytest.raises(ApplyError, match=r"may not be changed: set by ALTER ROLE for this user"):
            target.apply(Config({"work_mem": 8192}))
    finally:
        with target._reach.connect() as connection:
            connection.execute("ALTER ROLE postgres RESET work_mem")


def test_checks_count_from_the_snapshot_and_not_from_a_config_handed_over(target: PostgresTarget) -> None:
    target.apply(Config({"max_parallel_workers": 1, "max_parallel_workers_per_gather": 1}))
    target.preflight(Config({"max_parallel_workers_per_gather": 4}))  # 8 workers as found
    with pytest.raises(ApplyError, match="max_parallel_workers_per_gather=4 is above max_parallel_workers=1"):
        target.preflight(Config({"max_parallel_workers": 1, "max_parallel_workers_per_gather": 4}))


def test_orders_are_checked(target: PostgresTarget) -> None:
    with pytest.raises(ApplyError, match="min_wal_size=2048 is above max_wal_size=1024"):
        target.preflight(Config({"min_wal_size": 2048}))


def test_shared_memory_is_asked_of_the_server_itself(target: PostgresTarget) -> None:
    target.preflight(Config({"shared_buffers": 65536}))
    with pytest.raises(ApplyError, match=r"the server would take shared_memory=1.\d+GiB of memory=1GiB"):
        target.preflight(Config({"shared_buffers": 131072}))
    with pytest.raises(ApplyError, match=r"shared_memory=\S+ of memory=1GiB"):
        target.preflight(Config({"max_locks_per_transaction": 1024, "max_connections": 90000}))


def test_rules_between_knobs_are_known_without_the_program(target: PostgresTarget) -> None:
    with pytest.raises(ApplyError, match="must be less than max_connections: .*max_connections=3"):
        target.preflight(Config({"max_connections": 3}))


def test_a_start_that_the_program_itself_refuses_is_seen_before(
    target: PostgresTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.systems.catalogued.check_rules", lambda *_, product: None)
    with pytest.raises(
        ApplyError, match=r"the server would not start: .*superuser_reserved_connections.* must be less"
    ):
        target.preflight(Config({"max_connections": 3}))


def test_the_programs_leave_nothing_behind(
    target: PostgresTarget, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    scratch = cache / "scratch"
    scratch.mkdir(exist_ok=True)
    scratch.chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    target.preflight(Config({"shared_buffers": 20000}))
    assert list(scratch.iterdir()) == []


def test_a_file_put_back_by_somebody_else_at_once_is_told(
    target: PostgresTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Configuration management may be faster than the look at what the server uses: that is no config that failed."""
    found = target.snapshot()
    path = auto_conf(found)
    content = path.read_bytes()

    def reload_after_them(*arguments: Any, **more: Any) -> None:
        path.write_bytes(content)
        reload_and_wait(*arguments, **more)

    monkeypatch.setattr("trimtab.systems.postgresql.change.reload_and_wait", reload_after_them)
    with pytest.raises(
        ForeignChangeError,
        match=r"postgresql.auto.conf was changed by somebody else while Trimtab changed it: work_mem",
    ):
        target.apply(Config({"work_mem": 8192}))
    assert path.read_bytes() == content
    assert running(target, "work_mem") == [4096]
