"""A study on a real server ends with the settings that matter, and the report says what each is worth."""

from __future__ import annotations

import json

import pytest

from tests.service.conftest import Debian, Place

pytestmark = [pytest.mark.service, pytest.mark.slow]

STUDY = """
[study]
name = "worth"
budget = "2 trials"

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
max_pairs = 4
max_noise = 0.5
advice = false
"""

# `jit` decides, and nothing else does; a sleep is as steady as a busy machine allows, and leaves it to others.
SHORT = "SELECT pg_sleep(CASE WHEN current_setting('jit')::boolean THEN 0.1 ELSE 0.03 END);\n"


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
