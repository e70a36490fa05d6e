"""The C client where no server answers, and its example when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.serve.asking import TOKEN
from tests.serve.test_server import CLIENT, Serving, client_programs
from trimtab.client import Server

pytestmark = pytest.mark.needs("c-compiler", "libcurl")


NUMERIC = 'LC_NUMERIC\ndecimal_point "<U066B>"\nthousands_sep ""\ngrouping -1\nEND LC_NUMERIC\n'


def test_what_it_sends_and_how_long_it_tries(tmp_path: Path) -> None:
    """With a network and a clock that are played: a server that does not answer is given up after two minutes, not after 40.

    And so in a program whose locale has a point of two bytes between the digits, as that of Afghanistan.
    """
    program = tmp_path / "test_request"
    made = subprocess.run(
        ["make", "-s", "-C", CLIENT, f"OUT={tmp_path}", "CFLAGS=-O0", program], capture_output=True, text=True
    )
    assert (made.returncode, made.stderr) == (0, "")
    (tmp_path / "numeric").write_text(NUMERIC)
    words = ["localedef", "-c", "--no-archive", "-f", "UTF-8", "-i", str(tmp_path / "numeric"), str(tmp_path / "xx_XX")]
    subprocess.run(words, capture_output=True, check=False, timeout=60)  # it warns of what is not defined
    for more in ([], ["xx_XX"]):
        env = {**os.environ, "LOCPATH": str(tmp_path)}
        done = subprocess.run([program, *more], env=env, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


class Refusing(BaseHTTPRequestHandler):
    """A server that takes nobody in."""

    def do_POST(self) -> None:
        """As `trimtab serve` does where the token is wrong."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b'{"status": 401, "detail": "a wrong token"}')

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing."""


def test_the_example_leaves_a_postgresql_alone_that_it_has_not_changed(tmp_path: Path) -> None:
    """It would take back what the administrator has set by ALTER SYSTEM."""
    psql = tmp_path / "psql"
    psql.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n')
    psql.chmod(0o755)
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        env = {**os.environ, "PSQL": str(psql), "TRIMTAB_SERVER": f"http://127.0.0.1:{server.server_port}"}
        done = subprocess.run(
            [client_programs() / "postgresql", "my query"], env=env, capture_output=True, text=True, timeout=60
        )
        server.shutdown()
    assert (done.returncode, done.stderr) == (1, "error: a wrong token\n")
    assert not (tmp_path / "asked").exists()


@pytest.mark.service
@pytest.mark.slow
def test_the_example_does_not_blame_a_config_for_ctrl_c(tmp_path: Path) -> None:
    """Ctrl-C ends psql as well: as a crash of the baseline it would end the session for good."""
    psql = tmp_path / "psql"
    psql.write_text(f'#!/bin/sh\ncase "$*" in *"my query"*) echo > {tmp_path}/runs; exec sleep 600;; esac\n')
    psql.chmod(0o755)
    serving = Serving(tmp_path)
    try:
        client = subprocess.Popen(
            [client_programs() / "postgresql", "my query"], env={**serving.env, "PSQL": str(psql)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        until = time.monotonic() + 60
        while not (tmp_path / "runs").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        os.killpg(client.pid, signal.SIGINT)
        printed, said = client.communicate(timeout=60)
        assert (client.returncode, said) == (0, "")
        assert "work_mem = 4096kB" in printed
        with Server(serving.url, TOKEN) as server:
            found = server.request("GET", "/sessions/postgresql")
        assert (found["state"], found["n_trials"], found["clients"]) == ("running", 0, [])
    finally:
        serving.end()
