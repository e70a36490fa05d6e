"""SERVE OTHERS: a study whose trials are made by clients; points go out through layers, reports come back, all of it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred

if TYPE_CHECKING:
    from trimtab.session.keeper import Keeper
    from trimtab.session.layer import Answer, Layer, Reject
    from trimtab.session.point import Point, Report, Result
    from trimtab.session.session import Session
    from trimtab.session.sessions import Sessions
    from trimtab.session.spec import SessionSpec, read_spec
else:
    __getattr__ = deferred(
        __name__,
        {
            "keeper": "Keeper",
            "layer": "Answer Layer Reject",
            "point": "Point Report Result",
            "session": "Session",
            "sessions": "Sessions",
            "spec": "SessionSpec read_spec",
        },
    )

__all__ = [
    "Answer",
    "Keeper",
    "Layer",
    "Point",
    "Reject",
    "Report",
    "Result",
    "Session",
    "SessionSpec",
    "Sessions",
    "read_spec",
]
