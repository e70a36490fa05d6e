"""Whoever asks to stop is obeyed at once while the data is prepared; a terminal that is closed ends a study as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from tests.fakes import FakeStudy
from trimtab.errors import LoadError, TargetError, UsageError
from trimtab.history import open_history_at
from trimtab.records import Endpoint, Trial
from trimtab.study import Slo, bench, find_rate, load_study_file
from trimtab.study.design import run_design
from trimtab.testing.fake_workload import FakeRatedWorkload
from trimtab.trial import Interrupted, Journal
from trimtab.trial.copies import copies_of
from trimtab.trial.signals import signals_interrupt
from trimtab.workload import Preparation

_LONG_S = 30.0


@dataclass(slots=True)
class _Slow(FakeRatedWorkload):
    """Prepares for half a minute, after it has done `first`."""

    first: Callable[[], object] = print
    ended: list[str] = field(default_factory=list)
    """Filled in when nobody has stopped it."""

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        self.first()
        time.sleep(_LONG_S)
        self.ended.append("prepared")
        return Preparation(_LONG_S, 0, False)


@contextmanager
def _default(*numbers: signal.Signals) -> Iterator[None]:
    """Signals as a user's process has them: tests that run under nohup ignore SIGHUP."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stopped(fake: FakeStudy, first: Callable[[], object], begin: Callable[[], object]) -> Interrupted:
    fake.workload = slow = _Slow(fake.target.speed, first=first)
    with _default(signal.SIGTERM, signal.SIGHUP), pytest.raises(Interrupted) as caught:
        begin()
    assert slow.ended == [], "stopped in the middle of it"
    return caught.value


def _status(fake: FakeStudy) -> list[str]:
    with open_history_at(None, fake.path / "state") as history:
        return [study.status for study in history.summaries()]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_preparation_of_the_data(fake: FakeStudy, how: signal.Signals) -> None:
    error = _stopped(fake, lambda: os.kill(os.getpid(), how), fake.tune)
    assert (error.message, error.exit_code) == ("stopped by the user while the data was prepared", 130)
    assert error.hint == "nothing of the server's configuration was changed; the same command resumes"
    assert _status(fake) == ["interrupted"]
    assert not list((fake.path / "state" / "journal").glob("*.open"))


def test_the_stop_file_ends_the_preparation_of_the_data(fake: FakeStudy) -> None:
    def stop() -> None:
        (fake.path / "state" / "stop").touch()

    error = _stopped(fake, stop, lambda: fake.tune(again=True))
    assert error.message.startswith("stopped by the kill switch: file=")
    assert error.hint == "nothing of the server's configuration was changed", "the same command would begin again"
    assert _status(fake) == ["interrupted"]


