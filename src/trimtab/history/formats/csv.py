"""CSV: a row for each trial, a column for each knob (`config.NAME`) and figure; studies are told apart by name and time."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trimtab.errors import UsageError
from trimtab.history.formats.base import MAX_LINE_BYTES, Imported, file_of, refuse
from trimtab.history.formats.partial import (
    NOT_KNOWN,
    measurement_of,
    of_one_kind,
    scored,
    status_without_verdict,
    study_of,
)
from trimtab.history.formats.scalar import cell_of, value_of
from trimtab.history.record import StudyCopy, StudyRecord
from trimtab.history.rows import target_kinds
from trimtab.measure import Interval, Measurement
from trimtab.records import FIGURES, METRICS, Context, Machine, Objective, Role, Status, Trial
from trimtab.space import Config, Value
from trimtab.units import counted

__all__ = ["CsvFormat"]

_STUDY = ("study", "study_status", "created_at", "objective", "target", "server_version", "hostname", "cores",
          "memory_bytes", "workload", "clients", "read_share")  # fmt: skip
_TRIAL = ("number", "role", "status", "reason", "searcher", "started_at", "loss", "loss_se", "excess", "seed")
_FIGURE = "figure"
"""The cost or score that a program in a session reports."""
_METRICS = ("throughput", "latency_mean", "latency_p50", "latency_p95", "latency_p99", _FIGURE)
_COUNTS = ("n_ok", "n_error", "n_timed_out", "is_steady", "warmup_s", "window_start_s", "window_end_s")
_KNOWN = (*_STUDY, *_TRIAL, *(f"{name}{end}" for name in _METRICS for end in ("", "_low", "_high", "_se")), *_COUNTS)
_CONFIG, _COST = "config.", "cost."
_LOST = ("csv: left out were settings, space, verdict and events of the studies, and of the trials effective values, "
         "context features, histograms, series, figures by label, counters and versions")  # fmt: skip

csv.field_size_limit(MAX_LINE_BYTES)


class CsvFormat:
    """One trial a line under a header. Tables of other programs are read too: the last column is the performance then."""

    suffixes: Sequence[str] = (".csv",)
    is_exact = False
    is_database = False

    def write(self, studies: Iterable[StudyCopy], place: str) -> Sequence[str]:
        """Cells are written by `cell_of`; what is not known, or does not belong to a study, is empty."""
        rows, empty = [], []
        for study in studies:
            rows += [_row(study.record, trial) for trial in study.trials]
            if not study.trials:
                empty.append(study.record.name)
        names = [*_KNOWN, *sorted({name for row in rows for name in row} - set(_KNOWN))]
        with open(place, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([_head(name) for name in names])
            writer.writerows([[_cell(row.get(name)) for name in names] for row in rows])
        if empty:  # a study is its rows
            return (_LOST, f"csv: studies without trials were left out: {', '.join(empty)[:200]}")
        return (_LOST,)

    def read(self, place: str) -> Imported:
        """Rows may stand in any order, as a spreadsheet has sorted them; those without a filled cell are none."""
        path = file_of(place)
        imported = Imported(())
        imported.studies = self._studies(str(path), imported)
        return imported

    def _studies(self, place: str, imported: Imported) -> Iterator[StudyCopy]:
        try:
            with open(place, encoding="utf-8-sig", newline="") as file:
                # A line beyond the limit must not be read into memory as a whole.
                lines = iter(lambda: _short_line(file.readline(MAX_LINE_BYTES + 1)), "")
                reader = csv.reader(lines, strict=True)
                layout = _layout([_name(name) for name in next(reader, [])], imported)
                rows = (layout.named(cells, number) for number, cells in enumerate(reader, 2) if any(cells))
                groups: dict[tuple[Value | None, Value | None], list[Mapping[str, Value]]] = {}
                for row in rows:
                    groups.setdefault((row.get("study"), row.get("created_at")), []).append(row)
                for group in groups.values():
                    yield _study(group, layout, imported)
        except (csv.Error, ValueError, KeyError, OverflowError, UsageError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else getattr(error, "message", str(error))
            raise refuse(place, reason[:300]) from error


def _short_line(line: str) -> str:
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"a line is longer than {MAX_LINE_BYTES} characters")
    return line


def _cell(value: Value | None) -> str:
    return "" if value is None else cell_of(value)


def _head(name: str) -> str:
    prefix = next((prefix for prefix in (_CONFIG, _COST) if name.startswith(prefix)), "")
    return prefix + cell_of(name.removeprefix(prefix))


def _name(head: str) -> str:
    prefix = next((prefix for prefix in (_CONFIG, _COST) if head.startswith(prefix)), "")
    return prefix + str(value_of(head.removeprefix(prefix)))


def _row(record: StudyRecord, trial: Trial) -> dict[str, Value | None]:
    measured = trial.measurement
    row: dict[str, Value | None] = {
        "study": record.name,
        "study_status": record.status,
        "created_at": record.created_at,
        "objective": record.objective,
        "target": target_kinds(record.settings) or None,
        "server_version": record.machine.server_version or None,
        "hostname": record.machine.hostname or None,
        "cores": record.machine.cores,
        "memory_bytes": record.machine.memory_bytes,
        "workload": trial.context.workload,
        "clients": trial.context.clients,
        "read_share": trial.context.read_share,
        **{name: getattr(trial, name) for name in _TRIAL},
        "role": trial.role.value,
        "status": trial.status.value,
        "reason": trial.reason or None,
        "searcher": trial.searcher or None,
        **{_CONFIG + name: value for name, value in trial.config.items()},
        **{_COST + name: float(value) for name, value in trial.cost_s.items()},
    }
    return {**row, **({} if measured is None else _figures(measured))}


def _figures(measured: Measurement) -> dict[str, Value | None]:
    named = {"throughput": measured.throughput, "latency_mean": measured.latency_mean_ms}
    named |= {
        f"latency_{name}": interval for name, interval in measured.latency_ms.items() if f"latency_{name}" in _METRICS
    }
    if measured.figure is not None:
        named[_FIGURE] = measured.figure
    row: dict[str, Value | None] = {}
    for name, found in named.items():
        if math.isnan(found.estimate):
            continue
        row |= {name: found.estimate, f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_se": found.se}
    counts = {name: getattr(measured, name) for name in _COUNTS if not name.startswith("window")}
    return {**row, **counts, "window_start_s": measured.window_s[0], "window_end_s": measured.window_s[1]}


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the columns are; of a foreign table every column but the last is a knob."""

    names: Sequence[str]

    def named(self, cells: Sequence[str], number: int) -> dict[str, Value]:
        if len(cells) != len(self.names):
            raise ValueError(f"row {number} has {counted(len(cells), 'cell')}, the header has {len(self.names)}")
        return {name: value_of(cell) for name, cell in zip(self.names, cells, strict=True) if cell != ""}


