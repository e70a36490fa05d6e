"""What of [search] a study over a cycle of contexts cannot have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from trimtab.errors import UsageError

__all__ = ["require_plain_search"]


class _Search(Protocol):
    """The keys of [search] that divide a search, or begin it elsewhere."""

    @property
    def passes(self) -> str: ...
    @property
    def prune(self) -> int | str: ...
    @property
    def warm_start(self) -> str | tuple[str, ...]: ...
    @property
    def plays(self) -> str: ...


def require_plain_search(table: _Search, workload: Mapping[str, Any]) -> None:
    """Raises UsageError where the workload is a cycle, which is searched over all knobs at once and from nothing but itself."""
    if "cycle" not in workload:
        return
    for key, value, plain in (
        ("passes", table.passes, "one"),
        ("prune", table.prune, "off"),
        ("warm_start", table.warm_start, "off"),
        ("plays", table.plays, "auto"),
    ):
        if value not in (plain, "off"):
            raise UsageError(
                f"search.{key}={value!r} has no meaning for a cycle of contexts ([workload.cycle])",
                hint=f"leave {key} out",
            )
