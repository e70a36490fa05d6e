"""trimtab rank as a user runs it: a design on a real server, killed and resumed, and ranks from the history alone."""

from __future__ import annotations

import signal
import time

import pytest

from tests.service.conftest import Place, servers_under

pytestmark = [pytest.mark.service, pytest.mark.slow]

STUDY = """
[study]
name = "ranked"
budget = "4 trials"

[target.db]
kind = "postgresql"
embedded = "18"
memory = "1GiB"
knobs = ["work_mem", "random_page_cost", "enable_indexscan"]

[workload]
kind = "sql"
database = "postgres"
files = ["planted.sql"]
read_only = true

[workload.load]
users = 2

[measure]
window = "1s"
window_max = "1s"
warmup_floor = "0s"
warmup_cap = "0s"

[guard]                                 # on a busy machine a single operation of a second may take twice as long
latency_factor = 0
throughput_factor = 0

[proof]
advice = false
"""

PLANTED = "SELECT pg_sleep(CASE WHEN current_setting('enable_indexscan')::boolean THEN 0.1 ELSE 0.05 END);\n"
"""One knob decides."""


def test_a_killed_design_is_recovered_and_goes_on_and_is_ranked_without_a_server(place: Place) -> None:
    (place.folder / "study.toml").write_text(STUDY)
    (place.folder / "planted.sql").write_text(PLANTED)
    place.provide(STUDY)
    assert place.run("doctor", "study.toml").code == 0
    found = place.auto_conf()
    arguments = ("rank", "study.toml", "--design", "lhs", "--runs", "8", "--ranker", "lasso")
    process = place.start(*arguments)
    assert process.stderr is not None
    until = time.monotonic() + 120
    while "trial 6" not in process.stderr.readline() and time.monotonic() < until:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    ended = place.json(*arguments)
    assert (ended["study"], ended["schema_version"]) == ("ranked.rank-lhs", 1)
    assert place.auto_conf() == found
    assert servers_under(place.folder) == []
    trials = place.json("report", "ranked.rank-lhs")["trials"]
    assert [trial["number"] for trial in trials] == list(range(len(trials)))
    assert sum(trial["role"] == "design" for trial in trials) == 8
    assert all(trial["status"] == "ok" for trial in trials)
    # From here on the history is enough.
    shown = place.run("rank", "ranked", "--ranker", "lasso", "--top", "2")
    assert shown.code in (0, 1)
    assert "Which knobs of ranked.rank-lhs matter" in shown.out
    assert "and 1 knob more" in shown.out
    assert servers_under(place.folder) == []
    ranked = place.json("rank", "study.toml", "--ranker", "lasso")
    assert {entry["knob"] for entry in ranked["knobs"]} == {"work_mem", "random_page_cost", "enable_indexscan"}
    assert ranked["knobs"][0]["knob"] == "enable_indexscan"
    assert ranked == ended | {"next": ranked["next"]}
