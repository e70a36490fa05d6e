"""A program that keeps what its file names no longer: the reload says what goes back to its found value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import PYTHON
from tests.systems.program.conftest import made
from trimtab.errors import ApplyError
from trimtab.space import Config
from trimtab.systems.program import ProgramTarget
from trimtab.trial import own_from_json, own_to_json

CONF = "window = 512k\n"
KEEPER = """
import json, os, signal, sys, time
from pathlib import Path
folder, what, *rest = Path(sys.argv[1]), *sys.argv[2:]
used = folder / "used.json"
text = (folder / "squeeze.conf").read_text()
named = dict(line.split(" = ") for line in text.split("\\n") if " = " in line)
kept = json.loads(used.read_text()) if used.exists() else {}
usual = {"level": "3", "threads": "1", "window": "256k", "checksum": "true"}
if what == "run":
    used.write_text(json.dumps(usual | named))
    while True:
        time.sleep(60)
else:
    used.write_text(json.dumps(kept | named | dict(word.split("=") for word in rest)))
"""
READ = r"""sed -n 's/.*"'"$1"'": "\([^"]*\)".*/\1/p' used.json
"""
"""Each look reads every knob: an interpreter for each would take most of the time of these tests."""


def used(folder: Path) -> dict[str, str]:
    return dict(json.loads((folder / "used.json").read_text()))


def keeper(folder: Path, *, tells: bool = False) -> ProgramTarget:
    keep = f"{PYTHON} -IS keeper.py {folder}"
    read = {"read": "sh read.sh {address}"} if tells else {}
    target = made(
        folder, run=f"{keep} run", health=f"test -s {folder}/used.json", reload=f"{keep} reload {{back}}", **read
    )
    target.open()
    return target


@pytest.fixture
def place(folder: Path) -> Path:
    (folder / "squeeze.conf").write_text(CONF)
    (folder / "keeper.py").write_text(KEEPER)
    (folder / "read.sh").write_text(READ)
    return folder


@pytest.fixture(params=[False, True], ids=["silent", "tells"])
def target(place: Path, request: pytest.FixtureRequest) -> Iterator[ProgramTarget]:
    target = keeper(place, tells=request.param)
    yield target
    target.close()


@pytest.mark.slow
def test_the_next_trial_does_not_run_with_what_the_last_one_has_set(place: Path, target: ProgramTarget) -> None:
    found, before = target.snapshot(), used(place)
    assert not target.apply(Config({"level": 9})).restarted
    assert used(place) == {**before, "level": "9"}
    target.apply(Config({"window": 1024}))
    assert used(place) == {**before, "window": "1024k"}, "level is not named by the file any more"
    target.apply(Config({}))
    assert used(place) == before, "the baseline"
    target.restore(found)


@pytest.mark.slow
def test_a_restore_takes_it_out_of_the_running_program_too(place: Path, target: ProgramTarget) -> None:
    found, before = target.snapshot(), used(place)
    target.apply(Config({"level": 9, "window": 1024}))
    assert not target.restore(found).restarted
    assert used(place) == before
    assert (place / "squeeze.conf").read_text() == CONF
    target.restore(found)
    assert used(place) == before


@pytest.mark.slow
def test_so_does_the_one_of_a_tuner_that_finds_its_journal(place: Path, target: ProgramTarget) -> None:
    found, before = target.snapshot(), used(place)
    own = own_to_json(target.apply(Config({"level": 9})).own)
    later = type(target).from_snapshot(found, state_dir=place / "state")
    later.restore(found, own_from_json(json.loads(json.dumps(own))))
    assert used(place) == before


@pytest.mark.slow
def test_what_somebody_else_has_written_meanwhile_counts(place: Path, target: ProgramTarget) -> None:
    found = target.snapshot()
    target.apply(Config({"level": 9}))
    (place / "squeeze.conf").write_text(CONF + "level = 7\n")
    target.restore(found)
    assert used(place)["level"] == "7"


@pytest.mark.slow
def test_what_somebody_else_has_set_in_the_program_stays(place: Path) -> None:
    target = keeper(place, tells=True)
    try:
        found = target.snapshot()
        target.apply(Config({"level": 9}))
        (place / "used.json").write_text(json.dumps({**used(place), "level": "7"}))
        target.restore(found)
        assert used(place)["level"] == "7"
    finally:
        target.close()


@pytest.mark.slow
def test_a_value_in_use_that_no_file_has_comes_back(place: Path) -> None:
    """It was set in the program before Trimtab came: the file says 512k, and the program uses 128k."""
    target = keeper(place, tells=True)
    try:
        (place / "used.json").write_text(json.dumps({**used(place), "window": "128k"}))
        found = target.snapshot()
        target.apply(Config({"window": 1024}))
        target.restore(found)
        assert used(place)["window"] == "128k"
        assert (place / "squeeze.conf").read_text() == CONF
    finally:
        target.close()


@pytest.mark.slow
def test_a_number_that_the_program_rounds_to_the_one_found_counts_as_that(place: Path) -> None:
    """Where the program is seen to read the file; before that it may as well not read it."""
    program = place / "keeper.py"
    rounding = 'if "window" in named:\n    named["window"] = f"{int(named[\'window\'][:-1]) // 512 * 512}k"\nkept = '
    program.write_text(program.read_text().replace("kept = ", rounding, 1))
    target = keeper(place, tells=True)
    try:
        target.snapshot()
        with pytest.raises(ApplyError, match="still uses window=512, not 700"):
            target.apply(Config({"window": 700}))
        assert target.apply(Config({"window": 1200, "level": 9})).effective == {"window": 1024, "level": 9}
        assert target.apply(Config({"window": 700})).effective == {"window": 512}
        program.write_text(KEEPER.replace("kept = ", 'named["window"] = "512k"\nkept = ', 1))
        with pytest.raises(ApplyError, match="still uses window=512, not 64"):
            target.apply(Config({"window": 64}))
    finally:
        target.close()
