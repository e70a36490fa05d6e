"""PostgreSQL as it is elsewhere: clusters with a name, other languages, logs that begin anew, values that others have fixed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.hand_clock import HandClock
from tests.servers import free_port
from tests.systems.conftest import Server
from trimtab.errors import ApplyError, LockedError, TargetError, UsageError
from trimtab.records import Context
from trimtab.space import Config, Knob, KnobKind
from trimtab.systems import rescue
from trimtab.systems.base import KnobState, Own
from trimtab.systems.knobs import Reading, knob_states
from trimtab.systems.postgresql import PostgresTarget, autoconf, preflight, recovery, session
from trimtab.systems.postgresql import rescue as own_rescue
from trimtab.systems.postgresql.autoconf import file_faults
from trimtab.systems.postgresql.catalogue import CATALOG, Facts, overridden_knobs
from trimtab.systems.postgresql.change import AlterSystem
from trimtab.systems.postgresql.entries import still_ours
from trimtab.systems.postgresql.remote import LocalReach
from trimtab.systems.postgresql.session import FullError, connect, require_no_pooler
from trimtab.systems.postgresql.settings import read_settings
from trimtab.systems.session import LoginRefusedError, NotYetError, StatementError

BOUNDS = {"memory": 8e9, "cores": 4.0, "connections": 100.0, "disk": 1e11}
FACTS = Facts(
    major=16,
    has_jit=True,
    has_standby=False,
    is_standby=False,
    may_reload=True,
    is_admin=True,
    allows_alter_system=True,
)


@pytest.mark.parametrize(
    ("title", "replays"),
    [
        ("postgres: startup recovering 000000010000000000000004", True),
        ("postgres: 16/main: startup recovering 000000010000000000000004", True),
        ("postgres: shop: db: startup", True),
        ("postgres: 16/main: startuplog app [local] idle", False),
        ("postgres: 16/main: checkpointer", False),
    ],
)
def test_the_process_that_replays_is_found_whatever_the_clusters_name(
    monkeypatch: pytest.MonkeyPatch, title: str, replays: bool
) -> None:
    """Debian's servers have one: without it in mind, each start that takes long was given up."""
    monkeypatch.setattr(recovery, "processes", lambda: [7])
    monkeypatch.setattr(recovery, "process_parent", lambda pid: 1)
    monkeypatch.setattr(recovery, "process_title", lambda pid: title)
    monkeypatch.setattr(recovery, "process_ticks", lambda pid: 12)
    assert recovery.startup_process(1) == ((title, f"{title} 12") if replays else ("", ""))
    assert recovery.startup_process(2) == ("", ""), "another server's"


class Replaying:
    """A server that takes logins from `up_at_s` on."""

    pid = os.getpid()
    data_dir = Path("/nowhere")

    def __init__(self, clock: HandClock, up_at_s: float) -> None:
        self._clock, self._up_at_s = clock, up_at_s

    def health(self) -> None:
        if self._clock.now_s < self._up_at_s:
            raise NotYetError("the server does not accept logins yet: the database system is starting up")


@pytest.mark.parametrize(
    ("is_replaying", "has_stalled", "answers", "until_s"),
    [(True, False, True, 160.0), (True, True, False, 110.0), (False, False, False, 110.0)],
)
def test_a_server_that_replays_its_log_is_not_restarted(
    monkeypatch: pytest.MonkeyPatch, is_replaying: bool, has_stalled: bool, answers: bool, until_s: float
) -> None:
    """After a power cut, `recover` comes while it does: a restart would throw away what it has done."""
    clock = HandClock(100.0)
    seen = SimpleNamespace(has_stalled=lambda: has_stalled, is_under_way=lambda: is_replaying)
    monkeypatch.setattr(rescue, "time", clock)
    monkeypatch.setattr(own_rescue, "Recovery", lambda pid, timeout_s: seen)
    undo = AlterSystem(Replaying(clock, 160.0))  # type: ignore[arg-type]
    undo._pids = lambda: [os.getpid()]  # type: ignore[method-assign]
    assert undo._answers(Own(), False) is answers
    assert until_s <= clock.now_s < until_s + 0.5


