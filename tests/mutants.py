"""Breaks the rooms that decide on purpose, one place at a time, and looks whether their own tests notice.

python -m tests.mutants              a fixed sample of each module; prints the survivors
python -m tests.mutants --all        every mutation
python -m tests.mutants guard        modules whose name holds that word

No file changes: each mutant lives in a process of its own (see `install`). A survivor that is harmless stands in
tests/allowed_mutants.txt with its reason; any other makes the exit code 1.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
ALLOWED = Path(__file__).with_name("allowed_mutants.txt")
VARIABLE = "TRIMTAB_MUTANT"
SAMPLE = 20
TIMEOUT_S = 300.0
"""A mutant that makes its tests run for ever is noticed, too."""

TESTS: Mapping[str, Sequence[str]] = {
    "trimtab.trial.guard": ("tests/trial/test_guard.py",),
    "trimtab.flow.verdict": ("tests/flow/test_verdict.py", "tests/flow/test_acceptance.py"),
    "trimtab.study.change": ("tests/study/test_change.py", "tests/cli/test_apply.py"),
    "trimtab.measure.sequential": ("tests/measure/test_sequential.py",),
    "trimtab.measure.compare": ("tests/measure/test_compare.py",),
    "trimtab.measure.interval": ("tests/measure/test_interval.py", "tests/measure/test_summarise.py"),
    "trimtab.measure.steady": ("tests/measure/test_steady.py",),
    "trimtab.history.query": ("tests/history/test_query.py",),
    "trimtab.report.headline": ("tests/report/test_text.py",),
    "trimtab.systems.postgresql.change": ("tests/systems/test_alter_system.py", "tests/systems/test_apply.py"),
}
"""Module -> the tests that must notice."""

_COMPARED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_COMPUTED: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: `number` counts the places of `module`; `was` and `becomes` are the expression's text."""

    module: str
    number: int
    line: int
    was: str
    becomes: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.was} -> {self.becomes}"

    @property
    def rule(self) -> str:
        """How the allowance names it: without the line, which moves."""
        return f"{self.module}: {self.was} -> {self.becomes}"


def changed(node: ast.AST) -> ast.AST | None:
    """What `node` becomes; None when nothing is changed there."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        return ast.Compare(node.left, [_COMPARED[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED and not _is_text(node):
        return ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return ast.Constant(node.value + 1)
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        return ast.Constant(node.value * 1.5 or 1.0)
    return None


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, (ast.JoinedStr, ast.List, ast.Tuple)) or
               (isinstance(side, ast.Constant) and isinstance(side.value, str)) for side in (node.left, node.right))  # fmt: skip


class _Changer(ast.NodeTransformer):
    """Changes place `wanted`, or lists all places."""

    def __init__(self, module: str, wanted: int | None) -> None:
        self.module, self.wanted = module, wanted
        self.found: list[Mutant] = []

    def visit(self, node: ast.AST) -> ast.AST:
        # Annotations say nothing at run time, default texts of f-strings little.
        if isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation is not None:
            node.annotation = ast.Constant(None)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        if isinstance(node, ast.FormattedValue):
            return node
        if isinstance(node, ast.ClassDef):  # what `@dataclass(...)` is given decides nothing that a result shows
            decorators, node.decorator_list = node.decorator_list, []
            self.generic_visit(node)
            node.decorator_list = decorators
            return node
        new = changed(node)
        if new is not None and hasattr(node, "lineno"):
            number = len(self.found)
            self.found.append(Mutant(self.module, number, node.lineno, ast.unparse(node), ast.unparse(new)))
            if number == self.wanted:
                return ast.copy_location(new, node)
        return self.generic_visit(node)


def _path(module: str) -> Path:
    return ROOT / "src" / Path(*module.split(".")).with_suffix(".py")


def mutants(module: str) -> list[Mutant]:
    """Every mutant of a module."""
    changer = _Changer(module, None)
    changer.visit(ast.parse(_path(module).read_text(encoding="utf-8")))
    return changer.found


class _Loader(importlib.abc.Loader):
    def __init__(self, module: str, number: int) -> None:
        self.module, self.number = module, number

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        path = _path(self.module)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tree = ast.fix_missing_locations(_Changer(self.module, self.number).visit(tree))
        exec(compile(tree, str(path), "exec"), module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, number: int) -> None:
        self.module, self.number = module, number

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != self.module:
            return None
        return importlib.util.spec_from_loader(name, _Loader(self.module, self.number), origin=str(_path(name)))


def install() -> None:
    """Puts the mutant that the environment names in the place of its module, for this process; tests/conftest.py imports this."""
    text = os.environ.get(VARIABLE)
    if text:
        module, _, number = text.partition("#")
        sys.meta_path.insert(0, _Finder(module, int(number)))


def survives(mutant: Mutant | None, module: str) -> bool:
    """Whether the module's tests pass with it (None: without any)."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:randomly",
    ]
    environment = {**os.environ, VARIABLE: f"{mutant.module}#{mutant.number}" if mutant else ""}
    environment.pop("TRIMTAB_TESTS", None)
    try:
        done = subprocess.run(
            [*command, *TESTS[module]], cwd=ROOT, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def chosen(module: str, *, is_all: bool) -> list[Mutant]:
    """All mutants of a module, or a sample that is the same until the module changes."""
    found = mutants(module)
    return found if is_all or len(found) <= SAMPLE else sorted(random.Random(module).sample(found, SAMPLE), key=str)


def allowed() -> set[str]:
    """The rules of the allowance."""
    lines = ALLOWED.read_text(encoding="utf-8").splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def survivors(module: str, *, is_all: bool) -> Iterator[Mutant]:
    """Those that the module's tests do not notice.

    Raises:
        AssertionError: the tests fail without a mutant.
    """
    assert survives(None, module), f"the tests of {module} fail as it is"
    some = chosen(module, is_all=is_all)
    with ThreadPoolExecutor(2) as pool:
        for mutant, lived in zip(some, pool.map(lambda mutant: survives(mutant, module), some), strict=True):
            if lived:
                yield mutant


def main(arguments: Sequence[str]) -> int:
    """Exit code 1 when a mutant survives that is not allowed to."""
    is_all = "--all" in arguments
    words = [word for word in arguments if not word.startswith("-")]
    rules, n_wrong = allowed(), 0
    for module in (name for name in TESTS if not words or any(word in name for word in words)):
        if not _path(module).exists():
            print(f"{module}: no such module any more: change TESTS in tests/mutants.py")
            n_wrong += 1
            continue
        began = time.monotonic()
        lived = list(survivors(module, is_all=is_all))
        n_all = len(chosen(module, is_all=is_all))
        print(f"{module}: {n_all - len(lived)} of {n_all} noticed, {time.monotonic() - began:.0f} s", flush=True)
        for mutant in lived:
            is_known = mutant.rule in rules
            n_wrong += not is_known
            print(f"    {'allowed' if is_known else 'SURVIVES'}: {mutant}", flush=True)
    return 1 if n_wrong else 0


install()

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
