"""The text log: one k-tuple a line, the values of the knobs and the performance, k = knobs + 1 (seed 000, 4.2).

Lines that begin with `#` tell what the columns are; a log of another program has none, and is read all the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from trimtab.errors import UsageError
from trimtab.history.formats.base import MAX_LINE_BYTES, Imported, file_of, refuse
from trimtab.history.formats.partial import measurement_of, of_one_kind, performance_of, scored, study_of
from trimtab.history.formats.scalar import text_of, value_of
from trimtab.history.record import StudyCopy
from trimtab.measure import Interval
from trimtab.records import Context, Objective, Role, Status, Trial
from trimtab.space import Config, Value
from trimtab.units import counted

__all__ = ["TextFormat"]

_HEADER = re.compile(r"#\s*(study|created_at|objective|columns)\s*=\s*(.*)")
_CELL = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s,;"]+)\s*(?:[,;]|(?=\s)|$)')
_DEFAULT_NAME = "text-log"
_LESS_IS_BETTER = "latency_mean"
_FAILED = "the trial failed, or missed a constraint of the objective; the text log does not say how"

_LOST = (
    "text: holds configs and the objective's metric alone; left out were machine, workload, space, verdict, events, and of "
    "the trials role, status, reason, times, costs, intervals, histograms and counters; trials that failed, or missed a "
    "constraint of the objective, have the performance nan"
)


class _Section:
    """The lines of one study."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.rows: list[list[Value]] = []


class TextFormat:
    """One trial a line: its values and its performance. Each study stands under its own `# study =` line."""

    suffixes: Sequence[str] = (".log", ".txt")
    is_exact = False
    is_database = False

    def write(self, studies: Iterable[StudyCopy], place: str) -> Sequence[str]:
        """Failed trials, and those that miss a constraint of the objective, have the performance nan."""
        notes: dict[str, None] = {}
        with open(place, "w", encoding="ascii", newline="\n") as file:
            for study in studies:
                notes[_LOST] = None
                notes.update(dict.fromkeys(_write_study(file, study)))
        return tuple(notes)

    def read(self, place: str) -> Imported:
        """Delimiters are blanks, commas or semicolons."""
        path = file_of(place)
        imported = Imported(())
        imported.studies = self._studies(str(path), imported)
        return imported

    def _studies(self, place: str, imported: Imported) -> Iterator[StudyCopy]:
        for section in _sections(place):
            try:
                yield _study(section, imported)
            except (ValueError, UsageError) as error:
                raise refuse(place, getattr(error, "message", str(error))) from error


def _write_study(file: TextIO, study: StudyCopy) -> Iterator[str]:
    objective = Objective.parse(study.record.objective)
    names = list(dict.fromkeys(name for trial in study.trials for name in trial.config))
    if any(trial.context != study.trials[0].context for trial in study.trials):
        yield (
            f"text: trials of {study.record.name!r} are of several contexts, which its lines do not tell: read back, all of "
            "them are compared with one baseline"
        )
    file.write(f"# study = {text_of(study.record.name)}\n# created_at = {text_of(study.record.created_at)}\n")
    file.write(f"# objective = {study.record.objective}\n")
    file.write(f"# columns = {', '.join(map(text_of, [*names, 'performance']))}\n")
    for trial in study.trials:
        if set(trial.config) < set(names):
            yield f"text: trials of {study.record.name!r} that lack some knobs were left out"
            continue
        is_good = trial.status.is_measured and not trial.excess
        value = performance_of(trial, objective) if is_good else math.nan
        file.write(", ".join([*(text_of(trial.config[name]) for name in names), text_of(float(value))]) + "\n")


def _sections(place: str) -> Iterator[_Section]:
    section = _Section()
    with open(place, encoding="utf-8", errors="surrogateescape") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise refuse(place, f"line {number} is longer than {MAX_LINE_BYTES} characters")
            header = _HEADER.match(line)
            if header is not None and header[1] == "study" and (section.rows or section.headers):
                yield section
                section = _Section()
            if header is not None:
                section.headers[header[1]] = header[2].strip()
            elif line.strip() and not line.lstrip().startswith("#"):
                try:
                    section.rows.append(_cells(line))
                except ValueError as error:
                    raise refuse(place, f"line {number}: {error}") from error
                if len(section.rows[-1]) != len(section.rows[0]) or len(section.rows[0]) < 2:
                    raise refuse(
                        place,
                        f"line {number} has {counted(len(section.rows[-1]), 'value')}, the first has {len(section.rows[0])}",
                        "every line holds one value for each knob, and the performance",
                    )
    if section.rows or section.headers:
        yield section


def _cells(line: str) -> list[Value]:
    found, at = [], 0
    line = line.strip().removeprefix("(").removesuffix(")")
    while at < len(line):
        cell = _CELL.match(line, at)
        if cell is None:
            raise ValueError(f"{line[at : at + 40]!r} is not a value")
        found.append(value_of(cell[1]))
        at = cell.end()
    return found


def _study(section: _Section, imported: Imported) -> StudyCopy:
    width = len(section.rows[0]) if section.rows else 0
    headers = section.headers
    columns = [str(value) for value in _cells(headers["columns"])] if "columns" in headers else []
    if not columns:
        columns = [f"p{index}" for index in range(1, width)] + ["performance"]
        imported.note("text: the file names no columns; its knobs are called p1, p2, …")
    if "objective" not in headers:
        imported.note(
            f"text: the file names no objective; its performance is taken as {_LESS_IS_BETTER}: less is better"
        )
    if width and len(columns) != width:
        raise ValueError(f"columns names {counted(len(columns), 'value')}, the lines have {width}")
    imported.note("text: it holds no roles; trials of the first config are taken as the baseline")
    objective = Objective.parse(headers.get("objective", _LESS_IS_BETTER))
    trials = of_one_kind([_trial(number, columns, row, objective) for number, row in enumerate(section.rows)])
    trials = [
        replace(trial, role=Role.BASELINE if trial.config == trials[0].config else Role.SEARCH) for trial in trials
    ]
    created_at = value_of(headers.get("created_at", "0.0"))
    if isinstance(created_at, str | bool):
        raise ValueError(f"created_at={created_at!r} is not a number")
    record = study_of(
        name=str(value_of(headers.get("study", _DEFAULT_NAME))),
        objective=str(objective),
        configs=[trial.config for trial in trials],
        created_at=created_at,
    )
    return StudyCopy(record, scored(trials, objective))


def _trial(number: int, columns: Sequence[str], row: Sequence[Value], objective: Objective) -> Trial:
    value = row[-1]
    if isinstance(value, str | bool):
        raise ValueError(f"the performance {value!r} is not a number")
    is_measured = math.isfinite(value)
    interval = Interval(float(value), math.nan, math.nan)
    return Trial(
        number=number,
        role=Role.SEARCH,
        config=Config(dict(zip(columns[:-1], row[:-1], strict=True))),
        context=Context("", 0),
        status=Status.OK if is_measured else Status.CRASHED,
        reason="" if is_measured else _FAILED,
        measurement=measurement_of({objective.metric: interval}) if is_measured else None,
    )