_REFUSES = """
import socket, sys
body = f"SFATAL\\0VFATAL\\0C{sys.argv[1]}\\0M{sys.argv[2]}\\0\\0".encode()
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    there, _ = listener.accept()
    with there:
        while int.from_bytes((head := there.recv(8))[4:]) in (80877103, 80877104):  # asks for TLS or GSSAPI
            there.sendall(b"N")
        if head:
            there.recv(int.from_bytes(head[:4]) - 8)
            there.sendall(b"E" + (len(body) + 4).to_bytes(4) + body)
"""


@contextmanager
def refusing(code: str, words: str) -> Iterator[dict[str, Any]]:
    """A server that answers each login with an error, unencrypted; what a login there is made with. It is a process of its own,
    for libpq asks while it holds this one's interpreter."""
    argv = [sys.executable, "-c", _REFUSES, code, words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield {"host": "127.0.0.1", "port": int(server.stdout.readline()), "user": "x", "dbname": "x"}
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("code", "words", "is_not_yet"),
    [
        ("57P03", "das Datenbanksystem startet", True),
        ("57P03", "le système de bases de données se lance", True),
        ("XX000", "etwas ging schief", False),
    ],
)
def test_a_server_that_starts_says_so_in_any_language(code: str, words: str, is_not_yet: bool) -> None:
    with refusing(code, words) as fields, pytest.raises(TargetError, match=words) as caught:
        connect(fields, timeout_s=2)
    assert isinstance(caught.value, NotYetError) is is_not_yet


@pytest.mark.parametrize(
    ("code", "words", "kind", "says"),
    [
        ("28P01", "Passwort-Authentifizierung für »x« fehlgeschlagen", LoginRefusedError, "the server refused the password"),
        ("28000", "kein pg_hba.conf-Eintrag für Host »::1«", LoginRefusedError, "the server does not let this user in"),
        ("3D000", "la base de données « x » n'existe pas", LoginRefusedError, "the user or the database does not exist"),
        ("55000", "база данных не принимает подключения", LoginRefusedError, "the database takes no logins"),
        ("42501", "データベースへのアクセスが拒否されました", LoginRefusedError, "this user may not connect to the database"),
        ("53300", "désolé, trop de clients sont déjà connectés", FullError, "all connections that this user may have are in use"),
    ],
)  # fmt: skip
def test_a_refused_login_is_told_by_its_code_in_any_language(
    code: str, words: str, kind: type[TargetError], says: str
) -> None:
    """Taken for a server that does not answer, it was restarted on the way back."""
    with refusing(code, words) as fields, pytest.raises(kind, match=words) as caught:
        connect(fields, timeout_s=2)
    assert caught.value.message.startswith(says)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("53100", "the server cannot write postgresql.auto.conf"),
        ("0A000", "the server does not allow ALTER SYSTEM"),
        ("42501", "this user may not change {what}"),
    ],
)
def test_why_no_change_works_is_told_by_its_code_in_any_language(code: str, says: str) -> None:
    found = CATALOG.change_refused(StatementError("in einer anderen Sprache", code=code))
    assert found is not None
    assert found.says == says


def test_what_no_server_has_said_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "refusal_code", lambda given, timeout_s: pytest.fail("a second login"))
    with pytest.raises(TargetError, match="cannot connect to the server"):
        connect({"host": "127.0.0.1", "port": free_port(), "user": "x", "dbname": "x"}, timeout_s=2)


def test_a_pooler_that_passes_over_what_it_does_not_know_is_noticed() -> None:
    """ignore_startup_parameters = options: locks and sessions would be the pooler's, and others would get them afterwards."""

    def login(found: str) -> Any:
        return SimpleNamespace(value=lambda statement: found)

    require_no_pooler(login("30000"))
    with pytest.raises(
        TargetError, match=r"pgbouncer answers there, and not the server: statement_timeout=0 there"
    ) as caught:
        require_no_pooler(login("0"))
    assert "host and port" in str(caught.value.hint)


