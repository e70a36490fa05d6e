"""mongod.conf: YAML, and within its values the settings of the storage engine, in the engine's own syntax.

`storage.wiredTiger.engineConfig.configString: "eviction=(threads_min=4),eviction_dirty_target=5"` has the addresses
"storage.wiredTiger.engineConfig.configString#eviction.threads_min" and "...#eviction_dirty_target"; it has none as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trimtab.systems.codec.base import CodecError, Entry
from trimtab.systems.codec.yaml_lines import YamlLines

__all__ = ["MongodConf"]

_TEXTS = ("configString", "wiredTigerEngineRuntimeConfig")
"""Last parts of the keys whose values are settings of the engine."""

_NAME = re.compile(r"[A-Za-z_][\w]*")
_VALUE = re.compile(r"[^,()\"'\s=]+")


class MongodConf(YamlLines):
    """See the module."""

    name = "mongod"

    def entries(self, text: str) -> Sequence[Entry]:
        found: list[Entry] = []
        for entry in super().entries(text):
            if entry.address.rpartition(".")[2] not in _TEXTS:
                found.append(entry)
                continue
            quotes = 1 if text[entry.start] in "\"'" else 0
            found += _inside(text, entry.start + quotes, entry.end - quotes, entry.address + "#")
        return tuple(found)

    def _put(self, text: str, address: str, value: str | None) -> str:
        if "#" in address and value is not None and not _VALUE.fullmatch(value):
            raise CodecError(
                f"address={address!r} value={value!r} is not a setting of the engine",
                hint="it may have no comma, bracket or quote",
            )
        return super()._put(text, address, value)

    def _added(self, text: str, address: str, value: str) -> str:
        key, mark, path = address.partition("#")
        if not mark:
            return super()._added(text, address, value)
        if not all(_NAME.fullmatch(part) for part in path.split(".")) or not _VALUE.fullmatch(value):
            raise CodecError(
                f"address={address!r} value={value!r} is not a setting of the engine",
                hint="write it as in: eviction.threads_min",
            )
        whole = next((entry for entry in super().entries(text) if entry.address == key), None)
        if whole is None:
            return super()._added(text, key, f'"{_written(path, value)}"')
        quotes = 1 if text[whole.start] in "\"'" else 0
        start, end = whole.start + quotes, whole.end - quotes
        if not quotes:
            return f'{text[:start]}"{_with(text[start:end], path, value)}"{text[end:]}'
        return f"{text[:start]}{_with(text[start:end], path, value)}{text[end:]}"


def _written(path: str, value: str) -> str:
    head, dot, rest = path.partition(".")
    return f"{head}=({_written(rest, value)})" if dot else f"{head}={value}"


def _with(config: str, path: str, value: str) -> str:
    """The settings with one more: in its group where there is one."""
    head, dot, rest = path.partition(".")
    if dot and (group := re.search(rf"(?:^|,)\s*{head}=\(", config)) is not None:
        end = _closing(config, group.end())
        return f"{config[: group.end()]}{_with(config[group.end() : end], rest, value)}{config[end:]}"
    return f"{config},{_written(path, value)}" if config.strip() else _written(path, value)


def _closing(text: str, position: int) -> int:
    """Where the bracket closes that was opened before `position`."""
    depth = 1
    for i in range(position, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise CodecError("a bracket of the engine's settings is not closed", hint="repair configString in mongod.conf")


def _inside(text: str, start: int, end: int, prefix: str) -> Iterator[Entry]:
    """The settings between two places, those of groups under the names of the groups."""
    position = start
    while position < end:
        match = re.compile(r"[\s,]*([A-Za-z_]\w*)=").match(text, position, end)
        if match is None:
            return
        if text[match.end() : match.end() + 1] == "(":
            close = _closing(text[:end], match.end() + 1)
            inner = list(_inside(text, match.end() + 1, close, f"{prefix}{match[1]}."))
            yield from inner
            position = close + 1
            continue
        value = re.compile(r"[^,()]*").match(text, match.end(), end)
        stop = value.end() if value is not None else match.end()
        # The comma before goes with it, or the one behind the first.
        is_first = match.start() == start
        outer_end = stop + 1 if is_first and text[stop : stop + 1] == "," else stop
        yield Entry(
            f"{prefix}{match[1]}", text[match.end() : stop].strip(), match.end(), stop, match.start(), outer_end
        )
        position = stop
