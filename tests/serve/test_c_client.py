"""The C client where no server answers, and its example when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.serve.asking import TOKEN
from tests.serve.test_server import CLIENT, Serving, client_programs
from trimtab.client import Server

pytestmark = pytest.mark.needs("c-compiler", "libcurl")


def test_what_it_sends_and_how_long_it_tries(tmp_path: Path) -> None:
    """With a network and a clock that are played: a server that does not answer is given up after two minutes, not after 40."""
    program = tmp_path / "test_request"
    made = subprocess.run(
        ["make", "-s", "-C", CLIENT, f"OUT={tmp_path}", "CFLAGS=-O0", program], capture_output=True, text=True
    )
    assert (made.returncode, made.stderr) == (0, "")
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


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
