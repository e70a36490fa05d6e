"""Why a session refuses what a client asks; each is answered with its own HTTP status."""

from __future__ import annotations

from trimtab.errors import HistoryError, UsageError
from trimtab.history.rows import UNREADABLE

__all__ = ["ConflictError", "GoneError", "StuckError", "UnknownError", "UnknownTicketError", "is_lasting"]


class UnknownError(UsageError):
    """No such session, client or point."""


class UnknownTicketError(UnknownError):
    """The point was never handed out; its client is known, and need not join again."""


class ConflictError(UsageError):
    """It was said already, by somebody else or otherwise; or the session has ended."""


class GoneError(UsageError):
    """It was of an earlier run of the session."""


class StuckError(ConflictError):
    """The session is in the history and cannot go on: it does not fit this version, or something of it is damaged."""


def is_lasting(error: HistoryError) -> bool:
    """Whether it will be the same the next time: a row is damaged; False where the database cannot be used at the moment."""
    return isinstance(error.__cause__, UNREADABLE)
