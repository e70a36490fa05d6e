"""What tests look at in the sources of the package: each file is parsed and walked once in a process."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["FILLED", "PACKAGE", "Source", "source_of", "source_of_file"]

PACKAGE = Path(__file__).parents[1] / "src" / "trimtab"
FILLED = "…"
"""Stands for what an f-string fills in."""


@dataclass(frozen=True)
class Source:
    """A module.

    Attributes:
        has_docstring: whether it has one.
        imports: names of the modules that it imports, wherever in it; `from trimtab import x` reads trimtab.x.
        is_relative: whether one of the imports is.
        texts: (line, text) of its strings; docstrings, and the parts of f-strings, are no texts.
    """

    has_docstring: bool
    imports: tuple[str, ...]
    is_relative: bool
    texts: tuple[tuple[int, str], ...]


@cache
def source_of_file(path: Path) -> Source:
    return source_of(path.read_text(encoding="utf-8"))


def source_of(text: str) -> Source:
    tree = ast.parse(text)
    imports, texts, is_relative = list[str](), list[tuple[int, str]](), False
    inside = set[int]()  # strings that are no texts; the walk comes to a node before it comes to its parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports += _imported(node)
            is_relative |= node.level > 0
        elif isinstance(node, ast.Expr):
            inside.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            inside.update(map(id, node.values))
            texts += [(node.lineno, _joined(node.values))] if id(node) not in inside else []
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            texts.append((node.lineno, node.value))
    return Source(ast.get_docstring(tree) is not None, tuple(imports), is_relative, tuple(texts))


def _imported(node: ast.ImportFrom) -> list[str]:
    if node.module == "trimtab":
        return [f"trimtab.{alias.name}" for alias in node.names]
    return [node.module or ""]


def _joined(parts: Iterable[ast.expr]) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else FILLED for part in parts)
