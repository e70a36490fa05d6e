"""Tier: one target as a part of a stack, with the names that its knobs have there; and the order of several."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from types import TracebackType

from trimtab.errors import TrimtabError, UsageError
from trimtab.records import Play
from trimtab.space import Config
from trimtab.space.rename import renamed
from trimtab.systems.base import KnobState, Target
from trimtab.systems.capabilities import RestrictedTarget

__all__ = ["Step", "Tier", "bottom_first", "ordered"]

_TIER = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One target of a stack.

    Attributes:
        name: of its table in the study file.
        target: what is tuned.
        needs: tiers that must serve before this one does: they lie below it.
        follows: whether it is restarted, and not only looked at, after one that it needs was restarted (all that lie below
            it, where `needs` is empty).
        prefix: before the names of its knobs in the stack: "db."; "" in a stack of one.
    """

    name: str
    target: Target
    needs: tuple[str, ...] = ()
    follows: bool = False
    prefix: str = ""

    def full(self, name: str) -> str:
        """A name of this tier as the stack has it."""
        return f"{self.prefix}{name}"

    def full_step(self, step: str) -> str:
        """A step of a trial as its costs have it: "apply.db", or "apply" in a stack of one."""
        return f"{step}.{self.name}" if self.prefix else step

    def said(self, text: str) -> str:
        """Words about this tier, for people: they begin with its name where there are several."""
        return f"{self.name}: {text}" if self.prefix else text

    def state(self, state: KnobState) -> KnobState:
        """A knob of its catalogue as the stack has it."""
        if not self.prefix:
            return state
        knob = state.knob
        condition = None if knob.condition is None else renamed(knob.condition, self.full)
        return replace(state, knob=replace(knob, name=self.full(knob.name), condition=condition))

    def play(self, play: Play) -> Play:
        """One of its plays as the stack has it."""
        settings = {self.full(name): value for name, value in play.settings.items()}
        sign = renamed(play.sign, self.full) if play.sign else ""
        return replace(play, name=self.full(play.name), settings=settings, sign=sign)

    def permitted(self) -> Tier:
        """With its target as one sees it who may change settings (see `RestrictedTarget`).

        Raises:
            TargetError: the target cannot be read.
        """
        if not isinstance(self.target, RestrictedTarget):
            return self
        with self.asked():
            return replace(self, target=self.target.permitted())

    def asked(self) -> AbstractContextManager[None]:
        """Errors raised inside begin with the tier's name, where there are several."""
        return _Named(self)


class _Named(AbstractContextManager[None]):
    def __init__(self, tier: Tier) -> None:
        self._tier = tier

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tier.prefix and isinstance(error, TrimtabError):
            told = copy.copy(error)  # its class and the rest of what it holds stay
            told.message = self._tier.said(error.message)
            told.args = (told.message,)
            raise told from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a change does to one tier.

    Attributes:
        tier: which.
        config: exactly what is set there over the values as found, under the tier's own names.
        found_bytes, before_bytes, after_bytes: what the tier takes of its machine's memory as it was found, before this step
            and after it, by its memory model; 0 where nobody has to know (a stack of one).
    """

    tier: Tier
    config: Config
    found_bytes: float = 0.0
    before_bytes: float = 0.0
    after_bytes: float = 0.0

    @property
    def grows(self) -> bool:
        """Whether the tier takes more memory afterwards."""
        return self.after_bytes > self.before_bytes


def bottom_first(names: Sequence[str], needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The order in which tiers are opened and changed: each after those that it needs.

    Args:
        names: as the study file has them, from the top of the stack to its bottom.
        needs: tier -> tiers below it; where nothing is said, the order of `names` counts.

    Raises:
        UsageError: a name that no tier has, a circle, or a name that cannot stand before a knob's.
    """
    for name in names:
        if _TIER.fullmatch(name) is None:
            raise UsageError(
                f"[target.{name}] is one of several targets, and cannot be named so",
                hint="a letter, then letters, digits, '_' and '-', at most 32: its knobs are called NAME.knob",
            )
        for other in needs.get(name, ()):
            if other not in names or other == name:
                what = "itself" if other == name else "not a target of this study"
                raise UsageError(
                    f"[target.{name}] needs names {other!r}, which is {what}",
                    hint=f"the targets are: {', '.join(names)}",
                )
    rank = {name: index for index, name in enumerate(reversed(names))}
    sorter = TopologicalSorter({name: tuple(needs.get(name, ())) for name in names})
    try:
        sorter.prepare()
    except CycleError as error:
        raise UsageError(
            f"the targets need each other in a circle: {' -> '.join(error.args[1])}", hint="drop one of these needs"
        ) from error
    found: list[str] = []
    ready: set[str] = set()
    while sorter.is_active():
        ready |= set(sorter.get_ready())
        lowest = min(ready, key=rank.__getitem__)
        ready.remove(lowest)
        found.append(lowest)
        sorter.done(lowest)
    return tuple(found)


def ordered(steps: Sequence[Step]) -> tuple[Step, ...]:
    """`steps` (bottom first) such that memory is given back before it is taken: those that grow come last.

    After any number of them the sum is at most the larger of the sums before and after all.
    """
    return tuple(sorted(steps, key=lambda step: step.grows))
