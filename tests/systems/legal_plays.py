"""Why plays would be left out of a study with the server's own settings as its baseline, on machines of many sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trimtab.errors import SpaceError
from trimtab.flow import Budget, Task
from trimtab.flow.play_fit import fitting, on_top, plan_of
from trimtab.records import WITHIN_LIMITS, Context, Objective, Play
from trimtab.space import Config, Space
from trimtab.space.expression import names_in, parse
from trimtab.systems.base import KnobState
from trimtab.systems.plays import PlayEntry, fitting_plays
from trimtab.systems.rules import constraints, memory_of

__all__ = ["Left", "Size", "left_out"]

OWN = "your settings have it already"
OTHER = "its condition does not hold"
UNFIT = "a setting that the server lacks, or that is locked"


@dataclass(frozen=True)
class Size:
    """A machine and its load, as plays know them."""

    cores: int
    memory: int
    clients: int
    read_share: float
    analytic: bool

    @property
    def facts(self) -> dict[str, float]:
        return {
            "memory": float(self.memory), "cores": float(self.cores), "disk": 1e12, "connections": 100.0,
            "clients": float(self.clients), "read_share": self.read_share, "analytic": float(self.analytic),
        }  # fmt: skip

    @classmethod
    def all(cls) -> Iterator[Size]:
        """Small and large machines, from one client to many more than cores."""
        for cores in (2, 4, 16, 64):
            for memory in (1 << 30, 128 << 30):
                for clients, read_share in ((1, 1.0), (12, 0.1), (600, 0.6), (1500, 0.6)):
                    yield cls(cores, memory, clients, read_share, analytic=clients == 1)


@dataclass
class Left:
    """What became of each play over all sizes: why it was left out, and the first size for which that was so."""

    whys: dict[str, dict[str, Size]] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)

    def add(self, play: str, why: str, size: Size) -> None:
        if why:
            self.whys.setdefault(play, {}).setdefault(why, size)
        else:
            self.tried.add(play)

    def unexplained(self, known: Mapping[str, str]) -> list[tuple[str, str, Size]]:
        """Those with no reason in `known` (play -> regular expression)."""
        return [
            (play, why, size)
            for play, whys in self.whys.items()
            for why, size in whys.items()
            if why not in (OWN, OTHER) and not re.search(known.get(play, "(?!)"), why)
        ]


def left_out(
    catalog: Any,
    plays: Mapping[str, PlayEntry],
    states_on: Callable[[Size], Mapping[str, KnobState]],
    facts: Mapping[str, float],
    *,
    product: str = "",
    sizes: Iterable[Size] | None = None,
) -> Left:
    """What becomes of the plays by themselves, each on top of the settings as found.

    Args:
        catalog: of the system.
        plays: of it.
        states_on: its knobs on a machine of that size.
        facts: further ones: `version`, `ssd`, ...
        product: of a kind that has several.
        sizes: all when not given.
    """
    found = Left()
    for size in sizes or Size.all():
        states = states_on(size)
        whys = dict.fromkeys(plays, UNFIT)
        for disk in ("ssd", "hdd"):
            all_facts = {**size.facts, "ssd": 0.0, "hdd": 0.0, **facts, disk: 1.0}
            whys |= {name: OTHER for name, play in plays.items() if not play.fits(all_facts) and whys[name] == UNFIT}
            for play in fitting_plays(plays, states, all_facts):
                whys[play.name] = _why(play, catalog, states, size, product)
        for name, why in whys.items():
            found.add(name, why, size)
    return found


def _why(play: Play, catalog: Any, states: Mapping[str, KnobState], size: Size, product: str) -> str:
    """As a study over the play's own knobs says it; the others have their values as found."""
    conditions = (states[name].knob.condition for name in play.settings)
    spoken_of = {each.name for text in conditions if text is not None for each in names_in(parse(text))}
    names = [name for name in states if name in {*play.settings, *spoken_of} and not states[name].lock_reason]
    budget = memory_of(catalog, states, size.facts, budget_bytes=size.memory).constraint(names)
    rules = constraints(catalog, names, states, size.facts, product=product)
    running = Config({name: states[name].running for name in names})
    # As a study makes its space: what has no effect stays as it was found.
    knobs = [replace(states[name].knob, default=running[name]) for name in names]
    legal = {name: (states[name].knob.default,) for name in names}
    space = Space(knobs, [*filter(None, (budget,)), *rules], also_legal=legal)
    task = Task(
        space=space, baseline=running, advice=running, objective=Objective("throughput"), budget=Budget(trials=40),
        context=Context("load", clients=size.clients, read_share=size.read_share),
    )  # fmt: skip
    try:
        plan, left = plan_of(task, (play,))
    except SpaceError:
        return OTHER  # what runs takes more than this memory, whatever the play does
    start = on_top(task, running, plan[0])[0] or running if plan and plan[0].name == WITHIN_LIMITS else running
    if play.name in left:
        return left[play.name]
    _, config, why = fitting(task, start, plan[-1])
    return why if config is None else ""
