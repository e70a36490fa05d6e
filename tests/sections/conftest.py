"""The library of tuning sections and the programs of this folder, compiled once for a run of tests; also with sanitizers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import needs
from tests.servers.run import template

LIBRARY = Path(__file__).parents[2] / "clients" / "c" / "sections"
STRICT = ["-std=c99", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wshadow", f"-I{LIBRARY}"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SOURCES = [str(LIBRARY / f"trimtab_{name}.c") for name in ("sections", "tuner", "search", "simplex", "points")]


def compiled(name: str, words: list[str]) -> Path:
    """The file `name` that the compiler makes of `words` and the library, for all workers of a run."""

    def make(folder: Path) -> None:
        argv = ["cc", *STRICT, *words, *SOURCES, "-lm", "-lpthread", "-o", str(folder / name)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr

    return template(f"sections-{name}", make) / name


@pytest.fixture(scope="session")
def program() -> Callable[..., Path]:
    """`program("checks", *flags)`: tests/sections/checks.c compiled with flags of its own."""
    needs.require("c-compiler")

    def build(source: str, *flags: str) -> Path:
        name = f"{source}{'-'.join(flag.partition('=')[2].replace(',', '-') for flag in flags if '=' in flag)}"
        return compiled(name, [*flags, str(Path(__file__).with_name(f"{source}.c"))])

    return build


@pytest.fixture(scope="session")
def library() -> Path:
    """The shared library."""
    needs.require("c-compiler")
    return compiled("libsections.so", ["-shared", "-fPIC"])
