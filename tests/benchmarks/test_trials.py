"""The open trial set: what is written holds every trial, in two formats, and no path of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench_modules import BENCHMARKS, bench_modules
from tests.history.samples import make_trial, study_values
from trimtab.history import History, load_format
from trimtab.workload.cache import cache_directory

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trials() -> Iterator[Any]:
    with bench_modules(BENCHMARKS, "trials") as modules:
        yield modules["trials"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A history of two studies, one of which has met this machine's paths."""
    state = tmp_path / "state"
    state.mkdir()
    with History.open(state / "history.db") as history:
        for name in ("kanellis-a", "other"):
            study = history.create_study(**study_values(name=name))
            history.add_trial(study.id, make_trial(1))
            history.add_trial(study.id, make_trial(2, reason=f"no {Path.home()}/.cache/x, {Path.cwd()}/y or {state}/z"))
            history.add_trial(study.id, make_trial(3, reason=f"no {cache_directory()}/db"))
    return state


def test_both_files_hold_every_trial_and_no_path(trials: Any, state: Path, tmp_path: Path) -> None:
    assert trials.publish(state, tmp_path / "set", "kanellis") == 1
    texts = []
    for suffix in ("jsonl", "parquet"):
        path = tmp_path / "set" / f"kanellis.{suffix}"
        (copy,) = load_format(suffix, "").read(str(path)).studies
        assert (copy.record.name, copy.record.machine.hostname) == ("kanellis-a", "")
        texts.append([trial.reason for trial in copy.trials])
        assert str(tmp_path).encode() not in path.read_bytes()
        assert str(Path.home()).encode() not in path.read_bytes()
    assert texts == [["", "no ~/.cache/x, ./y or STATE/z", "no CACHE/db"]] * 2


def test_a_name_that_no_study_has(
    trials: Any, state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["trials.py", str(state), str(state / "set"), "nothing"])
    assert trials.main() == 2
    said = capsys.readouterr().err
    assert "name='nothing'" in said
    assert "hint:" in said
    assert not (state / "set").exists()
