"""Every format gives back what it was given: all of it where it says so, else all that it can hold."""

from __future__ import annotations

import csv
import math
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.history.real import unpack_real
from tests.history.samples import make_trial
from tests.history.strategies import COPIES, PLAIN_COPIES, plain_study
from trimtab import plugins
from trimtab.errors import HistoryError, UsageError
from trimtab.history import Event, Format, History, StudyCopy, load_format, read_space, space_to_json
from trimtab.history.formats.scalar import cell_of, text_of, value_of
from trimtab.records import Role, Status
from trimtab.space import Config, Knob, KnobKind, Space

EXACT = ("jsonl", "parquet", "taudb")
LOSSY = ("text", "xml", "csv")


def make(name: str) -> Format:
    found: Format = plugins.load("formats", name)()
    return found


def shown(copies: Sequence[StudyCopy]) -> str:
    """`repr` tells True from 1, 1 from 1.0, -0.0 from 0.0, and NaN equals itself there."""
    return repr([(copy.record, list(copy.trials), list(copy.events)) for copy in copies])


def through(name: str, copies: Sequence[StudyCopy], directory: str) -> list[StudyCopy]:
    place = f"{directory}/x{make(name).suffixes[0]}"
    make(name).write(copies, place)
    imported = make(name).read(place)
    found = list(imported.studies)
    assert not (make(name).is_exact and imported.notes)
    return found