def states_of(*readings: Reading) -> dict[str, KnobState]:
    settings = read_settings("db", {"kind": "postgresql", "url": "postgresql://h/d"})
    return knob_states(FACTS.sight({each.name: each for each in readings}), CATALOG, BOUNDS, settings, "")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("configuration file", ""),
        ("global", "set by ALTER ROLE ALL for all users, which wins over the configuration files"),
        ("client", "set by the login itself (`options` in url), which wins over the configuration files"),
    ],
)
def test_a_value_that_no_file_changes_is_locked(source: str, reason: str) -> None:
    now = Reading(name="work_mem", text="4096", kind="integer", unit="kB", low=64, high=1 << 30, source=source)
    assert states_of(now)["work_mem"].lock_reason == reason


@pytest.mark.parametrize(("now", "low", "high"), [(8, 8, 16), (64, 64, 64), (4, 4, 16)])
def test_no_search_takes_background_processes_away(now: int, low: int, high: int) -> None:
    """Of an extension's jobs or of subscriptions: they would stand still, and the load would look faster for it."""
    reading = Reading(
        name="max_worker_processes", text=str(now), kind="integer", default="8", low=0, high=262143, is_late=True
    )
    state = states_of(reading)["max_worker_processes"]
    assert (state.knob.low, state.knob.high, state.knob.clip(8)) == (low, high, min(max(8, low), high))
    assert (state.vendor_low, state.vendor_high) == (0, 262143), "a person may set fewer"


def test_a_log_that_begins_anew_is_followed(tmp_path: Path) -> None:
    """With the server's own default name, postgresql-%Y-%m-%d_%H%M%S.log, each start of a trial begins one."""
    names, logs = tmp_path / "current_logfiles", [tmp_path / "log" / name for name in ("at 1.log", "at 2.log")]
    (tmp_path / "log").mkdir()
    reach = LocalReach(
        read_settings("db", {"kind": "postgresql", "url": "postgresql://h/d", "data_dir": str(tmp_path)})
    )
    for log in logs:
        log.write_text("LOG:  starting\n")
        names.write_text(f"stderr log/{log.name}\ncsvlog log/{log.stem}.csv\n")
        assert reach.log_file == log
    names.unlink()
    assert reach.log_file == logs[-1], "a start that fails leaves no names behind"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2.0, "2"), (1.1, "1.1"), (1_000_000.0, "1e+06"), (1 / 3, "0.333333"), (0.00025, "0.00025"), (-1.0, "-1")],
)
def test_a_real_of_ours_is_known_where_only_values_in_use_are_seen(
    monkeypatch: pytest.MonkeyPatch, value: float, shown: str
) -> None:
    """By a role that may not see the files: taken for somebody else's, it would be left on the server."""
    knob = Knob(name="jit_above_cost", kind=KnobKind.REAL, low=-1.0, high=1e9, default=4.0)
    now = Reading(
        name=knob.name, text=shown, kind="real", source="configuration file", file="/d/postgresql.auto.conf", line=3
    )
    monkeypatch.setattr(autoconf, "file_entries", lambda connection: None)
    monkeypatch.setattr(autoconf, "read_rows", lambda connection: {knob.name: now})
    entries = autoconf.read_entries(SimpleNamespace(value=lambda statement: True))  # type: ignore[arg-type]
    own = Own(texts={knob.name: AlterSystem(SimpleNamespace()).texts(knob, value)})  # type: ignore[arg-type]
    assert still_ours(entries, {}, own) == {knob.name}
    assert still_ours({knob.name: repr(value)}, {}, own) == {knob.name}, "as the file has it"
    assert own.texts[knob.name][-1] == repr(value)


