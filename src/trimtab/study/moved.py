"""A study file's text for another folder: relative paths in it mean what they meant before."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from trimtab import plugins
from trimtab.errors import UsageError
from trimtab.study.file import StudyFile

__all__ = ["moved_text"]

_HEADER = re.compile(r"\s*\[\s*(?P<name>[^\[\]]+?)\s*\]")


@runtime_checkable
class _HasPaths(Protocol):
    """A class of target whose tables name files; see `System.full_paths`."""

    def full_paths(self, name: str, settings: Mapping[str, Any], directory: Any) -> Mapping[str, Any]: ...


def moved_text(file: StudyFile, source: str) -> str:
    """`source`, the text of `file`, such that it may lie in any folder; a text without relative paths stays as it is.

    Raises:
        UsageError: a relative path stands in a form that cannot be rewritten.
    """
    for where, paths in _paths(file):
        source = _with(source, where, paths)
        if any(_table_of(source, where).get(key) != value for key, value in paths.items()):
            raise UsageError(
                f"[{'.'.join(where)}] has relative paths that cannot be rewritten for another folder: {', '.join(paths)}",
                hint='write each on a separate line (data_dir = "..."), or as an absolute path',
            )
    return source


def _table_of(source: str, where: tuple[str, ...]) -> dict[str, Any]:
    """That table; empty when `source` cannot be read, as where the rest of a text of several lines was left behind."""
    try:
        found: Any = tomllib.loads(source)
    except tomllib.TOMLDecodeError:
        return {}
    for part in where:
        found = found[part]
    return dict(found)


def _paths(file: StudyFile) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Table -> its keys whose meaning depends on the folder, with their full values."""
    for name in file.target:
        table = file.table_of(name)
        kind = plugins.load("targets", table["kind"])
        found = kind.full_paths(name, table, file.directory) if isinstance(kind, _HasPaths) else {}
        if found:
            yield ("target", name), found
    kept = file.study.history
    if kept and "://" not in kept and not kept.startswith(("/", "~")):
        yield ("study",), {"history": file.history}
    stop = file.guard.stop_file
    if stop and not stop.startswith(("/", "~")):
        yield ("guard",), {"stop_file": str(file.stop_file)}


def _with(source: str, where: tuple[str, ...], values: Mapping[str, Any]) -> str:
    """`source` with these keys in one table, as lines under its head in place of those that were there."""
    kept: list[str] = []
    at: tuple[str, ...] = ()
    for line in source.splitlines():
        header = _HEADER.match(line)
        if header is not None:
            at = _names(header["name"])
        if at[: len(where)] == where and at[len(where) : len(where) + 1] in [(key,) for key in values]:
            continue  # a table of its own for the key
        if at == where and header is None and line.partition("=")[0].partition(".")[0].strip().strip("\"'") in values:
            continue
        kept.append(line)
        if header is not None and at == where:
            kept += [f"{key} = {_written(value)}" for key, value in values.items()]
    return "\n".join(kept) + "\n"


def _names(header: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in header.split("."))


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_written(each)}" for key, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
