"""A generator that listens on a port: who may use it, and what becomes of a load when one of both sides is gone."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from tests.servers.web import Site, site
from tests.workload.runs import counts, to_the_end
from trimtab.errors import LoadError
from trimtab.load import listen
from trimtab.load.plan import LoadPlan
from trimtab.load.serve import PASSWORD, _with_password
from trimtab.load.token import TokenError, admit, enter
from trimtab.records import Endpoint
from trimtab.workload import LoadRun
from trimtab.workload.http import HttpWorkload

TOKEN = "a token of enough characters"


@dataclass
class Listening:
    """A generator's process, and where it listens."""

    process: subprocess.Popen[str]
    port: int

    def said(self, words: str) -> str:
        """Waits for a line with these words."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if words in line:
                return line
        raise AssertionError(words)


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listening]:
    monkeypatch.setenv("TRIMTAB_LOAD_TOKEN", TOKEN)
    command = [sys.executable, "-m", "trimtab.load", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        port = int(process.stderr.readline().rpartition(" ")[2])
        yield Listening(process, port)
        process.kill()


@pytest.fixture
def web() -> Iterator[Site]:
    with site() as mine:
        yield mine


def started(web: Site, *places: str, duration_s: float = 1.0) -> LoadRun:
    load = {"users": 2, "think": "5ms", "from": list(places)}
    workload = HttpWorkload.from_settings({"kind": "http", "pages": ["/"], "load": load})
    endpoint = Endpoint(protocol="http", host="127.0.0.1", port=web.port, user="", database="")
    return workload.start(endpoint, seed=1, duration_s=duration_s)


@pytest.mark.slow
def test_a_load_over_tcp(listening: Listening, web: Site) -> None:
    place = f"tcp://127.0.0.1:{listening.port}"
    log = to_the_end(started(web, place, "local"))
    assert (log.errors, log.users, counts(log)["/"] > 0) == ((), 2, True)
    assert [text.partition(": ")[0] for text in log.generators] == [place, "local"]
    listening.said("ended with exit status 0")


@pytest.mark.slow
def test_a_generator_over_tcp_that_dies_makes_the_run_invalid(listening: Listening, web: Site) -> None:
    run = started(web, f"tcp://127.0.0.1:{listening.port}", duration_s=60.0)
    assert run.frame(30.0) is not None
    number = int(listening.said("has a generator").split()[-1])
    psutil.Process(number).send_signal(signal.SIGKILL)
    message = "ended in the middle of the run: the connection was closed"
    with pytest.raises(LoadError, match=message):
        all(run.frame(30.0) is not None for _ in range(60))
    listening.said("ended with exit status -9")
    # The next load has a process of its own.
    assert counts(to_the_end(started(web, f"tcp://127.0.0.1:{listening.port}")))["/"] > 0


@pytest.mark.slow  # in make check: test_a_generator_over_tcp_that_dies_makes_the_run_invalid
def test_a_generator_over_tcp_ends_with_who_directs_it(listening: Listening, web: Site) -> None:
    script = f"""
import time
from tests.workload.test_remote_tcp import started
class Web:
    port = {web.port}
