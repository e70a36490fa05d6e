"""The PostgreSQL driver's own tests, in Rust, against real servers that are started here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.conftest import Server
from tests.needs import require
from tests.servers import made
from tests.servers.postgresql import DEBIAN, started
from trimtab.systems.account import server_account

pytestmark = [pytest.mark.service, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[2]
HBA = """
local all all trust
host all postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
"""


def cargo_test(*names: str, **variables: str) -> str:
    """What `cargo test` says about the driver's tests with these names; all of them without any."""
    require("cargo")
    command = ["cargo", "test", "--quiet", "--workspace", "--test", "postgresql*", "--", "--nocapture"]
    done = subprocess.run(
        [*command, *names], cwd=REPOSITORY, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def tls_server() -> Iterator[tuple[int, Path]]:
    """Port and certificate of a server of Debian's: the one of the wheel is built without TLS."""
    require("root", "openssl", "postgresql-debian")
    with made("tls") as home:
        key, certificate = home / "key.pem", home / "certificate.pem"
        self_signed = [
            "openssl",
            "req",
            "-new",
            "-x509",
            "-nodes",
            "-days",
            "2",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ]
        for_host = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        no_authority = ["-addext", "basicConstraints=CA:FALSE"]
        subprocess.run([*self_signed, *for_host, *no_authority], check=True, capture_output=True)
        account = server_account()
        for path in (key, certificate):
            os.chown(path, account.uid, account.gid)
        key.chmod(0o600)
        settings = f"fsync = off\nssl = on\nssl_key_file = '{key}'\nssl_cert_file = '{certificate}'\n"
        with started(DEBIAN, settings=settings, hba=HBA) as mine:
            yield mine.port, certificate


@pytest.mark.full
def test_the_driver_against_postgresql_18(server: Server) -> None:
    said = cargo_test("--skip", "tls", TRIMTAB_TEST_POSTGRES=f"{server.socket_dir}:{server.port}")
    assert "skipped" not in said


def test_the_driver_under_tls(tls_server: tuple[int, Path], server: Server) -> None:
    port, certificate = tls_server
    said = cargo_test(
        "tls",
        TRIMTAB_TEST_POSTGRES=f"{server.socket_dir}:{server.port}",
        TRIMTAB_TEST_POSTGRES_TLS=f"127.0.0.1:{port}",
        TRIMTAB_TEST_POSTGRES_ROOT=str(certificate),
    )
    assert "skipped" not in said
