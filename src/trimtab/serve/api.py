"""The API of sessions, /api/v1/sessions: each operation takes what the request says and gives JSON values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from trimtab.errors import TrimtabError
from trimtab.jsonable import strict
from trimtab.serve.bodies import BeginBody, EmptyBody, FetchBody, JoinBody, ReportBody, RestartBody, read_body
from trimtab.serve.hub import Hub
from trimtab.serve.problem import problem_of
from trimtab.session.open import Fetched
from trimtab.session.session import Session
from trimtab.session.view import best_of, summary_of

__all__ = ["OPERATIONS", "SESSIONS", "HasGone", "Operation", "endpoint"]

T = TypeVar("T")
HasGone = Callable[[], Awaitable[bool]]
"""Whether the client has closed its connection."""

_POLL_S = 1.0
"""How often a waiting fetch looks again by itself, for leases that have ended."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the API.

    Attributes:
        method, path: as Starlette routes have them.
        run: what it does.
        body: model of its request; None for none.
        doc: what it does, in a line.
        statuses: of good answers; `run` makes the response itself where it is not the first.
        query: what may stand behind the path's "?", by name, and whether it must.
        quick: what it does for a session of that name, where clients ask for it with every trial (see `Quick`).
    """

    method: str
    path: str
    run: Callable[[Hub, Request, Any], Awaitable[Any]]
    body: type[BaseModel] | None
    doc: str
    statuses: tuple[int, ...] = (200,)
    query: Mapping[str, bool] = field(default_factory=dict)
    quick: Callable[[Hub, str, Any, HasGone], Awaitable[Any]] | None = None


def endpoint(hub: Hub, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    """The operation as Starlette calls it; what it raises becomes a problem."""

    async def call(request: Request) -> Response:
        try:
            body = None if operation.body is None else read_body(operation.body, await request.body())
            answer = await operation.run(hub, request, body)
        except TrimtabError as error:
            hub.failed(error)
            return problem_of(error)
        except ClientDisconnect:  # nobody reads what is answered
            return Response(status_code=400)
        return answer if isinstance(answer, Response) else JSONResponse(answer, status_code=operation.statuses[0])

    return call


async def _of_session(hub: Hub, name: str, call: Callable[[Session], T]) -> T:
    """What `call` gives of that session: at once where it is quick, else in a thread, so that others go on while it thinks."""
    found = hub.sessions.call_now(name, call)
    if found is not None:
        return found
    return await hub.threaded(name, partial(hub.sessions.call, name, call), hub.threads)


async def _in_turn(hub: Hub, name: str, call: Callable[[Session], T]) -> T:
    """What `call` gives of that session, in a thread; what is called seldom says nothing of how long the session thinks."""

    def used() -> T:
        with hub.sessions.use(name) as session:
            return call(session)

    return await hub.threaded(name, used)


async def _begin(hub: Hub, request: Request, body: BeginBody) -> Any:
    spec = body.spec()
    session, is_new = await hub.threaded(spec.name, partial(hub.sessions.begin, spec, again=body.again))
    hub.changed()
    return JSONResponse({**summary_of(session), "is_new": is_new}, status_code=201 if is_new else 200)


async def _list(hub: Hub, request: Request, body: None) -> Any:
    return {"sessions": await run_in_threadpool(hub.session_rows)}


async def _show(hub: Hub, request: Request, body: None) -> Any:
    def shown(session: Session) -> dict[str, Any]:
        speeds = session.speeds()
        clients = [
            {
                "name": each.name, "joined_at": each.joined_at, "seen_at": each.seen_at, "n_reports": each.n_reports,
                "speed": strict(speeds.get(each.id)),
            }
            for each in session.clients.values()
        ]  # fmt: skip
        return {**summary_of(session), "running": strict(session.running()), "clients": clients}

    return await _in_turn(hub, request.path_params["name"], shown)


async def _join(hub: Hub, request: Request, body: JoinBody) -> Any:
    def joined(session: Session) -> dict[str, Any]:
        client = session.join(body.name, request=body.request)
        knobs = [{"name": knob.name, "kind": str(knob.kind)} for knob in session.task.space.knobs.values()]
        return {
            "client": client.id,
            "lease_s": session.spec.lease_s,
            "knobs": knobs,
            "state": session.state,
            "best": best_of(session),
        }

    found = await _in_turn(hub, request.path_params["name"], joined)
    hub.changed()
    return found


async def _leave(hub: Hub, request: Request, body: None) -> Any:
    name = request.path_params["name"]
    await _in_turn(hub, name, lambda session: session.leave(request.path_params["client"]))
    hub.changed(name)
    return {"left": True}


async def _fetch(hub: Hub, name: str, body: FetchBody, has_gone: HasGone) -> Any:
    def fetched(session: Session) -> tuple[int, dict[str, Any]]:
        with hub.timed_ask():
            found = session.fetch(body.client)
        return session.study_id, _fetch_answer(found, session)

    until = hub.clock() + body.wait_s
    while True:
        n = hub.rung(name)
        study_id, answer = await _of_session(hub, name, fetched)
        left_s = until - hub.clock()
        if answer["state"] not in ("wait", "paused") or left_s <= 0 or hub.is_ending:
            break
        await hub.points(name).wait(n, min(left_s, _POLL_S))
        if await has_gone():  # it would keep a point from others until its lease is over
            raise ClientDisconnect
    if answer["state"] == "point":
        hub.changed()
    elif answer["state"] == "ended":
        await hub.commits.kept(study_id)
    return answer


def _fetch_answer(found: Fetched, session: Session) -> dict[str, Any]:
    answer: dict[str, Any] = {"state": found.state, "best": best_of(session)}
    if found.point is not None:
        point = found.point
        answer |= {
            "ticket": found.ticket, "config": dict(point.config), "role": str(point.role), "effort": point.effort,
            "number": point.number, "run": point.run, "lease_until": found.until,
        }  # fmt: skip
    if found.state == "ended":
        answer |= {"result": session.verdict.result, "stop_reason": session.verdict.stop_reason, "error": session.error}
    return answer


async def _report(hub: Hub, name: str, body: ReportBody, has_gone: HasGone) -> Any:
    def reported(session: Session) -> tuple[int, dict[str, Any]]:
        outcome = session.report(body.client, body.ticket, body.report())
        return session.study_id, {"outcome": outcome, "state": session.state, "best": best_of(session)}

    study_id, answer = await _of_session(hub, name, reported)
    await hub.commits.kept(study_id)  # what is acknowledged is kept
    hub.n_reports += 1
    hub.changed(name)
    return answer


def _named(call: Callable[[Hub, str, Any, HasGone], Awaitable[Any]]) -> Callable[[Hub, Request, Any], Awaitable[Any]]:
    async def named(hub: Hub, request: Request, body: Any) -> Any:
        return await call(hub, request.path_params["name"], body, request.is_disconnected)

    return named


async def _best_of(hub: Hub, request: Request, body: None) -> Any:
    return await _of_session(hub, request.path_params["name"], lambda found: {"state": found.state, **best_of(found)})


def _control(what: str) -> Callable[[Hub, Request, Any], Awaitable[Any]]:
    async def control(hub: Hub, request: Request, body: EmptyBody | RestartBody) -> Any:
        name = request.path_params["name"]

        def done() -> tuple[int, dict[str, Any]]:
            if isinstance(body, RestartBody):
                new = hub.sessions.restart(name, request=body.request)
                return new.study_id, summary_of(new)
            if what == "stop" and hub.sessions.stop_stuck(name):
                row = next(each for each in reversed(hub.session_rows()) if each["name"] == name)
                return row["study_id"], row
            with hub.sessions.use(name) as session:
                getattr(session, what)()
                return session.study_id, summary_of(session)

        study_id, answer = await hub.threaded(name, done)
        await hub.commits.kept(study_id)
        hub.changed(name)
        return answer

    return control


SESSIONS = "/api/v1/sessions"
_ONE = f"{SESSIONS}/{{name}}"
_CONTROLS = {
    "pause": "Hand out no new points; reports are still taken.",
    "resume": "Hand out points again.",
    "finish": "End the search; its winner is proven if clients go on fetching.",
    "stop": "End it at once, without a proof.",
    "restart": "End it and begin again from nothing under its name; clients stay.",
}

OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", SESSIONS, _list, None, "All sessions, oldest first."),
    Operation(
        "POST",
        SESSIONS,
        _begin,
        BeginBody,
        "Begin a session (201), or find the one that was begun in the same way (200).",
        statuses=(200, 201),
    ),
    Operation("GET", _ONE, _show, None, "One session: state, best config, clients, and what is being measured."),
    Operation("POST", f"{_ONE}/clients", _join, JoinBody, "Join as a client."),
    Operation("DELETE", f"{_ONE}/clients/{{client}}", _leave, None, "Leave; what the client had is handed out again."),
    Operation(
        "POST",
        f"{_ONE}/fetch",
        _named(_fetch),
        FetchBody,
        "The next point to measure, or the best config while none is ready.",
        quick=_fetch,
    ),
    Operation(
        "POST",
        f"{_ONE}/report",
        _named(_report),
        ReportBody,
        "Report what a point gave; it is in the history when this answers.",
        quick=_report,
    ),
    Operation("GET", f"{_ONE}/best", _best_of, None, "The best config so far, and whether it is proven."),
    *(
        Operation("POST", f"{_ONE}/{what}", _control(what), RestartBody if what == "restart" else EmptyBody, doc)
        for what, doc in _CONTROLS.items()
    ),
)
