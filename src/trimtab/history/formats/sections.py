"""Sections: what PostgreSQL (`SELECT trimtab_export()`) or a program (`tt_section_json`) has learnt while it worked.

Each class of queries, or section, that was changed is a study."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trimtab.errors import HistoryError, TrimtabError, UsageError
from trimtab.history.formats.base import Imported, file_of, refuse
from trimtab.history.formats.partial import measurement_of, scored, study_of
from trimtab.history.record import StudyCopy, StudyRecord
from trimtab.history.validate import check_copy
from trimtab.measure import Interval
from trimtab.records import Context, Objective, Role, Status, Trial
from trimtab.space import Config, Value
from trimtab.units import counted

__all__ = ["SectionsFormat", "section_copy"]

_KIND, _OF_PROGRAM, _VERSION = "trimtab sections", "trimtab section", 1
_MOST_CLASSES = 100_000


class SectionsFormat:
    """What the PostgreSQL extension or the C library has learnt; can only be read.

    A class has a trial with its own settings and one with the proven, faster ones."""

    suffixes: Sequence[str] = (".json",)
    is_exact = False
    is_database = False

    def write(self, studies: Iterable[StudyCopy], place: str) -> Sequence[str]:
        """Always raises HistoryError: studies are no classes of queries."""
        raise HistoryError(
            "format 'sections' is only read: SELECT trimtab_export() or tt_section_json writes it",
            hint="export to another format, such as .jsonl",
        )

    def read(self, place: str) -> Imported:
        """The classes whose settings differ from the server's own, or the section whose values do; a note counts the others."""
        path = file_of(place)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise refuse(place, f"it is not JSON: {error}"[:300]) from error
        if (
            not isinstance(document, dict)
            or document.get("kind") not in (_KIND, _OF_PROGRAM)
            or document.get("schema_version") != _VERSION
        ):
            raise refuse(place, f"it is not the JSON of trimtab_export() or tt_section_json of version {_VERSION}")
        if document["kind"] == _OF_PROGRAM:
            return _program(place, document)
        classes = document.get("classes")
        if not isinstance(classes, list) or len(classes) > _MOST_CLASSES:
            raise refuse(place, "it has no list of classes")
        imported = Imported(())
        imported.studies = _studies(place, classes, imported)
        return imported


def _program(place: str, document: Mapping[str, Any]) -> Imported:
    try:
        found = section_copy(document)
    except UsageError as error:
        raise refuse(place, error.message) from error
    imported = Imported([found] if found is not None else [])
    if found is None:
        imported.note("sections: left out was a section for which no values were found")
    return imported


def section_copy(told: Mapping[str, Any], created_at: float = 0.0) -> StudyCopy | None:
    """What a section of a program has learnt, as the C library tells it (`tt_section_json`); None when it has proven nothing yet.

    Its figure is the time of a unit of work in nanoseconds.

    Raises:
        UsageError: it is no such thing.
    """
    try:
        found = _study_of_section(told, created_at)
        if found is not None:
            check_copy(found, "a section")
        return found
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"{type(error).__name__}: {error}"[:300]
        raise UsageError(f"a section cannot be read: {what}", hint="send what tt_section_json gives") from error
    except TrimtabError as error:
        raise UsageError(
            f"a section cannot be read: {error.message}", hint="send what tt_section_json gives"
        ) from error


def _study_of_section(told: Mapping[str, Any], created_at: float) -> StudyCopy | None:
    if set(told["defaults"]) != set(told["values"]):
        raise ValueError("its defaults and its values have other names")
    choices = set(told["choices"])
    configs = [
        Config({_word(name): str(value) if name in choices else int(value) for name, value in told[of].items()})
        for of in ("defaults", "values")
    ]
    figures = [float(told[name]) for name in ("default_ns", "gain", "gain_low", "gain_high")]
    if configs[0] == configs[1] or not all(math.isfinite(value) and value > 0 for value in figures):
        return None
    name = f"section {told['section']}".replace("/", "_")
    record = study_of(
        name=name, objective="cost", configs=configs, created_at=created_at, context=Context(name, 1), kinds="section"
    )
    return _of_two(record, configs[1], "cost", figures)


def _word(name: str) -> str:
    """A parameter's name as that of a knob."""
    return "_".join(name.replace("`", " ").split())


def _studies(place: str, classes: Sequence[Any], imported: Imported) -> Iterator[StudyCopy]:
    n_left = 0
    for each in classes:
        try:
            found = _study(each)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise refuse(place, f"a class cannot be read: {type(error).__name__}: {error}"[:300]) from error
        except TrimtabError as error:
            raise refuse(place, error.message) from error
        if found is None:
            n_left += 1
        else:
            yield found
    if n_left:
        imported.note(f"sections: left out: {counted(n_left, 'class')} for which no settings were found")


def _study(each: Mapping[str, Any]) -> StudyCopy | None:
    settings = {str(name): _value(text) for name, text in each["settings"].items()}
    own = {name: _value(each["own"][name]) for name in settings} if settings else {}
    before, gain, low, high = (float(each[name]) for name in ("base_ms", "gain", "gain_low", "gain_high"))
    if not own or not all(math.isfinite(value) and value > 0 for value in (before, gain, low, high)):
        return None
    workload = f"query {int(each['query_id'])}"
    baseline, winner = Config(own), Config(settings)
    record = study_of(
        name=f"{workload} size {int(each['size'])}", objective="latency_mean", configs=[baseline, winner],
        context=Context(workload, 1), kinds="postgresql",
    )  # fmt: skip
    return _of_two(record, winner, "latency_mean", (before, gain, low, high))


def _of_two(record: StudyRecord, winner: Config, metric: str, told: Sequence[float]) -> StudyCopy:
    """The study with a trial of its baseline and one of the winner; `told`: the baseline's figure, the gain and its interval."""
    before, gain, low, high = told
    figures = ((Role.BASELINE, record.baseline, Interval(before, before, before)),
               (Role.SEARCH, winner, Interval(before / gain, before / max(low, high), before / min(low, high))))  # fmt: skip
    trials = [
        Trial(number=number, role=role, config=config, context=record.context, status=Status.OK,
              measurement=measurement_of({metric: interval}))
        for number, (role, config, interval) in enumerate(figures)
    ]  # fmt: skip
    return StudyCopy(record, scored(trials, Objective.parse(record.objective)), [])


def _value(text: Any) -> Value:
    """PostgreSQL's own text of a setting, in its base unit."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not a text")
    if text in ("on", "off"):
        return text == "on"
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not finite")
    return number
