"""A session: points go out, reports come back in any order, by whoever; nothing is lost at a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.session.conftest import KNOBS, Clock, measured, seconds, spec
from trimtab.errors import SpaceError, UsageError
from trimtab.history import History
from trimtab.records import Role
from trimtab.session import Report, Session, Sessions
from trimtab.session.point import Failure
from trimtab.session.refusal import ConflictError, GoneError, UnknownError

Opened = Callable[[], Sessions]


def test_a_winner_is_found_and_proven(opened: Opened) -> None:
    sessions = opened()
    session, is_new = sessions.begin(spec(searcher="nelder-mead", budget="25 trials"))
    assert is_new
    assert measured(session, session.join("one").id) > 20
    config, gain = session.best()
    assert session.state == "ended"
    assert session.status == "proven"
    assert session.is_proven
    assert config["mode"] == "fast"
    assert gain > 2
    sessions.keeper.flush().result()
    record = sessions.history.find_study("s")
    assert record is not None
    assert record.status == "proven"
    assert len(sessions.history.trials(record.id)) == len(session.trials)


@pytest.mark.parametrize("searcher", ["auto", "pro", "grid"])
def test_a_space_of_one_config_ends_after_its_baseline(opened: Opened, searcher: str) -> None:
    only = {"name": "x", "kind": "integer", "low": 5, "high": 5, "default": 5}
    session, _ = opened().begin(spec(knobs=[only], searcher=searcher))
    assert measured(session, session.join("one").id, f=lambda config: 10.0) == 3
    assert (session.state, session.status) == ("ended", "no_improvement")
    assert session.verdict.stop_reason == "the searcher has tried everything there is"


def test_several_clients_have_different_points_and_the_same_client_the_same(opened: Opened) -> None:
    session, _ = opened().begin(spec(clients=3, searcher=""))
    assert session.spec.chosen_searcher == "pro"
    clients = [session.join(f"c{i}").id for i in range(3)]
    first = session.fetch(clients[0])
    assert session.fetch(clients[1]).state == "wait"  # the baseline is measured by one
    assert session.fetch(clients[0]) == first
    session.report(clients[0], first.ticket, Report(value=12.0))
    for _ in range(2):
        found = session.fetch(clients[0])
        session.report(clients[0], found.ticket, Report(value=12.0))
    points = [session.fetch(client).point for client in clients]
    assert [point.role for point in points if point] == [Role.SEARCH] * 3
    assert len({point.config for point in points if point}) == 3


def test_a_point_of_a_vanished_client_is_handed_out_again(opened: Opened, clock: Clock) -> None:
    session, _ = opened().begin(spec(lease="5m"))
    gone, other = session.join("gone").id, session.join("other").id
    first = session.fetch(gone)
    assert session.fetch(other).state == "wait"
    clock.now += 301
    assert [(each["client"], each["seconds"]) for each in session.running()] == [("", 0.0)], "it measures no more"
    again = session.fetch(other)
    assert again.ticket == first.ticket
    assert [each["client"] for each in session.running()] == ["other"]
    # The first report counts, whoever it is from; the other one is told.
    session.report(gone, first.ticket, Report(value=10.0))
    with pytest.raises(ConflictError, match="has been reported already"):
        session.report(other, again.ticket, Report(value=11.0))
    assert session.trials[0].cost_s["measure"] == 0.0


def test_a_step_of_the_clock_takes_no_point_and_costs_no_time(tmp_path: Path) -> None:
    """As NTP makes it where a machine began with a wrong one: a budget in minutes would be used up, or a lease last for hours."""
    clock, timer = Clock(), Clock()
    with History.open(tmp_path / "history.db") as history:
        sessions = Sessions(history, tmp_path, clock=clock, timer=timer)
        session, _ = sessions.begin(spec(budget="10m", lease="5m"))
        one, two = session.join("1").id, session.join("2").id
        first = session.fetch(one)
        clock.now, timer.now = clock.now + 3600, timer.now + 2
        assert session.fetch(two).state == "wait"
        assert [each["seconds"] for each in session.running()] == [2.0]
        session.report(one, first.ticket, Report(value=10.0))
        assert (session.trials[0].cost_s, session.trials[0].started_at) == ({"measure": 2.0}, 1_000_000.0)
        held = session.fetch(one)
        assert held.until == clock.now + 300, "people and programs are told the time of day"
        clock.now, timer.now = clock.now - 7200, timer.now + 301
        assert session.fetch(two).ticket == held.ticket
        assert session.clients[two].seen_at == clock.now
        sessions.close()


def test_leaving_gives_the_point_back(opened: Opened) -> None:
    session, _ = opened().begin(spec())
    one, two = session.join("1").id, session.join("2").id
    first = session.fetch(one)
    session.leave(one)
    assert session.fetch(two).ticket == first.ticket
    with pytest.raises(UnknownError, match="has no such client"):
        session.fetch(one)


def test_who_has_gone_without_a_word_keeps_nobody_out(
    opened: Opened, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that are started again and again do not leave, and nobody can make them."""
    monkeypatch.setattr("trimtab.session.members._MOST", 3)
    session, _ = opened().begin(spec(lease="10s"))
    first = session.join("first")
    for _ in range(2):
        session.join("gone")
    clock.now += 9
    session.fetch(first.id)
    with pytest.raises(ConflictError, match="has n_clients=3 already"):
        session.join("one more")
    clock.now += 9
    assert session.join("one more").id in session.clients
    assert [client.name for client in session.clients.values()] == ["first", "one more"]


