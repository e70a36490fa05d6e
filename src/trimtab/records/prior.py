"""Prior: what is expected of a space before anything in it was measured, from rules, catalogues and experts.

A prior is an opinion and never a limit: measurements overrule it, so a wrong one costs a few trials and no more. Source of
its use: C. Hvarfner et al., "πBO: Augmenting Acquisition Functions with User Beliefs for Bayesian Optimization", ICLR 2022.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.errors import UsageError
from trimtab.space import Value

__all__ = ["WITHIN_LIMITS", "KnobPrior", "Play", "Prior"]

WITHIN_LIMITS = "within_limits"
"""Name of the play that only makes the found settings legal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """A named bundle of few settings that an expert would try for this kind of load.

    Attributes:
        name: short, unique among the plays of a prior.
        settings: value by knob of the space, at least one; all other knobs stay as they are. A searcher leaves out a play
            with a knob or value that the space does not have.
        worth: by how much the loss (a log-ratio) is expected to fall if the play works, above 0: 0.1 is about 10 %.
        chance: probability that it works here, above 0 and below 1.
        reason: one sentence for people.
        sign: what the target must have counted under the found settings for the play to be worth a run: a condition in the
            language of constraints over the growth of its counters. Without it, or where a counter is not known, it is worth one.

    Raises:
        UsageError: no settings, or `worth` or `chance` outside its range.
    """

    name: str
    settings: Mapping[str, Value]
    worth: float = 0.05
    chance: float = 0.5
    reason: str = ""
    sign: str = ""

    def __post_init__(self) -> None:
        if not self.settings:
            raise UsageError(f"play={self.name!r} has no settings", hint="name at least one knob and its value")
        if not (self.worth > 0 and math.isfinite(self.worth)):
            raise UsageError(f"worth={self.worth!r} of play={self.name!r}", hint="worth is a finite number above 0")
        if not 0 < self.chance < 1:
            raise UsageError(f"chance={self.chance!r} of play={self.name!r}", hint="chance is above 0 and below 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobPrior:
    """Where the best value of one knob is expected. A direction is a value at the end of the range with a large width.

    Attributes:
        at: the value expected to be best; legal in the space.
        width: standard deviation around it on the knob's own scale (logarithmic where the knob's is), as a share of the
            useful range, above 0: 0.1 is confident, 0.5 little more than a direction. Not used for choices.

    Raises:
        UsageError: `width` is not above 0.
    """

    at: Value
    width: float = 0.25

    def __post_init__(self) -> None:
        if not (self.width > 0 and math.isfinite(self.width)):
            raise UsageError(f"width={self.width!r} of a prior", hint="width is a finite number above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Everything expected beforehand; empty by default.

    Attributes:
        plays: the most promising first.
        knobs: by name; knobs without an entry may be best anywhere. Unknown names are left out.
    """

    plays: tuple[Play, ...] = ()
    knobs: Mapping[str, KnobPrior] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.plays or self.knobs)
