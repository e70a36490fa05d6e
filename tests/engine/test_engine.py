"""PostgreSQL tunes its own statements: what it learns, what it leaves alone, and that a statement's settings never outlive it."""

from __future__ import annotations

import json
import re

import psycopg
import pytest

from tests.engine.conftest import CATCHES, FAILING, OWN, QUERY, ROOT, TAKES_BACK, Session, engine, library
from tests.needs import IS_FULL
from tests.servers.postgresql import DEBIAN, Server

pytestmark = [pytest.mark.service, pytest.mark.needs("c-compiler", "postgresql-embedded")]


@pytest.mark.parametrize("version", [DEBIAN, *(pytest.param(each, marks=pytest.mark.full) for each in ("18", "16"))])
def test_a_class_is_learnt_shared_and_kept_over_a_restart(version: str) -> None:
    with engine(version, "trimtab.mode = off\n") as (server, session):  # its sessions switch it on
        found = session.learn()
        assert (found["settings"], found["left_alone"]) == ("work_mem=65536", "")
        assert found["gain_low"] > 1.5
        assert found["gain_low"] <= 2.0 <= found["gain_high"]
        assert session.value("SHOW work_mem") == "4MB"
        line = session.rows(f"EXPLAIN {QUERY}")[-1][0]
        assert line.startswith("Trimtab: work_mem=65536 (2.00 times as fast, 95% interval ")
        assert session.value("SELECT knowledge_in FROM trimtab_status()") == "shared memory"
        with server.admin() as connection:
            other = Session(connection)
            other.tune()
            assert "work_mem=65536" in other.rows(f"EXPLAIN {QUERY}")[-1][0], "another backend knows it too"
        events = [row[0] for row in session.rows("SELECT event FROM trimtab_history ORDER BY at")]
        assert events.count("faster") == 1
        server.control("restart")
        with server.admin() as connection:
            after = Session(connection)
            after.tune()
            kept = after.classes()[0]
            assert (kept["settings"], kept["calls"]) == ("work_mem=65536", found["calls"])


def test_the_loss_stays_within_the_budget_after_each_statement(session: Session) -> None:
    """Also when most of what can be tried is far slower: the account is read after every execution."""
    session.tune("base=100;work_mem=16384:1.6;jit=0:1.4;max_parallel_workers_per_gather=4:3;random_page_cost=1.1:5")
    overdrawn = []
    for n in range(150):
        session.rows(QUERY)
        known = [row for row in session.classes() if row["calls"] > 0]
        if n > 10 and known:
            overdrawn.append(known[0]["loss_ms"] - 0.02 * known[0]["total_ms"] - 0.25 * known[0]["gained_ms"])
    assert known[0]["settings"] == ""
    assert known[0]["probes"] >= 1
    assert max(overdrawn) <= 4 * 100, "no more than what one probe lost beyond what its risk said"
    assert known[0]["loss_ms"] <= 0.05 * known[0]["total_ms"]


def test_answers_are_the_same_with_and_without(session: Session) -> None:
    queries = [
        QUERY,
        "SELECT a.k, sum(b.g) FROM t a JOIN t b ON a.g = b.r WHERE a.k < 20 GROUP BY a.k HAVING sum(b.g) > 10 ORDER BY 1",
        "SELECT g FROM t WHERE r IN (SELECT r FROM t WHERE k = 3) ORDER BY g LIMIT 50",
        "SELECT k, count(DISTINCT r) FROM t GROUP BY k",
        "SELECT count(*) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.r = a.g AND b.k <> a.k)",
    ]
    session.rows("SET trimtab.mode = off")
    expected = [sorted(session.rows(query)) for query in queries]
    # Each setting is worth something: every one is tried, and several are used.
    session.tune(
        "base=100;work_mem=16384:0.9;jit=0:0.9;random_page_cost=1.1:0.9;enable_mergejoin=0:0.9;enable_hashagg=0:0.8"
    )
    for _ in range(40):
        assert [sorted(session.rows(query)) for query in queries] == expected
    assert any(row["settings"] for row in session.classes())


