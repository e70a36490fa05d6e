"""LoginRefusedError: what every kind of server says to a user whom it does not let in."""

from __future__ import annotations

from trimtab.errors import TargetError

__all__ = ["LoginRefusedError"]


class LoginRefusedError(TargetError):
    """The server runs and answers, and does not let this user in: neither waiting nor a restart would help."""
