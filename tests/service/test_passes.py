"""A search in passes on a real PostgreSQL: restarts only where they are needed, and the server as it was found."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import Silent
from tests.servers import made
from tests.servers.embedded import provide
from tests.service.conftest import SLEEP
from trimtab.records import Role, Trial
from trimtab.report import report_text
from trimtab.study import load_study_file, open_stage, tune
from trimtab.trial import TrialRoom
from trimtab.trial.warmth import Warmth

pytestmark = [pytest.mark.service, pytest.mark.slow]

STUDY = """
[study]
name = "passes"
budget = "9 trials"

[target.db]
kind = "postgresql"
embedded = "18"
memory = "1GiB"
knobs = ["shared_buffers", "work_mem", "random_page_cost", "enable_sort"]

[workload]
kind = "sql"
database = "postgres"
files = ["sleep.sql"]
read_only = true

[workload.load]
users = 2

[search]
searcher = "random"
plays = "off"
passes = "restart-first"

[measure]
window = "1s"
window_max = "1s"
warmup_floor = "0s"
warmup_cap = "0s"

[proof]
min_pairs = 2
max_pairs = 2
ablate = false
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """Outside pytest's private folders: the server's own user must be able to enter it."""
    with made("pass") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIMTAB_CACHE", str(folder / "cache"))
        provide(folder / "cache", "18")
        yield folder


@pytest.fixture
def restarted(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Numbers of the trials whose config took a restart."""
    run, told, numbers, found = TrialRoom.run, Warmth.restarted, [0], set[int]()

    def numbered(self: TrialRoom, *args: Any, **options: Any) -> Trial:
        numbers.append(options["number"])
        return run(self, *args, **options)

    def noted(self: Warmth, names: Collection[str]) -> None:
        found.update(numbers[-1:] if names else [])
        told(self, names)

    monkeypatch.setattr(TrialRoom, "run", numbered)
    monkeypatch.setattr(Warmth, "restarted", noted)
    return found


def test_the_server_is_restarted_in_the_first_pass_only(place: Path, restarted: set[int]) -> None:
    path = place / "study.toml"
    path.write_text(STUDY)
    (place / "sleep.sql").write_text(SLEEP)
    file = load_study_file(path)
    record, trials = tune(file, place / "state", Silent())
    passes = record.verdict.passes
    assert passes is not None
    late, soon = passes.passes
    assert late.knobs == ("shared_buffers",)
    assert set(soon.knobs) == {"work_mem", "random_page_cost", "enable_sort"}
    search = [trial for trial in trials if trial.role is Role.SEARCH]
    assert len(search) == late.trials + soon.trials
    assert late.trials >= 2
    first, second = search[: late.trials], search[late.trials :]
    assert len({trial.config["shared_buffers"] for trial in first}) > 1
    assert len({trial.config["shared_buffers"] for trial in second}) == 1
    # After a run of the baseline the held size has to come back, by a restart; between two trials of the pass there is none.
    alike = [
        trial.number for trial, before in zip(trials[1:], trials, strict=False) if trial in second and before in second
    ]
    assert alike
    assert restarted.isdisjoint(alike)
    assert restarted & {trial.number for trial in first}
    assert "What each pass of the search brought and cost" in report_text(record, trials)
    with open_stage(file, place / "state") as stage:
        assert stage.baseline == record.baseline
