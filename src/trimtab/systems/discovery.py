"""Discovery: what a kind of target offers `trimtab init`: the servers that run on this machine, and one of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["DiscoverableTarget", "FoundServer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """One server that a study could tune.

    Attributes:
        kind: of the target.
        what: product and version, for people; without a version when we may not log in.
        url: how to reach it; "" for one that the target would start itself.
        lines: of the [target.NAME] table, `kind` left out, each with its comment.
        problem: why we could not log in; "" when we could.
    """

    kind: str
    what: str
    url: str = ""
    lines: tuple[str, ...] = ()
    problem: str = ""


@runtime_checkable
class DiscoverableTarget(Protocol):
    """A target class that finds servers; both methods only look, and never raise for what they do not find.

    * `found_servers()`: those that run on this machine, in the order in which to propose them.
    * `embedded_server()`: one that the target starts by itself; None when its programs are not installed.
    """

    @classmethod
    def found_servers(cls) -> Sequence[FoundServer]: ...
    @classmethod
    def embedded_server(cls) -> FoundServer | None: ...
