"""A study file with several targets: read, tuned, applied, rolled back and recovered; and the files that cannot be."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import STUDY, FakeStudy
from trimtab import plugins
from trimtab.cli.bench_command import _settings
from trimtab.errors import ApplyError, SpaceError, UsageError
from trimtab.records import Context, Role, Status, Trial
from trimtab.report import report_text
from trimtab.search import RestartCost
from trimtab.space import Config
from trimtab.study import apply_winner, build_stack, checks_of, load_study_file, open_stage, rollback
from trimtab.study.benching import parse_settings
from trimtab.study.stage import build_target
from trimtab.study.task import task_of
from trimtab.study.verdict import wall_of
from trimtab.testing.fake_target import FakeTarget

pytestmark = pytest.mark.slow

TARGETS = """
[target.web]
kind = "fake"
knobs = ["workers", "method"]
needs = ["app"]

[target.app]
kind = "fake"
knobs = ["cache", "workers"]
needs = ["db"]

[target.db]
kind = "fake"
knobs = ["cache", "sort_memory", "method"]

[stack]
memory = "800MiB"
constraints = ["web.workers <= app.workers"]
"""
TEXT = STUDY.replace('[target.db]\nkind = "fake"\n', TARGETS).replace(
    '[workload]\nkind = "fake"', '[workload]\nkind = "fake"\ntarget = "db"'
)


class ThreeFakes(FakeStudy):
    """The study over three fake targets that live as long as it does."""

    def __init__(self, base: FakeStudy) -> None:
        super().__init__(
            path=base.path, target=base.target, listener=base.listener, text=TEXT, is_ablated=base.is_ablated
        )
        self.targets = {name: FakeTarget(name) for name in ("web", "app")} | {"db": self.target}
        self.workload = base.workload

    def made(self, name: str, settings: dict[str, Any], **more: Any) -> FakeTarget:
        fresh = FakeTarget.from_settings(name, settings, state_dir=Path())
        known = self.targets[name]
        known._knobs, known._memory_mib = fresh._knobs, fresh._memory_mib
        return known

    @property
    def values(self) -> dict[str, Any]:
        return {name: dict(target.values) for name, target in self.targets.items()}

    def file(self) -> Any:
        path = self.path / "study.toml"
        path.write_text(self.written, encoding="utf-8")
        return load_study_file(path)


@pytest.fixture
def three(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> ThreeFakes:
    study = ThreeFakes(fake)
    load = plugins.load

    class Target:
        from_settings = staticmethod(study.made)

        @staticmethod
        def from_snapshot(snapshot: Any, *, state_dir: Path) -> FakeTarget:
            return study.targets[snapshot.target]

    monkeypatch.setattr(
        plugins, "load", lambda group, name: Target if (group, name) == ("targets", "fake") else load(group, name)
    )
    return study


def test_the_space_of_a_stack(three: ThreeFakes) -> None:
    with open_stage(three.file(), three.path / "state") as stage:
        assert [tier.name for tier in stage.stack.tiers] == ["db", "app", "web"]
        assert stage.stack.driven.name == "db"
        assert list(stage.space.knobs) == [
            "db.cache", "db.sort_memory", "db.method", "app.cache", "app.workers", "web.workers", "web.method",
        ]  # fmt: skip
        labels = [constraint.label for constraint in stage.space.constraints]
        assert labels == ["memory budget", "stack.constraints[0]"]
        assert stage.space.is_feasible(stage.advice)
        assert stage.stack.kind == "fake+fake+fake"
        checks = checks_of(stage, three.path / "state")
        assert [check.check for check in checks][:3] == ["db: server", "app: server", "web: server"]
        stage.stack.doctor = lambda: [("app: memory use", False, "too much")]  # type: ignore[method-assign]
        assert checks_of(stage, three.path / "state")[0].verdict == "note", "the user's own config is measured as it is"


def test_the_search_knows_which_restart_costs_much(three: ThreeFakes) -> None:
    three.targets["app"].warmup_floor_s = 30
    measure = 'window = "10s"\nwindow_max = "10s"\nwarmup_floor = "5s"\nwarmup_cap = "20s"'
    three.text = re.sub(r"(?<=\[measure\]\n)(\w+ = .*\n)*", measure + "\n", three.text)
    with open_stage(three.file(), three.path / "state") as stage:
        assert task_of(stage).restarts == (RestartCost(frozenset({"app.cache"}), (20 - 5) / (5 + 10)),), (
            "the cap stands"
        )
    three.targets["app"].warmup_floor_s = 5
    with open_stage(three.file(), three.path / "state") as stage:
        assert task_of(stage).restarts == (), "every run warms up for as long"


def test_a_stack_is_tuned_applied_and_rolled_back(three: ThreeFakes) -> None:
    found = three.values
    three.text = three.text.replace("12 trials", "16 trials")
    record, trials = three.tune()
    assert three.values == found
    assert {name.partition(".")[0] for trial in trials for name in trial.effective} == {"db", "app", "web"}
    assert all("apply" not in trial.cost_s for trial in trials)
    assert any("apply.app" in trial.cost_s for trial in trials)
    assert record.status == "proven", "the fake database has much to gain"
    again, stored = three.tune()
    assert (again.id, len(stored)) == (record.id, len(trials)), "it is shown again, and nothing is measured"
    config = record.verdict.config
    tiers = {name.partition(".")[0] for name in config}
    assert tiers
    for tier in tiers:
        written = three.path / "state" / "results" / f"fake.{tier}.conf"
        assert all(
            f"{name.partition('.')[2]} = " in written.read_text() for name in config if name.startswith(f"{tier}.")
        )
        read = _settings((), written)
        assert set(read) == {name for name in config if name.startswith(f"{tier}.")}, "as `bench --config` reads it"
    assert all(f"[target.{tier}]" in record.verdict.fragment for tier in tiers)
    state = three.path / "state"
    effective = apply_winner(record, three.file(), state)
    assert effective is not None
    assert {name: effective[name] for name in config} == dict(config)
    rollback("fake", state)
    assert three.values == found


def test_the_seconds_of_a_step_are_those_of_all_targets() -> None:
    trial = Trial(
        number=0, role=Role.SEARCH, config=Config({}), context=Context("w", 1), status=Status.OK,
        cost_s={"apply.db": 2.0, "apply.app": 3.0, "measure": 5.0},
    )  # fmt: skip
    wall_s = wall_of([trial], prepare_s=1.0, wall_s=12.0)
    assert [wall_s[step] for step in ("apply", "measure", "other", "prepare", "total")] == [5.0, 5.0, 2.0, 1.0, 12.0]


def test_a_name_without_its_target_is_enough_where_it_is_that_of_one(three: ThreeFakes) -> None:
    with open_stage(three.file(), three.path / "state") as stage:
        config = parse_settings(stage, {"sort_memory": "16MB", "app.cache": "64MB"})
        assert (config["db.sort_memory"], config["app.cache"]) == (16, 64)
        with pytest.raises(
            UsageError, match=r"knob 'cache' may be that of several targets: db\.cache, app\.cache"
        ) as caught:
            parse_settings(stage, {"cache": "64MB"})
        assert caught.value.hint == "write the target's name before it: db.cache"
        with pytest.raises(UsageError, match="unknown knob 'cashe'"):
            parse_settings(stage, {"cashe": "64MB"})


def test_a_study_of_a_stack_starts_from_another(three: ThreeFakes) -> None:
    three.tune()
    three.text = three.text.replace('name = "fake"', 'name = "second"') + '\n[search]\nwarm_start = "auto"\n'
    record, _ = three.tune()
    warm = record.verdict.warm_start
    assert warm is not None
    assert [each.name for each in warm.studies] == ["fake"]


def test_a_tier_that_fails_while_a_winner_is_applied_takes_all_back(three: ThreeFakes) -> None:
    three.text = three.text.replace("12 trials", "16 trials")
    record, _ = three.tune()
    found = three.values
    three.targets["db"]._crash_when = lambda values: True
    with pytest.raises(ApplyError, match="^db: the fake server did not start"):
        apply_winner(record, three.file(), three.path / "state")
    assert three.values == found


# --- files that cannot be ---


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('needs = ["app"]', 'needs = ["os"]', r"\[target.web\] needs names 'os', which is not a target of this study"),
        ('needs = ["app"]', 'needs = "app"', r"\[target.web\] needs='app' is not a list of targets"),
        ('needs = ["db"]', 'needs = ["web"]', "need each other in a circle"),
        ("[target.web]", '[target."../x"]', "is not one word"),
        ('target = "db"', 'target = "os"', "workload.target='os' is not a target of this study"),
        ("[stack]\n", "[stack]\nclients = { os = 3 }\n", r"\[stack\] clients names 'os': there is no such target"),
        ("[stack]\n", "[stack]\nclients = { db = 0 }\n", "db has one client at least"),
        ("[target.db]\n", '[target.db]\nmemory = "1GiB"\n', r"\[target.db\] memory='1GiB': targets of one study share"),
        ('"800MiB"', '"much"', "stack.memory='much' in study.toml: size='much' is not a number"),
        ('"800MiB"', '"0B"', "must be more than nothing"),
        ("[stack]\n", "[stack]\nmemori = 1\n", r"unknown key 'stack.memori'"),
    ],
)
def test_a_file_that_contradicts_itself(three: ThreeFakes, old: str, new: str, message: str) -> None:
    three.text = three.text.replace(old, new, 1)
    with pytest.raises(UsageError, match=message):
        three.file()


def test_the_target_of_the_load_must_be_named_where_several_fit(three: ThreeFakes) -> None:
    three.text = three.text.replace('target = "db"\n', "")
    with (
        pytest.raises(UsageError, match="which of them the load drives is not said") as caught,
        open_stage(three.file(), three.path / "state"),
    ):
        pass
    assert caught.value.hint == 'add to [workload]: target = "db" or "app" or "web"'
    with pytest.raises(UsageError, match="which of them the load drives"):
        build_target(three.file(), three.path / "state")
    assert all(target.calls[-1] == "close" for target in three.targets.values())


def test_a_load_that_cannot_drive_its_target(three: ThreeFakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(three.workload), "protocols", ("http",))
    with (
        pytest.raises(UsageError, match="workload kind='fake' cannot drive target kind='fake'"),
        open_stage(three.file(), three.path / "state"),
    ):
        pass


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("os.workers <= 3", "there is no target 'os'"),
        ("app.nothing <= 3", "target 'app' has no knob 'nothing'"),
        ("workers <= 3", "says not of which target"),
    ],
)
def test_a_constraint_that_names_what_is_not_there(three: ThreeFakes, rule: str, message: str) -> None:
    three.text = three.text.replace("web.workers <= app.workers", rule)
    with pytest.raises(UsageError, match=message), open_stage(three.file(), three.path / "state"):
        pass


def test_a_budget_that_cannot_hold(three: ThreeFakes) -> None:
    three.text = three.text.replace("800MiB", "220MiB")  # three reserves of 64 MiB, and the least of every cache
    with pytest.raises(SpaceError, match="memory budget"), open_stage(three.file(), three.path / "state"):
        pass


def test_ranges_of_a_stack_are_written_without_quotes(three: ThreeFakes) -> None:
    three.text += '\n[search.ranges]\ndb.cache = ["64MB", "256MB"]\n"app.cache" = ["32MB", "64MB"]\n'
    with open_stage(three.file(), three.path / "state") as stage:
        assert (stage.space.knobs["db.cache"].low, stage.space.knobs["db.cache"].high) == (64, 256)
        assert (stage.space.knobs["app.cache"].low, stage.space.knobs["app.cache"].high) == (32, 64)


def test_two_targets_that_are_one_server(three: ThreeFakes) -> None:
    three.targets["web"].disk = three.targets["app"].disk
    with (
        pytest.raises(UsageError, match="targets 'app' and 'web' are one server"),
        open_stage(three.file(), three.path / "state"),
    ):
        pass


def test_the_fingerprint_knows_the_stack(three: ThreeFakes) -> None:
    one = three.file().fingerprint
    three.text = three.text.replace("800MiB", "900MiB")
    assert three.file().fingerprint != one


def test_the_fingerprint_of_one_target_is_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    assert load_study_file(path).fingerprint == FINGERPRINT
    path.write_text(STUDY + "\n[proof]\nmax_pairs = 24\n")
    assert load_study_file(path).fingerprint != FINGERPRINT, "a study that ended undecided after 8 pairs is made again"


def test_a_stack_of_one_knows_no_prefix(fake: FakeStudy) -> None:
    (fake.path / "study.toml").write_text(STUDY)
    stack = build_stack(load_study_file(fake.path / "study.toml"), fake.path / "state")
    assert stack.is_one
    assert "cache" in stack.states()
    assert import_module("trimtab.study.fragments").as_one_text({"db": "x = 1\n"}, is_one=True) == "x = 1\n"


FINGERPRINT = "1ec0fa88a2698e4a"
"""As the version before there were stacks made it of `STUDY`."""


def test_a_stack_is_searched_one_tier_after_the_other(three: ThreeFakes) -> None:
    three.text = three.text.replace("12 trials", "24 trials") + '\n[search]\npasses = "tiers"\nsearcher = "random"\n'
    record, trials = three.tune()
    assert record.status in ("proven", "no_improvement")
    passes = record.verdict.passes
    assert passes is not None
    assert passes.plan.kind == "tiers"
    assert [each.name for each in passes.passes][:2] == ["db", "app"]
    first = [trial for trial in trials if trial.role is Role.SEARCH][: passes.passes[0].trials]
    assert len({tuple(sorted(trial.config.items()))[:2] for trial in first}) == 1, "the values of app are held"
    assert all(name.startswith("app.") for name, _ in sorted(first[0].config.items())[:2])
    assert len({trial.config for trial in first}) > 1
    text = report_text(record, trials)
    assert " knobs of db " in text


def test_a_tier_that_follows_is_restarted_in_a_study(three: ThreeFakes) -> None:
    three.text = three.text.replace(
        'knobs = ["cache", "workers"]\nneeds = ["db"]', 'needs = ["db"]\nfollows = true\nknobs = ["workers"]'
    )
    three.tune()
    calls = three.targets["app"].calls
    assert "restart" in calls
    assert "restart" not in three.targets["web"].calls


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('needs = ["db"]', "follows = 1", r"\[target.app\] follows=1 is not true or false"),
        (
            'knobs = ["cache", "sort_memory", "method"]',
            "follows = true",
            r"\[target.db\] follows = true, and no target lies below it",
        ),
    ],
)
def test_a_study_file_with_wrong_follows(three: ThreeFakes, old: str, new: str, message: str) -> None:
    three.text = three.text.replace(old, new, 1)
    with pytest.raises(UsageError, match=message) as caught:
        three.file()
    assert caught.value.hint