def test_every_format_is_registered_and_says_what_it_is() -> None:
    assert set(plugins.names("formats")) >= {*EXACT, *LOSSY}
    for name in (*EXACT, *LOSSY):
        assert isinstance(make(name), Format)
        assert make(name).is_exact == (name in EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(copies=st.lists(COPIES, max_size=3))
def test_exact_formats_give_back_everything(name: str, copies: list[StudyCopy]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        assert shown(through(name, copies, directory)) == shown(copies)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSY)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(copies=st.lists(PLAIN_COPIES, min_size=1, max_size=3, unique_by=lambda copy: copy.record.name))
def test_other_formats_give_back_what_they_hold(name: str, copies: list[StudyCopy]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        found = through(name, copies, directory)
        assert [copy.record.name for copy in found] == [copy.record.name for copy in copies]
        for old, new in zip(copies, found, strict=True):
            assert [repr(trial.config) for trial in new.trials] == [repr(trial.config) for trial in old.trials]
            assert [values_of(new)] == [values_of(old)]
            assert new.record.created_at == old.record.created_at
            assert [read_space(new.record).validate(trial.config) for trial in new.trials]
        # Nothing is lost the second time.
        (Path(directory) / "again").mkdir()
        make(name).write(found, f"{directory}/again/x")
        first = (Path(directory) / f"x{make(name).suffixes[0]}").read_bytes()
        again = Path(directory) / "again" / "x"
        if name == "xml":  # it says more the second time, of the space that reading made
            twice = list(make(name).read(str(again)).studies)
            assert [[repr(trial.config) for trial in copy.trials] for copy in twice] == [
                [repr(trial.config) for trial in copy.trials] for copy in found
            ]
            assert [values_of(copy) for copy in twice] == [values_of(copy) for copy in found]
        else:
            assert again.read_bytes() == first


def values_of(copy: StudyCopy) -> list[float | None]:
    return [None if trial.measurement is None else trial.measurement.throughput.estimate for trial in copy.trials]


@settings(max_examples=12, deadline=None)
@given(copy=PLAIN_COPIES)
def test_csv_and_xml_hold_status_reason_and_time(copy: StudyCopy) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for name in ("csv", "xml"):
            (found,) = through(name, [copy], directory)
            for old, new in zip(copy.trials, found.trials, strict=True):
                assert (new.number, new.role, new.status, new.reason, new.started_at) == (
                    old.number, old.role, old.status, old.reason, old.started_at,
                )  # fmt: skip
            assert found.record.machine.server_version == "18.1"
            assert found.record.settings == {"target": {"target0": {"kind": "postgresql"}}}
            assert found.record.context.workload == "tpch 4Q6"


def test_a_line_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    copy = plain_study("x", [({"cache": 1}, 10.0, "", 0.0)], 0.0)
    copy = replace(copy, events=[Event("run", "x" * (4 << 20), 0.0)])
    why = r"the line of one event would have 4194\d{3} bytes, and JSON lines are read up to 4194304\nhint: export to"
    with pytest.raises(HistoryError, match=why):
        make("jsonl").write([copy], str(tmp_path / "x.jsonl"))
    ((found,),) = (each.events for each in through("taudb", [copy], str(tmp_path)))
    assert found == copy.events[0]


@pytest.mark.parametrize("name", [*EXACT, *LOSSY])
def test_a_trial_that_missed_a_constraint_stays_one(name: str, tmp_path: Path) -> None:
    copy = plain_study("x", [({"cache": 1}, 10.0, "", 0.0), ({"cache": 2}, 20.0, "", 1.0)], 0.0)
    copy = replace(copy, trials=[copy.trials[0], replace(copy.trials[1], excess=0.5)])
    ((first, second),) = (found.trials for found in through(name, [copy], str(tmp_path)))
    assert not second.is_feasible
    assert first.excess == 0.0
    if name == "text":
        assert second.measurement is None
    else:
        assert second.excess == 0.5


def cycle_study() -> StudyCopy:
    """Two contexts, of which one is ten times as fast as the other; nothing is better than the baseline."""
    copy = plain_study("x", [({"cache": n % 2}, 10.0 ** (n // 2), "", float(n)) for n in range(4)], 0.0)
    roles = (Role.BASELINE, Role.SEARCH)
    trials = [
        replace(t, role=roles[n % 2], context=replace(t.context, clients=1 + n // 2), loss=0.0, loss_se=0.02)
        for n, t in enumerate(copy.trials)
    ]
    return replace(copy, trials=trials)


@pytest.mark.parametrize("name", [*EXACT, "csv", "xml"])
def test_losses_stay_those_against_the_baseline_of_each_context(name: str, tmp_path: Path) -> None:
    (found,) = through(name, [cycle_study()], str(tmp_path))
    assert [(trial.loss, trial.loss_se, trial.context.clients) for trial in found.trials] == [
        (0.0, 0.02, 1), (0.0, 0.02, 1), (0.0, 0.02, 2), (0.0, 0.02, 2),
    ]  # fmt: skip


def test_a_text_log_of_several_contexts_is_warned_of(tmp_path: Path) -> None:
    notes = make("text").write([cycle_study()], str(tmp_path / "x.log"))
    assert "text: trials of 'x' are of several contexts" in notes[-1]
    whole = replace(cycle_study(), trials=cycle_study().trials[:2])
    assert len(make("text").write([whole], str(tmp_path / "x.log"))) == 1


@pytest.mark.parametrize("name", ["csv", "xml"])
@pytest.mark.parametrize(
    ("status", "read"),
    [("proven", "stopped"), ("no_improvement", "stopped"), ("ranked", "stopped"), ("benched", "stopped"),
     ("interrupted", "interrupted"), ("running", "running")],
)  # fmt: skip
def test_an_outcome_that_the_file_does_not_hold_is_not_claimed(
    name: str, status: str, read: str, tmp_path: Path
) -> None:
    copy = plain_study("x", [({"cache": 1}, 10.0, "", 0.0)], 0.0)
    place = str(tmp_path / "x")
    make(name).write([replace(copy, record=replace(copy.record, status=status))], place)
    imported = make(name).read(place)
    assert [found.record.status for found in imported.studies] == [read]
    note = f"{name}: status={status} was read as stopped, because the file does not hold what was found"
    assert (note in imported.notes) == (status != read)


@given(st.booleans() | st.integers(-(10**29), 10**29) | st.floats() | st.text())
def test_a_value_survives_as_text(value: bool | int | float | str) -> None:
    assert " " not in text_of(value) or text_of(value).startswith('"')
    for text in (text_of(value), cell_of(value)):
        assert repr(value_of(text)) == repr(value)
        assert text.isascii()
        assert "\n" not in text
        assert not isinstance(value, str) or text[0] not in "=+-@\t\r"


def test_words_stand_bare_in_a_cell() -> None:
    assert cell_of("tpch 4Q6 scale 0.1") == "tpch 4Q6 scale 0.1"
    assert [cell_of(text) for text in ("a  b", " a", "a ", "true", "1 a")] == [
        '"a  b"',
        '" a"',
        '"a "',
        '"true"',
        '"1 a"',
    ]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[StudyCopy]:
    """Studies of a real server."""
    path = unpack_real(tmp_path_factory.mktemp("real") / "history.db")
    with History.open(path) as history:
        return [history.copy(summary.id) for summary in history.summaries()][:2]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EXACT, *LOSSY])
def test_real_studies_go_through_every_format(name: str, real: list[StudyCopy], tmp_path: Path) -> None:
    found = through(name, real, str(tmp_path))
    assert [copy.record.name for copy in found] == ["demo", "ya"]
    for old, new in zip(real, found, strict=True):
        assert [trial.config for trial in new.trials] == [trial.config for trial in old.trials]
        assert values_of(new) == [
            value if trial.status.is_measured else None for value, trial in zip(values_of(old), old.trials, strict=True)
        ]
        losses = [trial.loss for trial in new.trials if trial.loss is not None]
        assert min(losses) == pytest.approx(min(t.loss for t in old.trials if t.loss is not None), abs=0.2)
    notes = make(name).write(real, str(tmp_path / "again"))
    assert bool(notes) == (name in LOSSY)
    assert all(note.startswith(f"{name}: ") for note in notes)


FIGURE_4_1 = """<Harmony><HarmonyData><Metadata><Nodeinfo>
<Node><HostName>bug00.example</HostName><sysName>Linux</sysName><Release>2.6.18</Release><Machine>i686</Machine>
<ProcessorNum>4</ProcessorNum><CPUVendor>GenuineIntel</CPUVendor><CPUModel>Intel(R) Xeon(TM) CPU 2.66GHz</CPUModel>
<CPUFreq>2658.009</CPUFreq><CacheSize>512 KB</CacheSize><ClientID>6</ClientID></Node><Node/></Nodeinfo><AppName/>
<ParamList><Param><paramName>TI</paramName><paramMin>2</paramMin><paramMax>500</paramMax><paramStep>2</paramStep></Param>
<Param><paramName>UI</paramName><paramMin>1</paramMin><paramMax>8</paramMax><paramStep>1</paramStep></Param></ParamList>
<StartTime>124139</StartTime></Metadata>
<RawData><Data><Config><TI>250</TI><UI>4</UI></Config><Perf>488.000000</Perf><Time>12:41:54</Time><Client>6</Client></Data>
<Data><Config><TI>100</TI><UI>2</UI></Config><Perf>244.0</Perf><Time>12:42:54</Time><Client>6</Client></Data></RawData>
</HarmonyData></Harmony>"""


def test_a_file_of_active_harmony_is_read(tmp_path: Path) -> None:
    path = tmp_path / "harmony.xml"
    path.write_text(FIGURE_4_1)
    imported = make("xml").read(str(path))
    (copy,) = imported.studies
    assert [dict(trial.config) for trial in copy.trials] == [{"TI": 250, "UI": 4}, {"TI": 100, "UI": 2}]
    assert [trial.role for trial in copy.trials] == [Role.BASELINE, Role.SEARCH]
    assert copy.trials[1].loss == pytest.approx(math.log(0.5))
    knob = read_space(copy.record).knobs["TI"]
    assert (knob.low, knob.high, knob.step) == (2, 500, 2)
    assert (copy.record.machine.cores, copy.record.machine.hostname) == (4, "bug00.example")
    assert copy.record.machine.cpu_model == "Intel(R) Xeon(TM) CPU 2.66GHz"
    assert imported.notes == [
        "xml: the file names no objective; Perf is taken as latency_mean: less is better",
        "xml: StartTime='124139' names no date and was left out",
        "xml: a study ran on 2 nodes; the first stands for all",
        "xml: facts of the nodes that have no place were left out: CPUFreq, CPUVendor, CacheSize, Machine, sysName",
    ]


def test_xml_has_the_structure_of_the_figure(tmp_path: Path, real: list[StudyCopy]) -> None:
    from defusedxml.ElementTree import parse

    make("xml").write(real[:1], str(tmp_path / "x.xml"))
    root = parse(tmp_path / "x.xml").getroot()
    assert root is not None
    assert root.tag == "Harmony"
    assert root.findtext("HarmonyData/Metadata/Nodeinfo/Node/HostName") == "db1"
    assert root.findtext("HarmonyData/Metadata/ParamList/Param/paramName") == "shared_buffers"
    data = root.find("HarmonyData/RawData/Data")
    assert data is not None
    assert [child.tag for child in data] == ["Config", "Perf", "Time", "Client"]
    assert data.findtext("Config/shared_buffers") == str(real[0].trials[0].config["shared_buffers"])


def test_a_text_log_of_another_program_is_read(tmp_path: Path) -> None:
    path = tmp_path / "other.log"
    path.write_text("(251, 251, 4, 488.5)\n100 200 2 244.25\n\n7; 8; 9; nan\n")
    imported = make("text").read(str(path))
    (copy,) = imported.studies
    assert dict(copy.trials[0].config) == {"p1": 251, "p2": 251, "p3": 4}
    assert [trial.status for trial in copy.trials] == [Status.OK, Status.OK, Status.CRASHED]
    assert copy.trials[1].loss == pytest.approx(math.log(0.5))
    assert imported.notes[0] == "text: the file names no columns; its knobs are called p1, p2, …"


def test_the_text_log_is_k_tuples(tmp_path: Path, real: list[StudyCopy]) -> None:
    make("text").write(real[:1], str(tmp_path / "x.log"))
    lines = (tmp_path / "x.log").read_text().splitlines()
    tuples = [line.split(", ") for line in lines if not line.startswith("#")]
    assert len(tuples) == len(real[0].trials)
    assert {len(cells) for cells in tuples} == {len(real[0].trials[0].config) + 1}


def test_a_table_of_another_program_is_read(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("cache,mode,runtime\n128,fast,20\n256,slow,10\n64,fast,\n", encoding="utf-8-sig")
    imported = make("csv").read(str(path))
    (copy,) = imported.studies
    assert [dict(trial.config) for trial in copy.trials][1] == {"cache": 256, "mode": "slow"}
    assert [trial.status for trial in copy.trials] == [Status.OK, Status.OK, Status.CRASHED]
    assert copy.trials[1].loss == pytest.approx(math.log(0.5))
    assert "'runtime' is taken as latency_mean" in imported.notes[0]


def test_a_knob_that_no_trial_has_keeps_its_range(tmp_path: Path) -> None:
    """So it is in a study that was exported before its first trial had ended."""
    knob = Knob(name="cache", kind=KnobKind.INTEGER, low=1, high=9, default=1)
    begun = plain_study("x", [({"cache": 1}, 10.0, "", 0.0)], 0.0)
    begun = replace(begun, trials=[], record=replace(begun.record, space=space_to_json(Space([knob]))))
    (found,) = through("xml", [begun], str(tmp_path))
    assert (found.record.name, found.trials) == ("x", [])
    assert (read_space(found.record).knobs["cache"].low, read_space(found.record).knobs["cache"].high) == (1, 9)


def test_unknown_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("study,number,config.a,colour,throughput\nx,0,1,red,5.0\n")
    imported = make("csv").read(str(path))
    assert len(list(imported.studies)) == 1
    assert imported.notes == ["csv: columns that are not known were left out: colour"]


def test_parquet_has_columns_for_analysis(tmp_path: Path, real: list[StudyCopy]) -> None:
    make("parquet").write(real, str(tmp_path / "x.parquet"))
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.num_rows == sum(len(copy.trials) for copy in real)
    assert table["config.shared_buffers"].to_pylist()[0] == real[0].trials[0].config["shared_buffers"]
    assert str(table.schema.field("config.work_mem").type) == "int64"
    assert table["throughput"].to_pylist()[:5] == values_of(real[0])[:5]


def test_a_parquet_of_many_studies_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's usual limit, 100 MB, lies at some thousand studies; here it is smaller."""
    copies = [plain_study(f"x{n}", [({"cache": 1}, 10.0, "", 0.0)], 0.0) for n in range(3)]
    make("parquet").write(copies, str(tmp_path / "x.parquet"))
    monkeypatch.setattr(pq, "ParquetFile", partial(pq.ParquetFile, thrift_string_size_limit=1000))
    with pytest.raises(OSError, match="Exceeded size limit"):
        pq.ParquetFile(tmp_path / "x.parquet")
    assert shown(list(make("parquet").read(str(tmp_path / "x.parquet")).studies)) == shown(copies)


def test_csv_can_be_read_by_any_program(tmp_path: Path, real: list[StudyCopy]) -> None:
    make("csv").write(real, str(tmp_path / "x.csv"))
    with open(tmp_path / "x.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["study"] == "demo"
    assert float(rows[0]["throughput"]) == values_of(real[0])[0]
    assert int(rows[0]["config.shared_buffers"]) == real[0].trials[0].config["shared_buffers"]


TAU_QUERY = """
select p.parameter_value, v.inclusive_value from trial t
join timer on timer.trial = t.id join timer_parameter p on p.timer = timer.id
join timer_callpath c on c.timer = timer.id join timer_call_data d on d.timer_callpath = c.id
join timer_value v on v.timer_call_data = d.id join metric m on m.id = v.metric
where t.name = 'demo' and p.parameter_name = 'shared_buffers' and m.name = 'throughput' order by timer.id
"""


def test_taudb_can_be_queried_as_tau_does(tmp_path: Path, real: list[StudyCopy]) -> None:
    make("taudb").write(real, str(tmp_path / "x.taudb"))
    with closing(sqlite3.connect(tmp_path / "x.taudb")) as connection:
        rows = connection.execute(TAU_QUERY).fetchall()
        measured = [trial for trial in real[0].trials if trial.measurement is not None]
        assert rows == [
            (str(trial.config["shared_buffers"]), trial.measurement.throughput.estimate)
            for trial in measured
            if trial.measurement is not None
        ]
        facts = dict(
            connection.execute("select name, value from primary_metadata where trial = 1 and name not like 'trimtab%'")
        )
        assert facts["Objective"] == "throughput"
        names = dict(connection.execute("select name, value from secondary_metadata where name = 'Hostname'"))
        assert names == {"Hostname": "db1"}


@pytest.mark.service
def test_taudb_in_postgresql(database: str, real: list[StudyCopy]) -> None:
    odd = StudyCopy(
        real[0].record, [make_trial(0, reason="\0 \ud800", config=Config({"a\0b": "\ud800"}))], [Event("a", "b", 1.0)]
    )
    make("taudb").write(real[:1], database)
    make("taudb").write([odd], database)
    wanted = [StudyCopy(copy.record, copy.trials, copy.events) for copy in [stripped(real[0]), stripped(odd)]]
    assert shown(list(make("taudb").read(database).studies)) == shown(wanted)


def stripped(copy: StudyCopy) -> StudyCopy:
    from dataclasses import replace

    return replace(copy, record=replace(copy.record, id=0, origin=""))


def test_a_taudb_of_another_program_is_read(tmp_path: Path, real: list[StudyCopy]) -> None:
    path = tmp_path / "x.taudb"
    make("taudb").write(real[:1], str(path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("delete from primary_metadata where name like 'trimtab%'")
        connection.execute("update metric set name = 'TIME' where id = 1")
        connection.commit()
    imported = make("taudb").read(str(path))
    (copy,) = imported.studies
    assert [trial.config for trial in copy.trials] == [trial.config for trial in real[0].trials]
    assert copy.record.objective == "latency_mean"
    assert imported.notes[-1].startswith("taudb: metric 'TIME' is taken as latency_mean")
    in_ms = [trial.measurement and trial.measurement.latency_mean_ms.estimate for trial in copy.trials]
    assert in_ms == [value if value is None else value / 1000 for value in values_of(stripped(real[0]))]


@pytest.mark.parametrize("name", ["a#1", "a?b", "a%23b", "a b"])
def test_a_taudb_may_have_any_name(name: str, tmp_path: Path) -> None:
    copy = plain_study("x", [({"cache": 1}, 10.0, "", 0.0)], 0.0)
    place = str(tmp_path / f"{name}.taudb")
    make("taudb").write([copy], place)
    assert shown(list(make("taudb").read(place).studies)) == shown([copy])


@pytest.mark.parametrize("place", ["sqlite:///{}/h.db", "x://{}/y.jsonl", "mysql://me:hidden@h/y"])
def test_a_taudb_is_written_into_no_other_database(place: str, tmp_path: Path) -> None:
    """That of a URL may be a history, or another program's."""
    place = place.format(tmp_path)
    for ask in (partial(make("taudb").write, [], place), partial(make("taudb").read, place)):
        with pytest.raises(UsageError, match="is not the URL of a PostgreSQL database\nhint: give a file, or") as said:
            ask()
        assert "hidden" not in str(said.value)
    assert not list(tmp_path.iterdir())


def test_the_format_is_told_by_the_name_of_the_file() -> None:
    for name in (*EXACT, *LOSSY):
        assert type(load_format(None, f"a/b{make(name).suffixes[0].upper()}")) is type(make(name))
    assert type(load_format(None, "postgresql://x@y/z")) is type(make("taudb"))
    with pytest.raises(
        UsageError,
        match=r"the format of 'a\.pickle' cannot be recognised from its name\nhint: give a name that ends in one of: ",
    ):
        load_format(None, "a.pickle")
    with pytest.raises(UsageError, match="no plug-in 'yaml' in formats\nhint: use one of: "):
        load_format("yaml", "x.yaml")
