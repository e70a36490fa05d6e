"""Debian's Apache httpd in a folder of a test's own, with pages of its own."""

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
from tests.servers.run import free_port, made

__all__ = ["started"]

_MODULES = ("mpm_event", "authz_core", "alias", "filter", "deflate", "headers", "mime")
_CONF = """ServerRoot {folder}
ServerName localhost
PidFile {folder}/httpd.pid
ErrorLog {folder}/error.log
DefaultRuntimeDir {folder}
TypesConfig /dev/null
Listen 127.0.0.1:{port}
DocumentRoot {folder}/pages
AddOutputFilterByType DEFLATE text/html
AddType text/html .html
Redirect /old.html http://127.0.0.1:{port}/index.html
Header set Set-Cookie "seen=1; Path=/"
"""


@contextmanager
def started(settings: str = "") -> Iterator[int]:
    """Its port. Pages: /index.html, /large.bin (1 MB), /old.html (leads to the first)."""
    require("apache2")
    program = shutil.which("apache2") or "/usr/sbin/apache2"
    modules = Path(program).resolve().parents[1] / "lib" / "apache2" / "modules"
    with made("apache") as folder:
        port = free_port()
        pages = folder / "pages"
        pages.mkdir(mode=0o755)
        (pages / "index.html").write_text("<p>Welcome</p>" * 500)
        (pages / "large.bin").write_bytes(os.urandom(1 << 20))
        loads = [f"LoadModule {name}_module {modules}/mod_{name}.so" for name in _MODULES]
        if os.geteuid() == 0:
            loads.append("User nobody\nGroup nogroup")
        conf = "\n".join([*loads, _CONF.format(folder=folder, port=port), settings])
        (folder / "httpd.conf").write_text(conf)
        server = subprocess.Popen([program, "-DFOREGROUND", "-f", folder / "httpd.conf"], stderr=subprocess.PIPE)
        try:
            _await(server, port)
            yield port
        finally:
            server.terminate()
            server.communicate()


def _await(server: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            assert server.poll() is None, server.communicate()[1]
            assert time.monotonic() < until
            time.sleep(0.02)
