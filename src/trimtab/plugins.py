"""Finds plug-ins by their short name through entry points, loading only what is asked for.

Built-in ones are registered in the same way (pyproject.toml), so a plug-in can do whatever they can. A group is one of
`trimtab.targets`, `trimtab.workloads`, `trimtab.searchers`, `trimtab.rankers` and `trimtab.formats` (of the history).
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from trimtab.errors import UsageError

__all__ = ["Group", "load", "names"]

Group = Literal["targets", "workloads", "searchers", "rankers", "formats"]


def _entries(group: Group) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"trimtab.{group}")}


def names(group: Group) -> tuple[str, ...]:
    """The short names registered in `group`, sorted; nothing is imported."""
    return tuple(sorted(_entries(group)))


def load(group: Group, name: str) -> Any:
    """The class registered as `name` in `group`.

    Raises:
        UsageError: no such name, or the plug-in cannot be imported.
    """
    entries = _entries(group)
    if name not in entries:
        raise UsageError(
            f"no plug-in {name!r} in {group}={sorted(entries)}",
            hint=f"use one of: {', '.join(sorted(entries))}",
        )
    try:
        return entries[name].load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"the plug-in {name!r} of {group} cannot be loaded: {error}",
            hint=f"reinstall the package that provides {entries[name].value!r}",
        ) from error
