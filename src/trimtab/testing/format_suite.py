"""The conformance suite of history formats: a plug-in author subclasses it, names the class, and pytest runs every check.

class TestMyFormat(FormatSuite):
    format_class = MyFormat
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from trimtab.errors import HistoryError
from trimtab.history import Event, Format, History, StudyCopy, StudyRecord, import_file, space_to_json
from trimtab.measure import Interval, Measurement
from trimtab.records import Context, Machine, Role, Status, Trial, Verdict
from trimtab.space import Config, Knob, KnobKind, Space

__all__ = ["FormatSuite", "sample_study"]

_KNOBS = (
    Knob(name="cache", kind=KnobKind.INTEGER, low=1, high=4096, default=128),
    Knob(name="cost", kind=KnobKind.REAL, low=0.5, high=8.0, default=4.0),
    Knob(name="jit", kind=KnobKind.BOOLEAN, default=True),
    Knob(name="method", kind=KnobKind.CHOICE, choices=("pglz", "lz4", "a b"), default="pglz"),
)
_CONTEXT = Context("conformance suite", 4)


def sample_study(name: str = "sample") -> StudyCopy:
    """A study with a baseline, a better config and a crash; every knob of another kind."""
    configs = [
        Config({"cache": 128, "cost": 4.0, "jit": True, "method": "pglz"}),
        Config({"cache": 4096, "cost": 1.25, "jit": False, "method": "a b"}),
        Config({"cache": 1, "cost": 0.5, "jit": False, "method": "lz4"}),
    ]
    record = StudyRecord(
        id=0,
        name=name,
        settings={"target": {"db": {"kind": "postgresql"}}, "odd": [1, 2.5, None, "ünï\n\0"]},
        space=json.loads(json.dumps(space_to_json(Space(_KNOBS)))),
        objective="throughput",
        baseline=configs[0],
        machine=Machine(cores=2, memory_bytes=8 << 30, hostname="db1", server_version="PostgreSQL 18.1"),
        context=_CONTEXT,
        created_at=1.7e9,
        status="proven",
        verdict=Verdict(result="better"),
        fingerprint="f",
    )
    return StudyCopy(record, [_trial(i, config) for i, config in enumerate(configs)], [Event("warning", "slow", 1.7e9)])


def _trial(number: int, config: Config) -> Trial:
    value = 100.0 * (number + 1)
    interval = Interval(value, value - 5.5, float("inf"))
    measurement = Measurement(
        window_s=(1.0, 5.0),
        throughput=interval,
        latency_mean_ms=interval,
        latency_ms={"p50": interval, "p95": interval, "p99": interval},
        n_ok=40,
        n_error=1,
        n_timed_out=0,
        is_steady=True,
        warmup_s=1.0,
        series_per_s=(0.1, 0.2),
    )
    is_crash = number == 2
    return Trial(
        number=number,
        role=Role.SEARCH if number else Role.BASELINE,
        config=config,
        context=_CONTEXT,
        status=Status.CRASHED if is_crash else Status.OK,
        reason="FATAL: out of memory\n" if is_crash else "",
        measurement=None if is_crash else measurement,
        loss=None if is_crash else -0.5 * number,
        cost_s={"measure": 4.0},
        started_at=1.7e9 + number,
        searcher="gp" if number else "",
    )


class FormatSuite:
    """Checks of one format; pytest finds the methods of subclasses."""

    format_class: ClassVar[type[Format]]

    def place(self, tmp_path: Path) -> str:
        """Where a file of the format goes."""
        return str(tmp_path / f"sample{self.format_class.suffixes[0]}")

    def test_it_is_a_format(self) -> None:
        made = self.format_class()
        assert isinstance(made, Format)
        assert made.suffixes
        assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in made.suffixes)

    def test_configs_and_performance_come_back(self, tmp_path: Path) -> None:
        studies = [sample_study("first"), sample_study("second")]
        self.format_class().write(studies, self.place(tmp_path))
        found = list(self.format_class().read(self.place(tmp_path)).studies)
        assert [study.record.name for study in found] == ["first", "second"]
        for old, new in zip(studies, found, strict=True):
            assert [repr(trial.config) for trial in new.trials] == [repr(trial.config) for trial in old.trials]
            assert [_value(trial) for trial in new.trials] == [_value(trial) for trial in old.trials]
            assert [trial.status.is_measured for trial in new.trials] == [True, True, False]

    def test_exact_means_exact(self, tmp_path: Path) -> None:
        notes = self.format_class().write([sample_study()], self.place(tmp_path))
        imported = self.format_class().read(self.place(tmp_path))
        (found,) = imported.studies
        if self.format_class.is_exact:
            own = replace(found, trials=list(found.trials), events=list(found.events))
            assert repr(own) == repr(sample_study())
            assert (list(notes), imported.notes) == ([], [])
        else:
            assert notes, "what is lost must be said"

    def test_what_is_read_passes_the_check_of_imports(self, tmp_path: Path) -> None:
        self.format_class().write([sample_study()], self.place(tmp_path))
        with History.open(tmp_path / "history.db") as history:
            (arrival,) = import_file(history, self.format_class(), self.place(tmp_path)).studies
            (again,) = import_file(history, self.format_class(), self.place(tmp_path)).studies
            assert (arrival.kept_as, again.kept_as) == ("sample", None)

    def test_what_is_not_of_the_format_is_refused(self, tmp_path: Path) -> None:
        for seed in range(5):
            Path(self.place(tmp_path)).write_bytes(random.Random(seed).randbytes(2000))
            with pytest.raises(HistoryError):
                list(self.format_class().read(self.place(tmp_path)).studies)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises((OSError, HistoryError)):
            list(self.format_class().read(self.place(tmp_path)).studies)
        assert not Path(self.place(tmp_path)).exists()


def _value(trial: Trial) -> float | None:
    return None if trial.measurement is None else trial.measurement.throughput.estimate
