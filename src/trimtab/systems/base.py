"""Target: what every system under tuning promises to the trial room."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from trimtab.units import format_value

if TYPE_CHECKING:
    from trimtab.records import Context, Endpoint, Machine
    from trimtab.space import Config, Constraint, Knob, Value
    from trimtab.systems.memory import MemoryModel

__all__ = [
    "Applied",
    "KnobState",
    "Own",
    "Restarts",
    "Snapshot",
    "Target",
    "Undone",
    "always",
]

Restarts = Callable[[], None]
"""Called by a restore before it restarts or starts the target; raises `RestoreError` when that may not be."""


def always() -> None:
    """A restore may restart the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobState:
    """One knob as the live target shows it beside the catalogue.

    Attributes:
        knob: type, useful range, classes; `knob.default` is the target's boot value.
        running: the value in effect now.
        source: where the running value comes from ("default", "configuration file", "command line", ...).
        source_file: the file and line of it, "" when unknown.
        is_curated: whether the overlay knows this knob (only curated performance knobs enter a space by themselves).
        lock_reason: why it may not be changed here ("" when it may): its safety class, restart without a restart
            method, missing privilege, set on the command line.
        vendor_low, vendor_high: the widest values that the target accepts (numeric only).
    """

    knob: Knob
    running: Value
    source: str = ""
    source_file: str = ""
    is_curated: bool = False
    lock_reason: str = ""
    vendor_low: float | None = None
    vendor_high: float | None = None

    def to_json(self) -> dict[str, Any]:
        """What people and scripts are shown of it: values bare and as text."""
        knob = self.knob
        return {
            "name": knob.name,
            "running": self.running,
            "running_text": knob.format(self.running),
            "default": knob.default,
            "source": self.source,
            "source_file": self.source_file,
            "range": knob.legal().removeprefix("legal: "),
            "restart": str(knob.restart),
            "safety": str(knob.safety),
            "is_curated": self.is_curated,
            "lock_reason": self.lock_reason,
            "doc": knob.doc,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is needed to put a target back exactly as it was; JSON-serialisable, so that the journal can hold it.

    Attributes:
        target: the target's name.
        kind: its kind.
        reach: how to find it again without the study file (no secrets).
        files: path -> content (text), mode and owner as found; content None: the file did not exist.
        values: knob -> running value as found, for the read-back after a restore.
        picture: which server it is, and digests of every configuration file that it reads, as found.
        follows: targets after whose restart this one is restarted too (see `Tier`).
    """

    target: str
    kind: str
    reach: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    picture: Mapping[str, Any] = field(default_factory=dict)
    follows: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "follows", tuple(self.follows))  # JSON has made a list of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What is ours on a target: announced before a change, completed just after it; JSON-serialisable, for the journal.

    Attributes:
        texts: knob -> the texts under which it may stand in the target's files, as we write them.
        values: knob -> the values that the target may use because of us.
        late: the knobs among them that only a restart changes.
        units: knob -> the unit that its values count in, for people; knobs without one are missing.
        picture: the target just after our last finished change: which server it is, and digests of its configuration files;
            {} before the first.
        is_whole: whether our last change was finished, so that `picture` shows all of it.
    """

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    values: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    late: Sequence[str] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    picture: Mapping[str, Any] = field(default_factory=dict)
    is_whole: bool = True

    def __bool__(self) -> bool:
        return bool(self.texts)

    def said(self, name: str, value: Value) -> str:
        """A value of that knob for people."""
        return format_value(value, self.units.get(name, ""))

    def over(self, before: Own) -> Own:
        """Announced while `before` still stands: until the change is finished, either may be found."""
        return Own(
            texts=_union(before.texts, self.texts),
            values=_union(before.values, self.values),
            late=tuple(sorted({*before.late, *self.late})),
            units={**before.units, **self.units},
            picture=before.picture,
            is_whole=False,
        )


def _union(first: Mapping[str, Sequence[Any]], second: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    # True == 1: kept apart by their text
    return {
        name: tuple({repr(each): each for each in (*first.get(name, ()), *second.get(name, ()))}.values())
        for name in {**first, **second}
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What an apply did: values in effect as read back, whether the target was restarted, and what is ours since."""

    effective: Mapping[str, Value]
    restarted: bool
    duration_s: float
    own: Own = field(default_factory=Own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What a restore did, knob by knob, in words.

    Attributes:
        put_back: our knobs that have their found value again.
        left: our knobs that have another one, since somebody else has set them, or since they wait for a restart that would
            bring about changes of somebody else's.
        restarted: whether the target was restarted or started.
    """

    put_back: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    restarted: bool = False

    @property
    def text(self) -> str:
        """In one line."""
        if not self.left:
            return "restored as it was found"
        back = f"taken back: {', '.join(self.put_back)}; " if self.put_back else ""
        return f"{back}left as it is: {'; '.join(self.left)}"


@runtime_checkable
class Target(Protocol):
    """A running system that has knobs.

    Built by its class's `from_settings(name, settings, *, state_dir, directory)` from the study file's [target.NAME] table,
    whose paths are relative to `directory` (raises `UsageError` on unknown or wrong keys). Opening (`open`) reaches the
    system and changes nothing. Every method may raise `TargetError`; those that change the world are called by the trial
    room and by nobody else.

    * `states()`: every knob the live system has, by name.
    * `selection(context)`: names of the knobs that the settings ask to tune (a set or names), all of them changeable; of a
      set only those that such a workload can feel. Raises `UsageError` for an unknown or locked name.
    * `advise(context)`: rule-based config over the changeable knobs, without measuring.
    * `constraints(names, context)`: built-in constraints (memory budget, orders) over those of `names` that matter,
      with every other knob fixed at its running value.
    * `memory(context)`: what the settings take of the host's memory, by consumer, and the budget that they share; the
      memory budget among `constraints` comes from it.
    * `preflight(config)`: checks without changing anything; raises `ApplyError` when the config cannot work.
    * `announce(config)`: what will be ours once `config` is applied; changes nothing. Written down before `apply`.
    * `apply(config, stays=False)`: all or nothing; sets exactly these knobs over the snapshot's state (knobs not named
      return to what the snapshot had), reloads or restarts as needed, reads back, checks health. Raises `ApplyError`
      after having rescued the target into the snapshot's state. With `stays`, `ApplyError` too, and nothing is changed,
      where nothing would outlive the system's next restart.
    * `restore(snapshot, own=None, restarts=always)`: the one way back, idempotent. Takes back what is ours (`own`; None:
      what this object has applied) and still stands; with nobody else's change in between, the files have their found
      bytes again. What somebody else has set since is left, and told. Restarts only when a knob of ours that must go
      back needs it and no change of somebody else's would come into force by that, or when the system is down or
      hangs; asks `restarts` first. Raises `RestoreError` when something of ours still stands. It works on a target that
      is not open and on a system that is down: the class's `from_snapshot(snapshot, *, state_dir)` makes such a target
      from a journal without the study file.
    * `where()`: for people, before they agree: server (without password), files that are changed, restart command.
    * `fragment(config)`: the config as text ready for the system's own configuration file.
    * `lock(holder)`: one tuner per target; raises `LockedError` naming the holder. Freed by the holder's death.
    * `doctor()`: (check, is_fine, explanation) lines; changes nothing.
    """

    name: str
    kind: str

    def open(self) -> None: ...
    def close(self) -> None: ...
    def machine(self) -> Machine: ...
    def endpoint(self) -> Endpoint: ...
    def states(self) -> Mapping[str, KnobState]: ...
    def selection(self, context: Context) -> tuple[str, ...]: ...
    def advise(self, context: Context) -> Config: ...
    def constraints(self, names: Sequence[str], context: Context) -> tuple[Constraint, ...]: ...
    def memory(self, context: Context) -> MemoryModel: ...
    def preflight(self, config: Config) -> None: ...
    def snapshot(self) -> Snapshot: ...
    def announce(self, config: Config) -> Own: ...
    def apply(self, config: Config, *, stays: bool = False) -> Applied: ...
    def restore(self, snapshot: Snapshot, own: Own | None = None, *, restarts: Restarts = always) -> Undone: ...
    def where(self) -> Mapping[str, str]: ...
    def health(self) -> None: ...
    def log_excerpt(self, n_lines: int = 20) -> str: ...
    def fragment(self, config: Config) -> str: ...
    def lock(self, holder: str) -> AbstractContextManager[None]: ...
    def doctor(self) -> Sequence[tuple[str, bool, str]]: ...