@pytest.mark.service
def test_a_role_that_may_not_see_the_files_takes_its_reals_back(server: Server, state_dir: Path) -> None:
    names = ("random_page_cost", "cpu_tuple_cost", "vacuum_cost_delay")
    with server.admin() as admin:
        admin.execute("CREATE ROLE costs LOGIN PASSWORD 'let-me-in'")
        admin.execute("GRANT pg_monitor TO costs")
        admin.execute("GRANT EXECUTE ON FUNCTION pg_reload_conf() TO costs")
        admin.execute(f"GRANT ALTER SYSTEM ON PARAMETER {', '.join(names)} TO costs".encode())
    url = server.url(user="costs", password="let-me-in")
    table = {"kind": "postgresql", "url": url, "memory": "1GiB", "cores": 2}
    target = PostgresTarget.from_settings("own", table, state_dir=state_dir)
    try:
        target.open()
        found = target.snapshot()
        for values in ((2.0, 1_000_000.0, 2.0), (4 / 3, 0.1 / 3, 0.5)):
            target.apply(Config(dict(zip(names, values, strict=True))))
        undone = target.restore(found)
        assert not undone.left
        with server.admin() as admin:
            assert not admin.execute("SELECT FROM pg_file_settings WHERE name = ANY(%s)", [list(names)]).fetchall()
    finally:
        target.close()
        with server.admin() as admin:
            for name in names:
                admin.execute(f"ALTER SYSTEM RESET {name}".encode())
            admin.execute("SELECT pg_reload_conf()")
            admin.execute("DROP OWNED BY costs")
            admin.execute("DROP ROLE costs")


class Told:
    """A connection that shows settings of roles and databases."""

    def __init__(self, *rows: tuple[str, str, str]) -> None:
        self._rows = list(rows)

    def rows(self, statement: str) -> Sequence[tuple[str, str, str]]:
        assert statement == CATALOG.sql["overridden"]
        return self._rows


def test_what_other_roles_and_databases_have_fixed_is_told() -> None:
    found = [("", "shop", "jit"), ("app", "", "work_mem"), ("app", "shop", "work_mem"), ("", "shop", "search_path")]
    said = "set by ALTER ROLE or ALTER DATABASE, so that sessions there keep their values whatever is tuned: "

    def notes(choice: str | list[str], *rows: tuple[str, str, str]) -> tuple[str, ...]:
        return overridden_knobs(choice, Told(*rows))  # type: ignore[arg-type]

    assert notes("performance", *found) == (
        f"{said}jit for database=shop, work_mem for role=app, work_mem for role=app in database=shop",
    )
    assert notes(["shared_buffers", "jit"], *found) == (f"{said}jit for database=shop",)
    assert notes("memory", found[0]) == notes("all") == ()
    many = notes("all", *(("", f"tenant{n}", "jit") for n in range(9)))
    assert many[0].endswith("jit for database=tenant4, and 4 more")


@pytest.mark.service
def test_the_server_tells_what_is_fixed_for_others_and_for_all(server: Server, state_dir: Path) -> None:
    """What our own sessions have is locked, with the reason; of the others' a study tells at its start."""
    table = {
        "kind": "postgresql",
        "url": server.url(),
        "memory": "1GiB",
        "cores": 2,
        "knobs": ["random_page_cost", "jit"],
    }
    target = PostgresTarget.from_settings("own", table, state_dir=state_dir)
    with server.admin() as admin:
        try:
            for statement in (
                "CREATE ROLE reporter",
                "CREATE DATABASE shop",
                "ALTER ROLE reporter IN DATABASE shop SET jit = off",
                "ALTER DATABASE shop SET random_page_cost = 2",
                "ALTER ROLE ALL SET random_page_cost = 3",
                "ALTER ROLE postgres SET jit = on",
            ):
                admin.execute(statement.encode())
            assert any(
                note.endswith("random_page_cost for database=shop, jit for role=reporter in database=shop")
                for note in target.notes()
            )
            with pytest.raises(UsageError, match="set by ALTER ROLE ALL for all users"):
                target.selection(Context("test", clients=1))
        finally:
            for statement in (
                "ALTER ROLE ALL RESET random_page_cost",
                "ALTER ROLE postgres RESET jit",
                "DROP DATABASE IF EXISTS shop",
                "DROP ROLE IF EXISTS reporter",
            ):
                admin.execute(statement.encode())
            target.close()