def test_settings_end_with_the_statement_whatever_happens(session: Session) -> None:
    assert session.learn(OWN)["settings"] == "work_mem=65536"
    assert session.rows(OWN)[0][0] == "64MB", "it runs with what was found"
    bad = "SELECT current_setting('work_mem'), count(*), sum(1 / (g - 500)) FROM t GROUP BY 1"
    for _ in range(5):
        with pytest.raises(psycopg.errors.DivisionByZero):
            session.rows(bad)
        assert session.value("SHOW work_mem") == "4MB"
    session.rows("BEGIN")
    session.rows("SAVEPOINT a")
    with pytest.raises(psycopg.errors.DivisionByZero):
        session.rows(bad)
    session.rows("ROLLBACK TO a")
    assert session.value("SHOW work_mem") == "4MB"
    session.rows(f"DECLARE c CURSOR FOR {OWN}")
    session.rows("FETCH 1 FROM c")
    assert session.value("SHOW work_mem") == "4MB", "between two fetches"
    session.rows("SET work_mem = '5MB'")
    session.rows("CLOSE c")
    assert session.value("SHOW work_mem") == "5MB", "what the user set inside stays"
    session.rows("ROLLBACK")
    assert session.value("SHOW work_mem") == "4MB"


def test_after_an_error_of_any_kind_statements_are_measured_again(session: Session) -> None:
    """No error handler tells the extension that a statement has ended: the end of its (sub)transaction does."""
    session.rows(TAKES_BACK)
    calls = session.learn(OWN, 20)["calls"]

    def is_measured() -> bool:
        nonlocal calls
        before, calls = calls, session.learn(OWN, 1)["calls"]
        return calls == before + 1

    assert is_measured()
    for bad in FAILING:
        with pytest.raises(psycopg.errors.DivisionByZero):
            session.rows(bad)
        assert is_measured(), bad
    session.rows(CATCHES)
    assert is_measured(), "an error that a block has caught"
    session.rows("BEGIN")
    for bad in FAILING[:3]:
        session.rows("SAVEPOINT a")
        session.rows("SAVEPOINT b")
        with pytest.raises(psycopg.errors.DivisionByZero):
            session.rows(bad)
        session.rows("ROLLBACK TO a")
        assert is_measured(), bad
    session.rows("COMMIT")
    assert is_measured()


def test_statements_inside_a_statement_have_the_session_s_own_settings(session: Session) -> None:
    session.rows(
        "CREATE OR REPLACE FUNCTION seen(integer) RETURNS text STABLE LANGUAGE plpgsql AS $$ BEGIN "
        "BEGIN PERFORM 1 / ($1 - $1); EXCEPTION WHEN division_by_zero THEN NULL; END; "
        "RETURN (SELECT current_setting('work_mem') FROM t WHERE g = $1); END $$"
    )
    nested = "SELECT current_setting('work_mem'), seen(min(k) + 1), count(*) FROM t GROUP BY 1"
    assert session.learn(nested)["settings"] == "work_mem=65536"
    assert session.rows(nested)[0][:2] == ("64MB", "4MB")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT g FROM t WHERE k = 1 FOR UPDATE", "it locks rows"),
        ("SELECT g, random() FROM t", "it calls volatile functions"),
        ("SELECT g FROM t LIMIT 5", "its answer may depend on the order of rows"),
        ("SELECT k, sum(r::float8) FROM t GROUP BY k", "its answer may depend on the order of rows"),
        ("SELECT k, any_value(r) FROM t GROUP BY k", "its answer may depend on the order of rows"),
        ("SELECT row_number() OVER (ORDER BY k) FROM t", "its answer may depend on the order of rows"),
        ("WITH x AS (UPDATE t SET r = r RETURNING 1) SELECT count(*) FROM x", "it writes"),
    ],
)
def test_what_is_left_alone(session: Session, sql: str, why: str) -> None:
    found = session.learn(sql, 12)
    assert (found["left_alone"], found["probes"], found["settings"]) == (why, 0, "")
    line = session.rows(f"EXPLAIN {sql}")[-1][0]
    assert line == f"Trimtab: left alone: {why}"


