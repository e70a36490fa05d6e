"""What people and other programs are shown of a session, as JSON values."""

from __future__ import annotations

from typing import Any

from trimtab.jsonable import strict
from trimtab.session.session import Session

__all__ = ["best_of", "summary_of"]


def best_of(session: Session) -> dict[str, Any]:
    """Its best config so far, which stands in every answer to a client."""
    config, gain = session.best()
    return {"config": dict(config), "gain": strict(gain), "is_proven": session.is_proven}


def summary_of(session: Session) -> dict[str, Any]:
    """Its name, state, best config and progress."""
    return {
        "name": session.spec.name,
        "study_id": session.study_id,
        "state": session.state,
        "status": session.status,
        "n_trials": len(session.trials),
        "n_clients": len(session.clients),
        "budget": session.spec.budget,
        "searcher": session.spec.chosen_searcher,
        "objective": str(session.task.objective),
        "best": best_of(session),
        "result": session.verdict.result,
        "stop_reason": session.verdict.stop_reason,
        "stop_kind": session.verdict.stop_kind,
        "error": session.error,
        "doing": session.news,
    }
