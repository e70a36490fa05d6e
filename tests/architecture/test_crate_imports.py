"""No module of the load engine imports itself by way of others; `mod.rs` is the module of its folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

CRATE = Path(__file__).parents[2] / "crates" / "load" / "src"

Module = tuple[str, ...]

_USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)


def module_of(path: Path) -> Module:
    parts = path.relative_to(CRATE).with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib") else parts


def product(path: Path) -> str:
    """The file's code without its tests."""
    return path.read_text(encoding="utf-8").partition("#[cfg(test)]\nmod tests")[0]


def is_test(path: Path) -> bool:
    return path.stem in ("tests", "fake") or "tests" in path.parts


def leaves(text: str) -> Iterator[tuple[str, ...]]:
    """The paths of one `use`, its braces resolved."""
    text = " ".join(text.split())
    head, brace, rest = text.partition("{")
    if not brace:
        yield tuple(part.split(" as ")[0].strip() for part in text.split("::"))
        return
    stem, depth, start = tuple(part for part in head.split("::") if part), 0, 0
    inner = rest.rpartition("}")[0] + ","
    for i, character in enumerate(inner):
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            if inner[start:i].strip():
                yield from (stem + leaf for leaf in leaves(inner[start:i].strip()))
            start = i + 1


def imports(own: Module, text: str, known: frozenset[Module]) -> set[Module]:
    found = set()
    for use in _USE.findall(text):
        for path in leaves(use):
            place: Module = own
            if path[0] == "crate":
                place, path = (), path[1:]
            elif path[0] == "self":
                path = path[1:]
            elif path[0] == "super":
                while path and path[0] == "super":
                    place, path = place[:-1], path[1:]
            elif own + path[:1] not in known:
                continue
            while path and (*place, path[0]) in known:
                place, path = (*place, path[0]), path[1:]
            if place != own:
                found.add(place)
    return found


def circles(graph: Mapping[Module, set[Module]]) -> list[list[str]]:
    """Groups of modules each of which reaches every other."""

    def reach(start: Module) -> set[Module]:
        seen: set[Module] = set()
        stack = list(graph[start])
        while stack:
            module = stack.pop()
            if module not in seen:
                seen.add(module)
                stack += graph[module]
        return seen

    reached = {module: reach(module) for module in graph}
    groups = {
        frozenset(other for other in graph if other in reached[module] and module in reached[other])
        for module in graph
        if module in reached[module]
    }
    return sorted(sorted("/".join(module) for module in group) for group in groups)


def test_there_are_no_circles() -> None:
    files = [path for path in CRATE.rglob("*.rs") if not is_test(path.relative_to(CRATE))]
    known = frozenset(map(module_of, files))
    graph = {module_of(path): imports(module_of(path), product(path), known) - {()} for path in files}
    assert ("driver", "mysql", "link") in graph[("driver", "mysql", "session")]
    assert circles(graph) == []


def test_a_circle_is_found() -> None:
    known = frozenset({("a",), ("a", "b"), ("c",)})
    assert imports(("a", "b"), "use super::X;\nuse crate::c::{Y, z::Q};\nuse std::fmt;", known) == {("a",), ("c",)}
    assert circles({("a",): {("a", "b")}, ("a", "b"): {("a",)}, ("c",): set()}) == [["a", "a/b"]]
