"""LoadModel: what [workload.load] may say, and how it says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.errors import LoadError, UsageError
from trimtab.workload import LoadModel
from trimtab.workload.load_model import Ramp, Sine, Steps
from trimtab.workload.oltp import OltpWorkload
from trimtab.workload.rubis.workload import RubisWorkload
from trimtab.workload.ycsb import YcsbWorkload


def test_an_empty_table_is_a_closed_loop() -> None:
    model = LoadModel.from_settings({})
    assert (model.users, model.is_open, model.think_s, model.rate_per_s) == (16, False, 0.0, 0.0)
    assert str(model) == "closed loop of 16 users"


def test_closed_loop_with_think_time() -> None:
    model = LoadModel.from_settings({"users": 200, "think": "10ms", "think_time": "exponential"})
    assert (model.users, model.think_s, model.is_think_exponential) == (200, 0.01, True)
    assert str(model) == "closed loop of 200 users that think for 10 ms"
    assert LoadModel.from_settings({"think": "0"}) == LoadModel()


def test_a_rate_makes_it_open() -> None:
    model = LoadModel.from_settings({"rate": 2000, "arrivals": "uniform", "backlog": 500, "backlog_age": "2s"})
    assert model == LoadModel(
        is_open=True, rate_per_s=2000.0, arrivals="uniform", backlog_max=500, backlog_age_max_s=2.0
    )
    assert str(model) == "open loop of 2,000/s (uniform) over 16 users"


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"kind": "ramp", "to": 4000, "over": "1m"}, Ramp(4000.0, 60.0)),
        ({"kind": "sine", "amplitude": 500, "period": "30s"}, Sine(500.0, 30.0)),
        ({"kind": "step", "steps": [["10s", 500], [20, 3000]]}, Steps(((10.0, 500.0), (20.0, 3000.0)))),
    ],
)
def test_profiles(profile: dict[str, Any], expected: object) -> None:
    assert LoadModel.from_settings({"rate": 2000, "profile": profile}).profile == expected


def test_profiles_in_the_engines_words() -> None:
    assert Ramp(4000.0, 60.0).native == ("ramp", 4000.0, 60.0)
    assert Sine(5.0, 6.0).native == ("sine", 5.0, 6.0)
    assert Steps(((1.0, 2.0),)).native == ("step", [(1.0, 2.0)])


def test_another_rate_is_a_steady_open_loop() -> None:
    closed = LoadModel(users=3, think_s=1.0, is_think_exponential=True)
    assert closed.with_rate(50) == LoadModel(users=3, is_open=True, rate_per_s=50.0)
    ramp = LoadModel.from_settings({"rate": 10, "profile": {"kind": "ramp", "to": 20, "over": "1s"}})
    assert ramp.with_rate(30).profile is None
    with pytest.raises(UsageError, match=r"rate=0 is not a number of requests per second above 0"):
        closed.with_rate(0)


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"user": 3}, r"unknown key in \[workload.load\]: user=3", "did you mean users?"),
        ({"threads": 0}, r"\[workload.load\] threads=0 is out of range", 'use "auto", or a whole number from 1 to 256'),
        ({"threads": "many"}, r"threads='many' is out of range", 'use "auto", or a whole number from 1 to 256'),
        ({"threads": True}, r"threads=True is out of range", 'use "auto", or a whole number from 1 to 256'),
        ({"users": 10_001}, r"users=10001 is out of range", "use a whole number from 1 to 10000"),
        ({"users": 0}, r"users=0 is out of range", "use a whole number from 1 to 10000"),
        ({"users": True}, r"users=True is out of range", "use a whole number from 1 to 10000"),
        ({"model": "opened"}, r"model='opened' is not known", "use one of: closed, open"),
        ({"think": -1}, r"think=-1 is not a duration", 'for example: think = "10ms"'),
        ({"think": "1 day or so"}, r"duration='1 day or so'", "write a duration"),
        ({"think": 1, "think_time": "normal"}, r"think_time='normal' is not known", "use one of: fixed, exponential"),
        ({"think_time": "exponential"}, r"think_time='exponential' has no meaning without think", 'add think = "10ms"'),
        ({"rate": 5_000_001}, r"rate=5e\+06 requests per second is more than any machine reaches", "use at most 5,000,000"),
        ({"rate": 10**400}, r"rate is a number beyond 1e\+300", "write a smaller one"),
        ({"think": 10**400}, r"think is a number beyond 1e\+300", "write a smaller one"),
        ({"rate": -5}, r"rate=-5 is not a number of requests per second above 0", "for example: rate = 1000"),
        ({"rate": float("nan")}, r"rate=nan is not a number of requests per second", "for example: rate = 1000"),
        ({"rate": float("inf")}, r"rate=inf requests per second is more than any machine reaches", "use at most"),
        ({"rate": "2k"}, r"rate='2k' is not a number", "for example: rate = 1000"),
        ({"rate": 5, "arrivals": "bursts"}, r"arrivals='bursts' is not known", "use one of: poisson, uniform"),
        ({"model": "open"}, r'model="open" lacks a rate', "add rate = 1000"),
        ({"model": "closed", "rate": 5}, r'rate=5 has no meaning with model="closed"', 'set model = "open"'),
        ({"rate": 5, "think": "1s"}, r"think='1s' has no meaning with model=\"open\"", 'set model = "closed"'),
        ({"backlog": 5}, r'backlog=5 has no meaning with model="closed"', 'set model = "open"'),
        ({"rate": 5, "backlog": 0}, r"backlog=0 is out of range", "use a whole number from 1"),
        ({"rate": 5, "backlog_age": "0"}, r"backlog_age='0' is not a duration", 'backlog_age = "10s"'),
        ({"rate": 5, "profile": "ramp"}, r"profile='ramp' is not known", 'kind = "step"'),
        ({"rate": 5, "profile": {"kind": "saw"}}, r"profile=\{'kind': 'saw'\} is not known", 'kind = "sine"'),
        ({"rate": 5, "profile": {"kind": []}}, r"profile=\{'kind': \[\]\} is not known", 'kind = "sine"'),
        ({"rate": 5, "profile": {"kind": "ramp"}}, r"to=None is not a number", "for example: to = 1000"),
        ({"rate": 5, "profile": {"kind": "ramp", "at": 1}}, r"unknown key in \[workload.load.profile\]", "kind, to, over"),
        ({"rate": 5, "profile": {"kind": "sine", "amplitude": 6}}, r"amplitude=6 is above rate=5", "at most the rate"),
        ({"rate": 5, "profile": {"kind": "step", "steps": []}}, r"steps=\[\] is not a list of pairs", "write steps ="),
        ({"rate": 5, "profile": {"kind": "step", "steps": [5]}}, r"steps=\[5\] is not a list of pairs", "write steps ="),
        (
            {"rate": 5, "profile": {"kind": "step", "steps": [["9s", 5], ["3s", 5]]}},
            r"steps=.* are not in the order of time",
            "put the earliest first",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(settings: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        LoadModel.from_settings(settings)
    assert hint in (raised.value.hint or "")


def test_no_table() -> None:
    with pytest.raises(UsageError, match=r"\[workload.load\]=16 is not a table") as raised:
        LoadModel.from_settings(16)  # type: ignore[arg-type]
    assert raised.value.hint == "write it as in: load = { users = 16 }"


def test_threads_of_the_generator() -> None:
    auto = LoadModel.from_settings({"users": 100})
    assert [auto.n_threads(cores) for cores in (1, 2, 7, 8, 64)] == [1, 1, 1, 2, 16]
    assert LoadModel.from_settings({"users": 3, "threads": "auto"}).n_threads(64) == 3  # never more than users
    assert LoadModel.from_settings({"users": 100, "threads": 5}).n_threads(5) == 5
    with pytest.raises(
        LoadError, match=r"\[workload.load\] threads=5 is more than the load generator's machine has: cores=2"
    ) as raised:
        LoadModel.from_settings({"users": 100, "threads": 5}).n_threads(2)
    assert raised.value.hint == 'use threads = "auto", or at most 2'
    assert LoadModel.from_settings({"users": 2, "threads": 5}).n_threads(2) == 2
    assert LoadModel.from_settings({"users": 9, "threads": 5}).with_rate(50.0).threads == 5


def test_auto_takes_as_many_threads_as_a_study_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(6)))
    auto = LoadModel.from_settings({"users": 20})
    grown = auto.with_threads(4)
    assert [grown.n_threads(cores) for cores in (1, 3, 6, 8, 64)] == [1, 3, 4, 4, 16]
    assert grown.with_threads(99).n_threads(6) == 6
    assert LoadModel.from_settings({"users": 3}).with_threads(99).n_threads(6) == 3
    # Nothing changes: enough already, or the user has said how many.
    assert auto.with_threads(1) is auto
    assert grown.with_threads(4) is grown
    fixed = LoadModel.from_settings({"threads": 2})
    assert fixed.with_threads(4) is fixed
    # Of several generators, whose cores only they know, each has its share, and each of their threads has a user.
    two = LoadModel.from_settings({"users": 20, "from": ["local", "local"]}).with_threads(5)
    assert [two.n_threads(cores) for cores in (2, 4, 64)] == [2, 3, 16]
    few = LoadModel.from_settings({"users": 2, "from": ["local", "local"]})
    assert few.with_threads(8).n_threads(4) == 1


@pytest.mark.parametrize(
    "table", [{"think": "10ms", "think_time": "exponential"}, {"start": "20s"}, {"rate": 50, "arrivals": "uniform"}]
)
def test_at_full_speed_nobody_pauses(table: dict[str, Any]) -> None:
    asked = LoadModel.from_settings({"users": 200, "from": ["local"], **table})
    eager = asked.at_full_speed()
    assert asked.pauses
    assert not eager.pauses
    assert eager.plain() == LoadModel().plain()
    assert (eager.users, eager.generators) == (16, asked.generators)
    assert LoadModel.from_settings({"users": 3, **table}).at_full_speed().users == 3


@pytest.mark.parametrize(("kind", "key"), [(YcsbWorkload, "threads"), (RubisWorkload, "rate"), (OltpWorkload, "start")])
def test_a_key_of_the_load_in_the_table_above_is_sent_where_it_belongs(kind: Any, key: str) -> None:
    """By its letters alone it would be taken for read, rate_of or start_state."""
    with pytest.raises(UsageError, match=rf"unknown key in \[workload\]: {key}=4") as caught:
        kind.from_settings({"kind": kind.kind, key: 4})
    assert caught.value.hint == f"{key} belongs to [workload.load]"