run = started(Web, "tcp://127.0.0.1:{listening.port}", duration_s=60.0)
print("ready", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as tuner:
        assert tuner.stdout is not None
        assert tuner.stdout.readline() == "ready\n"
        tuner.kill()
    listening.said("ended with exit status")


@pytest.mark.slow
def test_who_does_not_know_the_token_is_refused(
    listening: Listening, web: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"tcp://127.0.0.1:{listening.port}"
    monkeypatch.setenv("TRIMTAB_LOAD_TOKEN", TOKEN[::-1])
    with pytest.raises(LoadError, match=f"from={place} cannot be used: its token is another") as refused:
        started(web, place)
    assert refused.value.hint == (
        f"start it there: TRIMTAB_LOAD_TOKEN=... python3 -m trimtab.load --listen 0.0.0.0:{listening.port}"
    )
    assert listening.said("was refused") == "127.0.0.1 was refused: it does not know the token\n"
    monkeypatch.setenv("TRIMTAB_LOAD_TOKEN", "short")
    with pytest.raises(LoadError, match="needs a token, and TRIMTAB_LOAD_TOKEN has 5 characters") as refused:
        started(web, place)
    assert refused.value.hint == "set TRIMTAB_LOAD_TOKEN to the same 16 or more characters here and there"
    # Whoever says nothing does not keep others from entering.
    monkeypatch.setenv("TRIMTAB_LOAD_TOKEN", TOKEN)
    with socket.create_connection(("127.0.0.1", listening.port)):
        assert counts(to_the_end(started(web, place)))["/"] > 0


def test_what_answers_there_may_be_something_else(web: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_LOAD_TOKEN", TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"tcp://127.0.0.1:{other.getsockname()[1]}"

        def greet() -> None:
            connection, _ = other.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(LoadError, match="cannot be used: what answers there is no load generator"):
            started(web, place)
        thread.join()
    with pytest.raises(LoadError, match=f"from={place} cannot be used: .*refused"):
        started(web, place)


def test_the_token_itself_is_never_sent_and_a_proof_serves_once() -> None:
    here, there = socket.socketpair()
    with here, there:
        thread = threading.Thread(target=admit, args=(there, TOKEN))
        thread.start()
        enter(here, TOKEN)
        thread.join()
    here, there = socket.socketpair()
    with here, there:
        # An impostor that repeats what it was told proves nothing.
        there.sendall(b"trimtab-load-token 00\n")
        thread = threading.Thread(target=lambda: there.sendall(there.recv(200).partition(b" ")[2]))
        thread.start()
        with pytest.raises(TokenError, match="its token is another"):
            enter(here, TOKEN)
        thread.join()


def test_a_listener_outlives_what_strangers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "_PAUSE_S", 0.0)
    monkeypatch.setattr(listen, "_MOST_STRANGERS", 2)
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    listener = listen.Listener("127.0.0.1", 0, TOKEN, said.put)
    real, failures = listener._socket, [OSError(errno.EMFILE, "Too many open files")]

    class Full:
        def accept(self) -> tuple[socket.socket, tuple[str, int]]:
            if failures:
                raise failures.pop()
            return real.accept()

    monkeypatch.setattr(listener, "_socket", Full())
    threading.Thread(target=listener.serve, daemon=True).start()
    assert said.get(timeout=60) == "a connection could not be taken: Too many open files"
    with contextlib.ExitStack() as opened:
        here = [opened.enter_context(socket.create_connection(("127.0.0.1", listener.port), 5)) for _ in range(3)]
        assert here[0].recv(100).startswith(b"trimtab-load-token ")
        assert here[2].recv(100) == b"", "there are enough of them"
        here[0].sendall(b"\xff\xfe \xff\n")
        assert said.get(timeout=60) == "127.0.0.1 was refused: it does not know the token"
        assert opened.enter_context(socket.create_connection(("127.0.0.1", listener.port), 5)).recv(100)


def test_a_machine_without_room_for_a_generator_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **options: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", full)
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    listener = listen.Listener("127.0.0.1", 0, TOKEN, said.put)
    threading.Thread(target=listener.serve, daemon=True).start()
    with socket.create_connection(("127.0.0.1", listener.port), 5) as here:
        enter(here, TOKEN)
        assert said.get(timeout=60) == "127.0.0.1 gets no generator: Resource temporarily unavailable"
        assert here.recv(1) == b"", "whoever waits learns that it is over"


def test_a_listener_takes_an_address_of_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    listener = listen.Listener("::1", 0, TOKEN, said.put)
    threading.Thread(target=listener.serve, daemon=True).start()
    with socket.create_connection(("::1", listener.port), 5) as here:
        assert here.recv(100).startswith(b"trimtab-load-token ")
        here.sendall(b"x x\n")
        assert said.get(timeout=60) == "::1 was refused: it does not know the token"


def test_who_says_a_letter_now_and_then_is_not_waited_for() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.settimeout(0.2)
        is_over = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not is_over.wait(0.02):
                    here.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(TimeoutError):
            admit(there, TOKEN)
        is_over.set()
        thread.join()


def test_the_password_comes_from_the_generators_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = LoadPlan(
        protocol="postgresql", access={"user": "u", "password": "p"}, source={}, model={}, users=1, duration_s=1.0,
        operation_timeout_s=1.0,
    )  # fmt: skip
    sent = plan.without_password()
    assert sent.access["password"] is None
    monkeypatch.delenv(PASSWORD, raising=False)
    assert _with_password(sent) is sent
    monkeypatch.setenv(PASSWORD, "q")
    assert _with_password(sent).access["password"] == "q"
    assert _with_password(plan) is plan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argument", "token", "words"),
    [
        ("7800x", TOKEN, "error: --listen='7800x' is not an address\nhint: write --listen 0.0.0.0:7800\n"),
        ("127.0.0.1:0", "x", "error: TRIMTAB_LOAD_TOKEN has 1 characters\nhint: set it to 16 or more, here and for Trimtab\n"),
        ("192.0.2.1:0", TOKEN, "error: --listen='192.0.2.1:0' is not possible: "),
    ],
)  # fmt: skip
def test_a_place_to_listen_that_cannot_be(argument: str, token: str, words: str) -> None:
    command = [sys.executable, "-m", "trimtab.load", "--listen", argument]
    environment = {**os.environ, "TRIMTAB_LOAD_TOKEN": token}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith(words)
