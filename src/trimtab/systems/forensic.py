"""What a target can offer beside `Target`, so that a failure is blamed on who caused it and nobody else's change is fought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from trimtab.records import Fault

__all__ = ["Disturbance", "Evidence", "ForensicTarget", "Symptom"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One thing that the target's own words, or the system under it, show of a failure.

    Attributes:
        fault: the class of cause that it speaks for.
        text: what was seen, in one line.
        is_own_demand: of a resource: the target itself asked for more than it may have (killed within its own limit).
        is_death: whether the target, or a process of it, died of it: no measurement of that time counts.
    """

    fault: Fault
    text: str
    is_own_demand: bool = False
    is_death: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of a failure, as found before anything was repaired.

    Attributes:
        symptoms: the most telling first.
        is_up: whether the target's process runs.
        is_stopped: whether its process is held by a signal (SIGSTOP) or a debugger.
        log: its own last lines since the last change that we made.
    """

    symptoms: tuple[Symptom, ...] = ()
    is_up: bool = True
    is_stopped: bool = False
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Something that somebody else did to the target since we last left it.

    Attributes:
        fault: the class of it, for the trial that it spoils.
        text: what, with `name=value`.
        stops: whether tuning must end: the files, the settings or the role are not what we left. Otherwise only the
            trial is spoilt.
        hint: what to do about it.
    """

    fault: Fault
    text: str
    stops: bool
    hint: str = ""


@runtime_checkable
class ForensicTarget(Protocol):
    """A target that can say what went wrong with it, and what somebody else did to it. None of these changes
    anything.

    * `evidence()`: of the last failure: gathered when `apply` failed (before its rescue), else now. Never raises.
    * `disturbances()`: what has changed since `snapshot`, `apply` or `restore` last left the target, or since the last
      call: each is told once. Raises `TargetError` when the target cannot be reached.
    * `notes()`: what people should know of the target before tuning starts, one line each.
    """

    def evidence(self) -> Evidence: ...
    def disturbances(self) -> tuple[Disturbance, ...]: ...
    def notes(self) -> tuple[str, ...]: ...
