"""Several targets as one: names, gate, memory, order of steps, locks, and whose fault it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.needs import IS_FULL
from trimtab.errors import ApplyError, LockedError, SpaceError, TargetError, UsageError
from trimtab.host import VolumeUse
from trimtab.records import Context, Fault
from trimtab.space import Config, Knob, KnobKind, Space
from trimtab.systems import Evidence, MemoryModel, Stack, Symptom, Tier, Vitals, bottom_first
from trimtab.systems.stack_watch import joined_vitals
from trimtab.testing.fake_target import Disk, FakeTarget

MIB = 1 << 20
CONTEXT = Context(workload="test", clients=4, read_share=0.5)


def stack_of(*targets: FakeTarget, **options: Any) -> Stack:
    return Stack([Tier(name=target.name, target=target) for target in targets], **options)


def three(**options: Any) -> Stack:
    return stack_of(FakeTarget("db"), FakeTarget("app"), FakeTarget("web"), **options)


def test_one_target_keeps_its_names() -> None:
    target = FakeTarget("db")
    stack = Stack.of(target)
    assert stack.is_one
    assert set(stack.states()) == set(target.states())
    assert stack.selection(CONTEXT) == target.selection(CONTEXT)
    assert stack.constraints(("cache",), CONTEXT) == target.constraints(("cache",), CONTEXT)
    assert dict(stack.split(Config({"cache": 1}))) == {"db": Config({"cache": 1})}
    assert stack.models(CONTEXT) == {}
    assert stack.machine() == target.machine()
    assert stack.fragments(Config({})) == {"db": ""}


def test_several_have_their_names_before_those_of_their_knobs() -> None:
    stack = three()
    assert {"db.cache", "app.cache", "web.method"} <= set(stack.states())
    assert all(name == state.knob.name for name, state in stack.states().items())
    assert stack.selection(CONTEXT)[:2] == ("db.cache", "db.sort_memory")
    parts = stack.split(Config({"web.cache": 1, "db.cache": 2}))
    assert {name: dict(part) for name, part in parts.items()} == {"db": {"cache": 2}, "app": {}, "web": {"cache": 1}}
    assert stack.advise(CONTEXT)["app.cache"] == 256
    assert stack.machine().server_version == "db: Fake 1.0; app: Fake 1.0; web: Fake 1.0"
    assert stack.fragments(Config({"app.cache": 7})) == {"app": "cache = 7\n"}
    assert [check for check, _, _ in stack.doctor()] == ["db: server", "app: server", "web: server"]


def test_the_load_finds_the_data_behind_the_tier_that_it_drives() -> None:
    assert three().endpoint().data is None
    stack = three().driving("web", "db")
    assert stack.driven.name == "web"
    assert stack.endpoint().data == stack.tier("db").target.endpoint()
    with pytest.raises(UsageError, match="there is no target 'os'"):
        three().driving("web", "os")


def test_the_clients_of_a_tier_are_those_that_another_lets_through() -> None:
    """A setting in the place of a number: the search sees that more workers need more memory below them."""
    limited = {"db": "app.workers"}
    plain, stack = three(memory=800 * MIB), three(memory=800 * MIB, clients=limited)
    seen: list[int] = []
    database = stack.tier("db").target
    database.advise = lambda context: seen.append(context.clients) or Config({})  # type: ignore[attr-defined]
    stack.advise(CONTEXT)
    assert seen == [database.states()["workers"].running] != [CONTEXT.clients]
    names = ("db.cache", "app.workers")
    assert "stack.constraints[0]" in {each.label for each in stack.constraints(names, CONTEXT)}
    assert not [each for each in plain.constraints(names, CONTEXT) if each.label == "stack.constraints[0]"]
    assert three(clients={"db": 17}).models(CONTEXT).keys() == {"db", "app", "web"}
    with pytest.raises(
        UsageError, match=r"\[stack\] clients of 'db' names 'app.pool': there is no such setting"
    ) as caught:
        three(clients={"db": "app.pool"}).constraints(names, CONTEXT)
    assert caught.value.hint == "write TARGET.knob, with one of the targets: db, app, web"


def test_a_knob_takes_the_place_of_the_number_of_clients() -> None:
    model = MemoryModel(terms={"sorts": "work * clients"}, constants={"clients": 4.0}, budget_bytes=100).prefixed("db")
    pool = Knob(name="app.pool", kind=KnobKind.INTEGER, low=1, high=50, default=8)
    linked = model.with_knob_for("db.clients", pool, 8)
    assert linked.terms == {"db.sorts": "db.work * app.pool"}
    assert (dict(linked.constants), linked.running) == ({}, {"app.pool": 8})
    assert model.with_knob_for("db.users", pool, 8) is model


@pytest.mark.parametrize("name", ["cache", "os.cache", "db."])
def test_a_name_of_no_tier_is_refused(name: str) -> None:
    with pytest.raises(SpaceError, match="is of no target"):
        three().split(Config({name: 1}))


@pytest.mark.parametrize("name", ["skip_grant_tables", "archive_command", "load_module"])
def test_the_gate_sees_names_without_their_tier(name: str) -> None:
    stack = three()
    with pytest.raises(ApplyError, match=f"knob='{name}' may not be changed"):
        stack.preflight(Config({f"db.{name}": 1}))


def test_a_check_that_fails_on_one_tier_names_it() -> None:
    stack = stack_of(FakeTarget("db"), FakeTarget("app", reject_when=lambda values: values["cache"] == 500))
    stack.preflight(Config({"db.cache": 500}))
    with pytest.raises(ApplyError, match="^app: the fake target rejects"):
        stack.preflight(Config({"db.cache": 500, "app.cache": 500}))


# --- order ---


@pytest.mark.parametrize(
    ("names", "needs", "order"),
    [
        (("web", "app", "db"), {}, ("db", "app", "web")),
        (("db", "app", "web"), {"web": ["app"], "app": ["db"]}, ("db", "app", "web")),
        (("a", "b", "c"), {"c": ["a"]}, ("b", "a", "c")),
    ],
)
def test_the_bottom_comes_first(names: Any, needs: Any, order: Any) -> None:
    assert bottom_first(names, needs) == order


@pytest.mark.parametrize(
    ("names", "needs", "message"),
    [
        (("a", "b"), {"a": ["x"]}, r"\[target.a\] needs names 'x', which is not a target of this study"),
        (("a", "b"), {"a": ["a"]}, "which is itself"),
        (("a", "b"), {"a": ["b"], "b": ["a"]}, "need each other in a circle"),
        (("a.b", "b"), {}, r"\[target.a.b\] is one of several targets, and cannot be named so"),
        (("../x", "b"), {}, "cannot be named so"),
    ],
)
def test_an_order_that_cannot_be(names: Any, needs: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        bottom_first(names, needs)


SIZES = st.tuples(st.integers(16, 2048), st.integers(1, 256))


@settings(max_examples=200 if IS_FULL else 40, deadline=None)
@given(st.lists(st.tuples(SIZES, SIZES), min_size=3, max_size=3), st.integers(0, 4096 * MIB))
def test_every_part_of_a_change_keeps_the_budget(sizes: list[Any], slack: int) -> None:
    """Between two feasible configs no prefix of the plan takes more memory than the budget allows."""
    stack = three()
    models = stack.models(CONTEXT)

    def config(which: int) -> Config:
        return Config(
            {
                f"{tier.name}.{knob}": each[which][index]
                for tier, each in zip(stack.tiers, sizes, strict=True)
                for index, knob in enumerate(("cache", "sort_memory"))
            }
        )

    def total(parts: dict[str, Config]) -> float:
        return sum(models[name].total(part) for name, part in parts.items())

    now, goal = config(0), config(1)
    at = dict(stack.split(now))
    budget = max(total(at), total(dict(stack.split(goal)))) + slack
    steps = stack.plan(goal, now=now, models=models)
    assert {step.tier.name for step in steps} == {"db", "app", "web"}
    for step in steps:
        at[step.tier.name] = step.config
        assert total(at) <= budget
    assert at == dict(stack.split(goal))
    order = [(step.grows, stack.tiers.index(step.tier)) for step in steps]
    assert order == sorted(order), "shrinkers, then growers, each from the bottom up"


# --- memory and constraints ---


def test_one_budget_for_all_tiers_of_a_machine() -> None:
    stack = three(memory=800 * MIB)
    names = stack.selection(CONTEXT)
    (budget,) = stack.constraints(names, CONTEXT)
    assert budget.label == "memory budget"
    assert budget.constants["memory"] == 800 * MIB
    assert budget.constants["reserved"] == 3 * 64 * MIB
    space = Space([state.knob for name, state in stack.states().items() if name in names], [budget])
    base = {name: stack.states()[name].running for name in names}
    # 3 x 64 reserved, 3 x (128 + 4 x 4) in use: 624 MiB
    assert space.is_feasible(Config({**base, "db.cache": 128 + 176}))
    assert not space.is_feasible(Config({**base, "db.cache": 128 + 177}))
    assert not space.is_feasible(Config({**base, "db.cache": 128 + 100, "web.cache": 128 + 77}))
    assert stack.memory(CONTEXT).total(base) == 624 * MIB


def test_the_budget_is_never_above_the_machine() -> None:
    (budget,) = three(memory=1 << 50).constraints(("db.cache",), CONTEXT)
    assert budget.constants["memory"] == 1024 * MIB


def test_a_tier_in_a_smaller_cgroup_keeps_its_own_limit() -> None:
    stack = stack_of(FakeTarget("db"), FakeTarget("app", memory_mib=256))
    labels = [each.label for each in stack.constraints(("db.cache", "app.cache"), CONTEXT)]
    assert labels == ["memory budget", "memory limit of app (256MiB)"]


def test_constraints_between_tiers() -> None:
    stack = three(constraints=["web.workers <= app.workers"])
    found = stack.constraints(("web.workers",), CONTEXT)
    (between,) = [each for each in found if each.label == "stack.constraints[0]"]
    knob = stack.states()["web.workers"].knob
    assert Space([knob], [between]).is_feasible(Config({"web.workers": 2}))
    assert not Space([knob], [between]).is_feasible(Config({"web.workers": 3})), "app.workers runs with 2"
    assert stack.constraints(("db.workers",), CONTEXT) == ()


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("os.workers <= 3", UsageError, "names 'os.workers': there is no target 'os'"),
        ("db.nothing <= 3", UsageError, "names 'db.nothing': target 'db' has no knob 'nothing'"),
        ("workers <= 3", UsageError, "names 'workers', which says not of which target"),
        ("db.workers <= ", SpaceError, "expected a value"),
    ],
)
def test_constraints_that_name_what_is_not_there(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        three(constraints=[text]).constraints(("db.workers",), CONTEXT)


# --- reach ---


def test_two_tiers_on_one_server_are_refused_and_closed() -> None:
    disk = Disk()
    one, other = FakeTarget("db", disk=disk), FakeTarget("copy", disk=disk)
    with pytest.raises(UsageError, match="targets 'db' and 'copy' are one server"):
        stack_of(one, other).open()
    assert (one.calls[-1], other.calls[-1]) == ("close", "close")


def test_a_tier_that_is_down_is_named_and_the_others_are_closed() -> None:
    class Down(FakeTarget):
        def open(self) -> None:
            raise TargetError("nobody answers", hint="start it")

    below = FakeTarget("db")
    with pytest.raises(TargetError, match="^app: nobody answers") as caught:
        stack_of(below, Down("app")).open()
    assert caught.value.hint == "start it"
    assert below.calls == ["open", "close"]


def test_all_are_locked_or_none() -> None:
    db, app = FakeTarget("db"), FakeTarget("app")
    app.disk.holder = "study=other pid=1"
    with pytest.raises(LockedError, match="^app: another tuner holds this server: study=other"):
        stack_of(db, app).lock("test").__enter__()
    assert db.disk.holder == ""
    app.disk.holder = ""
    with stack_of(db, app).lock("test"):
        assert (db.disk.holder, app.disk.holder) == ("test", "test")
    assert (db.disk.holder, app.disk.holder) == ("", "")


# --- what went wrong, and what is used ---


class Forensic(FakeTarget):
    found = Evidence()

    def evidence(self) -> Evidence:
        return self.found

    def disturbances(self) -> tuple[()]:
        return ()

    def notes(self) -> tuple[str, ...]:
        return (f"note of {self.name}",)


def test_the_lowest_tier_that_failed_is_to_blame() -> None:
    db, app, web = Forensic("db"), Forensic("app"), Forensic("web")
    stack = stack_of(db, app, web)
    assert stack.evidence() == Evidence()
    web.found = Evidence(symptoms=(Symptom(fault=Fault.CONFIG, text="cannot connect"),), log="no upstream")
    assert stack.evidence().symptoms[0].text == "web: cannot connect"
    app.found = Evidence(symptoms=(Symptom(fault=Fault.RESOURCE, text="killed", is_death=True),), is_up=False)
    evidence = stack.evidence()
    assert (evidence.symptoms[0].text, evidence.symptoms[0].fault) == ("app: killed", Fault.RESOURCE)
    db.disk.is_up = False
    assert stack.evidence() == Evidence(), "db does not serve, and left no word"
    assert stack.notes() == ("db: note of db", "app: note of app", "web: note of web")


def test_a_single_target_is_to_blame_as_before() -> None:
    target = Forensic("db")
    target.found = Evidence(symptoms=(Symptom(fault=Fault.CONFIG, text="no"),), log="x")
    assert Stack.of(target).evidence() is target.found


def test_vitals_are_summed_and_the_machine_counts_once() -> None:
    disk = (VolumeUse(path="/", used_bytes=1, size_bytes=10), VolumeUse(path="/.", used_bytes=1, size_bytes=10))
    found = joined_vitals(
        {
            "db": Vitals(memory_bytes=5, memory_limit_bytes=9, available_bytes=100, swapped_bytes=3, oom_kills=1,
                         volumes=disk[:1], lag_s=1.0),
            "app": Vitals(memory_bytes=2, available_bytes=90, swapped_bytes=4, volumes=disk[1:], lag_s=0.5),
            "os": Vitals(),
        },
        None,
    )  # fmt: skip
    assert (found.memory_bytes, found.memory_limit_bytes, found.available_bytes) == (7, 9, 90)
    assert (found.swapped_bytes, found.oom_kills, found.lag_s, found.swap_bytes) == (4, 1, 1.0, None)
    assert found.volumes == disk[:1]
    assert found.memory_by_tier == {"db": 5, "app": 2}
