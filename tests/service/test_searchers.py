"""Every registered searcher, named in a study file, searches on a real PostgreSQL with a real load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import require
from tests.servers import made
from tests.servers.embedded import provide
from tests.service.conftest import SLEEP
from trimtab import plugins
from trimtab.flow import Ask, Scorer, Steps, Study
from trimtab.flow.explore import explore
from trimtab.flow.start import start_searcher
from trimtab.history import History, space_to_json
from trimtab.records import Role
from trimtab.study import load_study_file
from trimtab.study.drive import Recorded, drive, room_measure
from trimtab.study.stage import Stage, build_workload, open_stage
from trimtab.study.task import task_of
from trimtab.trial import TrialRoom

pytestmark = [pytest.mark.service, pytest.mark.slow]

STUDY = """
[study]
name = "searchers"
budget = "2 trials"

[target.db]
kind = "postgresql"
embedded = "18"
memory = "1GiB"
knobs = ["work_mem", "random_page_cost", "bgwriter_delay", "enable_sort"]

[workload]
kind = "sql"
database = "postgres"
files = ["sleep.sql"]
read_only = true

[workload.load]
users = 2

[search]
searcher = "{searcher}"
{options}

[measure]
window = "1s"
window_max = "1s"
warmup_floor = "0s"
warmup_cap = "0s"
"""
NEEDS = {"optuna": ("optuna",), "smac": ("smac",)}
OPTIONS = {"grid": "levels = 2"}


class _Silent:
    def phase(self, text: str) -> None: ...
    def trial_started(self, number: int, role: Role, changed: dict[str, str]) -> None: ...
    def trial_ended(self, trial: object, best_gain: float | None, time_left_s: float | None) -> None: ...


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Outside pytest's private folders: the server's own user must be able to enter it."""
    with made("sear") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIMTAB_CACHE", str(folder / "cache"))
        provide(folder / "cache", "18")
        yield folder


@pytest.fixture(scope="module")
def stage(place: Path) -> Iterator[Stage]:
    """One open server with its data for all searchers."""
    (place / "study.toml").write_text(STUDY.format(searcher="random", options=""))
    (place / "sleep.sql").write_text(SLEEP)
    with open_stage(load_study_file(place / "study.toml"), place / "state") as stage:
        build_workload(stage.file).prepare(stage.stack.endpoint(), lambda line: None)
        yield stage


QUICK = ("auto", "grid")
"""The default, and one without a model; all search in every run on a simulated server (tests/search), the peers too."""


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in plugins.names("searchers")],
)
def test_a_searcher_named_in_the_study_file_searches(name: str, place: Path, stage: Stage) -> None:
    require(*NEEDS.get(name, ()))
    path = place / f"{name}.toml"
    path.write_text(STUDY.format(searcher=name, options=OPTIONS.get(name, "")))
    mine = _with_file(stage, path)
    with History.open(place / f"{name}.db") as history:
        record = history.create_study(
            name=name,
            settings={},
            space=space_to_json(stage.space),
            objective=str(stage.objective),
            baseline=stage.baseline,
            machine=stage.machine,
            context=stage.workload.context,
            fingerprint=name,
            created_at=0.0,
        )
        with TrialRoom(
            stage.stack, stage.workload, stage.space, stage.baseline,
            objective=stage.objective, state_dir=place / "state", study=name,
        ) as room:  # fmt: skip
            study = Study(task_of(mine), _searched)
            reason = drive(
                study,
                room_measure(room, study.scorer, mine, _Silent()),
                recorded=Recorded((), lambda line: None),
                keep=lambda trial: history.add_trial(record.id, trial),
                listener=_Silent(),
            )
        trials = history.trials(record.id)
    asked = [trial for trial in trials if trial.role in (Role.SEARCH, Role.ADVICE)]
    assert len(asked) == 2, reason
    assert {trial.searcher for trial in asked} == {name}
    assert all(trial.measurement is not None for trial in asked), [trial.reason for trial in asked]
    assert asked[0].config != asked[1].config


def _searched(scorer: Scorer) -> Steps[str]:
    """The search of a study, without what comes before and after it; why it ended."""
    task = scorer.task
    yield Ask(config=task.baseline, role=Role.BASELINE)
    return (yield from explore(task, scorer, start_searcher(task, 2))).reason


def _with_file(stage: Stage, path: Path) -> Stage:
    from dataclasses import replace

    return replace(stage, file=load_study_file(path))
