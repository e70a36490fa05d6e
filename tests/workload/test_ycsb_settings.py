"""The [workload] table of YCSB: core workloads, own shares, and every wrong value."""

from __future__ import annotations

from typing import Any

import pytest

from trimtab.errors import LoadError, UsageError
from trimtab.records import Endpoint
from trimtab.workload.generated_workload import GeneratedWorkload
from trimtab.workload.ycsb import YcsbWorkload, rows
from trimtab.workload.ycsb.settings import CORE, parse_settings


def test_core_workloads_are_those_of_ycsb() -> None:
    shares = {name: dict(core.proportions) for name, core in CORE.items()}
    assert shares == {
        "A": {"read": 0.5, "update": 0.5},
        "B": {"read": 0.95, "update": 0.05},
        "C": {"read": 1.0},
        "D": {"read": 0.95, "insert": 0.05},
        "E": {"scan": 0.95, "insert": 0.05},
        "F": {"read": 0.5, "read_modify_write": 0.5},
    }
    assert [name for name, core in CORE.items() if core.distribution == "latest"] == ["D"]


@pytest.mark.parametrize("name", ["a", "A"])
def test_a_core_workload_by_its_letter(name: str) -> None:
    settings = parse_settings({"kind": "ycsb", "workload": name})
    assert (settings.name, settings.records, settings.fields, settings.field_length) == ("A", 100_000, 10, 100)
    assert settings.read_share == 0.5
    assert not settings.is_read_only
    assert parse_settings({"workload": "c"}).is_read_only


def test_hot_records_belong_to_the_hotspot() -> None:
    settings = parse_settings({"workload": "a", "distribution": "hotspot", "hot_data": 0.1, "hot_operations": 0.9})
    assert (settings.hot_data, settings.hot_operations) == (0.1, 0.9)


def test_own_shares_replace_those_of_the_core_workload() -> None:
    settings = parse_settings({"workload": "a", "read": 0.9, "scan": 0.1})
    assert settings.name == "custom"
    assert settings.proportions == {"read": 0.9, "scan": 0.1}
    assert settings.is_read_only


def test_data_of_another_shape_has_another_database() -> None:
    names = {
        parse_settings({"workload": "a", "records": 1000} | more).database
        for more in ({}, {"fields": 5}, {"field_lengths": "uniform"}, {"insert_order": "ordered"}, {"zero_padding": 12})
    }
    assert "trimtab_ycsb_1000" in names
    assert len(names) == 5
    assert parse_settings({"workload": "a", "database": "mine"}).database == "mine"


def test_the_context_tells_the_mix() -> None:
    context = YcsbWorkload.from_settings({"workload": "b", "records": 5000, "load": {"users": 3, "rate": 100}}).context
    assert (context.workload, context.clients, context.read_share) == ("ycsb B 5000 records", 3, 0.95)
    assert context.features == {"share_read": 0.95, "share_update": 0.05, "records": 5000.0, "rate_per_s": 100.0}
    own = YcsbWorkload.from_settings({"read": 0.75, "update": 0.25}).context
    assert own.workload == "ycsb 0.75 read+0.25 update 100000 records"


def test_only_writing_workloads_run_on_a_copy() -> None:
    def runs_on(**settings: Any) -> str:
        return YcsbWorkload.from_settings({"records": 10} | settings).database.name

    assert runs_on(workload="c") == "trimtab_ycsb_10"
    assert runs_on(workload="a") == "trimtab_ycsb_10_run"
    assert runs_on(workload="a", start_state="none") == "trimtab_ycsb_10"
    assert runs_on(workload="c", start_state="template") == "trimtab_ycsb_10_run"


def test_a_rate_from_outside_opens_the_loop() -> None:
    workload = YcsbWorkload.from_settings({"workload": "c", "load": {"users": 4, "think": "1s"}})
    assert workload.with_rate(500.0).settings.load.rate_per_s == 500.0
    assert not workload.settings.load.is_open
    with pytest.raises(UsageError, match="rate="):
        workload.with_rate(1e9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "names no workload"),
        ({"workload": "g"}, "workload='g' is not known"),
        ({"workload": 7}, "workload=7 is not known"),
        ({"workload": "a", "recrods": 5}, r"unknown key in \[workload\]: recrods=5"),
        ({"read": 0.5, "update": 0.4}, r"sum to 0\.9: read 0\.5 \+ update 0\.4"),
        ({"workload": "a", "read": 0.5}, r"sum to 0\.5"),
        ({"read": 1.5}, "read=1.5 is out of range"),
        ({"workload": "a", "records": 0}, "records=0 is out of range"),
        ({"workload": "a", "records": 1e6}, "records=1000000.0 is out of range"),
        ({"workload": "a", "distribution": "normal"}, "distribution='normal' is not known"),
        ({"workload": "a", "field_length": -1}, "field_length=-1 is out of range"),
        ({"workload": "a", "validate": "yes"}, "validate='yes' is not a flag"),
        ({"workload": "a", "database": "a b"}, "database='a b' is not a database name"),
        ({"workload": "a", "start_state": "magic"}, "start_state='magic' is not known"),
        ({"workload": "a", "operation_timeout": "0s"}, "operation_timeout='0s' is not a duration"),
        ({"workload": "a", "hot_data": 0.1}, r'hot_data=0\.1 has no meaning with distribution="zipfian"'),
        ({"workload": "d", "hot_operations": 0.9}, r'hot_operations=0\.9 has no meaning with distribution="latest"'),
        ({"workload": "a", "load": {"users": 0}}, "users=0 is out of range"),
        ({"workload": "a", "load": {"rate": 1e9}}, "rate="),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_settings(settings)


