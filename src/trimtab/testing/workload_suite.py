"""The conformance suite of workloads: a plug-in author subclasses it, says what runs where, and pytest runs every check.

    class TestMyWorkload(WorkloadSuite):
        kind = "mine"
        settings = {"rows": 1000}

        @pytest.fixture
        def endpoint(self, my_server):
            return my_server.endpoint

The server of `endpoint` may be used by nobody else meanwhile. A class gets one second of load for most checks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from trimtab import plugins
from trimtab.errors import LoadError, UsageError
from trimtab.measure import Outcome, QueryLog, SecondLog
from trimtab.records import Endpoint
from trimtab.workload import Frame, LoadRun, Preparation, StartState, Workload
from trimtab.workload.base import RatedWorkload, ResettableWorkload, RightsWorkload, ScriptedWorkload

__all__ = ["WorkloadSuite"]

_PATIENCE_S = 60.0
"""A machine that is busy with other work may be slow; nothing here is about speed."""


def _quiet(line: str) -> None:
    """A report that nobody reads."""


class WorkloadSuite:
    """What every workload promises (`trimtab.workload.Workload`), as tests. Subclasses define the fixture `endpoint`: a server
    that the workload can drive.

    Attributes:
        kind: short name of the workload among the plug-ins.
        settings: its [workload] table without `kind`; few data and a light load.
        directory: where files lie that the table names.
    """

    kind: ClassVar[str]
    settings: ClassVar[Mapping[str, Any]] = {}
    directory: ClassVar[Path] = Path()

    def make(self, **changes: Any) -> Workload:
        """The workload by its settings, some of them changed."""
        table = {"kind": self.kind, **self.settings, **changes}
        workload: Workload = plugins.load("workloads", self.kind).from_settings(table, directory=self.directory)
        return workload

    def started(self, workload: Workload, endpoint: Endpoint, *, duration_s: float, seed: int = 1) -> LoadRun:
        """A run as a trial starts it."""
        workload.prepare(endpoint, _quiet)
        if isinstance(workload, ResettableWorkload):
            workload.reset(endpoint, _quiet)
        return workload.start(endpoint, seed=seed, duration_s=duration_s)

    def finished(self, run: LoadRun) -> tuple[list[Frame], QueryLog | SecondLog]:
        """All seconds of a run that ends by itself, and its log."""
        frames: list[Frame] = []
        until = time.monotonic() + _PATIENCE_S
        while (frame := run.frame(0.2)) is not None or not run.is_done:
            assert time.monotonic() < until, "the run does not end by itself"
            if frame is not None:
                frames.append(frame)
        return frames, run.stop()

    # --- before anything runs ---

    def test_follows_protocol(self) -> None:
        workload = self.make()
        assert isinstance(workload, Workload)
        assert workload.kind == self.kind
        assert workload.protocols
        assert all(isinstance(protocol, str) for protocol in workload.protocols)

    def test_an_unknown_key_is_refused_by_name(self) -> None:
        with pytest.raises(UsageError, match="no_such_key") as refused:
            self.make(no_such_key=1)
        assert refused.value.hint

    def test_the_context_says_what_is_asked_and_stays_the_same(self) -> None:
        context = self.make().context
        assert context == self.make().context
        assert context.workload
        assert context.clients >= 1
        assert 0.0 <= context.read_share <= 1.0
        json.dumps(asdict(context)["features"])

    def test_another_rate_leaves_the_workload_as_it_is(self) -> None:
        workload = self.make()
        if not isinstance(workload, RatedWorkload):
            pytest.skip("the subject has no rate")
        before = workload.context
        fast, slow = workload.with_rate(200.0), workload.with_rate(50.0)
        assert workload.context == before
        assert fast.context != slow.context
        for wrong in (0.0, -1.0):
            with pytest.raises(UsageError):
                workload.with_rate(wrong)

    def test_what_only_some_workloads_say_has_its_form(self) -> None:
        workload = self.make()
        if isinstance(workload, RightsWorkload):
            assert workload.rights.database
        if isinstance(workload, ScriptedWorkload):
            assert workload.texts
            assert all(isinstance(text, str) for text in workload.texts.values())

    def test_a_server_that_it_does_not_speak_with_is_an_error(self, endpoint: Endpoint) -> None:
        other = replace(endpoint, protocol="no such protocol")
        workload = self.make()
        refusal = ""
        try:
            workload.prepare(other, _quiet)
            workload.start(other, seed=1, duration_s=1.0).stop()
        except LoadError as error:
            refusal = error.message
        # One that drives several may ask something else than the endpoint.
        assert "no such protocol" in refusal or (not refusal and len(workload.protocols) > 1)

    # --- data ---

    def test_data_are_prepared_once(self, endpoint: Endpoint) -> None:
        workload = self.make()
        first = workload.prepare(endpoint, _quiet)
        assert isinstance(first, Preparation)
        assert first.duration_s >= 0.0
        assert first.size_bytes >= 0
        again = self.make().prepare(endpoint, _quiet)
        assert again.was_cached

    def test_a_reset_can_be_repeated_and_cleaned_up(self, endpoint: Endpoint) -> None:
        workload = self.make()
        if not isinstance(workload, ResettableWorkload):
            pytest.skip("the subject has no start state")
        workload.prepare(endpoint, _quiet)
        states = [workload.reset(endpoint, _quiet) for _ in range(2)]
        assert all(state is None or isinstance(state, StartState) for state in states)
        workload.clean_up(endpoint)
        workload.clean_up(endpoint)

    # --- runs ---

    def test_a_run_ends_by_itself_and_its_seconds_are_in_its_log(self, endpoint: Endpoint) -> None:
        frames, log = self.finished(self.started(self.make(), endpoint, duration_s=2.0))
        assert [frame.second for frame in frames] == list(range(len(frames)))
        assert log.duration_s >= 1.0
        assert log.labels
        assert sum(frame.n_ok for frame in frames) <= _successes(log)
        assert _successes(log) > 0, f"no operation succeeded: {log.errors[:3]}"
        assert log.errors == ()
        if isinstance(log, SecondLog):
            log.check()
            assert np.isfinite(log.credited).all()
            assert (log.credited >= 0).all()
        else:
            assert (log.end_s >= log.start_s).all()
            assert (np.diff(log.end_s) >= 0).all()

    def test_a_run_can_be_read_and_stopped_at_any_time(self, endpoint: Endpoint) -> None:
        run = self.started(self.make(), endpoint, duration_s=600.0)
        try:
            assert isinstance(run, LoadRun)
            was_done = run.is_done
            until = time.monotonic() + _PATIENCE_S
            while _successes(run.log()) == 0:
                assert time.monotonic() < until, "no operation succeeded"
                run.frame(0.2)
        finally:
            log = run.stop()
        assert not was_done
        assert run.is_done
        assert log.duration_s < 600.0
        assert _successes(run.stop()) == _successes(log) == _successes(run.log())

    def test_runs_can_follow_each_other(self, endpoint: Endpoint) -> None:
        workload = self.make()
        for seed in (1, 2):
            _, log = self.finished(self.started(workload, endpoint, duration_s=1.0, seed=seed))
            assert _successes(log) > 0, f"no operation succeeded: {log.errors[:3]}"
        if isinstance(workload, ResettableWorkload):
            workload.clean_up(endpoint)


def _successes(log: QueryLog | SecondLog) -> int:
    if isinstance(log, SecondLog):
        return int(log.response.total)
    return int(np.count_nonzero(log.outcome == Outcome.OK))
