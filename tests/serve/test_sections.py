"""What a tuning section inside a program has learnt is kept as a study; a program without a server works as ever."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.sections.conftest import LIBRARY, SANITIZED
from tests.serve.asking import TOKEN, Api
from tests.serve.test_server import CLIENT, Serving
from trimtab.client import Server
from trimtab.errors import HistoryError
from trimtab.history import History, StudyCopy, import_file, load_format
from trimtab.serve.bodies import SectionBody, read_body
from trimtab.serve.studies import _keep_section

SECTION = {
    "kind": "trimtab section", "schema_version": 1, "section": "sort/merge", "phase": "settled", "runs": 900, "probes": 12,
    "defaults": {"cutoff": 2, "way": 0}, "values": {"cutoff": 16, "way": 3}, "choices": ["way"], "default_ns": 96.5,
    "gain": 1.25, "gain_low": 1.2, "gain_high": 1.3, "account_s": {"total": 1.5},
}  # fmt: skip
NOTHING = {**SECTION, "values": SECTION["defaults"], "gain": 1, "gain_low": 1, "gain_high": 1}


def check_kept(history: History, name: str = "section sort_merge") -> None:
    record = history.find_study(name)
    assert record is not None
    before, after = history.trials(record.id)
    assert (before.config, dict(after.config)) == (record.baseline, {"cutoff": 16, "way": "3"})
    assert before.measurement is not None
    assert before.measurement.figure is not None
    assert (record.objective, before.measurement.figure.estimate) == ("cost", 96.5)
    assert after.loss == pytest.approx(-math.log(1.25))


def test_what_a_section_learnt_is_a_study_of_the_history(api: Api) -> None:
    began = time.time()
    assert api.post("/api/v1/sections", SECTION).json() == {"kept_as": "section sort_merge"}
    check_kept(api.hub.sessions.history)
    (row,) = api.get("/api/v1/studies").json()["studies"]
    assert began <= row["created_at"] <= time.time()
    shown = api.get(f"/api/v1/studies/{row['id']}").json()
    assert (shown["baseline"], shown["best"]) == ({"cutoff": 2, "way": "0"}, {"cutoff": 16, "way": "3"})
    assert api.get(f"/api/v1/studies/{row['id']}/report").status_code == 200
    assert api.post("/api/v1/sections", SECTION).json() == {"kept_as": "section sort_merge-2"}
    assert api.get("/api/v1/sessions").json() == {"sessions": []}


def test_sections_of_processes_that_end_at_once_have_names_of_their_own(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, both = History.add_copies, threading.Barrier(2)

    def late(history: History, copies: Iterable[StudyCopy]) -> list[int]:
        chosen = list(copies)
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return add(history, chosen)

    monkeypatch.setattr(History, "add_copies", late)
    body = read_body(SectionBody, json.dumps(SECTION).encode())

    async def keep() -> list[Any]:
        request: Any = None
        return list(await asyncio.gather(*(_keep_section(api.hub, request, body) for _ in range(2))))

    assert asyncio.run(keep()) == [{"kept_as": "section sort_merge"}, {"kept_as": "section sort_merge-2"}]


def test_a_section_that_has_proven_nothing_is_not_kept(api: Api) -> None:
    for body in (NOTHING, {**SECTION, "default_ns": 0}):
        assert api.post("/api/v1/sections", body).json() == {"kept_as": None}
    assert api.get("/api/v1/studies").json() == {"studies": []}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kind": "trimtab sections"}, "kind: Input should be 'trimtab section'"),
        ({"schema_version": 2}, "schema_version: Input should be 1"),
        ({"section": "a\u001b[2J"}, "section: String should match pattern"),
        ({"section": "a\u202eb"}, "invalid study name"),
        ({"gain": 0}, "gain: Input should be greater than 0"),
        ({"values": {"cutoff": "16"}}, "values.cutoff: Input should be a valid integer"),
        ({"values": {"cutoff": 16}}, "its defaults and its values have other names"),
        ({"values": {}}, "values: Dictionary should have at least 1 item"),
        ({"values": {"cutoff": 2**70, "way": 3}}, "a section cannot be read: "),
        ({"defaults": {" ": 1}, "values": {" ": 2}}, "is not a word"),
    ],
)
def test_what_is_no_section_is_refused_and_nothing_is_kept(api: Api, changed: dict[str, Any], said: str) -> None:
    refused = api.post("/api/v1/sections", {**SECTION, **changed})
    assert refused.status_code == 422, refused.text
    assert said in refused.json()["detail"]
    assert refused.json()["hint"]
    assert api.get("/api/v1/studies").json() == {"studies": []}


def test_a_file_of_a_section_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "sort.json"
    with History.open(tmp_path / "history.db") as history:
        path.write_text(json.dumps(SECTION))
        assert import_file(history, load_format(None, str(path)), str(path)).studies[0].kept_as == "section sort_merge"
        check_kept(history)
        path.write_text(json.dumps(NOTHING))
        found = import_file(history, load_format("sections", str(path)), str(path))
        assert (found.studies, found.notes) == (
            (),
            ("sections: left out was a section for which no values were found",),
        )
        path.write_text(json.dumps({**SECTION, "gain": "fast"}))
        with pytest.raises(HistoryError, match="a section cannot be read: ValueError"):
            import_file(history, load_format("sections", str(path)), str(path))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client and the library in one program, with sanitizers."""
    folder = tmp_path_factory.mktemp("program")
    sources = [
        *(CLIENT / f"{name}.c" for name in ("trimtab", "request", "values", "json")),
        *LIBRARY.glob("trimtab_*.c"),
    ]
    argv = ["cc", "-std=c99", "-g", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", *SANITIZED]
    words = [f"-I{CLIENT}", f"-I{LIBRARY}", Path(__file__).with_name("section.c"), *sources, "-lcurl", "-lm"]
    done = subprocess.run([*argv, *words, "-o", folder / "section"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "section"


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.needs("c-compiler", "libcurl")
def test_a_program_reports_to_a_server_when_there_is_one(program: Path, tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    try:
        known, said = told(program, serving.env, tmp_path / "work.json")
        assert (known["values"], said) == ({"batch size": 6, "way": 3}, ["kept"])
        with Server(serving.url, TOKEN) as server:
            (row,) = server.request("GET", "/studies")["studies"]
        assert row["name"] == "section work"
        failed = subprocess.run([program, "--fail"], env=serving.env, capture_output=True, text=True, timeout=60)
        assert (failed.returncode, failed.stdout, failed.stderr) == (0, "", "")
        _, said = told(program, {**serving.env, "TRIMTAB_TOKEN": "x" * 20})
        assert said == ["the request bears no token, or a wrong one", "hint: send `Authorization: Bearer TOKEN`"]
    finally:
        serving.end()
    began = time.monotonic()
    alone, said = told(program, serving.env)
    assert (alone, said[1]) == (known, "hint: is `trimtab serve` running there? TRIMTAB_SERVER says where")
    assert time.monotonic() - began < 5, "it is not tried again"
    path = str(tmp_path / "work.json")
    with History.open(tmp_path / "state" / "history.db") as history:
        assert import_file(history, load_format(None, path), path).studies[0].kept_as == "section work-2"
        record = history.find_study("failing")
        assert record is not None
        assert history.trials(record.id)[0].reason == "caf?" + "x" * 3996
    argv = [sys.executable, "-m", "trimtab", "report", "section work", "--state", str(tmp_path / "state")]
    done = subprocess.run(argv, cwd=tmp_path, env=serving.env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def told(program: Path, env: dict[str, str], *words: Path) -> tuple[dict[str, Any], list[str]]:
    """What the program learnt, and what became of its report."""
    done = subprocess.run([program, *words], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    known, *said = done.stdout.splitlines()
    return json.loads(known), said
