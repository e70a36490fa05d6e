"""The library of tuning sections and the programs of this folder, compiled once for a run of tests; also with sanitizers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import needs
from tests.servers.run import template

LIBRARY = Path(__file__).parents[2] / "clients" / "c" / "sections"
STRICT = ["-std=c99", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-pedantic", f"-I{LIBRARY}"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SOURCES = [str(LIBRARY / f"trimtab_{name}.c") for name in ("sections", "share", "tuner", "search", "simplex", "points")]


def compile_in(folder: Path, words: Sequence[str]) -> None:
    """Runs the compiler in `folder`; it warns of nothing."""
    done = subprocess.run(["cc", *STRICT, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def suffix(flags: Sequence[str]) -> str:
    return "".join(f"-{flag.partition('=')[2].replace(',', '-')}" for flag in flags if "=" in flag)


def objects(flags: Sequence[str]) -> list[str]:
    """The library compiled with flags of its own, once for all workers of a run."""

    def make(folder: Path) -> None:
        compile_in(folder, [*flags, "-fPIC", "-c", *SOURCES])

    return [str(path) for path in sorted(template(f"sections-objects{suffix(flags)}", make).glob("*.o"))]


@pytest.fixture(scope="session")
def program() -> Callable[..., Path]:
    """`program("checks", *flags)`: tests/sections/checks.c, or an example of the library, compiled with flags of its own."""
    needs.require("c-compiler")

    def build(name: str, *flags: str) -> Path:
        own = Path(__file__).with_name(f"{name}.c")
        source = own if own.exists() else LIBRARY / "examples" / f"{name}.c"

        def make(folder: Path) -> None:
            compile_in(folder, [*flags, str(source), *objects(flags), "-lm", "-lpthread", "-o", name])

        return template(f"sections-{name}{suffix(flags)}", make) / name

    return build


@pytest.fixture(scope="session")
def library() -> Path:
    """The shared library."""
    needs.require("c-compiler")

    def make(folder: Path) -> None:
        compile_in(folder, ["-shared", *objects([]), "-lm", "-o", "libsections.so"])

    return template("sections-library", make) / "libsections.so"
