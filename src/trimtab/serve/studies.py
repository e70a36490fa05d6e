"""The API of studies, /api/v1/studies: what the history holds, sessions included, read and compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse

from trimtab.history import Imported, StudyRecord, StudySummary, section_copy, take_in
from trimtab.jsonable import strict
from trimtab.records import Role, Status, Trial
from trimtab.report import kept_classes, render_html, summarise
from trimtab.report.explain import with_plots
from trimtab.report.explain_charts import explanation_figures
from trimtab.report.html import report_figures
from trimtab.report.svg import figure_svg
from trimtab.report.values import ValueTexts
from trimtab.serve.api import Operation
from trimtab.serve.bodies import EmptyBody, SectionBody, StartBody
from trimtab.serve.hub import Hub
from trimtab.session.open import Means
from trimtab.session.refusal import ConflictError, UnknownError
from trimtab.session.sessions import KIND

__all__ = ["STUDY_OPERATIONS"]

T = TypeVar("T")

_MOST_DRAWN = 1500
"""Trials of a plot: more of them hide each other, and a browser draws them slowly."""

_MOST_ROWS = 500
_MOST_FAILURES = 20


def _study_id(request: Request) -> int:
    text = str(request.path_params["id"])
    if not text.isdecimal() or len(text) > 9:
        raise UnknownError(f"there is no study id={text[:40]!r}", hint="`GET /api/v1/studies` lists them")
    return int(text)


def _thinned(trials: Sequence[Trial], most: int) -> list[Trial]:
    """At most about `most` of them: each new best, those of the proof and of what follows the search, and others evenly."""
    if len(trials) <= most:
        return list(trials)
    best, kept, every = float("inf"), [], -(-len(trials) // (most // 2))
    for index, trial in enumerate(trials):
        is_best = _is_full(trial) and trial.loss is not None and trial.loss < best
        best = trial.loss if is_best and trial.loss is not None else best
        if is_best or index % every == 0 or trial.role not in (Role.SEARCH, Role.BASELINE, Role.DESIGN):
            kept.append(trial)
    first = most // 4  # among them the baseline's first runs, which all others are compared with
    return [*kept[:first], *kept[first - most :]] if len(kept) > most else kept


def _is_full(trial: Trial) -> bool:
    """Whether it may be a new best: one that a guard has ended may not."""
    return trial.status is Status.OK and trial.is_feasible


async def _made(hub: Hub, study_id: int, name: str, make: Callable[[StudyRecord, list[Trial]], T]) -> T:
    """As `Kept.made`, in a thread for what people look at: reading and drawing a long study takes seconds."""
    async with hub.views.of(str(study_id)):
        return await hub.views.run(partial(hub.kept.made, study_id, name, make))


async def _list(hub: Hub, request: Request, body: None) -> Any:
    return {"studies": await run_in_threadpool(hub.study_rows, with_sessions=True)}


async def _show(hub: Hub, request: Request, body: None) -> Any:
    def shown(record: StudyRecord, trials: Sequence[Trial]) -> dict[str, Any]:
        summary = summarise(record, trials)
        told = {name: value for name, value in strict(summary).items() if name not in ("rows", "failures")}
        best = _best_of(record, trials)
        return {
            "id": record.id, "name": record.name, "status": record.status, "created_at": record.created_at,
            "n_trials": len(trials), "baseline": dict(record.baseline), "best": best, "summary": told,
            "texts": {"baseline": _texts(record, record.baseline), "best": _texts(record, best)},
            "failures": [
                {"status": str(f.status), "reason": f.reason, "numbers": list(f.numbers), "log": list(f.log)}
                for f in summary.failures[:_MOST_FAILURES]
            ],
            "rows": strict(summary.rows[-_MOST_ROWS:]), "budget": _budget(record),
        }  # fmt: skip

    return await _made(hub, _study_id(request), "facts", shown)


def _budget(record: StudyRecord) -> str:
    table = record.settings.get("session") or record.settings.get("study") or {}
    return str(table.get("budget", "")) if isinstance(table, dict) else ""


async def _charts(hub: Hub, request: Request, body: None) -> Any:
    is_whole = request.query_params.get("more") == "1"

    def drawn(record: StudyRecord, trials: Sequence[Trial]) -> dict[str, Any]:
        some = _thinned(trials, _MOST_DRAWN)
        summary = summarise(record, some)
        made = report_figures(record, some, summary)
        text = ""
        if is_whole:
            explanation = with_plots(record, some, None)
            made |= explanation_figures(explanation, summary.times)
            text = explanation.text
        return {
            "n_trials": len(trials),
            "text": text,
            "charts": {name: figure_svg(name, figure) for name, figure in made.items()},
        }

    return await _made(hub, _study_id(request), f"charts {is_whole}", drawn)


async def _report(hub: Hub, request: Request, body: None) -> Any:
    def page(record: StudyRecord, trials: list[Trial]) -> str:
        return render_html(record, trials, kept_classes(hub.sessions.history.events(record.id)))

    return HTMLResponse(await _made(hub, _study_id(request), "report", page))


async def _compare(hub: Hub, request: Request, body: None) -> Any:
    """The winners (else the best configs) of two studies, knob by knob."""
    other = str(request.query_params.get("with", ""))
    if not other.isdecimal() or len(other) > 9:
        raise UnknownError(f"there is no study id={other[:40]!r}", hint="give ?with=ID")
    a, a_texts = await _made(hub, _study_id(request), "best", _best_with_texts)
    b, b_texts = await _made(hub, int(other), "best", _best_with_texts)
    rows = [
        {"knob": n, "a": a.get(n), "b": b.get(n), "texts": [a_texts.get(n, ""), b_texts.get(n, "")]}
        for n in sorted(a.keys() | b.keys())
    ]
    return {
        "knobs": strict([row for row in rows if row["a"] != row["b"]]),
        "n_same": sum(r["a"] == r["b"] for r in rows),
    }


def _texts(record: StudyRecord, config: Mapping[str, Any]) -> dict[str, str]:
    """The values as people read them: 128MB, and not 16384 pages."""
    texts = ValueTexts(record)
    return {name: texts.of(name, value) for name, value in config.items()}


def _best_with_texts(record: StudyRecord, trials: Sequence[Trial]) -> tuple[dict[str, Any], dict[str, str]]:
    best = _best_of(record, trials)
    return best, _texts(record, best)


def _best_of(record: StudyRecord, trials: Sequence[Trial]) -> dict[str, Any]:
    """The winner, else the config that is best by the mean of its runs, as a session tells its clients."""
    if record.verdict.result == "better":
        return {**record.baseline, **record.verdict.config}
    best, loss = Means().best(trials)
    return dict(record.baseline if best is None or loss >= 0 else best)


async def _files(hub: Hub, request: Request, body: None) -> Any:
    return {"files": await run_in_threadpool(hub.starts.files), "folder": hub.settings.studies is not None}


async def _start(hub: Hub, request: Request, body: StartBody) -> Any:
    return {"started": await run_in_threadpool(hub.starts.start, body.file)}


async def _keep_section(hub: Hub, request: Request, body: SectionBody) -> Any:
    """A study that is new with each report: what a program learns goes on."""

    def kept() -> str | None:
        copy = section_copy(body.model_dump(), created_at=time.time())
        if copy is None:
            return None
        return take_in(hub.sessions.history, Imported([copy]), "a program").studies[0].kept_as

    async with hub.views.of("sections"):  # they wait for each other anyway: here without a thread each
        name = await run_in_threadpool(kept)
    hub.changed()
    return {"kept_as": name}


async def _stop(hub: Hub, request: Request, body: EmptyBody) -> Any:
    study_id = _study_id(request)
    found = await run_in_threadpool(_running, hub, study_id)
    if found.target == KIND:
        await hub.threaded(found.name, partial(_stop_session, hub, found.name, study_id))
    else:
        await run_in_threadpool(hub.starts.stop, found.name, study_id, found.created_at)
    hub.changed(found.name)
    return {"stopping": found.name}


def _running(hub: Hub, study_id: int) -> StudySummary:
    """The study, which runs and is one of this server's history."""
    found = next((each for each in hub.sessions.history.summaries() if each.id == study_id), None)
    if found is None:
        raise UnknownError(f"there is no study id={study_id}", hint="`GET /api/v1/studies` lists them")
    if found.status != "running":
        raise ConflictError(f"study={found.name!r} does not run: its status is {found.status}")
    if found.origin:
        raise ConflictError(
            f"study={found.name!r} was imported from {found.origin!r}", hint="stop it where it runs, if it does"
        )
    return found


