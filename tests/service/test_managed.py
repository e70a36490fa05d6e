"""A server that lets this user change nothing, as a managed service does: what changes nothing works, what would is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.postgresql import Server, set_password, started
from tests.service.conftest import Place

pytestmark = pytest.mark.service

NO_RIGHT = "this user may not change it (no ALTER SYSTEM privilege)"
REFUSED = "error: this user may not change any setting of the server"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """With a login `plain` that may look (`pg_monitor`), and change nothing."""
    with started("18") as server:
        with server.admin() as connection:
            connection.execute("CREATE ROLE plain LOGIN")
            connection.execute("GRANT pg_monitor TO plain")
        set_password(server, "plain", server.password)
        yield server


@pytest.fixture
def managed(place: Place, server: Server) -> Place:
    place.environment["PGPASSWORD"] = server.password
    place.write(f'url = "{server.url(user="plain")}"\nknobs = ["work_mem", "random_page_cost"]')
    return place


def test_what_changes_nothing_works_without_rights(managed: Place) -> None:
    doctor = managed.run("doctor", "study.toml")
    assert doctor.code == 1
    assert "FAIL  changes: this user may not change any setting of the server; GRANT ALTER SYSTEM" in doctor.out
    assert f"locked: {NO_RIGHT}" in doctor.out
    assert "ok    space: 2 knobs" in doctor.out

    knobs = managed.run("knobs", "study.toml")
    assert knobs.code == 0
    assert "* work_mem" in knobs.out
    assert f"locked: {NO_RIGHT}" in " ".join(knobs.out.split())
    assert "* marks the 2 that this study would tune" in knobs.out

    advice = managed.run("advise", "study.toml")
    assert advice.code == 0
    assert "work_mem = " in advice.out
    assert f"to be set by other means: {NO_RIGHT}" in advice.err

    bench = managed.json("bench", "study.toml", "--runs", "1")
    assert bench["runs"][0]["throughput"] > 0
    assert bench["config"] == {}


@pytest.mark.parametrize("arguments", [("tune", "study.toml"), ("bench", "study.toml", "--set", "work_mem=8MB")])
def test_what_would_change_something_is_refused(managed: Place, arguments: tuple[str, ...]) -> None:
    ran = managed.run(*arguments)
    assert (ran.code, ran.err.splitlines()[-2]) == (3, REFUSED)


def test_another_value_set_by_hand_between_two_benches_is_measured(managed: Place, server: Server) -> None:
    """What a parameter group does: the next bench takes the server as it is then."""
    first = managed.run("bench", "study.toml", "--runs", "1")
    with server.admin() as connection:
        connection.execute("ALTER SYSTEM SET work_mem = '9MB'")
        connection.execute("SELECT pg_reload_conf()")
    second = managed.run("bench", "study.toml", "--runs", "1")
    assert (first.code, second.code) == (0, 0)
    assert server.query("SHOW work_mem") == [("9MB",)]
    assert "e2e.bench" in managed.run("history", "list").out
