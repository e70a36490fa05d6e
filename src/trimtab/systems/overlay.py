"""What every catalogue says, of a user's program and of the kinds that Trimtab ships alike, checked when it is loaded: knobs with
their useful ranges, what must hold between them, memory, advice, and the words of the system's log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from trimtab.errors import as_value_errors
from trimtab.space import SafetyClass, amount
from trimtab.units import format_value, parse_duration, unit_factor

__all__ = ["Bounds", "FaultLine", "LogWords", "Overlay", "OverlayKnob", "Rule", "Written"]

Written = str | int | float | bool
"""A value of a catalogue: a number in the knob's unit, arithmetic in base units, or a choice."""

_EXPRESSION_NAMES = {"memory": 1e9, "cores": 4.0, "connections": 100.0, "disk": 1e11}

Bounds = Mapping[str, float]
"""What a range may refer to: memory and disk in bytes, cores and connections as counts."""


class OverlayKnob(BaseModel):
    """What the curated file says about one knob; see the head of that file. A kind of target may know more keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    doc: str = Field(min_length=10, max_length=140)
    unit: str = ""
    low: int | float | str | None = None
    high: int | float | str | None = None
    log: bool = False
    step: int | None = Field(None, gt=0)
    special: tuple[int | float, ...] = ()
    choices: tuple[str, ...] = ()
    restart: Literal["reload", "restart"] = "reload"
    safety: SafetyClass = SafetyClass.PERFORMANCE
    condition: str | None = None
    only_writes: bool = False
    sets: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_range(self) -> OverlayKnob:
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high go together")
        if self.low is not None:
            with as_value_errors():
                low, high = self.useful(_EXPRESSION_NAMES)
            if not low < high or (self.log and low <= 0):
                raise ValueError(
                    f"useful range of {format_value(low, '')} to {format_value(high, '')} is empty, or logarithmic from 0"
                )
            if any(low <= value <= high for value in self.special):
                raise ValueError("a special value lies inside the useful range")
        elif self.log or self.special:
            raise ValueError("log and special need a range")
        if self.safety is SafetyClass.FORBIDDEN:
            raise ValueError("safety is forbidden (that class is in code)")
        return self

    def useful(self, names: Bounds) -> tuple[float, float]:
        """The useful range in the knob's own unit, not yet rounded or clipped to the server's limits."""
        step = unit_factor(self.unit)[0]

        def bound(value: int | float | str | None) -> float:
            return amount(value, names) / step if isinstance(value, str) else float(value or 0)

        return bound(self.low), bound(self.high)


K = TypeVar("K", bound=OverlayKnob)


class Rule(BaseModel):
    """What must hold between knobs, in the constraint language.

    Attributes:
        text: the condition; a rule that names a knob which this system lacks, or a fact that is not known, is left out.
        name: what messages call it.
        says: in words, for a rule that is checked before a change and is no constraint of the search.
        only: the product that it holds for; "" for all.
        binds: of its knobs the one that it is about: where that is not set the system brings it in line by itself; "" for all.
        use: "search" for one that bounds the search alone, and only where the running config keeps it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    text: str
    name: str = ""
    says: str = ""
    only: str = ""
    binds: str = ""
    use: Literal["both", "search"] = "both"


class FaultLine(BaseModel):
    """Words of the system's log.

    Attributes:
        log: regular expression over one line, its messages in English.
        fault: what they speak for.
        sqlstate: the same by error code, where a line shows it and no words fit, for several causes have one code.
        own: of a resource: the line itself shows that the system's own settings asked for too much.
        death: the system, or a process of it, died of it: what is measured meanwhile does not count.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    log: str
    fault: Literal["config", "resource", "environment"]
    sqlstate: str = ""
    own: bool = False
    death: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Finds its words in a line."""
        return re.compile(self.log)

    @cached_property
    def code(self) -> re.Pattern[str]:
        """Finds its code in a line: before the severity (`%e ` in log_line_prefix), in whatever language that is, or after it
        (verbose errors). An ERROR is a statement's, of whose own names and values the codes of a config's faults may speak."""
        if not self.sqlstate:
            return re.compile("(?!)")
        behind, before = (r"(?<!ERROR)", r"(?!ERROR:)") if self.fault == "config" else ("", "")
        return re.compile(rf"\b{self.sqlstate} {before}([A-Z]+: |\S+:  )|{behind}: +{self.sqlstate}: ")


