"""The ways to stop from outside: the user's signal, and the kill switch, which is a file that anybody may make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import TrimtabError, UsageError

__all__ = ["Interrupted", "KillSwitch"]


class Interrupted(TrimtabError):  # noqa: N818 - no error: somebody asked to stop
    """Somebody asked to stop while a trial ran; the trial is not a result. The target is already restored."""

    exit_code = 130

    def __init__(
        self, message: str = "stopped by the user", *, hint: str = "the server has its own configuration again"
    ) -> None:
        super().__init__(message, hint=hint)


@dataclass(frozen=True, slots=True)
class KillSwitch:
    """On while `path` exists, whatever is in it."""

    path: Path

    @property
    def is_on(self) -> bool:
        """Whether everything must stop; a folder that cannot be looked into counts as off."""
        try:
            return self.path.exists()
        except OSError:
            return False

    def stop_if_on(self) -> None:
        """Raises Interrupted when it is on: for the moments between two steps."""
        if self.is_on:
            raise Interrupted(f"stopped by the kill switch: file={self.path}")

    def require_off(self) -> None:
        """Raises UsageError when it is on before anything has begun."""
        if self.is_on:
            raise UsageError(
                f"the kill switch is on: file={self.path} exists", hint="remove the file to let Trimtab work again"
            )
