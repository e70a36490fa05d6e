"""What all servers of one test run share: its folder, templates made once, ports that nobody else takes."""

from __future__ import annotations

import atexit
import fcntl
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from trimtab.systems.account import Account

__all__ = ["copy_folder", "free_port", "made", "new_folder", "run_folder", "template", "wait_for_socket"]

_VARIABLE = "TRIMTAB_TEST_RUN"
_PREFIX = "tt-run-"
_ENOUGH_BYTES = 4 << 30
_LARGE_BYTES = 1 << 20
_PORTS = range(15_000, 32_000)
"""Below the range from which the kernel takes ports for clients: nobody is there by chance."""

_draw = random.SystemRandom()  # pytest-randomly seeds the other one, equally in all workers


def run_folder() -> Path:
    """The folder of this test run, the same in all its workers; every user may enter it, as servers' own users must."""
    path = os.environ.get(_VARIABLE)
    if path is None:
        _clear_old()
        path = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_memory())
        os.chmod(path, 0o755)
        os.environ[_VARIABLE] = path
        atexit.register(_remove, Path(path), os.getpid())
    return Path(path)


def _memory() -> Path | None:
    """Where files are in memory, if that is large enough and programs may lie there: in a container they often may not."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        return None
    found = os.statvfs(memory)
    fits = found.f_bavail * found.f_frsize >= _ENOUGH_BYTES and not found.f_flag & os.ST_NOEXEC
    return memory if fits else None


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # and not a forked child of it
        _kill_servers(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _kill_servers(folder: Path) -> None:
    """Of a run that was killed: servers whose command line names its folder."""
    mark = os.fsencode(folder) + b"/"
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def _clear_old() -> None:
    """Removes what runs left behind that were killed."""
    for root in (Path("/dev/shm"), Path(tempfile.gettempdir())):
        for folder in root.glob(f"{_PREFIX}*"):
            pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
            if pid.isdigit() and not Path(f"/proc/{pid}").exists():
                _kill_servers(folder)
                shutil.rmtree(folder, ignore_errors=True)


def template(name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name`, filled by `make` for the first worker that asks; the others wait for it.

    A copy must replace the folder's path in configuration files; see `copy_folder`. `name` is short: so are sockets' paths.
    """
    home = run_folder() / "templates"
    home.mkdir(exist_ok=True, mode=0o755)
    folder, done = home / name, home / f"{name}.made"
    with (home / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o755)
            make(folder)
            _dig_holes(folder)
            done.touch()
    return folder


def _dig_holes(folder: Path) -> None:
    """Most of a new server's logs is zeros, which need not be copied again and again."""
    for root, _, files in os.walk(folder):
        for path in (os.path.join(root, name) for name in files):
            if not os.path.islink(path) and os.stat(path).st_size >= _LARGE_BYTES:
                subprocess.run(["fallocate", "--dig-holes", path], check=False, stderr=subprocess.DEVNULL)


def new_folder(prefix: str = "") -> Path:
    """A folder of its own in the run's; short, for a socket's path has 107 bytes at most."""
    folder = run_folder() / f"{prefix}{secrets.token_hex(3)}"
    folder.mkdir(mode=0o755)
    return folder


@contextmanager
def made(prefix: str = "") -> Iterator[Path]:
    """A new folder that is removed afterwards."""
    folder = new_folder(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_NOT_COPIED = re.compile(r"postmaster\.pid|.*\.sock|\.s\.PGSQL\..*|server\.log|server\.pid|.*\.lock")


def copy_folder(source: Path, goal: Path, account: Account) -> None:
    """Copies a server that is down, as files of `account`; configuration files that name its folder name the new one."""
    goal.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-RPT", source, goal], check=True)  # a thousand files: in Python that takes twice the CPU
    old, new = os.fsencode(source), os.fsencode(goal)
    for root, _, files in os.walk(goal):
        os.chown(root, account.uid, account.gid)
        for name in files:
            path = os.path.join(root, name)
            if _NOT_COPIED.fullmatch(name):
                os.unlink(path)
                continue
            if name.endswith((".conf", ".cnf")) and old in (text := Path(path).read_bytes()):
                Path(path).write_bytes(text.replace(old, new))
            os.lchown(path, account.uid, account.gid)


def free_port(addresses: Sequence[str] = ("127.0.0.1",)) -> int:
    """A TCP port on which nobody listens at any of the addresses, and from which no client will connect."""
    for port in _draw.sample(_PORTS, 200):
        if all(_is_free(address, port) for address in addresses):
            return port
    raise OSError("no free port")


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def wait_for_socket(server: subprocess.Popen[bytes], path: Path, log: Path, patience_s: float = 120.0) -> None:
    """Until the server that was started accepts connections at `path`; shows its log when it ends or takes too long."""
    deadline = time.monotonic() + patience_s
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.connect(str(path))
            return
        time.sleep(0.02)
    raise RuntimeError(f"the server at {path} did not start: exit status {server.poll()}\n{log.read_text()}")