class LogWords(BaseModel):
    """Words of the system's log that say why it failed; the first line of the catalogue that fits counts.

    Attributes:
        prefix: what precedes the words of a line.
        by_stop: of a symptom that says that the system was stopped.
        by_kill: of one that the kernel tells better, which knows who killed.
        first_words, last_words: of the first, or the last, line that may say why the system ended, when no other is known.
        dead_process: with the number of a process of the system that has died as its group.
        session_end: of a line about a session that has ended: who was cut off waits for it.
        ready: of the line that it writes once it has read its files again.
        recovers, recovered: of a line that shows that the system gets on with its crash recovery; and that this is over.
        line: the lines.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    prefix: str = ""
    by_stop: str = "(?!)"
    by_kill: str = "(?!)"
    first_words: str = ""
    last_words: str = ""
    dead_process: str = ""
    session_end: str = ""
    ready: str = ""
    recovers: tuple[str, ...] = ()
    recovered: str = "(?!)"
    line: tuple[FaultLine, ...] = ()

    @model_validator(mode="after")
    def _has_patterns(self) -> LogWords:
        own = (
            self.prefix,
            self.by_stop,
            self.by_kill,
            self.first_words,
            self.last_words,
            self.dead_process,
            self.session_end,
            self.ready,
            *self.recovers,
            self.recovered,
        )
        for text in (*own, *(line.log for line in self.line)):
            try:
                re.compile(text)
            except re.error as error:
                raise ValueError(f"{text!r} is not a regular expression: {error}") from error
        return self


class AdviceWhen(BaseModel):
    """Advice for where a condition holds, over memory, cores, disk, clients, ssd and hdd (1 or 0); with a `way` what runs stays
    if it is as much ("more") or as little ("less") already."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    when: str
    way: Literal["", "more", "less"] = ""
    settings: dict[str, Written] = Field(min_length=1)


class Overlay(BaseModel, Generic[K]):
    """A whole catalogue.

    Attributes:
        kind: name of the system.
        versions: that it was written for.
        knob: name -> knob.
        orders: pairs of knobs of which the first may not be above the second.
        constraint: what else must hold between knobs.
        memory: consumer -> bytes, in the constraint language, summed against the memory budget; a consumer of whose knobs the
            system lacks one is left out.
        reserve: of the memory budget, what is kept for the operating system and the system itself.
        advice: knob -> a value to try first.
        advice_when: more of it, under conditions.
        shrinks: knobs of it that are made smaller, in this order, until it fits into the memory budget.
        log: see `LogWords`.
        warmup_floor: shortest load after a restart, "30s", before such a system is as fast as it will be; "" where a load that is
            steady says so.
        compilers: how the names of the threads begin in which such a system compiles what it runs often; () where it does not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Literal[2] = Field(alias="schema")
    kind: str
    versions: tuple[Any, ...] = ()
    knob: dict[str, K]
    orders: tuple[tuple[str, str], ...] = ()
    constraint: tuple[Rule, ...] = ()
    memory: dict[str, str] = Field(default_factory=dict)
    reserve: str = "0"
    advice: dict[str, Written] = Field(default_factory=dict)
    advice_when: tuple[AdviceWhen, ...] = ()
    shrinks: tuple[str, ...] = ()
    log: LogWords = LogWords()
    warmup_floor: str = ""
    compilers: tuple[str, ...] = ()

    @field_validator("warmup_floor")
    @classmethod
    def _is_duration(cls, value: str) -> str:
        with as_value_errors():
            parse_duration(value or "0")
        return value

    @property
    def warmup_floor_s(self) -> float:
        """`warmup_floor` in seconds."""
        return parse_duration(self.warmup_floor or "0")

    @property
    def sets(self) -> Mapping[str, tuple[str, ...]]:
        """Set name -> knob names; "all" holds every one."""
        named: dict[str, list[str]] = {"all": list(self.knob)}
        for name, knob in self.knob.items():
            for group in knob.sets:
                named.setdefault(group, []).append(name)
        return {group: tuple(names) for group, names in named.items()}

    def advices(self) -> tuple[Mapping[str, Written], ...]:
        """What is advised always, and then what is advised under conditions."""
        return (self.advice, *(each.settings for each in self.advice_when))

    def named(self) -> Iterator[tuple[str, str]]:
        """(where, knob) of each knob that orders, shrinks and the binding of a rule speak of."""
        yield from (("orders", name) for pair in self.orders for name in pair)
        yield from (("binds", rule.binds) for rule in self.constraint if rule.binds)
        yield from (("shrinks", name) for name in self.shrinks)