@pytest.mark.parametrize(
    ("table", "protocol", "is_refused"),
    [
        ({"workload": "D", "start_state": "none"}, "postgresql", True),
        ({"workload": "E", "start_state": "none"}, "mongodb", True),
        ({"workload": "D", "start_state": "none"}, "cql", False),
        ({"workload": "A", "start_state": "none"}, "mysql", False),
        ({"workload": "D"}, "mysql", False),
    ],
)
def test_runs_that_insert_need_fresh_data(
    monkeypatch: pytest.MonkeyPatch, table: dict[str, str], protocol: str, is_refused: bool
) -> None:
    monkeypatch.setattr(GeneratedWorkload, "prepare", lambda *_: "prepared")
    workload = YcsbWorkload.from_settings({"kind": "ycsb", **table})
    endpoint = Endpoint(protocol=protocol, host="localhost", port=1, user="u", database="d")
    if not is_refused:
        assert workload.prepare(endpoint, print) == "prepared"
        return
    with pytest.raises(UsageError, match=rf"start_state='none' with inserts on {protocol}: ") as caught:
        workload.prepare(endpoint, print)
    assert caught.value.hint is not None
    assert "without inserts" in caught.value.hint


class _Packets:
    """A store whose server takes packets of so many bytes."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes

    def connect(self) -> _Packets:
        return self

    def __enter__(self) -> _Packets:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, statement: str) -> list[tuple[int]]:
        assert statement == "SELECT @@max_allowed_packet"
        return [(self.n_bytes,)]


def _there(protocol: str) -> Endpoint:
    return Endpoint(protocol=protocol, host="db", port=1, user="u", database="d")


@pytest.mark.parametrize(
    ("protocol", "packet", "shape", "n_rows"),
    [
        ("postgresql", 0, {}, 50),
        ("postgresql", 0, {"batch": 1000}, 1000),
        ("postgresql", 0, {"batch": 1000, "fields": 100, "field_length": 10}, 648),
        ("postgresql", 0, {"fields": 500, "field_length": 100_000}, 1),
        ("cql", 0, {"batch": 1000}, 1),
        ("mongodb", 0, {"field_length": 100_000}, 4),
        ("wiredtiger", 0, {"batch": 1000, "fields": 100}, 352),
        ("mysql", 1 << 26, {"field_length": 100_000}, 4),
        ("mysql", 1 << 20, {"batch": 1000}, 718),
        ("mysql", 1 << 20, {"fields": 1, "field_length": 100_000}, 10),
    ],
)
def test_an_insert_has_as_many_rows_as_the_server_takes(
    monkeypatch: pytest.MonkeyPatch, protocol: str, packet: int, shape: dict[str, int], n_rows: int
) -> None:
    monkeypatch.setattr(rows, "store_of", lambda there: _Packets(packet))
    assert rows._batch(_there(protocol), parse_settings({"workload": "a", **shape})) == n_rows


@pytest.mark.parametrize(
    ("protocol", "packet", "shape", "remedy"),
    [
        ("mongodb", 0, {"fields": 168, "field_length": 100_000}, "use fewer fields, or shorter ones"),
        ("mysql", 1 << 26, {"fields": 168, "field_length": 100_000}, "use fewer fields, or shorter ones"),
        ("mysql", 1 << 20, {"fields": 11, "field_length": 100_000}, "or raise max_allowed_packet"),
    ],
)
def test_records_that_no_insert_can_hold_are_refused(
    monkeypatch: pytest.MonkeyPatch, protocol: str, packet: int, shape: dict[str, int], remedy: str
) -> None:
    monkeypatch.setattr(rows, "store_of", lambda there: _Packets(packet))
    with pytest.raises(LoadError, match=rf"fields={shape['fields']} field_length=100000: a record has") as caught:
        rows._batch(_there(protocol), parse_settings({"workload": "a", **shape}))
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(remedy)
