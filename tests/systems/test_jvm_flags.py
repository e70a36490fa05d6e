"""The flags of the Java facet on every JDK that is installed here: their names and types as HotSpot prints them, and in the
long form both ends of each range. `TRIMTAB_TEST_JAVA` names further programs `java`, with ":" between.
"""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.needs import IS_FULL
from tests.systems.test_tomcat import _flags, tomcat

pytestmark = [pytest.mark.slow, pytest.mark.needs("java")]

_LINE = re.compile(r"^ *(?P<type>\S+) +(?P<name>\w+) +:?= ?.*? +\{(?P<kind>[^}]*)\}", re.MULTILINE)
TYPES = {
    **dict.fromkeys(("int", "intx", "uint", "uintx", "size_t", "uint64_t"), "integer"),
    "bool": "boolean", "double": "real", "ccstr": "choice",
}  # fmt: skip
GONE = {
    "G1ConcRefinementServiceIntervalMillis", "G1UseAdaptiveConcRefinement", "G1RSetSparseRegionEntries", "G1RSetRegionEntries",
    "G1EagerReclaimHumongousObjects", "UseBiasedLocking", "UseSharedSpaces",
}  # fmt: skip
"""Flags of OpenJDK 17 that 21 no longer has; Trimtab locks them there."""


def javas() -> list[Path]:
    """Each installed one once."""
    found = [*Path("/usr/lib/jvm").glob("*/bin/java"), *map(Path, os.environ.get("TRIMTAB_TEST_JAVA", "").split(":"))]
    return sorted({path.resolve() for path in found if path.is_file()})


@cache
def printed(java: Path) -> str:
    """Its version, and all its flags."""
    argv = [java, "-XX:+UnlockExperimentalVMOptions", "-XX:+PrintFlagsFinal", "-version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    return done.stderr + done.stdout


def version(java: Path) -> int:
    return int(re.findall(r'version "(\d+)', printed(java))[0])


@pytest.fixture
def facet(tmp_path: Path) -> Any:
    """A private Tomcat that is not started: its catalogue has the facet's flags."""
    return tomcat(tmp_path / "state", folder=str(tmp_path / "home"))


def _mine(facet: Any) -> dict[str, Any]:
    """Flag -> knob."""
    names = [name for name in facet.catalog.knob if facet.catalog.channel_of(name) == "jvm" and name != "collector"]
    return {facet.catalog.address_of(name).removeprefix("-XX:"): facet._example_knob(name) for name in names}


@pytest.mark.parametrize("java", javas(), ids=str)
def test_names_and_types_are_those_of_hotspot(facet: Any, java: Path) -> None:
    flags = {
        flag["name"]: (TYPES[flag["type"]], flag["kind"])
        for flag in _LINE.finditer(printed(java))
        if flag["type"] in TYPES
    }
    mine = _mine(facet)
    assert len(mine) >= 120
    assert mine.keys() - flags.keys() == (GONE if version(java) > 17 else set())
    for name in mine.keys() & flags.keys():
        kind, flag = flags[name]
        assert facet.catalog.knob[mine[name].name].type == kind, name
        assert "diagnostic" not in flag, name


@pytest.mark.full
@pytest.mark.parametrize("java", javas(), ids=str)
def test_both_ends_of_each_range_are_taken(facet: Any, java: Path) -> None:
    assert IS_FULL
    refused = []
    collectors = set(re.findall(r"\bUse(\w+)GC\b", printed(java)))
    for flag, knob in _mine(facet).items():
        for config in _flags(knob.name, knob) if flag not in GONE or version(java) == 17 else ():
            if config.get("collector", "G1") not in collectors:
                continue
            lines = [line for line in facet.fragment(config).splitlines() if line.startswith("-")]
            done = subprocess.run(
                [java, "-XX:+UnlockExperimentalVMOptions", *lines, "-version"], capture_output=True, text=True
            )
            if done.returncode:
                refused.append((dict(config), done.stdout[-200:] + done.stderr[-200:]))
    assert not refused
