"""The application: routes, the OpenAPI document, and the end of a server."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from trimtab import __version__
from trimtab.errors import TrimtabError
from trimtab.serve.api import OPERATIONS, endpoint
from trimtab.serve.guard import Guard
from trimtab.serve.hub import Hub
from trimtab.serve.live import LiveView
from trimtab.serve.metrics import metrics_text
from trimtab.serve.openapi import openapi
from trimtab.serve.problem import problem, problem_of
from trimtab.serve.quick import Quick
from trimtab.serve.studies import STUDY_OPERATIONS

__all__ = ["make_app"]

_STATIC = ("app.js", "app.css")


def make_app(hub: Hub) -> Guard:
    """The server as an ASGI application; `hub` is closed by whoever made it."""
    view, document = LiveView(hub), _document()

    async def shown(request: Request) -> Response:
        return JSONResponse(document)

    async def metrics(request: Request) -> Response:
        try:
            text = await run_in_threadpool(metrics_text, hub)
        except TrimtabError as error:
            hub.failed(error)
            return problem_of(error)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    routes = [
        Route("/", _page),
        Route("/health", _health),
        Route("/static/{name}", _static),
        Route("/metrics", metrics),
        Route("/api/v1/openapi.json", shown),
        Route("/api/v1/events", view.stream),
        *(Route(each.path, endpoint(hub, each), methods=[each.method]) for each in (*OPERATIONS, *STUDY_OPERATIONS)),
    ]

    handlers: dict[Any, Callable[..., Any]] = {HTTPException: _http_problem, Exception: _bug}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return Guard(Quick(app, hub, OPERATIONS), hub.settings, hub.connections, hub.refused)


@cache
def _document() -> dict[str, Any]:
    return openapi([*OPERATIONS, *STUDY_OPERATIONS])


async def _page(request: Request) -> Response:
    return Response(_file("index.html"), media_type="text/html")


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok", "version": __version__, "api": 1})


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        return problem(404, "there is no such file")
    return Response(_file(name), media_type=mimetypes.guess_type(name)[0])


@cache
def _file(name: str) -> bytes:
    return resources.files("trimtab.serve").joinpath("static", name).read_bytes()


async def _http_problem(request: Request, error: HTTPException) -> Response:
    hints = {404: "`GET /api/v1/openapi.json` describes the API", 405: "see `GET /api/v1/openapi.json`"}
    version = re.match(r"/api/v(\d{1,9})(/|$)", request.url.path)
    if version is not None and version[1] != "1":
        detail = f"this server speaks /api/v1, and the request is for /api/v{version[1]}"
        return problem(404, detail, f"use a client of the server's version: Trimtab {__version__}")
    return problem(error.status_code, str(error.detail), hints.get(error.status_code), dict(error.headers or {}))


async def _bug(request: Request, error: Exception) -> Response:
    return problem_of(error)
