"""SessionSpec: what a client says to begin a session, checked, and the task that it makes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from trimtab.errors import SpaceError, UsageError
from trimtab.flow import Budget, ProofOptions, SearchOptions, Task
from trimtab.measure import FIRST_LOOK
from trimtab.records import Context, Objective
from trimtab.space import Config, Constraint, Knob, KnobKind, Space, Value
from trimtab.units import parse_duration

__all__ = ["KnobSpec", "LayerSpec", "PriorSpec", "SessionSpec", "faults_of", "read_spec"]

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_KNOB = r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$"
_IN_WORDS = {
    _NAME: "up to 64 letters, digits and . _ - are allowed, the first a letter or a digit",
    _KNOB: "up to 128 letters, digits and . _ - are allowed, the first a letter or _",
}
"""What a pattern takes, for people."""
_DIRECTIONS = {"minimise": "cost", "maximise": "score"}
_MAX_LEASE_S = 7 * 86400.0
_CLOSE = 0.001
"""Of a range: the middle may be so far off."""

_Any = StrictBool | StrictInt | StrictFloat | StrictStr
_Text = Annotated[str, Field(max_length=1000)]


class _Model(BaseModel):
    """Nothing is guessed: what is not known, not finite or of another type is refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, strict=True)


class KnobSpec(_Model):
    """One knob; as in docs/reference/space.md. Without a default it begins in the middle of its range."""

    name: str = Field(pattern=_KNOB)
    kind: Literal["integer", "real", "boolean", "choice", "ordinal"]
    low: StrictInt | StrictFloat | None = None
    high: StrictInt | StrictFloat | None = None
    step: StrictInt | StrictFloat | None = None
    log: bool = False
    unit: Annotated[str, Field(max_length=20)] = ""
    choices: list[Annotated[StrictStr, Field(max_length=200)]] = Field(default=[], max_length=1000)
    special: list[StrictInt | StrictFloat] = Field(default=[], max_length=100)
    default: _Any | None = None
    condition: _Text | None = None
    doc: _Text = ""

    def knob(self) -> Knob:
        """As the space room has it.

        Raises:
            SpaceError: the definition contradicts itself.
        """
        knob = Knob(**{**self.model_dump(), "kind": KnobKind(self.kind), "default": self._first()})
        return replace(knob, default=_middle(knob)) if self.default is None and knob.is_numeric else knob

    def _first(self) -> Value:
        """The default, as far as it can be said before the definition is checked."""
        if self.default is not None:
            return self.default
        if self.kind == "boolean":
            return False
        if self.kind in ("choice", "ordinal"):
            return self.choices[0] if self.choices else ""
        return self.low or 0


def _middle(knob: Knob) -> int | float:
    """The legal value in the middle of a range, or just below; of reals one of six digits where that is as good."""
    if knob.kind is KnobKind.INTEGER:
        first, last, apart = int(knob.low or 0), int(knob.high or 0), int(knob.step or 1)
        middle = math.isqrt(first * last) if knob.log else (first + last) // 2
        return first + (middle - first) // apart * apart
    low, high, step = float(knob.low or 0), float(knob.high or 0), float(knob.step or 0)
    centre = _geometric_mean(low, high) if knob.log else low / 2 + high / 2
    if step > 0:
        centre = low + math.floor((centre - low) / step) * step
    short = float(f"{centre:.6g}")
    is_as_good = knob.contains(short) and abs(short - centre) <= _CLOSE * (high - low)
    return short if is_as_good else knob.clip(centre)


def _geometric_mean(a: float, b: float) -> float:
    product = a * b
    return math.sqrt(product) if 0 < product < math.inf else math.sqrt(a) * math.sqrt(b)


class LayerSpec(_Model):
    """One layer by its short name, with its options."""

    kind: Annotated[str, Field(max_length=64)]
    options: dict[str, Any] = Field(default={}, max_length=50)


class PriorSpec(_Model):
    """What is known of one config from before: its cost or score."""

    config: dict[str, _Any] = Field(max_length=500)
    value: float


