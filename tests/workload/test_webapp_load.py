"""Tables of a web application that are filled at once: one that is refused, or an interruption, ends the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from trimtab.errors import LoadError
from trimtab.host import is_running
from trimtab.records import Endpoint
from trimtab.workload.server import ServerError
from trimtab.workload.webapp import load

THERE = Endpoint(protocol="postgresql", host="db", port=5432, user="u", database="d")
LONGEST_S = 20.0


class Server:
    """Takes the rows of a table, once the long one is being filled; refuses the table `refused`."""

    def __init__(self) -> None:
        self.is_filling, self.has_ended = threading.Event(), threading.Event()

    def connect(self) -> Any:
        return nullcontext(self)

    def fill_table(self, session: object, table: str, columns: str, key: object, rows: Iterable[bytes]) -> int:
        if table != "long":
            assert self.is_filling.wait(5.0)
        if table == "refused":
            raise ServerError("no room")
        try:
            return sum(chunk.count(b"\n") for chunk in rows)
        finally:
            if table == "long":
                self.has_ended.set()

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        return []

    def analyse(self, session: object, tables: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """In threads in place of processes."""
    mine = Server()

    def pool(n: int, context: object, begin: object, arguments: tuple[Any, ...]) -> ThreadPoolExecutor:
        assert begin is load._begin
        monkeypatch.setattr(load, "_is_over", arguments[0])
        return ThreadPoolExecutor(n)

    monkeypatch.setattr(load, "ProcessPoolExecutor", pool)
    monkeypatch.setattr(load, "server_of", lambda there: mine)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    return mine


def table(name: str, server: Server) -> load.AppTable:
    def rows() -> Iterator[bytes]:
        until = time.monotonic() + LONGEST_S
        while name == "long" and time.monotonic() < until:
            server.is_filling.set()
            yield b"1\n"
            time.sleep(0.005)
        yield b"1\n"

    n_rows = load._WORTH_A_PROCESS if name == "long" else 1
    return load.AppTable(name=name, columns="id int", key=("id",), n_rows=n_rows, rows=rows)


def test_a_table_that_is_refused_ends_those_that_are_being_filled(server: Server) -> None:
    started = time.monotonic()
    with pytest.raises(LoadError, match="no room"):
        load.load_tables(THERE, [table("long", server), table("refused", server)], lambda line: None)
    assert server.has_ended.is_set(), "it still writes into a database that is about to be dropped"
    assert time.monotonic() - started < LONGEST_S / 2


def test_an_interruption_is_not_kept_waiting(server: Server) -> None:
    def report(line: str) -> None:
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        load.load_tables(THERE, [table("long", server), table("short", server)], report)
    assert server.has_ended.is_set()
    assert time.monotonic() - started < LONGEST_S / 2


def test_an_interruption_while_they_are_started_is_not_kept_waiting(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = ThreadPoolExecutor.submit

    def interrupted(pool: ThreadPoolExecutor, call: Any, there: Endpoint, table: load.AppTable) -> Future[Any]:
        if table.name == "short":
            assert server.is_filling.wait(5.0)
            raise KeyboardInterrupt
        return submit(pool, call, there, table)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        load.load_tables(THERE, [table("long", server), table("short", server)], lambda line: None)
    assert server.has_ended.is_set()
    assert time.monotonic() - started < LONGEST_S / 2


WAITING = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
from trimtab.workload.webapp import load
context = multiprocessing.get_context("spawn")
pool = ProcessPoolExecutor(1, context, load._begin, (context.Event(),))
print(pool.submit(os.getpid).result(), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_nothing_waits_for_ever_for_a_tuner_that_was_killed() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WAITING], stdin=pipe, stdout=pipe, text=True) as tuner:
        assert tuner.stdout is not None
        number = int(tuner.stdout.readline())
        tuner.kill()
    try:
        until = time.monotonic() + 30
        while is_running(number):
            assert time.monotonic() < until, "it waits for the next table"
            time.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
