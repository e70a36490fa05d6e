"""Where generators run, how they share a load, and how their seconds add up."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from io import BytesIO
from typing import Any

import pytest

from trimtab.errors import LoadError, UsageError
from trimtab.load import Part, read_message, write_message
from trimtab.records import Endpoint
from trimtab.workload.load_model import LoadModel
from trimtab.workload.remote import start
from trimtab.workload.remote.place import Place
from trimtab.workload.remote.run import merge_frames
from trimtab.workload.remote.start import parts_of, start_remote
from trimtab.workload.ycsb import YcsbWorkload


def test_places_become_commands() -> None:
    assert Place.parse("local").argv == [sys.executable, "-m", "trimtab.load"]
    place = Place.parse("ssh://load@gen1.example:2222?python=/opt/trimtab/bin/python")
    argv = place.argv
    assert argv[:2] == ["ssh", "-T"]
    assert argv[argv.index("-p") :] == [
        "-p",
        "2222",
        "--",
        "load@gen1.example",
        "/opt/trimtab/bin/python",
        "-m",
        "trimtab.load",
    ]
    assert Place.parse("ssh://gen1").argv[-5:] == ["--", "gen1", "python3", "-m", "trimtab.load"]
    assert str(place) == place.text


def test_places_where_a_generator_listens() -> None:
    place = Place.parse("tcp://gen1:7800")
    assert (place.host, place.port, place.is_listening, str(place)) == ("gen1", 7800, True, "tcp://gen1:7800")
    assert Place.parse("tcp://[::1]:7800").host == "::1"


@pytest.mark.parametrize(
    ("text", "host"),
    [("tcp://LoadGen1:7800", "LoadGen1"), ("tcp://[FE80::1]:7800", "FE80::1"), ("ssh://me@LoadGen1:22", "LoadGen1")],
)
def test_the_name_of_a_place_stays_as_it_is_written(text: str, host: str) -> None:
    """In ssh's own configuration LoadGen1 is another name than loadgen1."""
    assert Place.parse(text).host == host


@pytest.mark.parametrize(
    "text",
    ["", "gen1", "ssh://", "ssh://-oProxyCommand=x", "ssh://gen1/data", "ssh://gen1?python=a;b", "ssh://gen1?x=1",
     "ssh://gen1:port", "tcp://gen1", "tcp://u@gen1:99", "tcp://gen1:99/x", "tcp://gen1:99?python=x", 7, "ssh://gen1?python"],
)  # fmt: skip
def test_what_names_no_place_is_refused(text: object) -> None:
    with pytest.raises(UsageError) as caught:
        Place.parse(text)
    assert caught.value.message == f"[workload.load] from={text!r} names no place for a load generator"
    assert caught.value.hint is not None
    assert caught.value.hint.startswith('use "local" (a separate process on this machine), "ssh://')


def test_a_password_in_a_place_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError, match="names no place for a load generator") as caught:
        Place.parse("ssh://load:sesame@gen1")
    assert "sesame" not in str(caught.value)


def test_from_in_a_study_file() -> None:
    model = LoadModel.from_settings({"users": 4, "from": ["local", "ssh://gen1"]})
    assert [place.host for place in model.generators] == ["", "gen1"]
    assert LoadModel.from_settings({}).generators == ()
    with pytest.raises(UsageError, match=r"\[workload.load\] from='local' is not a list\nhint: for example: from ="):
        LoadModel.from_settings({"from": "local"})
    with pytest.raises(UsageError, match=r"users=1 cannot be shared among 2 generators\nhint: use more users"):
        LoadModel.from_settings({"users": 1, "from": ["local", "local"]})


def test_records_are_inserted_by_one_generator() -> None:
    settings: dict[str, Any] = {"workload": "D", "load": {"users": 4, "from": ["local", "ssh://gen1"]}}
    with pytest.raises(
        UsageError, match=r"from=local, ssh://gen1: a YCSB workload that inserts records takes one generator"
    ):
        YcsbWorkload.from_settings(settings)
    assert YcsbWorkload.from_settings(settings | {"workload": "C"}).settings.load.users == 4


def test_a_walk_through_all_records_is_one_generators() -> None:
    walk: dict[str, Any] = {
        "workload": "C",
        "distribution": "sequential",
        "load": {"users": 4, "from": ["local", "local"]},
    }
    with pytest.raises(
        UsageError, match=r'a YCSB workload with distribution="sequential" takes one generator'
    ) as caught:
        YcsbWorkload.from_settings(walk)
    assert caught.value.hint == "use one place in `from`, or another distribution"
    assert YcsbWorkload.from_settings(walk | {"load": {"users": 4, "from": ["local"]}}).settings.load.users == 4