@pytest.mark.service
def test_what_only_another_database_has_is_no_fault_of_the_files(server: Server, state_dir: Path) -> None:
    """The server takes it on trust, and a session of another database calls it wrong; no config could be applied."""
    conf = server.data_dir / "postgresql.conf"
    found = conf.read_bytes()
    target = PostgresTarget.from_settings("own", server.table(), state_dir=state_dir)
    try:
        conf.write_bytes(found + b"default_text_search_config = 'public.of_the_shop'\n")
        server.control("reload")
        with target._reach.connect() as connection:
            assert file_faults(connection) == []
            conf.write_bytes(found + b"work_mem = nonsense\n")
            assert "work_mem" in "".join(file_faults(connection))
    finally:
        conf.write_bytes(found)
        server.control("reload")
        target.close()


@pytest.mark.service
def test_connections_that_are_kept_outlast_the_servers_limit_for_idle_ones(server: Server, state_dir: Path) -> None:
    """Else the lock would be free after some minutes of a run, for a tuner on another machine, and the spare connection gone."""

    def made(folder: Path) -> PostgresTarget:
        table = {"kind": "postgresql", "url": server.url(), "memory": "1GiB", "cores": 2}
        return PostgresTarget.from_settings("own", table, state_dir=folder)

    def alter(words: bytes) -> None:
        with server.admin() as admin:
            admin.execute(b"ALTER SYSTEM " + words)
            admin.execute("SELECT pg_reload_conf()")

    target, other = made(state_dir / "here"), made(state_dir / "there")
    alter(b"SET idle_session_timeout = '1s'")
    try:
        target.open()
        with target.lock("first"):
            time.sleep(1.5)
            with pytest.raises(LockedError, match="another tuner holds this server"), other.lock("second"):
                pass
        spare = target._reach.spare
        assert spare is not None
        assert spare.rows("SELECT 1") == [(1,)]
    finally:
        alter(b"RESET idle_session_timeout")
        target.close()
        other.close()


@pytest.mark.parametrize(
    ("huge_pages", "page_size", "need_mib", "is_refused"),
    [("on", 0, 60, False), ("on", 0, 61, True), ("try", 0, 61, False), ("on", 1 << 20, 61, False)],
)
def test_a_server_that_insists_on_huge_pages_is_not_given_more_than_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, huge_pages: str, page_size: int, need_mib: int, is_refused: bool
) -> None:
    """It would not start. There are 20 pages of 2 MiB, and the kernel makes up to 10 more."""
    (tmp_path / "sys" / "vm").mkdir(parents=True)
    (tmp_path / "meminfo").write_text("HugePages_Total:      20\nHugepagesize:       2048 kB\nHugetlb:    40960 kB\n")
    (tmp_path / "sys" / "vm" / "nr_hugepages").write_text("20\n")
    (tmp_path / "sys" / "vm" / "nr_overcommit_hugepages").write_text("10\n")
    monkeypatch.setattr(preflight, "_PROC", tmp_path)
    states: Any = {"huge_pages": SimpleNamespace(running="on"), "huge_page_size": SimpleNamespace(running=page_size)}
    config = Config({} if huge_pages == "on" else {"huge_pages": huge_pages})
    if is_refused:
        with pytest.raises(ApplyError, match="it takes 61MiB of huge pages, and the machine has 60MiB"):
            preflight._require_huge_pages(config, states, need_mib << 20)
    else:
        preflight._require_huge_pages(config, states, need_mib << 20)