def test_a_report_that_is_sent_again_counts_once(opened: Opened) -> None:
    session, _ = opened().begin(spec())
    client = session.join("1").id
    first = session.fetch(client)
    assert session.report(client, first.ticket, Report(value=10.0)) == "told"
    assert session.report(client, first.ticket, Report(value=10.0)) == "known"
    with pytest.raises(ConflictError, match="has been reported already\nhint: fetch the next point"):
        session.report(client, first.ticket, Report(value=11.0))
    assert len(session.trials) == 1


@pytest.mark.parametrize(
    ("ticket", "error", "said"),
    [
        ("x", UnknownError, "ticket='x' is none of this server's"),
        ("1.99.1.x", UnknownError, "ticket='1.99.1.x' was never handed out"),
        ("1.0.2.x", UnknownError, "ticket='1.0.2.x' was never handed out"),
        ("1.0.1.x", UnknownError, "ticket='1.0.1.x' was never handed out"),
        ("7.0.1.x", GoneError, "ticket='7.0.1.x' is of another run of the session"),
        ("1.0.999999999999999.x", UnknownError, "is none of this server's"),
    ],
)
def test_tickets_that_are_none(opened: Opened, ticket: str, error: type[Exception], said: str) -> None:
    session, _ = opened().begin(spec())
    client = session.join("1").id
    session.fetch(client)
    with pytest.raises(error, match=said):
        session.report(client, ticket, Report(value=1.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("report", "said"),
    [
        (Report(), "the report holds nothing"),
        (Report(value=0.0), "cost=0 is not above 0"),
        (Report(value=-3.0), "cost=-3 is not above 0"),
        (Report(value=1e200), r"cost=1e\+200 is not between 1e-100 and 1e\+100"),
        (Report(value=5e-324), "cost=4.94066e-324 is not between 1e-100"),
        (Report(values={"cost": 1.0, "throughput": 1e101}), r"throughput=1e\+101 is not between 1e-100"),
        (Report(value=1.0, values={"cost": 1.0}), "the report holds value, values"),
        (Report(value=1.0, failed=Failure()), "the report holds value, failed"),
        (Report(values={"speed": 1.0}), "unknown metric='speed' in values"),
        (Report(values={"throughput": 1.0}), "the report lacks cost"),
        (Report(latencies_ms=[1.0, 2.0]), "the report lacks cost"),
    ],
)
def test_reports_that_say_nothing(opened: Opened, report: Report, said: str) -> None:
    session, _ = opened().begin(spec())
    client = session.join("1").id
    first = session.fetch(client)
    with pytest.raises(UsageError, match=said):
        session.report(client, first.ticket, report)
    assert session.report(client, first.ticket, Report(value=1.0)) == "told"


def test_percentiles_of_single_latencies(opened: Opened) -> None:
    session, _ = opened().begin(spec(objective="p95 where throughput >= 10"))
    client = session.join("1").id
    first = session.fetch(client)
    session.report(
        client, first.ticket, Report(values={"throughput": 50.0}, latencies_ms=[float(i) for i in range(1, 101)])
    )
    m = session.trials[0].measurement
    assert m is not None
    assert m.latency_ms["p95"].estimate == pytest.approx(95.05)
    assert m.throughput.estimate == 50.0
    assert m.histogram


def test_the_mean_of_a_few_latencies_is_not_below_zero(opened: Opened) -> None:
    session, _ = opened().begin(spec(objective="latency_mean"))
    client = session.join("1").id
    session.report(client, session.fetch(client).ticket, Report(latencies_ms=[1.0, 9.0]))
    m = session.trials[0].measurement
    assert m is not None
    assert (m.latency_mean_ms.estimate, m.latency_mean_ms.low) == (5.0, 0.0)


def test_latencies_so_small_that_no_ratio_can_be_made_of_them_are_zeros(opened: Opened) -> None:
    session, _ = opened().begin(spec(objective="p95"))
    client = session.join("1").id
    first = session.fetch(client)
    with pytest.raises(UsageError, match="latencies_ms holds zeros only"):
        session.report(client, first.ticket, Report(latencies_ms=[5e-324, 1e-101]))
    with pytest.raises(ValidationError, match="less than or equal to 1000000000000"):
        Report(latencies_ms=[1.0, 1e13])
    assert session.report(client, first.ticket, Report(latencies_ms=[5e-324, 1e12])) == "told"


def test_a_session_goes_on_between_the_least_and_the_greatest_figure(opened: Opened) -> None:
    session, _ = opened().begin(spec())
    client = session.join("1").id
    while (found := session.fetch(client)).point is not None:
        is_base = found.point.config == session.task.baseline
        assert session.report(client, found.ticket, Report(value=1e100 if is_base else 1e-100)) == "told"
        assert session.best()[1] >= 1
    assert session.is_proven
    assert session.best()[1] == pytest.approx(1e200)


def test_failures_teach_and_a_failing_baseline_ends_it(opened: Opened) -> None:
    sessions = opened()
    session, _ = sessions.begin(spec())
    client = session.join("1").id
    measured(session, client, 3)
    found = session.fetch(client)
    session.report(client, found.ticket, Report(failed=Failure(status="timed_out", reason="too slow")))
    assert (session.trials[3].status, session.trials[3].reason) == ("timed_out", "too slow")
    other, _ = sessions.begin(spec(name="t"))
    client = other.join("1").id
    first = other.fetch(client)
    other.report(client, first.ticket, Report(failed=Failure(reason="no such file")))
    assert other.fetch(client).state == "ended"
    assert "the baseline itself cannot be measured: crashed: no such file" in other.error
    sessions.keeper.wait()
    again, _ = opened().begin(other.spec)
    assert (again.state, again.error) == ("ended", other.error)


def test_a_stop_before_the_first_run_is_no_failure(opened: Opened) -> None:
    session, _ = opened().begin(spec())
    session.stop()
    assert (session.state, session.error, session.verdict.stop_reason) == ("ended", "", "stopped by the user")


def test_pause_resume_finish_stop(opened: Opened) -> None:
    session, _ = opened().begin(spec(budget="1000 trials"))
    client = session.join("1").id
    measured(session, client, 8)
    session.pause()
    assert session.fetch(client).state == "paused"
    session.resume()
    session.finish()
    roles = set()
    while (found := session.fetch(client)).point is not None:
        roles.add(found.point.role)
        session.report(client, found.ticket, Report(value=seconds(found.point.config)))
    assert Role.PROOF_CANDIDATE in roles
    assert session.verdict.stop_reason == "a client asked to finish"
    with pytest.raises(ConflictError, match="has ended\nhint: `restart` begins it again"):
        session.pause()
    session.stop()


def test_without_a_proof_nothing_is_claimed(opened: Opened) -> None:
    session, _ = opened().begin(spec(proof=False))
    measured(session, session.join("1").id)
    config, gain = session.best()
    assert session.verdict.result == "interrupted"
    assert session.verdict.stop_reason == "the budget of 12 trials is used; no proof was asked for"
    assert not session.is_proven
    assert gain > 1
    assert config != session.task.baseline


def test_a_session_is_called_at_once_while_it_is_quick(opened: Opened) -> None:
    wall, cpu = [0.0], [0.0]

    def takes(seconds: float, thinks: float) -> Callable[[Session], str]:
        def call(session: Session) -> str:
            wall[0] += seconds
            cpu[0] += thinks
            return session.spec.name

        return call

    sessions = opened()
    sessions._timers = (lambda: wall[0], lambda: cpu[0])
    sessions.begin(spec(name="modelless"))
    assert sessions.call_now("modelless", takes(0, 0)) == "modelless"
    sessions.begin(spec(name="parzen", searcher="tpe"))
    assert sessions.call_now("parzen", takes(0, 0)) is None, "its searcher does not say that it fits no model"
    sessions.begin(spec(name="layered", layers=[{"kind": "cache"}]))
    assert sessions.call_now("layered", takes(0, 0)) is None, "its layers may do anything"
    sessions.begin(spec(searcher="auto"))
    assert sessions.call_now("s", takes(0, 0)) is None, "nothing is known of it yet"
    assert sessions.call_now("unknown", takes(0, 0)) is None
    for _ in range(28):
        assert sessions.call("s", takes(0, 0)) == "s"
    assert sessions.call_now("s", takes(0.001, 0.001)) == "s"
    with sessions.use("s"):
        assert sessions.call_now("s", takes(0, 0)) is None, "somebody else has it"
    assert sessions.call_now("s", takes(0.05, 0.001)) == "s"
    assert sessions.call_now("s", takes(0.02, 0.02)) == "s", "it has waited for a core only"
    assert sessions.call_now("s", takes(0, 0)) is None, "it has begun to think"
    for _ in range(28):
        assert sessions.call("s", takes(0, 0)) == "s"
    assert sessions.call_now("s", takes(0.2, 0)) == "s"
    assert sessions.call_now("s", takes(0, 0)) is None, "it waits for something else"


def test_nothing_is_said_of_values_that_no_target_has_shown(opened: Opened) -> None:
    session, _ = opened().begin(spec())
    measured(session, session.join("a").id, 8)
    assert session.news == "searching"


def test_names_that_are_taken(opened: Opened) -> None:
    sessions = opened()
    sessions.begin(spec())
    assert sessions.begin(spec())[1] is False
    with pytest.raises(ConflictError, match="session='s' runs already and was begun otherwise"):
        sessions.begin(spec(seed=2))
    with pytest.raises(UnknownError, match="no session is called 'nobody'"), sessions.use("nobody"):
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"searcher": "magic"}, UsageError, "no plug-in 'magic' in searchers"),
        ({"options": {"magic": 1}}, UsageError, "unknown option magic=1 of searcher 'random'"),
        ({"layers": [{"kind": "magic"}]}, UsageError, "no plug-in 'magic' in layers"),
        ({"layers": [{"kind": "repeat", "options": {"times": 0}}]}, UsageError, "times=0 of layer 'repeat'\nhint: times"),
        ({"layers": [{"kind": "repeat", "options": {"by": "mode"}}]}, UsageError, "by='mode' of layer 'repeat'"),
        ({"layers": [{"kind": "repeat", "options": {"x": 1}}]}, UsageError, "unknown option 'x' of layer 'repeat'"),
        ({"layers": [{"kind": "cache", "options": {"failures": 1}}]}, UsageError, "option 'failures' of layer 'cache' is not"),
        ({"layers": [{"kind": "constraint", "options": {}}]}, UsageError, "holds='' of layer 'constraint'"),
        ({"layers": [{"kind": "constraint", "options": {"holds": "x >= 5"}}]}, SpaceError, "the baseline breaks holds='x >= 5'"),
        (
            {"layers": [{"kind": "group", "options": {"rounds": 3}}]},
            UsageError,
            "unknown option 'rounds' of layer 'group'\nhint: it has no options",
        ),
        ({"layers": [{"kind": "group"}]}, UsageError, "layer 'group' has nothing to divide: all n_knobs=2 knobs are"),
        ({"constraints": ["x +"]}, SpaceError, "x +"),
        ({"constraints": ["x >= 5"]}, SpaceError, "the baseline breaks a constraint"),
        ({"baseline": {"y": 1}}, SpaceError, "baseline names unknown knob='y'"),
        ({"prior": [{"config": {"x": 99}, "value": 1.0}]}, SpaceError, "x"),
        ({"budget": "soon"}, UsageError, "cannot read budget='soon'"),
        ({"objective": "beauty"}, UsageError, "unknown metric='beauty'"),
        ({"lease": "1y"}, UsageError, "1y"),
        ({"lease": "30d"}, UsageError, "lease='30d' is not between 1s and 7d"),
        ({"min_pairs": 9, "max_pairs": 3}, UsageError, "min_pairs=9 is more than max_pairs=3"),
        ({"min_pairs": 2, "max_pairs": 2}, UsageError, "max_pairs=2: the session could prove nothing, because a"),
        ({"knobs": [KNOBS[0], KNOBS[0]]}, SpaceError, "knob='x' is given twice"),
        ({"knobs": [{"name": "x", "kind": "integer"}]}, SpaceError, "low=None"),
    ],
)  # fmt: skip
def test_sessions_that_cannot_be_begun(
    opened: Opened, more: dict[str, object], error: type[Exception], said: str
) -> None:
    sessions = opened()
    with pytest.raises(error, match=said.replace("(", r"\(").replace("+", r"\+")):
        sessions.begin(spec(**more))
    assert sessions.history.summaries() == []


