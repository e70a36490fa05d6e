"""Problems as RFC 9457 has them: every refusal is `application/problem+json` with a title, a detail and a hint."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from trimtab.errors import HistoryError, InternalError, LockedError, TrimtabError, UsageError
from trimtab.history.rows import is_damage
from trimtab.session.refusal import ConflictError, GoneError, UnknownError, UnknownTicketError

__all__ = ["problem", "problem_of"]

_STATUS: tuple[tuple[type[TrimtabError], int], ...] = (
    (UnknownError, 404),
    (ConflictError, 409),
    (GoneError, 410),
    (LockedError, 409),
    (HistoryError, 507),
    (UsageError, 422),
)


def problem(
    status: int, detail: str, hint: str | None = None, headers: dict[str, str] | None = None, unknown: str = ""
) -> Response:
    """An answer that says what is wrong; `unknown`: what of the request the server does not know, for clients."""
    body: dict[str, Any] = {
        "type": f"urn:trimtab:problem:{status}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    if hint:
        body["hint"] = hint
    if unknown:
        body["unknown"] = unknown
    return Response(json.dumps(body), status_code=status, media_type="application/problem+json", headers=headers)


def problem_of(error: Exception) -> Response:
    """What an exception is answered with; a bug is told without its insides."""
    if isinstance(error, TrimtabError) and not isinstance(error, InternalError):
        is_damaged = isinstance(error, HistoryError) and is_damage(error)  # clients ask again after a 507
        status = 500 if is_damaged else next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        return problem(
            status, error.message, error.hint, unknown="ticket" if isinstance(error, UnknownTicketError) else ""
        )
    return problem(500, f"a bug in Trimtab: {type(error).__name__}", "please report it; the server's log has more")
