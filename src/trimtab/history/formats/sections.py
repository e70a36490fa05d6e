"""Sections: what the PostgreSQL extension has learnt (`SELECT trimtab_export()`), a study for each class that it has changed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trimtab.errors import HistoryError, TrimtabError
from trimtab.history.formats.base import Imported, file_of, refuse
from trimtab.history.formats.partial import measurement_of, scored, study_of
from trimtab.history.record import StudyCopy
from trimtab.measure import Interval
from trimtab.records import Context, Objective, Role, Status, Trial
from trimtab.space import Config, Value

__all__ = ["SectionsFormat"]

_KIND, _VERSION = "trimtab sections", 1
_MOST_CLASSES = 100_000


class SectionsFormat:
    """Only read: the extension writes it. A class has a trial with its own settings and one with the proven, faster ones."""

    suffixes: Sequence[str] = (".json",)
    is_exact = False
    is_database = False

    def write(self, studies: Iterable[StudyCopy], place: str) -> Sequence[str]:
        """Always raises HistoryError: studies are no classes of queries."""
        raise HistoryError(
            "format 'sections' is only read: PostgreSQL writes it with SELECT trimtab_export()",
            hint="export to another format, such as .jsonl",
        )

    def read(self, place: str) -> Imported:
        """The classes whose settings differ from the server's own; a note counts the others."""
        path = file_of(place)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise refuse(place, f"it is not JSON: {error}"[:300]) from error
        if (
            not isinstance(document, dict)
            or document.get("kind") != _KIND
            or document.get("schema_version") != _VERSION
        ):
            raise refuse(place, f"it is not the JSON of trimtab_export() of version {_VERSION}")
        classes = document.get("classes")
        if not isinstance(classes, list) or len(classes) > _MOST_CLASSES:
            raise refuse(place, "it has no list of classes")
        imported = Imported(())
        imported.studies = _studies(place, classes, imported)
        return imported


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
        imported.note(f"sections: left out were {n_left} classes for which no settings were found")


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
    figures = ((Role.BASELINE, baseline, Interval(before, before, before)),
               (Role.SEARCH, winner, Interval(before / gain, before / max(low, high), before / min(low, high))))  # fmt: skip
    trials = [
        Trial(number=number, role=role, config=config, context=record.context, status=Status.OK,
              measurement=measurement_of({"latency_mean": interval}))
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