def _layout(names: Sequence[str], imported: Imported) -> _Layout:
    if len(set(names)) < len(names) or not names:
        raise ValueError("the header line is empty, or names a column twice")
    if any(name.startswith(_CONFIG) for name in names) or {"study", "number", "status"} <= set(names):
        unknown = [name for name in names if name not in _KNOWN and not name.startswith((_CONFIG, _COST))]
        if unknown:
            imported.note(f"csv: columns that are not known were left out: {', '.join(unknown)[:200]}")
        return _Layout(names)
    if len(names) < 2:
        raise ValueError("a table needs a column for each knob and one for the performance")
    metric = names[-1] if names[-1] in METRICS else "latency_mean"
    better = "more" if METRICS[metric] else "less"
    imported.note(
        f"csv: no column is called config.NAME; {names[-1]!r} is taken as {metric} ({better} is better), all others as knobs, "
        "the first row as the baseline"
    )
    return _Layout([*(_CONFIG + name for name in names[:-1]), metric])


def _study(rows: Sequence[Mapping[str, Value]], layout: _Layout, imported: Imported) -> StudyCopy:
    first = rows[0]
    measured = next((name for name in METRICS if name in layout.names), "latency_mean")
    objective = Objective.parse(str(first.get("objective", measured)))
    trials = of_one_kind([_with_figure(_trial(row, index), objective) for index, row in enumerate(rows)])
    trials.sort(key=lambda trial: trial.number)
    if "loss" not in layout.names:
        trials = scored(trials, objective)
    record = study_of(
        name=str(first.get("study", "csv")),
        objective=str(objective),
        configs=[trial.config for trial in sorted(trials, key=lambda trial: trial.role is not Role.BASELINE)],
        created_at=_number(first, "created_at", 0.0),
        status=status_without_verdict(str(first.get("study_status", "stopped")), imported, "csv"),
        context=replace(trials[0].context, features={}),
        machine=Machine(
            cores=_whole(first, "cores", 0),
            memory_bytes=_whole(first, "memory_bytes", 0),
            hostname=str(first.get("hostname", "")),
            server_version=str(first.get("server_version", "")),
        ),
        kinds=str(first.get("target", "")),
    )
    return StudyCopy(record, trials)


