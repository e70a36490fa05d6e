"""A reload command that fails or does not end: whose fault that is, and what of ours is in force after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import PYTHON
from tests.systems.program.conftest import conf, made
from trimtab.errors import ApplyError, RestoreError
from trimtab.records import Fault
from trimtab.space import Config
from trimtab.study import recover
from trimtab.systems.program import ProgramTarget
from trimtab.trial import Journal, own_to_json
from trimtab.trial.entry import APPLY, Entry

CONF = "window = 512k\n"
READ = """
awk -F ' = ' '
    BEGIN { used["level"] = 3; used["threads"] = 1; used["window"] = "256k"; used["checksum"] = "true" }
    { used[$1] = $2 }
    END { for (name in used) print name, used[name] }' used
"""
WORKS, REFUSES, HANGS = "cp squeeze.conf used", "exit 1", "sleep 5"
HALF = f"[ -e tried ] && exit 1; touch tried; {WORKS}; exit 1"
"""It takes the file once, and says that it does not."""
LATE_S = 0.3
BUSY = """
echo it has read its files >> log
i=0; while [ $i -lt 300 ]; do echo "a request: $((i += 1))"; done >> log
"""


@pytest.fixture
def place(folder: Path) -> Path:
    for name in ("squeeze.conf", "used"):
        (folder / name).write_text(CONF)
    (folder / "read.sh").write_text(READ)
    return folder


def program(place: Path, reload: str, *, tells: bool = True, late_s: float = 10.0) -> ProgramTarget:
    """Nobody starts or stops it; `used` has its values in use."""
    (place / "reload.sh").write_text(f"{reload}\n")
    read = {"read": "/bin/sh read.sh {addresses}"} if tells else {}
    target = made(place, reload="/bin/sh reload.sh", restart_timeout_s=late_s, **read)
    target.open()
    return target


def begun(target: ProgramTarget, place: Path, config: Config, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """The journal entry of a tuner that is about to set `config`, and is dead for whoever asks later."""
    entry = Journal(place / "state").begin(target.snapshot(), study="s", purpose="tune")
    entry.note(APPLY, {"target": target.name, "own": own_to_json(target.announce(config))})
    monkeypatch.setattr("trimtab.trial.entry.process_mark", lambda pid: "")
    return entry


@pytest.mark.slow
@pytest.mark.parametrize("reload", [REFUSES, HANGS], ids=["refuses", "hangs"])
def test_one_that_never_works_is_no_fault_of_the_config_and_leaves_nothing_open(
    place: Path, monkeypatch: pytest.MonkeyPatch, reload: str
) -> None:
    target, config = program(place, reload, late_s=0.05 if reload == HANGS else 10.0), Config({"level": 9})
    entry = begun(target, place, config, monkeypatch)
    with pytest.raises(ApplyError, match="the reload fails with the settings as found, too") as caught:
        target.apply(config)
    assert caught.value.fault == Fault.ENVIRONMENT
    assert conf(place) == CONF
    (done,), stuck = recover(place / "state")
    assert (done.action, stuck, entry.is_open) == ("restored as it was found", [], False)


@pytest.mark.parametrize(
    ("tells", "reload", "held"),
    [
        (True, HALF, "still uses level=9 .found 3.: reload="),
        (False, REFUSES, "may still use level=9 .found 3.: reload="),
    ],
    ids=["tells", "silent"],
)
def test_what_may_be_in_force_is_told_and_the_entry_waits_for_a_reload_that_works(
    place: Path, monkeypatch: pytest.MonkeyPatch, tells: bool, reload: str, held: str
) -> None:
    target, config = program(place, reload, tells=tells), Config({"level": 9})
    entry = begun(target, place, config, monkeypatch)
    with pytest.raises(RestoreError, match=f"nothing of Trimtab's any more, but the program {held}") as caught:
        target.apply(config)
    assert "put the reload command right, then run `trimtab recover`" in str(caught.value.hint)
    assert conf(place) == CONF
    done, (stuck,) = recover(place / "state")
    assert (done, entry.is_open) == ([], True)
    assert f"--leave {entry.study}` keeps what the server has now" in str(stuck.error.hint)
    (place / "reload.sh").write_text(WORKS)
    (one,), left = recover(place / "state")
    assert (one.action, left, entry.is_open) == ("restored as it was found", [], False)
    assert (place / "used").read_text() == CONF


def test_a_restart_by_hand_ends_it_too(folder: Path) -> None:
    target = made(folder, run=f"{PYTHON} program.py {folder}", health=f"test -f {folder}/seen", reload="/bin/false")
    target.open()
    try:
        found = target.snapshot()
        with pytest.raises(RestoreError, match="may still use level=9"):
            target.apply(Config({"level": 9}))
        with pytest.raises(RestoreError, match="may still use level=9"):
            target.restore(found)
        target._reach.restart()
        assert not target.restore(found).restarted
    finally:
        target.close()


def test_one_that_hangs_under_a_config_alone_may_be_the_configs_fault(place: Path) -> None:
    """As of one that fails under it, only the evidence can tell."""
    target = program(place, f"grep -q 'level = 9' squeeze.conf && {HANGS}; {WORKS}", late_s=LATE_S)
    with pytest.raises(ApplyError, match=f"did not end within timeout_s={LATE_S}") as caught:
        target.apply(Config({"level": 9}))
    assert caught.value.fault == ""
    assert (place / "used").read_text() == CONF


def test_one_that_hangs_once_is_passed_over(place: Path) -> None:
    target = program(place, f"[ -e tried ] || {{ touch tried; {HANGS}; }}; {WORKS}", late_s=LATE_S)
    assert target.apply(Config({"level": 9})).effective == {"level": 9}


def test_what_a_busy_program_writes_after_its_reload_hides_nothing(place: Path) -> None:
    """Its log says that it has read its files again, and then what it is asked for."""
    with (place / "catalog.toml").open("a") as catalog:
        catalog.write('[log]\nready = "has read its files"\n')
    (place / "reload.sh").write_text(BUSY)
    target = made(place, reload="/bin/sh reload.sh", log_file="log", restart_timeout_s=5)
    target._reach.reload()
    assert (place / "log").read_text().endswith("a request: 300\n")
