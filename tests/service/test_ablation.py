"""A study on a real server ends with the settings that matter, and the report says what each is worth."""

from __future__ import annotations

import json

import pytest

from tests.service.conftest import Debian, Place

pytestmark = [pytest.mark.service, pytest.mark.slow]

STUDY = """
[study]
name = "worth"
budget = "5 trials"

[target.db]
kind = "postgresql"
memory = "1GiB"
{target}

[workload]
kind = "sql"
database = "postgres"
files = ["short.sql"]

[workload.load]
users = 1

[search]
searcher = "random"
advice = {{ jit = false, work_mem = "8MB", random_page_cost = 2.0 }}

[measure]
window = "1s"
window_max = "1s"
warmup_floor = "200ms"
warmup_cap = "200ms"

[proof]
min_pairs = 3
max_noise = 0.5
advice = false
"""

# The planner expects 3 * 10^8 rows, so it compiles and optimises, which takes far longer than the query: there are 27 rows. So
# `jit` decides, and nothing else does. The sleep keeps the tuned config as steady as a busy machine lets the baseline be.
SHORT = """SELECT count(*), pg_sleep(0.02)
FROM generate_series(1, (SELECT 3)) a, generate_series(1, (SELECT 3)) b, generate_series(1, (SELECT 3)) c
WHERE a + b + c > 0;
"""


def test_only_what_matters_is_left_and_its_worth_is_reported(place: Place, debian: Debian) -> None:
    target = debian.target.replace("shared_buffers", "jit")
    (place.folder / "study.toml").write_text(STUDY.format(target=target))
    place.provide(target)
    (place.folder / "short.sql").write_text(SHORT)
    found = debian.auto_conf()
    ran = place.run("tune", "study.toml", "--json", "--html", "report.html")
    assert ran.code == 0, ran.err
    assert debian.auto_conf() == found
    data = json.loads(ran.out)
    verdict, summary = data["study"]["verdict"], data["summary"]
    assert verdict["config"]["jit"] is False
    assert verdict["worth"]["jit"]["verdict"] == "proven"
    assert verdict["worth"]["jit"]["without"]["low"] > 1.1
    dropped = {row["knob"] for row in verdict["dropped"]}
    assert dropped | set(verdict["config"]) == set(verdict["ablation"]["full"])
    assert summary["lines"][0]["knob"] == "jit"
    assert all(line["verdict"] != "proven" or line["without"]["low"] > 1 for line in summary["lines"])
    text = place.run("report", "worth").out
    assert "What each setting is worth" in text
    assert "The search's winner changed" in text
    page = (place.folder / "report.html").read_text()
    assert "What each setting is worth" in page
    assert 'id="plot-by_knobs"' in page or len(verdict["ablation"]["full"]) == 1
