"""What `systemctl restart mariadb` is elsewhere: the server of a folder as its own user (folder uid start|stop|restart).

The file `program` in the folder names another server than Debian's MariaDB.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = "/usr/sbin/mariadbd"
_PATIENCE_S = 60.0


def pid_of(folder: Path) -> int | None:
    """The running server's; None when it is down."""
    try:
        pid = int((folder / "server.pid").read_text())
        argv = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return None
    return pid if state not in "ZX" and os.fsencode(folder) in argv else None


def start(folder: Path, uid: int) -> int:
    switch = uid != os.geteuid()
    more = (folder / "command_line").read_text().split() if (folder / "command_line").exists() else []
    program = (folder / "program").read_text() if (folder / "program").exists() else PROGRAM
    child = subprocess.Popen(
        [program, f"--defaults-file={folder}/server.cnf", *more], cwd=folder, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=uid if switch else None,
        group=folder.stat().st_gid if switch else None, extra_groups=[] if switch else None, start_new_session=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )  # fmt: skip
    until = time.monotonic() + _PATIENCE_S
    while child.poll() is None and time.monotonic() < until:
        if (folder / "run" / "server.sock").exists() and pid_of(folder) == child.pid:
            return 0
        time.sleep(0.02)
    return 1


def stop(folder: Path) -> int:
    pid, until = pid_of(folder), time.monotonic() + _PATIENCE_S
    if pid is not None:
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGTERM)
    while pid_of(folder) is not None and time.monotonic() < until:
        time.sleep(0.02)
    (folder / "run" / "server.sock").unlink(missing_ok=True)
    return 0 if pid_of(folder) is None else 1


def main(folder: Path, uid: int, verb: str) -> int:
    code = stop(folder) if verb in ("stop", "restart") else 0
    return code or (start(folder, uid) if verb in ("start", "restart") else 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
