"""What of [search] a study over a cycle of contexts cannot have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.errors import UsageError
from trimtab.study.tables import SearchTable

__all__ = ["require_plain_search"]


def require_plain_search(table: SearchTable, workload: Mapping[str, Any]) -> None:
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
