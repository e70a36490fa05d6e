"""Why a session refuses what a client asks; each is answered with its own HTTP status."""

from __future__ import annotations

from trimtab.errors import UsageError

__all__ = ["ConflictError", "GoneError", "UnknownError"]


class UnknownError(UsageError):
    """No such session, client or point."""


class ConflictError(UsageError):
    """It was said already, by somebody else or otherwise; or the session has ended."""


class GoneError(UsageError):
    """It was of an earlier run of the session."""
