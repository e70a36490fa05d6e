"""What `systemctl restart postgresql` is elsewhere: pg_ctl as the server's user (bin data uid start|stop|restart)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def main(bin_dir: str, data_dir: str, uid: str, verb: str) -> int:
    switch = int(uid) != os.geteuid()
    log = Path(data_dir).parent / "server.log"
    argv = [f"{bin_dir}/pg_ctl", "-D", data_dir, "-l", str(log), "-w", "-t", "60", "-m", "fast", verb]
    if verb == "start":
        argv = [word for word in argv if word not in ("-m", "fast")]
    done = subprocess.run(
        argv,
        check=False,
        cwd="/",
        stdin=subprocess.DEVNULL,
        user=int(uid) if switch else None,
        group=os.stat(data_dir).st_gid if switch else None,
        extra_groups=[] if switch else None,
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
