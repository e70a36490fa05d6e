"""Why a session refuses what a client asks; each is answered with its own HTTP status."""

from __future__ import annotations

from trimtab.errors import UsageError

__all__ = ["ConflictError", "GoneError", "StuckError", "UnknownError", "UnknownTicketError"]


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
