"""S2: a canary password and a canary literal of a query are in no output, report, argv, exception, store, journal or history."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.faults.conftest import MakePlace
from tests.faults.invariants import check_invariants, take_picture
from tests.faults.place import CANARY, Place
from tests.needs import IS_FULL

pytestmark = pytest.mark.service

LITERAL = f"{CANARY}literal"
SLOWER = "pg_sleep(CASE WHEN current_setting('work_mem') = '4MB' THEN 0.05 ELSE 0.06 END)"
"""With what is tried, which needs no proof then."""
SQL = f"SELECT count(*), {SLOWER} FROM witness WHERE body <> '{LITERAL}' AND body <> :note;\n"
FAILING = f"SELECT '{LITERAL}'::integer;\n"
WORKLOAD = f"""
[workload]
kind = "sql"
database = "postgres"
files = ["read.sql"]
read_only = true
parameters = {{ note = {{ type = "choice", values = ["{LITERAL}", "other"] }} }}

[workload.load]
users = 4
"""


def use(place: Place, sql: str = SQL, *, url: str | None = None, **more: str) -> None:
    reach = None if url is None else f'url = "{url}"\ndata_dir = "{place.server.data_dir}"\n' \
        f'restart = "{place.server.restart_command}"\n'  # fmt: skip
    place.write(reach=reach, workload=WORKLOAD, budget="1 trials", **more)
    (place.folder / "read.sql").write_text(sql)


WAYS = ["url", *(["pgpass", "environment", "conninfo"] if IS_FULL else [])]


@pytest.mark.parametrize("way", WAYS)
def test_S2_canary_password_and_literal_are_nowhere(make_place: MakePlace, way: str) -> None:
    place = make_place("18", False)
    url = place.server.url()
    if way != "environment":
        del place.environment["PGPASSWORD"]
    if way == "url":
        url = url.replace("postgres@", f"postgres:{place.canary}@")
    if way == "conninfo":
        url = f"host=127.0.0.1 port={place.server.port} user=postgres dbname=postgres password='{place.canary}'"
    if way == "pgpass":
        (place.folder / ".pgpass").write_text(f"*:*:*:*:{place.canary}\n")
        (place.folder / ".pgpass").chmod(0o600)
        place.environment["PGPASSFILE"] = str(place.folder / ".pgpass")
    use(place, url=url)
    before = take_picture(place.server)
    place.is_forked = False  # the command line of `tune` is watched, too
    if way in ("environment", "url"):
        child = place.start("tune", "study.toml", "--html", "report.html")
        place.wait_step(child, "apply")
        for path in (place.state / "journal").rglob("*"):
            assert CANARY.encode() not in path.read_bytes()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        ran = place.end(child)
        assert ran.code in (0, 1), ran.err
        assert any(b"study.toml" in argv for argv in place.argvs), "no argv was sampled"
        place.is_forked = True
        for form in ((), ("--json",), ("--trials",), ("--html", "again.html")):
            assert place.run("report", "faults", *form).code == 0
        assert place.run("history", "list").code == 0
    place.is_forked = True
    for command in (("doctor",), ("knobs",), ("advise",), ("doctor", "--grant-sql")):
        ran = place.run(command[0], "study.toml", *command[1:])
        assert ran.code in (0, 1), ran.err
        place.run(command[0], "study.toml", *command[1:], "--json") if command[0] != "advise" else None
    check_invariants(place, before, recovers=way == "url")


def test_S2_errors_quote_neither_password_nor_literal(make_place: MakePlace) -> None:
    place = make_place("18", False)
    before = take_picture(place.server)
    wrong = place.server.url().replace("postgres@", f"postgres:{CANARY}wrong@")
    cases = {
        "wrong password": {"url": wrong},
        "no such host": {"url": wrong.replace("127.0.0.1", "nowhere.invalid")},
        "no such database": {"url": place.server.url(database="nowhere").replace("@", f":{place.canary}@")},
        "no port": {"url": wrong.replace(str(place.server.port), "x")},
        "statement that fails": {"sql": FAILING},
        "statement that cannot be parsed": {"sql": f"SELEC '{LITERAL}';\n"},
        "history with a wrong password": {"study": f'history = "{wrong}"'},
        "history of no server": {"study": f'history = "{wrong.replace("127.0.0.1", "nowhere.invalid")}"'},
        "range that is a secret": {"search": f'[search]\n[search.ranges]\nwork_mem = ["password={CANARY}", 1]\n'},
    }
    for what, case in cases.items():
        place.environment["PGPASSWORD"] = place.canary
        use(place, **case)  # type: ignore[arg-type]
        ran = place.run("tune", "study.toml")
        assert ran.code in (2, 3, 4), (what, ran.err)
        assert CANARY not in ran.out + ran.err, what
    check_invariants(place, before, recovers=False)


def test_S2_server_log_lines_lose_statements(make_place: MakePlace) -> None:
    """A trial that the server ends shows its log, and the log quotes the statement that ran."""
    place = make_place("18", True)
    with place.server.up(), place.server.admin() as connection:
        connection.execute("ALTER SYSTEM SET log_statement = 'all'")
        connection.execute("ALTER SYSTEM SET log_min_duration_statement = 0")
    before = take_picture(place.server)
    use(place, f"SELECT CASE WHEN current_setting('work_mem') = '4MB' THEN 1 ELSE '{LITERAL}'::integer END;\n")
    workload = WORKLOAD.replace('parameters = { note = { type = "choice", values = ', "#")
    place.write(workload=workload, knobs=("work_mem",), budget="2 trials")
    (place.folder / "read.sql").write_text(
        f"SELECT pg_sleep(0.05), CASE WHEN current_setting('work_mem') = '4MB' THEN 1 ELSE length('{LITERAL}') / 0 END;\n"
    )
    ran = place.run("tune", "study.toml")
    assert ran.code in (0, 1, 4), ran.err
    place.run("report", "faults", "--json")
    check_invariants(place, before, ran=ran)


def test_S2_history_keeps_digests_unless_asked(own_place_18: Place) -> None:
    place = own_place_18
    use(place)
    child = place.start("tune", "study.toml")
    place.wait_step(child, "apply", trial=3)
    place.kill(child)
    place.run("recover")
    record = place.record()
    assert record is not None
    assert record.settings["workload"]["statements"]["read"].startswith("sha256:")
    assert record.settings["workload"]["parameters"]["note"]["values"][0].startswith("sha256:")
    assert LITERAL.encode() not in (place.state / "history.db").read_bytes()
    before = place.trials()
    resumed = place.run("tune", "study.toml")
    assert resumed.code in (0, 1), resumed.err
    assert place.trials()[: len(before)] == before, "it did not resume"
    for path in (place.state / "history.db", *(place.state / "journal").rglob("*")):
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    use(place, study="keep_query_text = true", name="asked")
    child = place.start("tune", "study.toml")
    place.wait_until(child, lambda: place.record("asked"), "the record")
    place.kill(child)
    asked = place.record("asked")
    assert asked is not None
    assert LITERAL in asked.settings["workload"]["statements"]["read"]
    assert place.run("recover").code == 0


def test_S2_a_bug_report_file_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trimtab.cli import _report_bug

    monkeypatch.setenv("PGPASSWORD", f"{CANARY}bug")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    try:
        raise ValueError(f"connecting postgresql://u:{CANARY}x@h said: {CANARY}bug")
    except ValueError as error:
        _report_bug(error)
    (file,) = tmp_path.iterdir()
    text = file.read_text()
    assert "Traceback" in text
    assert CANARY not in text.replace("{CANARY}", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