def test_sessions_and_transactions_that_are_left_alone(session: Session) -> None:
    session.rows("SET work_mem = '6MB'")
    assert session.learn(n=12)["left_alone"] == "the session has set one of the parameters"
    session.rows("RESET work_mem; SELECT trimtab_reset()")
    session.rows("BEGIN ISOLATION LEVEL SERIALIZABLE")
    assert session.learn(n=12)["left_alone"] == "its transaction is serializable"
    session.rows("ROLLBACK; SELECT trimtab_reset(); BEGIN; DELETE FROM t WHERE g = -1; SELECT txid_current()")
    assert session.learn(n=12)["left_alone"] == "its transaction has written"
    session.rows("ROLLBACK; SELECT trimtab_reset(); SET statement_timeout = '150ms'")
    assert session.learn(n=40)["left_alone"] == "a probe could run into statement_timeout"
    assert session.classes()[0]["probes"] == 0


def test_plans_that_postgresql_keeps_do_not_keep_a_probe(session: Session) -> None:
    session.rows(f"PREPARE p AS {OWN}")
    for _ in range(150):
        session.rows("EXECUTE p")
    found = session.classes()[0]
    assert found["settings"] == "work_mem=65536"
    assert found["probes"] >= 5
    assert session.rows("EXECUTE p")[0][0] == "64MB"
    session.rows("SET work_mem = '5MB'")
    assert session.rows("EXECUTE p")[0][0] == "5MB", "what the user sets counts at once, also for a plan that was kept"
    session.rows("RESET work_mem; SET trimtab.mode = off")
    assert session.rows("EXECUTE p")[0][0] == "4MB"


def test_memory_of_all_backends_has_a_limit(session: Session) -> None:
    session.rows("SET trimtab.memory_limit = '1MB'")
    found = session.learn("SELECT k, r, count(*) FROM t GROUP BY k, r ORDER BY 3, 2, 1", 60)
    assert "work_mem" not in found["settings"]
    assert session.value("SELECT memory_kb FROM trimtab_status()") == 0


def test_modes(session: Session) -> None:
    session.tune(mode="off")
    session.rows(QUERY)
    assert session.classes() == []
    session.tune(mode="observe")
    found = session.learn(OWN, 60)
    assert (found["probes"], found["settings"], found["own_ms"]) == (0, "", pytest.approx(100))
    assert session.rows(f"EXPLAIN {OWN}")[-1][0] == "Trimtab: observed only"


def test_a_statement_that_is_prepared_from_the_start_is_observed_too(session: Session) -> None:
    """Its plan was kept before it was known to be long enough for a class."""
    session.tune(mode="observe")
    for _ in range(10):
        session.connection.execute(OWN.encode(), prepare=True)
    assert session.classes()[0]["calls"] == 7


def test_statements_that_are_short_get_no_query_id_and_are_found_when_they_become_long(session: Session) -> None:
    session.connection.prepare_threshold = None  # each execution is planned
    session.tune("base=0.001")
    asks = "SELECT query_id FROM pg_stat_activity WHERE pid = pg_backend_pid()"
    ids = [session.value(asks) for _ in range(20)]
    assert ids[0] is not None
    assert None in ids
    for _ in range(20):
        session.rows(OWN)
    assert session.classes() == []
    session.tune("base=100")
    found = session.learn(OWN, 300)
    assert (found["own_ms"], found["calls"] >= 10) == (pytest.approx(100), True)


def test_a_long_statement_without_a_query_id_gets_one(session: Session) -> None:
    """It looks like those that were short before; here the clock counts, from the second one on."""
    session.tune("")
    session.rows("SET trimtab.min_duration = '100ms'")
    for _ in range(10):
        session.rows("SELECT pg_sleep(0)")
    for _ in range(6):
        session.rows("SELECT pg_sleep(0.2)")
    assert [row["left_alone"] for row in session.classes()] == ["it calls volatile functions"]


def test_pin_forget_reset_export(session: Session) -> None:
    query_id = session.learn(OWN, 20)["query_id"]
    assert session.value(f"SELECT trimtab_pin({query_id}, 'work_mem=16MB, jit=off')") == 1
    assert session.rows(OWN)[0][0] == "16MB"
    assert session.rows(f"EXPLAIN {OWN}")[-1][0] == "Trimtab: pinned: work_mem=16384, jit=off"
    with pytest.raises(psycopg.Error, match="parameter=work_mem has no value=17MB to pin"):
        session.rows(f"SELECT trimtab_pin({query_id}, 'work_mem=17MB')")
    with pytest.raises(psycopg.Error, match="cannot pin parameter=fsync value=off"):
        session.rows(f"SELECT trimtab_pin({query_id}, 'fsync=off')")
    exported = session.value("SELECT trimtab_export()")
    document = exported if isinstance(exported, dict) else json.loads(exported)
    assert document["classes"][0]["settings"] == {"work_mem": "16384", "jit": "off"}
    assert "current_setting" not in json.dumps(document), "no text of a statement"
    assert session.value(f"SELECT trimtab_forget({query_id})") == 1
    assert session.classes() == []


