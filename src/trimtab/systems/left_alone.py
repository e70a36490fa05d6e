"""A restart command that has left the system as it was: no config is to blame, unless the command works without it."""

from __future__ import annotations

from trimtab.errors import ApplyError, NoRestartError, TargetError
from trimtab.records import Fault
from trimtab.systems.account import user_name

__all__ = ["STILL_S", "failed_alone", "is_left_alone", "left_alone"]

STILL_S = 3.0
"""A command may end before the system has begun to: `systemctl --no-block`, or a signal."""


class LeftAloneError(ApplyError):
    """A restart command that has worked before has left the system as it was."""


def left_alone(text: str, *, hint: str, has_restarted: bool) -> TargetError:
    """What it is to whoever waits for the restart; `has_restarted`: whether the command has ever worked."""
    if has_restarted:
        return LeftAloneError(text, hint=hint, fault=Fault.ENVIRONMENT)
    return NoRestartError(text, hint=hint)


def failed_alone(error: TargetError, noun: str, *, has_restarted: bool) -> TargetError:
    """The same of a command that failed; `noun` is what messages call the system."""
    hint = f"run it by hand as user={user_name()}: it has left the {noun} as it was"
    return left_alone(error.message, hint=hint, has_restarted=has_restarted)


def is_left_alone(error: TargetError) -> bool:
    """Whether an error is one of these: nothing else may cause a restart more."""
    return isinstance(error, NoRestartError | LeftAloneError)
