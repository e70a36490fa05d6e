"""Studies of the command line under `trimtab serve`: started from a file, watched by the second, stopped whoever started them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser
from tests.commands import start_trimtab
from tests.serve.asking import TOKEN
from tests.serve.test_server import Serving
from tests.servers.postgresql import started
from trimtab.client import Server

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.needs("postgresql-embedded", "chromium")]

STUDY = """
[study]
name = "live"
budget = "500 trials"
[target.db]
kind = "postgresql"
url = "{url}"
memory = "500MB"
[workload]
kind = "sql"
database = "postgres"
files = ["sleep.sql"]
read_only = true
load = {{ users = 2 }}
[measure]
window = "3s"
window_max = "3s"
"""
SLEEP = "SELECT count(*), pg_sleep(0.1) FROM generate_series(1, 100);\n"


def until(found: Callable[[], Any], what: str) -> Any:
    """What `found` gives once it gives something."""
    for _ in range(3000):
        if answer := found():
            return answer
        time.sleep(0.1)
    raise AssertionError(f"{what} never came")


def test_a_study_is_started_watched_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "studies"
    folder.mkdir()
    (folder / "sleep.sql").write_text(SLEEP)
    with started() as database:
        monkeypatch.setenv("PGPASSWORD", database.password)
        (folder / "live.toml").write_text(STUDY.format(url=database.url()))
        before = database.auto_conf.read_text()
        serving = Serving(tmp_path, "--studies", str(folder))
        try:
            with Server(serving.url, TOKEN) as server:

                def study() -> Any:
                    found = [each for each in server.request("GET", "/studies")["studies"] if each["name"] == "live"]
                    return found[0] if found else {}

                def doing() -> Any:
                    return study().get("now")

                assert server.request("POST", "/studies", {"file": "live.toml"}) == {"started": "live"}
                until(lambda: (doing() or {}).get("seconds"), "a second of load")
                with Browser(tmp_path) as page:
                    page.open(f"{serving.url}/#token={TOKEN};/study/{study()['id']}")
                    page.wait("document.querySelector('#now svg')")
                    page.wait("document.querySelector('#now').innerText.includes('operations a second')")
                    page.wait(
                        "[...document.querySelectorAll('#buttons button')].some((each) => each.innerText == 'Stop')"
                    )
                    assert page.errors == []
                _stopped(server, study)
                # The same study goes on from a terminal; who started it does not matter.
                words = ["tune", "live.toml", "--state", str(tmp_path / "state"), "-q"]
                terminal = start_trimtab(words, env=serving.env, cwd=folder)
                until(lambda: (doing() or {}).get("seconds"), "a second of the other process")
                _stopped(server, study)
                assert terminal.wait() == 130
        finally:
            serving.end()
        assert [line for line in database.auto_conf.read_text().splitlines() if "=" in line] == [
            line for line in before.splitlines() if "=" in line
        ]


def _stopped(server: Server, study: Callable[[], Any]) -> None:
    assert server.request("POST", f"/studies/{study()['id']}/stop", {}) == {"stopping": "live"}
    until(lambda: study()["status"] == "interrupted" and not study()["now"], "the end of the study")
