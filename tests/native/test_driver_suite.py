"""What every driver promises, in Rust (crates/load/tests/suite), on real servers that are started here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.native.conftest import Server
from tests.needs import require
from tests.servers.mariadb import private_mariadb

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.service
@pytest.mark.slow
def test_the_promises_of_all_drivers(server: Server) -> None:
    require("cargo")
    command = ["cargo", "test", "--quiet", "--workspace", "--test", "suite", "--", "--nocapture"]
    with private_mariadb() as mariadb:
        mariadb.run("CREATE USER plain@localhost IDENTIFIED BY 'horse'; GRANT ALL ON *.* TO plain@localhost")
        servers = {
            "TRIMTAB_TEST_POSTGRES": f"{server.socket_dir}:{server.port}",
            "TRIMTAB_TEST_MYSQL": f"socket={mariadb.socket} port={mariadb.port} user=plain password=horse database=test",
        }
        done = subprocess.run(
            command, cwd=REPOSITORY, env=os.environ | servers, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout + done.stderr
