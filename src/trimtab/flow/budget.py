"""Budget: how much a study may use, in seconds or in trials."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trimtab.errors import UsageError
from trimtab.units import counted, format_duration, parse_duration

__all__ = ["Budget"]

_TRIALS = re.compile(r"^\s*(\d{1,20})\s*trials?\s*$")
_MAX_TRIALS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a study may use: seconds or trials (exactly one is set)."""

    seconds: float | None = None
    trials: int | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Reads `"5m"`, `"1h30m"` or `"40 trials"`.

        Raises:
            UsageError: neither, or not positive.
        """
        match = _TRIALS.match(text)
        hint = 'write a duration such as "5m", or a number of trials such as "40 trials"'
        if match:
            if not 1 <= int(match[1]) <= _MAX_TRIALS:
                few = "no trial" if int(match[1]) < 1 else f"more than {_MAX_TRIALS} trials"
                raise UsageError(f"budget={text!r} holds {few}", hint=hint)
            return cls(trials=int(match[1]))
        try:
            seconds = parse_duration(text)
        except UsageError as error:
            raise UsageError(f"cannot read budget={text!r}", hint=hint) from error
        if seconds <= 0:
            raise UsageError(f"budget={text!r} is not positive", hint=hint)
        return cls(seconds=seconds)

    def is_below(self, other: Budget) -> bool:
        """Whether it is less than `other`; never where one is in seconds, and the other in trials."""
        if self.seconds is not None and other.seconds is not None:
            return self.seconds < other.seconds
        return self.trials is not None and other.trials is not None and self.trials < other.trials

    def __str__(self) -> str:
        return counted(self.trials, "trial") if self.trials is not None else format_duration(self.seconds or 0.0)