def test_so_does_it_in_the_background_of_a_script(fake: FakeStudy) -> None:
    """Whose shell starts it with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        error = _stopped(fake, (fake.path / "state" / "stop").touch, fake.tune)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert error.message.startswith("stopped by the kill switch: file=")


def test_the_runs_of_a_design_can_be_stopped_while_their_data_is_prepared(fake: FakeStudy) -> None:
    path = fake.path / "study.toml"
    path.write_text(fake.written)

    def rank() -> None:
        run_design(load_study_file(path), fake.path / "state", fake.listener, kind="lhs", runs=8)

    _stopped(fake, lambda: os.kill(os.getpid(), signal.SIGTERM), rank)
    assert _status(fake) == ["interrupted"]


@pytest.mark.parametrize("is_search", [False, True], ids=["bench", "find-rate"])
def test_a_measurement_can_be_stopped_while_its_data_is_prepared(fake: FakeStudy, is_search: bool) -> None:
    def stop() -> None:
        (fake.path / "state" / "stop").touch()

    (fake.path / "study.toml").write_text(fake.written)
    file, state = load_study_file(fake.path / "study.toml"), fake.path / "state"

    def measure() -> None:
        if is_search:
            find_rate(
                file, state, slo=Slo.parse("p99 <= 20ms"), settings={}, listener=fake.listener, say=fake.listener.phase
            )
        else:
            bench(file, state, settings={}, n_runs=1, listener=fake.listener, say=fake.listener.phase)

    error = _stopped(fake, stop, measure)
    assert error.message.startswith("stopped by the kill switch: file=")
    assert _status(fake) == []
    with pytest.raises(UsageError, match="the kill switch is on: file="):  # nothing is prepared for nothing
        measure()


def test_a_time_that_the_dead_man_cannot_have_is_told_before_the_data_is_made(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_DEADMAN", "soon")
    with pytest.raises(TargetError, match="TRIMTAB_DEADMAN='soon' is not a number of seconds"):
        fake.tune()
    assert "the data is there already" not in fake.listener.phases


@dataclass(slots=True)
class _TriesOut(FakeRatedWorkload):
    """Its preparation makes a copy of the data; `look` is called while that is there."""

    copies: ClassVar[tuple[str, ...]] = ("shop_run",)
    look: Callable[[], object] = print

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        self.look()
        return Preparation(0.0, 0, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "end", [None, LoadError("404 for GET /shop"), KeyboardInterrupt()], ids=["done", "failed", "stopped"]
)
@pytest.mark.parametrize("is_bench", [False, True])
def test_copies_that_a_preparation_tries_out_are_in_the_journal_and_go_with_it(
    fake: FakeStudy, monkeypatch: pytest.MonkeyPatch, is_bench: bool, end: BaseException | None
) -> None:
    state, seen, dropped = fake.path / "state", list[object](), list[str]()

    def look() -> None:
        seen.extend((entry.purpose, copies_of(entry, "db")) for entry in Journal(state).open_entries())
        if end is not None:
            raise end

    def drop(endpoint: Endpoint, name: str) -> bool:
        dropped.append(name)
        return True

    monkeypatch.setattr("trimtab.workload.database.drop_clone", drop)
    fake.workload = _TriesOut(fake.target.speed, look=look)
    fake.text = fake.text.replace("12 trials", "4 trials")
    (fake.path / "study.toml").write_text(fake.written)
    file = load_study_file(fake.path / "study.toml")
    expected = nullcontext() if end is None else pytest.raises((LoadError, Interrupted, KeyboardInterrupt))
    with expected:
        if is_bench:
            bench(file, state, settings={}, n_runs=1, listener=fake.listener, say=fake.listener.phase)
        else:
            fake.tune()
    assert seen == [("prepare", ("shop_run",))]
    assert dropped == ["shop_run"]
    assert Journal(state).open_entries() == []


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_a_study_as_ctrl_c_does(fake: FakeStudy) -> None:
    """Shell and kernel send a hang-up each: the second is no second Ctrl-C."""

    def close(trial: Trial) -> None:
        if trial.number == 3:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGHUP)

    fake.listener.on_trial = close
    with _default(signal.SIGHUP):
        record, trials = fake.tune()
    assert (record.status, len(trials)) == ("interrupted", 4)


@pytest.mark.slow
def test_a_hang_up_that_is_ignored_stays_so(fake: FakeStudy) -> None:
    fake.text = fake.text.replace("12 trials", "4 trials")
    fake.listener.on_trial = lambda trial: os.kill(os.getpid(), signal.SIGHUP)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert fake.tune()[0].status in ("proven", "no_improvement")
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_is_said_to_a_closed_terminal_goes_nowhere(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    kept = os.dup(2)
    try:
        os.dup2(theirs, 2)
        os.close(theirs)
        os.close(ours)
        with pytest.raises(OSError, match="Input/output"):
            os.write(2, b"lost")
        with _default(signal.SIGHUP), pytest.raises(KeyboardInterrupt), signals_interrupt():
            os.kill(os.getpid(), signal.SIGHUP)
        assert os.write(2, b"nowhere") == 7
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def test_a_bench_that_is_terminated_leaves_the_server_as_it_was(fake: FakeStudy) -> None:
    def end(second: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    found = dict(fake.target.values)
    (fake.path / "study.toml").write_text(fake.written)
    fake.workload.on_second = end
    file = load_study_file(fake.path / "study.toml")
    with _default(signal.SIGTERM), pytest.raises(KeyboardInterrupt):
        bench(
            file, fake.path / "state", settings={"cache": "256MB"}, n_runs=1, listener=fake.listener, say=fake.listener.phase
        )  # fmt: skip
    assert dict(fake.target.values) == found
    assert fake.target.counts["apply"] > 0
