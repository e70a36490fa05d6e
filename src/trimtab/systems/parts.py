"""Parts: what a system is made of; `System` works on them in the one order that is right for all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trimtab.records import Fault
from trimtab.systems.channel import Channel
from trimtab.systems.lock import ServerLock
from trimtab.systems.overlay import LogWords
from trimtab.systems.picture import Picture

__all__ = ["Parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a kind of system gives, beside its catalogue, the way to it (lifecycle, log, place) and its live reader.

    Attributes:
        channel: where values are written, and taken out again.
        identity: which system it is, in which role, as it is now; raises `TargetError` when it does not answer.
        lock: of one tuner.
        log: what its words mean.
        troubles: what makes a measurement on it worthless now.
        noun: what messages call it.
    """

    channel: Channel
    identity: Callable[[], Picture]
    lock: ServerLock
    log: LogWords
    troubles: Callable[[], Iterable[tuple[Fault, str]]] = lambda: ()
    noun: str = "server"
