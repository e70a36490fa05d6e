"""The API: a session from its beginning to its proof, and a problem answer for everything that is not legal."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.serve.asking import BEGIN, KNOBS, TOKEN, Api, run
from trimtab.errors import HistoryError
from trimtab.history import History, Imported, take_in
from trimtab.serve.live import LiveView
from trimtab.session.course import Course
from trimtab.session.layers.cache import CacheLayer


def seconds(config: Any) -> float:
    return float((10 + (config["x"] - 14) ** 2 / 20) * (2 if config["mode"] == "slow" else 1))


@pytest.mark.slow
def test_a_session_from_beginning_to_proof(api: Api) -> None:
    begun = api.post("/api/v1/sessions", BEGIN)
    assert (begun.status_code, begun.json()["is_new"]) == (201, True)
    assert api.post("/api/v1/sessions", BEGIN).status_code == 200
    client, n = api.join(), 0
    while (found := api.post("/api/v1/sessions/s/fetch", {"client": client}).json())["state"] == "point":
        told = api.post(
            "/api/v1/sessions/s/report",
            {"client": client, "ticket": found["ticket"], "value": seconds(found["config"])},
        ).json()
        assert told["outcome"] == "told"
        assert set(told["best"]) == {"config", "gain", "is_proven"}
        n += 1
    assert (found["state"], found["result"]) == ("ended", "better")
    best = api.get("/api/v1/sessions/s/best").json()
    assert best["is_proven"]
    assert best["gain"] > 1.5
    shown = api.get("/api/v1/sessions/s").json()
    assert (shown["n_trials"], shown["status"], shown["clients"][0]["n_reports"]) == (n, "proven", n)
    (row,) = api.get("/api/v1/sessions").json()["sessions"]
    assert (row["name"], row["state"]) == ("s", "ended")
    study = row["study_id"]
    assert api.get(f"/api/v1/studies/{study}").json()["summary"]["result"] == "better"
    assert "<svg" in api.get(f"/api/v1/studies/{study}/charts").json()["charts"]["progress"]
    assert "times as good as yours" in api.get(f"/api/v1/studies/{study}/report").text
    assert api.get(f"/api/v1/studies/{study}/compare?with={study}").json() == {"knobs": [], "n_same": 2}


def test_values_have_their_units(api: Api) -> None:
    """For people; programs have them as they are."""
    knob = {"name": "buffers", "kind": "integer", "low": 16, "high": 1 << 20, "default": 16384, "unit": "8kB"}
    for name, default in (("s", 16384), ("t", 32768)):
        body = {**BEGIN, "name": name, "knobs": [{**knob, "default": default}]}
        assert api.post("/api/v1/sessions", body).status_code == 201
    one, two = (row["study_id"] for row in api.get("/api/v1/sessions").json()["sessions"])
    shown = api.get(f"/api/v1/studies/{one}").json()
    assert (shown["baseline"], shown["texts"]["baseline"]) == ({"buffers": 16384}, {"buffers": "128MB"})
    assert shown["texts"]["best"] == {"buffers": "128MB"}
    (row,) = api.get(f"/api/v1/studies/{one}/compare?with={two}").json()["knobs"]
    assert row == {"knob": "buffers", "a": 16384, "b": 32768, "texts": ["128MB", "256MB"]}


def test_controls(api: Api) -> None:
    api.post("/api/v1/sessions", {**BEGIN, "budget": "1000 trials"})
    client = api.join()
    assert api.post("/api/v1/sessions/s/pause").json()["state"] == "paused"
    assert api.post("/api/v1/sessions/s/fetch", {"client": client}).json()["state"] == "paused"
    assert api.post("/api/v1/sessions/s/resume").json()["state"] == "running"
    old = api.get("/api/v1/sessions/s").json()["study_id"]
    assert api.post("/api/v1/sessions/s/restart").json()["study_id"] == old + 1
    assert api.post("/api/v1/sessions/s/fetch", {"client": client}).json()["state"] == "point"  # the client has stayed
    again = [api.post("/api/v1/sessions/s/restart", {"request": mark}).json()["study_id"] for mark in "aab"]
    assert again == [old + 2, old + 2, old + 3], "a request that is sent again restarts nothing"
    assert api.call("DELETE", f"/api/v1/sessions/s/clients/{client}").json() == {"left": True}
    assert api.post(f"/api/v1/studies/{old + 3}/stop").json() == {"stopping": "s"}
    assert api.get("/api/v1/sessions/s").json()["state"] == "ended"


_REPORT = "/api/v1/sessions/s/report"


def _problem(answer: Any, status: int, said: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert (told["status"], told["type"]) == (status, f"urn:trimtab:problem:{status}")
    assert said in told["detail"], told["detail"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("GET", "/nowhere", None, 404, "Not Found"),
        ("POST", "/api/v2/sessions", b"{}", 404, "this server speaks /api/v1, and the request is for /api/v2"),
        ("PUT", "/api/v1/sessions", None, 405, "Method Not Allowed"),
        ("GET", "/api/v1/sessions/nobody", None, 404, "no session is called 'nobody'"),
        ("POST", "/api/v1/sessions", b"{", 422, "the request is not legal: body: Invalid JSON"),
        ("POST", "/api/v1/sessions", b"[]", 422, "the request is not legal"),
        ("POST", "/api/v1/sessions", b"\xff\xfe", 422, "the request is not legal"),
        ("POST", "/api/v1/sessions", {**BEGIN, "name": "t", "objective": "beauty"}, 422, "unknown metric='beauty'"),
        ("POST", "/api/v1/sessions", {**BEGIN, "name": "t", "version": 3}, 422, "version: Extra inputs are not permitted"),
        ("POST", "/api/v1/sessions", {**BEGIN, "seed": 9}, 409, "runs already and was begun otherwise"),
        ("POST", "/api/v1/sessions/s/fetch", {}, 422, "client: Field required"),
        ("POST", "/api/v1/sessions/s/fetch", {"client": "x"}, 404, "has no such client"),
        ("POST", "/api/v1/sessions/s/fetch", {"client": "x", "wait_s": 1e9}, 422, "wait_s: Input should be less"),
        ("POST", _REPORT, {"client": "ID", "ticket": "1.0.1", "value": "fast"}, 422, "value: Input should be a valid"),
        ("POST", _REPORT, b'{"client": "ID", "ticket": "1.0.1", "value": NaN}', 422, "value: Input should be a finite"),
        ("POST", _REPORT, b'{"client": "ID", "ticket": "1.0.1", "value": 1e999}', 422, "value: Input should be a finite"),
        ("POST", _REPORT, {"client": "ID", "ticket": "TICKET", "value": 0}, 422, "cost=0 is not above 0"),
        ("POST", _REPORT, {"client": "ID", "ticket": "1.7.1.x", "value": 1}, 404, "was never handed out"),
        ("POST", _REPORT, {"client": "ID", "ticket": "5.0.1.x", "value": 1}, 410, "of another run of the session"),
        ("GET", "/api/v1/studies/99", None, 404, "there is no study id=99"),
        ("GET", "/api/v1/studies/x", None, 404, "there is no study id='x'"),
        ("GET", "/api/v1/studies/1/compare?with=../x", None, 404, "there is no study id='../x'"),
        ("POST", "/api/v1/studies", {"file": "../secret.toml"}, 422, "this server may not start studies"),
        ("GET", "/static/../api.py", None, 404, "Not Found"),
        ("GET", "/static/secret", None, 404, "there is no such file"),
    ],
)  # fmt: skip
def test_what_is_refused(api: Api, method: str, path: str, body: Any, status: int, said: str) -> None:
    api.post("/api/v1/sessions", BEGIN)
    client = api.join()
    ticket = api.post("/api/v1/sessions/s/fetch", {"client": client}).json()["ticket"]
    if isinstance(body, dict) and body.get("ticket") == "TICKET":
        body = {**body, "ticket": ticket}
    data = (body if isinstance(body, bytes) else json.dumps(body).encode()).replace(
        b'"ID"', json.dumps(client).encode()
    )
    _problem(api.call(method, path, content=None if body is None else data), status, said)


def test_a_full_disk_loses_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.post("/api/v1/sessions", BEGIN)
    client = api.join()
    found = api.post("/api/v1/sessions/s/fetch", {"client": client}).json()
    report = {"client": client, "ticket": found["ticket"], "value": 20.0}

    def full(*rest: object, **more: object) -> None:
        raise HistoryError("history='h' cannot be used: database or disk is full", hint="free some space")

    with monkeypatch.context() as patched:
        patched.setattr(History, "add_many", full)
        _problem(api.post("/api/v1/sessions/s/report", report), 507, "disk is full")
        _problem(api.post("/api/v1/sessions/s/report", report), 507, "disk is full")
    assert api.post("/api/v1/sessions/s/report", report).json()["outcome"] == "known"
    history = api.hub.sessions.history
    assert len(history.trials(1)) == 1
    assert [event.kind for event in history.events(1)] == ["asked", "told"]


def test_a_session_that_cannot_go_on(served: Callable[..., Api], tmp_path: Path) -> None:
    api = served()
    api.post("/api/v1/sessions", BEGIN)
    client = api.join()
    found = api.post("/api/v1/sessions/s/fetch", {"client": client}).json()
    api.post("/api/v1/sessions/s/report", {"client": client, "ticket": found["ticket"], "value": 20.0})
    api.hub.sessions.keeper.wait()
    with sqlite3.connect(tmp_path / "history.db") as database:
        database.execute("update trimtab_trial set detail = 'x'")
    api = served()
    for path in ("", "/clients", "/finish"):
        answer = api.post(f"/api/v1/sessions/s{path}") if path else api.get("/api/v1/sessions/s")
        _problem(answer, 409, "session='s' cannot go on: ")  # no 507: a client would ask for it again
    _problem(api.get("/api/v1/studies/1"), 500, "has a row that cannot be read")
    assert api.post("/api/v1/studies/1/stop").json() == {"stopping": "s"}
    assert [row["status"] for row in api.get("/api/v1/sessions").json()["sessions"]] == ["stopped"]
    assert api.post("/api/v1/sessions/s/restart").json()["state"] == "running"
    assert api.post("/api/v1/sessions/s/stop").json()["state"] == "ended"


def test_what_has_ended_is_listed_as_it_was(api: Api) -> None:
    api.post("/api/v1/sessions", {**BEGIN, "budget": "2 trials", "proof": False})
    client = api.join()
    while (found := api.post("/api/v1/sessions/s/fetch", {"client": client}).json())["state"] == "point":
        report = {"client": client, "ticket": found["ticket"], "value": seconds(found["config"])}
        api.post("/api/v1/sessions/s/report", report)
    (before,) = api.get("/api/v1/sessions").json()["sessions"]
    api.call("DELETE", f"/api/v1/sessions/s/clients/{client}")
    api.post("/api/v1/sessions", {**BEGIN, "name": "t"})
    after = api.get("/api/v1/sessions").json()["sessions"][0]
    assert len(api.hub.sessions.live()) == 1
    assert after == {**before, "n_clients": 0}


def test_a_server_that_was_killed_goes_on(served: Callable[..., Api]) -> None:
    first = served()
    first.post("/api/v1/sessions", BEGIN)
    client = first.join()
    found = first.post("/api/v1/sessions/s/fetch", {"client": client}).json()
    second = served()  # nothing of the fetch had to be on disk: the same point is asked for again
    _problem(second.post("/api/v1/sessions/s/fetch", {"client": client}), 404, "has no such client")
    client = second.join()
    again = second.post("/api/v1/sessions/s/fetch", {"client": client}).json()
    assert {**again, "lease_until": 0} == {**found, "lease_until": 0}


def test_lists_a_thousand_sessions(api: Api) -> None:
    api.post("/api/v1/sessions", BEGIN)
    with sqlite3.connect(api.hub.state_dir / "history.db") as database:
        columns = "status, created_at, body, verdict, target, objective"
        database.execute(
            f"insert into trimtab_study (name, {columns}) "
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 999) "
            f"select 's' || i, {columns} from trimtab_study, n"
        )
    assert len(api.get("/api/v1/sessions").json()["sessions"]) == 1000
    _problem(api.post("/api/v1/sessions", {**BEGIN, "name": "more"}), 409, "n_sessions=1000 run already")


def test_metrics(api: Api) -> None:
    api.post("/api/v1/sessions", BEGIN)
    client = api.join()
    found = api.post("/api/v1/sessions/s/fetch", {"client": client}).json()
    api.post("/api/v1/sessions/s/report", {"client": client, "ticket": found["ticket"], "value": 20.0})
    api.post("/api/v1/sessions/s/fetch", {"client": client})
    api.post("/api/v1/sessions/s/fetch", {"client": "nobody"})
    lines = api.get("/metrics").text.splitlines()
    for line in (
        'trimtab_studies{target="session",status="running"} 1',
        'trimtab_session_trials_total{session="s",status="ok"} 1',
        'trimtab_session_gain{session="s",proven="false"} 1',
        'trimtab_session_clients{session="s"} 1',
        'trimtab_session_points_out{session="s"} 1',
        "trimtab_reports_total 1",
        "trimtab_problems_total 1",
    ):
        assert line in lines
    kinds = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {line.split("{")[0].split()[0] for line in lines if not line.startswith("#")} <= kinds


def test_every_refusal_is_counted_whoever_gives_it(api: Api) -> None:
    """A token that somebody tries to guess, a path that is none, a body that is too large, a study that is not there."""
    refused = [
        api.get("/metrics", token="a-guess-0123456789"),
        api.get("/api/v1/nothing"),
        api.call("POST", "/api/v1/sessions", content=b"x" * (1 << 21)),
        api.get("/api/v1/studies/7"),
    ]
    assert [answer.status_code for answer in refused] == [401, 404, 413, 404]
    assert "trimtab_problems_total 4" in api.get("/metrics").text.splitlines()


def test_as_many_latencies_as_a_report_may_hold_fit_into_a_body(api: Api) -> None:
    """Of operations of some microseconds, with all their digits, and a space between them as many libraries write it."""
    api.post("/api/v1/sessions", {**BEGIN, "objective": "latency_p95"})
    client = api.join()
    ticket = api.post("/api/v1/sessions/s/fetch", {"client": client}).json()["ticket"]
    said = json.dumps({"client": client, "ticket": ticket, "latencies_ms": [0.0012345678901234567] * 50_000})
    answer = api.call("POST", "/api/v1/sessions/s/report", content=said.encode())
    assert (answer.status_code, answer.json()["outcome"]) == (200, "told")


def test_clients_of_python(api: Api) -> None:
    """The synchronous and the asynchronous one, on one search, and alike."""
    import asyncio
    import inspect

    import httpx

    from trimtab.client import AsyncServer, AsyncSession, Server, ServerError, Session, choice, integer

    knobs = [integer("x", 0, 20, default=2), choice("mode", ["slow", "fast"])]

    async def tuned() -> tuple[Any, int]:
        transport = httpx.ASGITransport(api.app)
        async with httpx.AsyncClient(transport=transport) as http:
            server = AsyncServer(token=TOKEN, http=http, patience_s=0.2)
            sessions = [
                await server.session("s", knobs, budget="12 trials", searcher="pro", clients=2, client=str(i))
                for i in (1, 2)
            ]
            counts = [0, 0]

            async def work(index: int) -> None:
                async for point in sessions[index]:
                    counts[index] += 1
                    await asyncio.sleep(0)
                    await point.report(seconds(point.config))

            await asyncio.gather(work(0), work(1))
            with pytest.raises(ServerError, match="no session is called 'nobody'"):
                await server.join("nobody")
            return sessions[0], counts

    session, counts = asyncio.run(tuned())
    assert session.result in ("better", "no_improvement")
    assert min(counts) > 0
    for ours, theirs in ((Server, AsyncServer), (Session, AsyncSession)):
        names = [name for name in vars(ours) if not name.startswith("__")]
        assert set(names) <= set(vars(theirs))
        for name in names:
            if inspect.isfunction(getattr(ours, name)):
                assert list(inspect.signature(getattr(ours, name)).parameters) == list(
                    inspect.signature(getattr(theirs, name)).parameters
                )


def test_the_document_lists_knob_kinds(api: Api) -> None:
    knob = api.get("/api/v1/openapi.json").json()["components"]["schemas"]["KnobSpec"]
    assert knob["properties"]["kind"]["enum"] == ["integer", "real", "boolean", "choice", "ordinal"]
    assert KNOBS


def test_study_files_are_those_of_one_folder(served: Callable[..., Api], tmp_path: Path) -> None:
    folder = tmp_path / "studies"
    folder.mkdir()
    (folder / "bad.toml").write_text("[study]\n")
    (tmp_path / "secret.toml").write_text("secret")
    api = served(studies=folder)
    assert api.get("/api/v1/study-files").json() == {"files": ["bad.toml"], "folder": True}
    for name in ("../secret.toml", str(tmp_path / "secret.toml"), "none.toml", "bad.toml/../../secret.toml"):
        _problem(api.post("/api/v1/studies", {"file": name}), 404, "there is no study file=")
    _problem(api.post("/api/v1/studies", {"file": "bad.toml"}), 422, "bad.toml")
    api.post("/api/v1/sessions", BEGIN)
    api.post("/api/v1/sessions/s/stop")
    _problem(api.post("/api/v1/studies/1/stop"), 409, "study='s' does not run: its status is stopped")


def test_an_imported_session_is_a_study_that_does_not_run(api: Api) -> None:
    """Also where it ran when it was exported, and a session of this server has its name."""
    api.post("/api/v1/sessions", BEGIN)
    history = api.hub.sessions.history
    copy = history.copy(1)
    take_in(history, Imported([replace(copy, record=replace(copy.record, name="t", created_at=1.0))]), "far.jsonl")
    assert api.post("/api/v1/sessions", {**BEGIN, "name": "t"}).status_code == 201
    seen = LiveView(api.hub)._looked()
    assert [(row["id"], row["name"], row["status"]) for row in seen["studies"]] == [(2, "t", "running")]
    assert [(row["study_id"], row["name"]) for row in seen["sessions"]] == [(1, "s"), (3, "t")]
    _problem(api.post("/api/v1/studies/2/stop"), 409, "study='t' was imported from ")
    assert api.get("/api/v1/sessions/t").json()["state"] == "running"
    assert api.post("/api/v1/studies/3/stop").json() == {"stopping": "t"}


def test_the_trouble_of_one_session_is_not_that_of_others(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [api.post("/api/v1/sessions", {**BEGIN, "name": name}).json()["study_id"] for name in ("sick", "well")]
    add_many = History.add_many

    def sick(history: History, trials: Any, events: Any, *more: Any, **how: Any) -> None:
        if any(study_id == ids[0] for study_id, _ in [*trials, *events]):
            raise HistoryError("cannot store a value in the history")
        add_many(history, trials, events, *more, **how)

    clients = [api.join(name) for name in ("sick", "well")]
    monkeypatch.setattr(History, "add_many", sick)
    assert api.post("/api/v1/sessions/sick/pause").status_code == 507
    for what in ("pause", "resume", "restart", "stop"):
        assert api.post(f"/api/v1/sessions/well/{what}").status_code == 200, what
    found = api.post("/api/v1/sessions/well/fetch", {"client": clients[1]})
    assert (found.status_code, found.json()["state"]) == (200, "ended")
    monkeypatch.undo()


def test_a_bug_in_the_flow_of_one_session_ends_that_one_only(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that are broken off would say next that they are over, with no verdict; of that the list of all would fail."""

    def steps(scorer: object) -> Iterator[object]:
        raise ZeroDivisionError("oops")
        yield

    with monkeypatch.context() as patched:
        patched.setattr("trimtab.session.course.tuning", lambda *given: steps)
        assert api.post("/api/v1/sessions", {**BEGIN, "name": "broken"}).status_code == 201
    client = {"client": api.join("broken")}
    _problem(api.post("/api/v1/sessions/broken/fetch", client), 500, "a bug in Trimtab: ZeroDivisionError")
    found = api.post("/api/v1/sessions/broken/fetch", client).json()
    assert (found["state"], found["result"]) == ("ended", "interrupted")
    assert found["error"].startswith("a bug in Trimtab: ZeroDivisionError: oops\nhint: please report it")
    assert api.post("/api/v1/sessions", {**BEGIN, "name": "other"}).status_code == 201
    rows = api.get("/api/v1/sessions").json()["sessions"]
    assert [(row["name"], row["state"]) for row in rows] == [("broken", "ended"), ("other", "running")]
    assert api.get("/metrics").status_code == 200
    assert api.post("/api/v1/sessions/broken/restart").json()["state"] == "running"