def _trial(row: Mapping[str, Value], index: int) -> Trial:
    measured = any(name in row for name in (*_METRICS, "n_ok"))
    optional = {name: _number(row, name, 0.0) for name in ("loss", "loss_se") if name in row}
    return Trial(
        number=_whole(row, "number", index),
        role=Role(str(row.get("role", "search" if index else "baseline"))),
        config=Config(_prefixed(row, _CONFIG)),
        context=Context(str(row.get("workload", "")), _whole(row, "clients", 0), _number(row, "read_share", 1.0)),
        status=Status(str(row.get("status", "ok" if measured else "crashed"))),
        reason=str(row.get("reason", "")),
        measurement=_measurement(row) if measured else None,
        excess=_number(row, "excess", 0.0),
        cost_s=_prefixed(row, _COST),
        started_at=_number(row, "started_at", 0.0),
        searcher=str(row.get("searcher", "")),
        seed=_whole(row, "seed", 0) if "seed" in row else None,
        loss=optional.get("loss"),
        loss_se=optional.get("loss_se"),
    )


def _with_figure(trial: Trial, objective: Objective) -> Trial:
    """Files of earlier versions have no column for the figure: it is not known then, which is not the same as none."""
    measured = trial.measurement
    if objective.metric not in FIGURES or measured is None or measured.figure is not None:
        return trial
    return replace(trial, measurement=replace(measured, figure=NOT_KNOWN))


def _prefixed(row: Mapping[str, Value], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}


def _measurement(row: Mapping[str, Value]) -> Measurement:
    figures = {name: _interval(row, name) for name in _METRICS if name in row}
    return replace(
        measurement_of(figures),
        n_ok=_whole(row, "n_ok", 0),
        n_error=_whole(row, "n_error", 0),
        n_timed_out=_whole(row, "n_timed_out", 0),
        is_steady=row.get("is_steady", False) is True,
        warmup_s=_number(row, "warmup_s", 0.0),
        window_s=(_number(row, "window_start_s", 0.0), _number(row, "window_end_s", 0.0)),
        figure=figures.get(_FIGURE),
    )


def _interval(row: Mapping[str, Value], name: str) -> Interval:
    low, high, se = (_number(row, f"{name}_{end}", math.nan) for end in ("low", "high", "se"))
    return Interval(_number(row, name, NOT_KNOWN.estimate), low, high, se=se)


def _number(row: Mapping[str, Value], name: str, default: float) -> float:
    value = row.get(name, default)
    if isinstance(value, str | bool):
        raise ValueError(f"{name}={value!r} is not a number")
    return value


def _whole(row: Mapping[str, Value], name: str, default: int) -> int:
    value = row.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name}={value!r} is not a whole number")
    return value