@pytest.mark.parametrize(
    "more",
    [
        {"name": "../etc"}, {"name": ""}, {"name": "a/b"}, {"knobs": []}, {"knobs": [{"name": "x", "kind": "colour"}]},
        {"seed": -1}, {"seed": "1"}, {"extra": 1}, {"clients": 0}, {"budget": 3}, {"prior": [{"config": {}, "value": "1"}]},
        {"knobs": [{"name": "x", "kind": "real", "low": "0", "high": 1}]}, {"knobs": [{"name": "x y", "kind": "boolean"}]},
    ],
)  # fmt: skip
def test_requests_that_are_not_legal(more: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="the session cannot be begun: "):
        spec(**more)


def test_a_middle_is_found_for_a_knob_without_a_default(opened: Opened) -> None:
    knobs = [
        {"name": "a", "kind": "integer", "low": 1, "high": 10000, "log": True},
        {"name": "b", "kind": "integer", "low": 0, "high": 10, "step": 4},
        {"name": "c", "kind": "real", "low": 0, "high": 1},
        {"name": "d", "kind": "boolean"},
        {"name": "e", "kind": "ordinal", "choices": ["x", "y"]},
    ]
    assert dict(spec(knobs=knobs).task().baseline) == {"a": 100, "b": 4, "c": 0.5, "d": False, "e": "x"}