def _stop_session(hub: Hub, name: str, study_id: int) -> None:
    if hub.sessions.stop_stuck(name):
        return
    with hub.sessions.use(name) as session:
        if session.study_id != study_id:
            raise ConflictError(f"session={name!r} was begun again: it is study id={session.study_id} now")
        session.stop()
    hub.sessions.keeper.wait(study_id)


_ONE = "/api/v1/studies/{id}"
STUDY_OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/api/v1/studies", _list, None, "All studies of the history, sessions included, oldest first."),
    Operation(
        "POST", "/api/v1/studies", _start, StartBody, "Start `trimtab tune` on a study file of the server's folder."
    ),
    Operation(
        "POST",
        "/api/v1/sections",
        _keep_section,
        SectionBody,
        "Keep what a tuning section inside a program has learnt, as a study; `kept_as` is null while it has proven nothing.",
    ),
    Operation("GET", "/api/v1/study-files", _files, None, "Study files that may be started."),
    Operation("GET", _ONE, _show, None, "One study: what its report says, and its last trials."),
    Operation(
        "GET",
        f"{_ONE}/charts",
        _charts,
        None,
        "Its plots as SVG; with ?more=1 the importance of knobs as well.",
        query={"more": False},
    ),
    Operation("GET", f"{_ONE}/report", _report, None, "Its report as an HTML page."),
    Operation(
        "GET",
        f"{_ONE}/compare",
        _compare,
        None,
        "Where its best config differs from that of ?with=ID.",
        query={"with": True},
    ),
    Operation("POST", f"{_ONE}/stop", _stop, EmptyBody, "Stop it cleanly; its target is restored."),
)
