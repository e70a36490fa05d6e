"""Tables of other programs, and what a spreadsheet has made of one of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history.strategies import plain_study
from trimtab.history import StudyCopy, load_format, read_space
from trimtab.history.formats.scalar import text_of, value_of
from trimtab.space import KnobKind


def read(name: str, place: Path) -> list[StudyCopy]:
    return list(load_format(name, "").read(str(place)).studies)


@pytest.mark.parametrize("words", [("true", "false"), ("TRUE", "FALSE"), ("True", "False")])
def test_a_switch_stays_one_when_a_spreadsheet_or_python_has_written_the_table(
    words: tuple[str, str], tmp_path: Path
) -> None:
    place = tmp_path / "table.csv"
    place.write_text(f"jit,latency_mean\n{words[0]},2.5\n{words[1]},1.25\n")
    (found,) = read("csv", place)
    assert [trial.config["jit"] for trial in found.trials] == [True, False]
    assert read_space(found.record).knobs["jit"].kind is KnobKind.BOOLEAN
    assert (text_of("TRUE"), value_of(text_of("TRUE"))) == ('"TRUE"', "TRUE"), "a text of ours is quoted"


def test_empty_rows_of_a_spreadsheet_are_no_trials(tmp_path: Path) -> None:
    place = tmp_path / "table.csv"
    place.write_text("cache,latency_mean\n1,2.5\n,\n2,1.25\n,\n,\n")
    (found,) = read("csv", place)
    assert [dict(trial.config) for trial in found.trials] == [{"cache": 1}, {"cache": 2}]
    load_format("csv", "").write([plain_study("x", [({"cache": 1}, 10.0, "", 0.0)], 0.0)], str(place))
    head = place.read_text().partition("\n")[0]
    place.write_text(place.read_text() + "," * head.count(",") + "\n")
    assert [copy.record.name for copy in read("csv", place)] == ["x"]


TABLES = {
    "csv": "threads,lock,latency_mean\n8,true,2.5\nauto,1,1.25\n4,no,1.5\n",
    "text": "# columns = threads, lock, performance\n8, true, 2.5\nauto, 1, 1.25\n4, no, 1.5\n",
    "xml": "<Harmony><HarmonyData><RawData>"
    + "".join(
        f"<Data><Config><threads>{a}</threads><lock>{b}</lock></Config><Perf>{c}</Perf></Data>"
        for a, b, c in ((8, "true", 2.5), ("auto", 1, 1.25), (4, "no", 1.5))
    )
    + "</RawData></HarmonyData></Harmony>",
}


@pytest.mark.parametrize("name", TABLES)
def test_a_knob_with_numbers_and_words_is_a_choice(name: str, tmp_path: Path) -> None:
    """Else the trials with its numbers would be no configs of the study's own space, and left out of every ranking."""
    place = tmp_path / "table"
    place.write_text(TABLES[name])
    (found,) = read(name, place)
    space = read_space(found.record)
    assert [dict(space.validate(trial.config)) for trial in found.trials] == [
        {"threads": "8", "lock": "true"}, {"threads": "auto", "lock": "1"}, {"threads": "4", "lock": "no"},
    ]  # fmt: skip
    assert space.knobs["threads"].choices == ("8", "auto", "4")
    assert dict(found.record.baseline) == {"threads": "8", "lock": "true"}
