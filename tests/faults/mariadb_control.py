"""What `systemctl restart mariadb` is elsewhere: the server of a folder as its own user (folder uid start|stop|restart).

The file `program` in the folder names another server than Debian's MariaDB. It is run often, and imports next to nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import time

PROGRAM = "/usr/sbin/mariadbd"
_PATIENCE_S = 60.0
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


def pid_of(folder: str | os.PathLike[str]) -> int | None:
    """The running server's; None when it is down."""
    try:
        pid = int(_text(f"{os.fspath(folder)}/server.pid"))
        argv = _text(f"/proc/{pid}/cmdline")
        state = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return None
    # A process that is being killed has no arguments any more, and still holds its files.
    return pid if state not in "ZX" and (not argv or os.fspath(folder) in argv) else None


def _text(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()


def start(folder: str, uid: int) -> int:
    child = os.fork()
    if child == 0:
        try:
            _become_server(folder, uid)
        finally:
            os._exit(127)
    until = time.monotonic() + _PATIENCE_S
    while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < until:
        if os.path.exists(f"{folder}/run/server.sock") and pid_of(folder) == child:
            return 0
        time.sleep(0.02)
    return 1


def _become_server(folder: str, uid: int) -> None:
    """Makes this process the server."""
    more = _text(f"{folder}/command_line").split() if os.path.exists(f"{folder}/command_line") else []
    program = _text(f"{folder}/program") if os.path.exists(f"{folder}/program") else PROGRAM
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    gid = os.stat(folder).st_gid
    if uid != os.geteuid():
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    os.chdir(folder)
    os.execve(program, [program, f"--defaults-file={folder}/server.cnf", *more], _ENVIRONMENT)


def stop(folder: str) -> int:
    pid, until = pid_of(folder), time.monotonic() + _PATIENCE_S
    if pid is not None:
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGTERM)
    while pid_of(folder) is not None and time.monotonic() < until:
        time.sleep(0.02)
    if os.path.exists(f"{folder}/run/server.sock"):
        os.unlink(f"{folder}/run/server.sock")
    return 0 if pid_of(folder) is None else 1


def main(folder: str, uid: int, verb: str) -> int:
    code = stop(folder) if verb in ("stop", "restart") else 0
    return code or (start(folder, uid) if verb in ("start", "restart") else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