def test_threads_are_numbered_through_all_generators() -> None:
    assert parts_of(16, [2, 1, 3]) == [Part(2, 0, 6), Part(1, 2, 6), Part(3, 3, 6)]
    assert parts_of(3, [8, 1]) == [Part(2, 0, 3), Part(1, 2, 3)]


def test_a_machine_that_cannot_reach_the_target_is_refused() -> None:
    there = Endpoint(protocol="postgresql", host="127.0.0.1", port=5432, user="u", database="d")
    message = (
        r"from=ssh://gen1 cannot reach endpoint=postgresql://u@127.0.0.1:5432/d: host=127.0.0.1 is this machine's alone"
    )
    with pytest.raises(LoadError, match=message + r"\nhint: give the target's url a host"):
        start_remote(None, [Place.parse("ssh://gen1")], threads=lambda cores: 1, endpoint=there, is_open=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "words", "hint"),
    [
        ("plan", "tls: /home/me/root.crt: No such file", "a generator reads certificates and keys on its own machine"),
        ("plan", "statement 1: 42P01 no such table", "try the statements by hand on this database"),
        ("connect", "user 3 could not connect", "check that the server runs"),
        ("system", "Cannot allocate memory", "see the limits of this process"),
    ],
)
def test_what_keeps_a_generator_from_its_part_is_told(kind: str, words: str, hint: str) -> None:
    there = Endpoint(protocol="postgresql", host="db", port=5432, user="u", database="d")
    answer = {"is": "error", "kind": kind, "text": words}
    error = start._refusal(Place.parse("ssh://gen1"), answer, there, 8)
    assert f"from=ssh://gen1: {words}" in error.message
    assert str(error.hint).startswith(hint)


def second(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "second": 3, "n_ok": 4, "n_error": 1, "n_timed_out": 2, "n_shed": 3, "credited": 4.5, "backlog": 6, "client_cpu_s": 0.25,
        "wait_s": 0.125, "steal_s": 0.25, "response": [[100, 3], [900, 1]], "lateness": [], "wakeup": [[50, 10]],
    }  # fmt: skip
    return values | changes


def test_seconds_of_generators_add_up_and_their_percentiles_are_those_of_all() -> None:
    other = second(response=[[100, 1], [200, 94], [5000, 1]], wait_s=0.5, lateness=[[7, 1]], wakeup=[[60, 90]])
    frame = merge_frames([second(), other], hosts=["gen1", "gen2"], is_open=True)
    assert (frame.second, frame.n_ok, frame.n_error, frame.n_timed_out, frame.n_shed) == (3, 8, 2, 4, 6)
    assert (frame.credited, frame.backlog, frame.client_cpu_s, frame.wait_s, frame.is_open) == (9.0, 12, 0.5, 0.5, True)
    assert frame.steal_s == 0.5
    assert (frame.response_p50_us, frame.response_p95_us, frame.response_p99_us) == (200, 200, 900)
    assert (frame.lateness_p99_us, frame.wakeup_p99_us) == (7, 60)
    unknown = merge_frames([second(wait_s=None, response=[])], hosts=[""], is_open=False)
    assert (unknown.wait_s, unknown.response_p50_us) == (None, 0)
    same = merge_frames(
        [second(), second(steal_s=0.5), second(steal_s=0.125)], hosts=["gen1", "gen1", "gen2"], is_open=True
    )
    assert same.steal_s == 0.625, "of one machine once"


def test_messages() -> None:
    stream = BytesIO()
    write_message(stream, {"is": "log", "n": 1.5}, b"\0\1")
    write_message(stream, {"do": "stop"})
    whole = stream.getvalue()
    stream.seek(0)
    assert read_message(stream) == ({"is": "log", "n": 1.5}, b"\0\1")
    assert read_message(stream) == ({"do": "stop"}, b"")
    assert read_message(stream) is None
    for length in range(len(whole) - 22):
        assert read_message(BytesIO(whole[:length])) is None
    for nonsense in (b"Last login: Mon Nov 23", b"\0\0\0\2\0\0\0\0[]", b"\0\0\0\2\0\0\0\0{}"):
        with pytest.raises(ValueError, match="message"):
            read_message(BytesIO(nonsense))


class Stuck:
    """A server with a session that waits for a disk, and cannot be ended."""

    def connect(self) -> AbstractContextManager[None]:
        return nullcontext()

    def end_sessions(self, session: None, application: str) -> int:
        return 1


def test_a_session_that_does_not_end_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "store_of", lambda endpoint: Stuck())
    monkeypatch.setattr(start, "_END_S", 0.1)
    start._end_sessions(Endpoint(protocol="postgresql", host="h", port=1, user="u", database="d"), "trimtab load 1")
