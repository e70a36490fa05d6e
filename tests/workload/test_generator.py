"""The data generator: rows for COPY from files and from a stream, and what happens when it is missing or fails."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import LoadError
from trimtab.workload.cache import cache_directory
from trimtab.workload.tpch import generator
from trimtab.workload.tpch.marker import FORMAT_VERSION, Marker
from trimtab.workload.tpch.prepare import _load_tables
from trimtab.workload.tpch.schema import TABLES

pytestmark = pytest.mark.slow  # each start of the generator takes a second of CPU, at any scale


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test's own."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_files_and_streams_give_the_same_rows(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    with generator.generated(0.01) as rows:
        from_files = {table.name: b"".join(rows(table.name)) for table in TABLES}
        assert list(cache.iterdir())
        monkeypatch.setattr(generator, "_CHUNK_BYTES", 1000)
        chunks = list(rows("supplier"))
        assert len(chunks) > 10
        assert all(chunk.endswith(b"\n") or not chunk for chunk in chunks), "chunks hold whole lines"
        assert b"".join(chunks) == from_files["supplier"]
    assert list(cache.iterdir()) == []
    assert from_files["supplier"].count(b"\n") == 100
    monkeypatch.setattr(generator, "LARGEST_SCALE_IN_FILES", 0.0)
    with generator.generated(0.01) as rows:
        assert not list(cache.iterdir())
        for name in ("lineitem", "nation"):
            assert b"".join(rows(name)) == from_files[name]
    assert from_files["nation"].startswith(b"0|ALGERIA|0|")
    assert {name: data.count(b"|\n") for name, data in from_files.items()} == dict.fromkeys(from_files, 0)


def _stub(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """A generator that does nothing but this."""
    stub = folder / "tpchgen-cli"
    stub.write_text(f"#!/bin/sh\n{script}\n")
    stub.chmod(0o755)
    monkeypatch.setattr(generator, "find_generator", lambda: stub)


def test_files_of_killed_processes_are_swept_and_others_kept(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stub(monkeypatch, tmp_path, "exit 0")
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    host = socket.gethostname()
    kept = [f"tpch-{host}-{os.getpid()}-a", f"tpch-elsewhere-{ended.pid}-a", "tpch-mine", f"tpch-{host}-x-y"]
    for name in [*kept, f"tpch-{host}-{ended.pid}-abc"]:
        (cache / name).mkdir(parents=True)
        (cache / name / "region.tbl").touch()
    with generator.generated(0.01):
        pass
    assert sorted(path.name for path in cache.iterdir()) == sorted(kept)


@pytest.mark.parametrize("scale", [0.015, pytest.param(0.29, marks=pytest.mark.full)])
def test_fractional_scales_have_the_expected_rows(monkeypatch: pytest.MonkeyPatch, scale: float) -> None:
    monkeypatch.setattr(generator, "LARGEST_SCALE_IN_FILES", 0.0)  # makes no table but the one that is read
    suppliers = next(table for table in TABLES if table.name == "supplier")
    with generator.generated(scale) as rows:
        n_rows = b"".join(rows("supplier")).count(b"\n")
    assert n_rows == suppliers.expected_rows(scale)


def test_a_stream_that_is_left_early_ends_its_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "LARGEST_SCALE_IN_FILES", 0.0)
    with generator.generated(0.1) as rows:
        stream = rows("lineitem")
        assert next(stream).startswith(b"1|15519|")
        stream.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("largest", [0.0, 1.0])
def test_a_failing_generator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, largest: float) -> None:
    _stub(monkeypatch, tmp_path, "echo 'no such luck' >&2\nexit 3")
    monkeypatch.setattr(generator, "LARGEST_SCALE_IN_FILES", largest)
    with (
        pytest.raises(LoadError, match=r"the TPC-H data generator failed: scale=0\.01: no such luck"),
        generator.generated(0.01) as rows,
    ):
        list(rows("nation"))


def test_a_missing_generator_names_the_install_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LoadError) as caught:
        generator.find_generator()
    assert caught.value.message == "the TPC-H data generator was not found: program=tpchgen-cli"
    assert caught.value.hint == "pip install 'trimtab[tpch]'"


def test_the_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRIMTAB_CACHE")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "trimtab"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(LoadError, match="the cache directory cannot be made: cache=") as caught:
        cache_directory()
    assert caught.value.hint == "set TRIMTAB_CACHE to a directory that you may write to"


@pytest.mark.parametrize("largest", [0.0, 1.0])
def test_ctrl_c_in_the_terminal_is_not_for_the_generator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, largest: float
) -> None:
    """It has a session of its own: the terminal reaches the processes of its foreground group, and we kill it then."""
    program = tmp_path / "tpchgen-cli"
    program.write_text(f'#!/bin/sh\nps -o sid= -p $$ > "{tmp_path}/session"\n')
    program.chmod(0o755)
    monkeypatch.setattr(generator, "find_generator", lambda: program)
    monkeypatch.setattr(generator, "LARGEST_SCALE_IN_FILES", largest)
    with generator.generated(0.01) as rows:
        if not largest:
            assert list(rows("nation")) == []
    assert int((tmp_path / "session").read_text()) != os.getsid(0)


class Filling:
    """A server that takes rows for as long as some come."""

    def connect(self, database: str) -> Any:
        return nullcontext(self)

    def fill_table(self, session: object, table: str, columns: str, key: object, rows: Iterator[bytes]) -> int:
        return sum(1 for _ in rows)


def test_ctrl_c_is_heard_while_the_loaders_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest table comes first, and takes longest."""
    began, submit, longest_s = threading.Event(), ThreadPoolExecutor.submit, 20.0

    def rows(table: str) -> Iterator[bytes]:
        until = time.monotonic() + longest_s
        while time.monotonic() < until:
            began.set()
            yield b""
            time.sleep(0.005)

    def interrupted(pool: ThreadPoolExecutor, *arguments: Any) -> Future[Any]:
        if began.is_set():
            raise KeyboardInterrupt
        future = submit(pool, *arguments)
        assert began.wait(60.0)
        return future

    monkeypatch.setattr(generator, "generated", lambda scale: nullcontext(rows))
    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    wanted, server, started = Marker(FORMAT_VERSION, 1.0, "standard", "loading", {}), Filling(), time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _load_tables(server, "tpch", wanted, lambda line: None)  # type: ignore[arg-type]
    assert time.monotonic() - started < longest_s / 2