class SessionSpec(_Model):
    """A session as it is asked for. `docs/reference/sessions.md` describes each key."""

    name: str = Field(pattern=_NAME)
    knobs: list[KnobSpec] = Field(min_length=1, max_length=500)
    constraints: list[_Text] = Field(default=[], max_length=200)
    objective: _Text = "minimise"
    budget: Annotated[str, Field(max_length=40)] = "50 trials"
    searcher: Annotated[str, Field(max_length=64)] = ""
    options: dict[str, Any] = Field(default={}, max_length=50)
    seed: int = Field(default=1, ge=0, lt=2**31)
    clients: int = Field(default=1, ge=1, le=10_000)
    baseline: dict[str, _Any] = Field(default={}, max_length=500)
    layers: list[LayerSpec] = Field(default=[], max_length=20)
    prior: list[PriorSpec] = Field(default=[], max_length=10_000)
    proof: bool = True
    min_gain: float = Field(default=0.02, ge=0, le=1)
    min_pairs: int = Field(default=3, ge=2, le=100)
    max_pairs: int = Field(default=8, ge=2, le=1000)
    patience: int = Field(default=40, ge=1, le=1_000_000)
    lease: Annotated[str, Field(max_length=40)] = "10m"
    workload: Annotated[str, Field(max_length=200)] = ""

    @property
    def fingerprint(self) -> str:
        """Of everything that must agree for two clients to mean the same session."""
        return "session " + hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    def is_that_of(self, fingerprint: str, kept: object) -> bool:
        """Whether the session that was begun with `kept` and has that fingerprint is meant; its lease may be another."""
        lease = kept.get("lease") if isinstance(kept, Mapping) else None
        same = self.model_copy(update={"lease": lease}) if isinstance(lease, str) else self
        return fingerprint == same.fingerprint

    @property
    def chosen_searcher(self) -> str:
        """The searcher's name; a simplex that moves as a whole where several clients are expected."""
        return self.searcher or ("pro" if self.clients > 1 else "auto")

    @property
    def lease_s(self) -> float:
        """Seconds after which a point that nobody reported is handed out again.

        Raises:
            UsageError: no duration between 1 s and a week.
        """
        seconds = parse_duration(self.lease)
        if not 1 <= seconds <= _MAX_LEASE_S:
            raise UsageError(f"lease={self.lease!r} is not between 1s and 7d", hint='write a duration such as "10m"')
        return seconds

    def space(self, start: Mapping[str, Value] = MappingProxyType({})) -> Space:
        """What may change; a knob that has no effect in a config is as in `start` there, else at its default.

        Raises:
            SpaceError: a knob or a constraint that is wrong.
        """
        knobs = [knob.knob() for knob in self.knobs]
        names = {knob.name for knob in knobs}
        given = {name: (value,) for name, value in self.baseline.items() if name in names}
        legal = {knob.name: (*given.get(knob.name, ()), knob.default) for knob in knobs}
        knobs = [replace(knob, default=start.get(knob.name, knob.default)) for knob in knobs]
        return Space(knobs, [Constraint(text) for text in self.constraints], also_legal=legal)

    def task(self) -> Task:
        """The task of the study behind the session.

        Raises:
            UsageError, SpaceError: something in it is not legal.
        """
        space = self.space()
        unknown = sorted(set(self.baseline) - set(space.knobs))
        if unknown:
            raise SpaceError(
                f"baseline names unknown knob={unknown[0]!r}", hint=f"use some of: {', '.join(space.knobs)}"
            )
        baseline = space.validate({**space.default(), **self.baseline})
        space = self.space(baseline)
        if not space.is_feasible(baseline):
            raise SpaceError(
                "the baseline breaks a constraint",
                hint='begin with values that meet all of them: "baseline" of a session, --start of `trimtab exec`',
            )
        if self.min_pairs > self.max_pairs:
            raise UsageError(f"min_pairs={self.min_pairs} is more than max_pairs={self.max_pairs}", hint="swap them")
        _ = self.lease_s
        return Task(
            space=space, baseline=baseline, advice=baseline,
            objective=Objective.parse(_DIRECTIONS.get(self.objective, self.objective)),
            budget=Budget.parse(self.budget),
            context=Context(self.workload or f"session {self.name}", self.clients),
            seed=self.seed,
            search=SearchOptions(searcher=self.chosen_searcher, options=self.options, patience=self.patience),
            proof=ProofOptions(
                min_gain=self.min_gain, min_pairs=self.min_pairs, max_pairs=self.max_pairs, advice=False
            ),
            is_proven=self.proof,
        )  # fmt: skip

    def require_provable(self) -> None:
        """Raises UsageError when nothing could be proven. Asked where a session begins: one that an earlier version has begun so
        goes on."""
        if self.proof and self.max_pairs < FIRST_LOOK:
            raise UsageError(
                f"max_pairs={self.max_pairs}: the session could prove nothing, because a proof needs {FIRST_LOOK} pairs or more",
                hint=f"raise it to {FIRST_LOOK} at least, better {2 * FIRST_LOOK}, or do without one (proof = false)",
            )

    def starts(self, space: Space, is_maximised: bool) -> tuple[Config, ...]:
        """The configs of the prior, the best first.

        Raises:
            SpaceError: a config that the space does not hold.
        """
        ranked = sorted(self.prior, key=lambda entry: -entry.value if is_maximised else entry.value)
        return tuple(space.validate({**space.default(), **entry.config}) for entry in ranked)


def read_spec(data: bytes | str) -> SessionSpec:
    """A spec from JSON.

    Raises:
        UsageError: it is no such thing; the message names every key that is wrong.
    """
    try:
        return SessionSpec.model_validate_json(data)
    except ValidationError as error:
        raise UsageError(
            f"the session cannot be begun: {faults_of(error)}", hint="see docs/reference/sessions.md"
        ) from None


def faults_of(error: ValidationError) -> str:
    """What is wrong, key by key, without what was sent."""
    faults = [
        f"{'.'.join(map(str, fault['loc'])) or 'body'}: {_in_words(dict(fault))}"
        for fault in error.errors(include_input=False)
    ]
    more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
    return "; ".join(faults[:5]) + more


def _in_words(fault: Mapping[str, Any]) -> str:
    return str(_IN_WORDS.get(fault.get("ctx", {}).get("pattern", ""), fault["msg"]))
