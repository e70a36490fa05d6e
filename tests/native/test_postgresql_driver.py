"""The PostgreSQL driver's own tests, in Rust, against real servers that are started here."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.conftest import Server, server_user

pytestmark = [pytest.mark.service, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[2]
HBA = """
local all all trust
host all postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
"""


def cargo_test(*names: str, **variables: str) -> str:
    """What `cargo test` says about the driver's tests with these names; all of them without any."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not on the PATH")
    command = ["cargo", "test", "--quiet", "--package", "trimtab-load", "--test", "postgresql*", "--", "--nocapture"]
    done = subprocess.run(
        [*command, *names], cwd=REPOSITORY, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def tls_server() -> Iterator[tuple[int, Path]]:
    """Port and certificate of a server of Debian's: the one of the wheel is built without TLS."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    user = server_user()
    if not programs or user is None or shutil.which("openssl") is None:
        pytest.skip("needs root, openssl and Debian's PostgreSQL")
    home = Path(tempfile.mkdtemp(prefix="trimtab-tls-"))
    key, certificate, data = home / "key.pem", home / "certificate.pem", home / "data"
    for_host = [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "basicConstraints=CA:FALSE",
    ]
    self_signed: list[str | Path] = [
        "openssl",
        "req",
        "-new",
        "-x509",
        "-nodes",
        "-days",
        "2",
        "-keyout",
        key,
        "-out",
        certificate,
    ]
    subprocess.run([*self_signed, *for_host], check=True, capture_output=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    for path in (home, key, certificate):
        shutil.chown(path, user)
    key.chmod(0o600)
    options = (
        f"-p {port} -h 127.0.0.1 -k {home} -c fsync=off -c ssl=on -c ssl_key_file={key} -c ssl_cert_file={certificate}"
    )
    control: list[str | Path] = [programs[-1] / "pg_ctl", "-D", data, "-w", "-s"]
    quiet = subprocess.DEVNULL
    try:
        subprocess.run(
            [programs[-1] / "initdb", "-D", data, "-U", "postgres", "--no-sync", "--auth=trust"],
            user=user,
            cwd=home,
            check=True,
            stdout=quiet,
        )
        (data / "pg_hba.conf").write_text(HBA)
        subprocess.run(
            [*control, "-l", home / "log", "-o", options, "start"], user=user, cwd=home, check=True, stdout=quiet
        )
        yield port, certificate
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], user=user, cwd=home, check=False, stdout=quiet)
        shutil.rmtree(home, ignore_errors=True)


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
