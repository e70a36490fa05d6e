"""The library as programs get it: as one header and one file, by its Makefile, and in the examples."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sections.conftest import LIBRARY

pytestmark = [pytest.mark.needs("c-compiler"), pytest.mark.slow]

PROGRAM = """
#include "trimtab_sections.h"
#include <stdio.h>
int main(void)
{
    long size = 16;
    const tt_param params[] = {{.name = "size", .low = 16, .high = 64, .step = 16, .initial = 16, .address = &size}};
    tt_group *group = tt_group_open(NULL, NULL);
    tt_section *section = tt_section_open(group, "alone", params, 1, NULL);
    char json[1024];
    for (int i = 0; i < 100; i++) {
        tt_run run;
        tt_begin(section, &run, 1);
        for (volatile long n = 0; n < 1000 - size; n++) {}
        tt_end(section, &run, 1);
    }
    tt_section_json(section, json, sizeof json);
    puts(json);
    tt_group_close(group);
    return 0;
}
"""


def make(folder: Path, *words: str) -> str:
    """What `make` prints in a copy of the library; it warns of nothing."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")} | {"CFLAGS": "-O0"}
    done = subprocess.run(["make", "-s", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def run(*argv: str | Path) -> dict[str, Any]:
    done = subprocess.run([*map(str, argv)], capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The folder of the library as it is in the repository, without what a user may have built there."""
    ignored = shutil.ignore_patterns("*.o", "*.a", "*.so", "build", "bench", "sort", "thread_pool", "zlib_levels")
    return Path(shutil.copytree(LIBRARY, tmp_path / "sections", ignore=ignored))


def test_one_header_and_one_file_are_all_that_a_program_needs(copy: Path, tmp_path: Path) -> None:
    make(copy, "single")
    program = tmp_path / "program"
    program.mkdir()
    for name in ("trimtab_sections.h", "trimtab_sections.c"):
        shutil.copy(copy / "build" / name, program)
    (program / "main.c").write_text(PROGRAM, encoding="utf-8")
    strict = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-pedantic"]
    argv = [*strict, "main.c", "trimtab_sections.c", "-lm", "-o", "main"]
    done = subprocess.run(argv, cwd=program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert run(program / "main")["runs"] == 100
    before = [(copy / "build" / name).read_bytes() for name in ("trimtab_sections.h", "trimtab_sections.c")]
    make(copy, "clean", "single")
    assert [(copy / "build" / name).read_bytes() for name in ("trimtab_sections.h", "trimtab_sections.c")] == before


@pytest.mark.needs("zlib")
def test_the_makefile(copy: Path, tmp_path: Path) -> None:
    before = sorted(copy.rglob("*"))
    make(copy, "all", "examples")
    found = json.loads(make(copy, "RUNS=2000", "bench"))
    assert 0 < found["clock_ns"] < found["call_ns"]
    place = tmp_path / "place"
    make(copy, f"PREFIX={place}", "install")
    assert sorted(str(path.relative_to(place)) for path in place.rglob("*.*")) == [
        "include/trimtab_sections.h", "include/trimtab_tuner.h", "lib/libtrimtab_sections.a",
        "lib/libtrimtab_sections.so",
    ]  # fmt: skip
    (tmp_path / "main.c").write_text(PROGRAM, encoding="utf-8")
    argv = [
        "cc",
        "-std=c99",
        f"-I{place}/include",
        str(tmp_path / "main.c"),
        f"-L{place}/lib",
        f"-Wl,-rpath,{place}/lib",
    ]
    subprocess.run([*argv, "-ltrimtab_sections", "-o", str(tmp_path / "main")], check=True, timeout=60)
    assert run(tmp_path / "main")["runs"] == 100
    for name in ("sort", "zlib_levels"):
        assert run(copy / "examples" / name, "30")["runs"] == 30
    make(copy, "clean")
    assert sorted(copy.rglob("*")) == before


def test_the_thread_pool_computes_the_same_with_any_number_of_threads(program: Callable[..., Path]) -> None:
    """Its exit code is 2 when a sum is wrong, and another one when threads race."""
    known = run(program("thread_pool", "-fsanitize=thread"), "60")
    assert known["runs"] == 60
    assert set(known["values"]) == {"threads", "batch"}