def test_a_prior_is_tried_first(opened: Opened) -> None:
    prior = [{"config": {"x": 13, "mode": "fast"}, "value": 10.0}, {"config": {"x": 3, "mode": "slow"}, "value": 40.0}]
    session, _ = opened().begin(spec(prior=prior))
    measured(session, session.join("a").id, 4)
    assert dict(session.trials[3].config) == {"x": 13, "mode": "fast"}


def test_a_run_of_the_baseline_that_somebody_has_spoilt_is_made_again(opened: Opened) -> None:
    sessions = opened()
    session, _ = sessions.begin(spec())
    client = session.join("a").id
    spoilt = Report(failed=Failure(status="infrastructure", reason="skipped"))
    first = session.fetch(client)
    assert session.report(client, first.ticket, spoilt) == "again"
    session, _ = opened().begin(spec())
    client = session.join("a").id
    second = session.fetch(client)
    assert second.point is not None
    assert second.point.run == 2
    assert first.point is not None
    assert second.point.config == first.point.config
    measured(session, client)
    assert session.status == "proven"
    other, _ = opened().begin(spec(name="t"))
    client, said = other.join("a").id, []
    while (found := other.fetch(client)).point is not None:
        said.append(other.report(client, found.ticket, spoilt))
    assert said == ["again"] * 5 + ["told"]
    assert "the baseline itself cannot be measured: infrastructure: skipped\nhint: make the program run" in other.error
