"""`recover --show` looks at a program that Trimtab itself runs without starting it, and without ending it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.space import Config
from trimtab.study import shown
from trimtab.systems.program import ProgramTarget
from trimtab.trial import Journal, own_to_json
from trimtab.trial.entry import APPLY


def test_a_look_neither_ends_nor_starts_what_a_killed_trimtab_has_run(
    running: ProgramTarget, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is free then, so that whoever opens it is taken for the one who may end it."""
    entry = Journal(folder / "state").begin(running.snapshot(), study="killed", purpose="tune")
    own = running.announce(Config({"threads": 2}))
    entry.note(APPLY, {"target": running.name, "changes": {"threads": 2}, "own": own_to_json(own)})
    monkeypatch.setattr("trimtab.trial.entry.process_mark", lambda pid: "")
    running._reach.owner.release()
    pid = running._reach.pid
    for is_running in (True, False):
        (found,) = shown(folder / "state")
        assert found.note == "a program that Trimtab itself runs is not started for a look"
        assert [(knob.knob, knob.ours, knob.now) for knob in found.knobs] == [("threads", "2", "")]
        assert (running._reach.pid == pid) is is_running
        if is_running:
            running._reach._process.stop(immediate=True)
    assert (folder / "pid").read_text() == f"{pid}\n", "none was started"
