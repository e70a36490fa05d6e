"""The exceptions a user of Trimtab can meet, each with the exit code of the command that meets it.

TrimtabError                     base; `hint` says what to do
├── UsageError             2     the command line or the study file is wrong
│   └── SpaceError         2     a knob, value, constraint or space is not legal
├── TargetError            3     the system under tuning cannot be reached, read, changed or restored
│   ├── LockedError        3     another tuner holds the target
│   ├── ForeignChangeError 3     somebody else changed the target while it was being tuned
│   ├── ApplyError         3     the target refused a config, or did not come back with it
│   ├── NoRestartError     3     the restart command leaves the target as it is, and has never done better
│   └── RestoreError       3     the target could not be put back as it was found
├── LoadError              4     the workload could not be prepared or run, or its measurement is invalid
│   └── GeneratorError     4     the load generator is silent or sends nonsense
├── HistoryError           2     the history file or database cannot be read or written
└── InternalError         70     a bug in Trimtab or in a plug-in
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from trimtab.redact import hide_literals, redact

__all__ = [
    "ApplyError",
    "ForeignChangeError",
    "GeneratorError",
    "HistoryError",
    "InternalError",
    "LoadError",
    "LockedError",
    "NoRestartError",
    "RestoreError",
    "SpaceError",
    "TargetError",
    "TrimtabError",
    "UsageError",
    "as_value_errors",
]


_LINE = 1000
"""Characters of a line of a message: a value from outside may be as long as it likes."""


def _shortened(text: str) -> str:
    return "\n".join(line if len(line) <= _LINE else f"{line[: _LINE - 3]}..." for line in text.split("\n"))


class TrimtabError(Exception):
    """Base of every error that Trimtab raises on purpose.

    `message` says what happened, with `name=value`; `hint`, when there is one, says what to do about it. Passwords are
    taken out of both.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        message = _shortened(redact(message))
        super().__init__(message)
        self.message = message
        self.hint = None if hint is None else _shortened(redact(hint))

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class UsageError(TrimtabError):
    """The command line or the study file is wrong; nothing was touched."""

    exit_code = 2


class SpaceError(UsageError):
    """A knob, a value, a constraint or a space is not legal; nothing was touched."""


class TargetError(TrimtabError):
    """The system under tuning cannot be reached, read, changed or restored."""

    exit_code = 3


class UnavailableError(TargetError):
    """The system answers that it cannot serve for a while, as a proxy does (HTTP 503) whose server was away."""


class LockedError(TargetError):
    """Another tuner holds the target; the message names it."""


class ForeignChangeError(TargetError):
    """Somebody else changed the target (its files, its settings, its role) while it was being tuned: the study stops."""


class ApplyError(TargetError):
    """The target refused a config or did not come back with it.

    `log_excerpt` holds the target's own log lines, `fault` the class of the cause ("config", "resource", "environment";
    see `trimtab.records.Fault`), "" when only the evidence can tell. This is a *result* for the searcher: the trial room
    turns it into a trial.
    """

    def __init__(self, message: str, *, hint: str | None = None, log_excerpt: str = "", fault: str = "") -> None:
        super().__init__(message, hint=hint)
        self.log_excerpt = hide_literals(log_excerpt)
        self.fault = fault


class NoRestartError(TargetError):
    """The restart command leaves the target as it is, and has never done better: no config that needs a restart can be tried."""


class RestoreError(TargetError):
    """The target could not be put back as it was found; the message says how to do it by hand."""


class LoadError(TrimtabError):
    """The workload could not be prepared or run, or what was measured is invalid."""

    exit_code = 4


class GeneratorError(LoadError):
    """The load generator is silent or sends nonsense: no config of the target is why."""


class HistoryError(TrimtabError):
    """The history file or database cannot be read or written."""

    exit_code = 2


class InternalError(TrimtabError):
    """A bug in Trimtab, or in a plug-in that the message names."""

    exit_code = 70


@contextmanager
def as_value_errors() -> Iterator[None]:
    """For a check inside a pydantic model: what is wrong becomes a ValueError, to which the model adds the key.

    Raises:
        ValueError: with the message of the UsageError that was raised inside, which is its cause and has the hint.
    """
    try:
        yield
    except UsageError as error:
        raise ValueError(error.message) from error