def test_a_layer_that_fails_is_named_in_the_servers_log(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer says that the log has more."""
    api.post("/api/v1/sessions", {**BEGIN, "layers": [{"kind": "cache"}]})
    client = api.join()

    def broken(*rest: object) -> None:
        raise ZeroDivisionError("of the layer")

    monkeypatch.setattr(CacheLayer, "outgoing", broken)
    _problem(api.post("/api/v1/sessions/s/fetch", {"client": client}), 500, "a bug in Trimtab: InternalError")
    assert "layer 'cache' failed: ZeroDivisionError: of the layer" in caplog.text


@pytest.mark.parametrize("damage", ["update trimtab_trial set detail = 'x'", "update trimtab_study set body = '{'"])
def test_what_cannot_go_on_is_stopped_as_anything_else(served: Callable[..., Api], tmp_path: Path, damage: str) -> None:
    api = served()
    api.post("/api/v1/sessions", BEGIN)
    client = api.join()
    found = api.post("/api/v1/sessions/s/fetch", {"client": client}).json()
    api.post("/api/v1/sessions/s/report", {"client": client, "ticket": found["ticket"], "value": 20.0})
    api.hub.sessions.keeper.wait()
    with sqlite3.connect(tmp_path / "history.db") as database:
        database.execute(damage)
    api = served()
    answer = api.post("/api/v1/sessions/s/stop")
    assert answer.status_code == 200, answer.text
    assert (answer.json()["name"], answer.json()["state"], answer.json()["status"]) == ("s", "ended", "stopped")


def test_a_bug_that_shows_when_a_session_is_told_again_is_in_the_log_and_keeps_it_from_nothing(
    served: Callable[..., Api], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api = served()
    api.post("/api/v1/sessions", BEGIN)
    client = api.join()
    found = api.post("/api/v1/sessions/s/fetch", {"client": client}).json()
    api.post("/api/v1/sessions/s/report", {"client": client, "ticket": found["ticket"], "value": 20.0})
    api = served()

    def broken(*rest: object) -> None:
        raise ZeroDivisionError("of the flow")

    monkeypatch.setattr(Course, "tell", broken)
    asked = api.post("/api/v1/sessions/s/fetch", {"client": client})
    _problem(asked, 409, "session='s' cannot go on: a bug in Trimtab: ZeroDivisionError: of the flow")
    assert "in broken" in caplog.text, "with where it happened"
    assert api.post("/api/v1/sessions/s/stop").json()["status"] == "stopped"


def test_a_history_that_cannot_be_read_ends_a_stream_and_no_more(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def locked(*rest: object) -> None:
        raise HistoryError("history='h' cannot be used: database is locked")

    async def streamed() -> list[str]:
        return [part async for part in LiveView(api.hub)._events()]

    monkeypatch.setattr(History, "summaries", locked)
    assert run(streamed()) == []
    _problem(api.get("/metrics"), 507, "database is locked")
    assert api.hub.n_problems == 2
    assert caplog.text == ""
