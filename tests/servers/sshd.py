"""An OpenSSH server of a test's own, which lets in the user that runs the tests with a key of the test's."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.needs import require
from tests.servers.run import free_port

__all__ = ["started"]

_CONF = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/own.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
"""


@contextmanager
def started(folder: Path) -> Iterator[int]:
    """Its port; the key is `folder`/own."""
    require("sshd")
    port = free_port()
    for name in ("host", "own"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "sshd.conf").write_text(_CONF.format(port=port, folder=folder))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    # It starts itself again for each connection, and wants its own full path for that.
    program = shutil.which("sshd") or "/usr/sbin/sshd"
    command = [program, "-D", "-e", "-f", folder / "sshd.conf"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            _await(server, port)
            yield port
        finally:
            server.terminate()


def _await(server: subprocess.Popen[str], port: int) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            assert server.stderr is not None
            assert server.poll() is None, server.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.02)