def test_the_list_of_parameters(session: Session) -> None:
    session.rows("SET trimtab.parameters = 'jit, work_mem=4MB..32MB'")
    rows = {name: values for name, _, values in session.rows("SELECT * FROM trimtab_parameters")}
    assert (rows["work_mem"], rows["jit"], rows["random_page_cost"]) == ("4096 16384", "off on", "4")
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        session.rows("SET trimtab.parameters = 'fsync'")
    assert caught.value.diag.message_detail == "parameter=fsync is not one that Trimtab sets."
    assert "trimtab_parameters lists them" in (caught.value.diag.message_hint or "")
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        session.rows("SET trimtab.parameters = 'work_mem=9MB..1MB'")
    assert caught.value.diag.message_detail == "parameter=work_mem has no range low..high."


def test_the_reference_lists_all_settings_and_parameters(session: Session) -> None:
    page = (ROOT / "docs" / "reference" / "in-engine.md").read_text(encoding="utf-8")
    first = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| `")]
    documented = [name for cell in first for name in re.findall(r"`([^`]+)`", cell)]
    settings = {name for (name,) in session.rows("SELECT name FROM pg_settings WHERE name LIKE 'trimtab.%'")}
    parameters = {name for (name,) in session.rows("SELECT name FROM trimtab_parameters")}
    assert {name for name in documented if name.startswith("trimtab.")} == settings
    assert {name for name in documented if not name.startswith("trimtab.")} == parameters


def test_a_session_that_allows_less_is_another_class_and_is_shown_rightly(session: Session) -> None:
    session.rows("SET trimtab.parameters = 'jit, work_mem=4MB..64MB'")
    assert session.learn(OWN)["settings"] == "work_mem=65536"
    session.rows("SET trimtab.parameters = 'all'")
    assert session.classes()[0]["settings"] == "work_mem=65536"
    tried = ", ".join(row[3] for row in session.rows("SELECT * FROM trimtab_history"))
    assert {each.partition("=")[0] for each in tried.split(", ")} == {"work_mem", "jit"}
    session.learn(OWN, 20)
    assert len([row for row in session.classes() if row["calls"] > 10]) == 2


def test_who_may_see_and_change(tuned: tuple[Server, Session], session: Session) -> None:
    session.rows("DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN")
    with tuned[0].admin(user="plain") as connection:
        plain = Session(connection)
        for sql in ("SELECT * FROM trimtab_sections", "SELECT trimtab_reset()", "SET trimtab.mode = tune"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                plain.rows(sql)


def test_sections_inside_a_statement_change_no_answer(session: Session) -> None:
    session.rows("SET trimtab.inside = alone; SET trimtab.inside_tuples = 1000")
    query = "SELECT a.k, count(*) FROM t a JOIN t b ON a.r = b.g GROUP BY a.k ORDER BY a.k"
    first = session.rows(query)
    for _ in range(30):
        assert session.rows(query) == first
    assert session.value("SHOW work_mem") == "4MB"
    assert session.classes()[0]["probes"] == 0, "the settings of the whole statement are left alone"


@pytest.mark.parametrize("version", ["18", pytest.param("16", marks=pytest.mark.full)])
def test_without_preloading(version: str) -> None:
    notices: list[str] = []
    with engine(version, preload=False) as (server, session):
        session.connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        found = session.learn(n=80 if not IS_FULL else 200)
        assert found["settings"] == "work_mem=65536"
        where = session.value("SELECT knowledge_in FROM trimtab_status()")
        assert where == ("a shared segment" if version == "18" else "this backend only")
        with server.admin() as connection:
            connection.add_notice_handler(
                lambda notice: notices.append(f"{notice.message_primary} {notice.message_hint}")
            )
            Session(connection).rows(f"LOAD '{library(version)}'")
            assert bool(Session(connection).classes()) == (version == "18")
    said = [text for text in notices if text.startswith("trimtab learns in this session only")]
    assert len(said) == (0 if version == "18" else 1)
