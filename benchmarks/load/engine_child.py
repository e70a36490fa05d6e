"""A process that has WiredTiger open for the part "wiredtiger": runs Trimtab's load and a loop in C in turn, on the same table.

Arguments: the library with the loop, a folder, the number of records. Each line that comes in is a run as JSON, each line that
goes out what it measured; CPU is that of the whole process, the engine's own threads included.
"""

from __future__ import annotations

import ctypes
import json
import resource
import sys
import time
from array import array
from pathlib import Path
from typing import Any

from trimtab.load import LoadPlan, Part, launch, plan
from trimtab.load.engine import Engine

DATABASE = "bench"
SETTINGS = {"cache_size": "512MB", "log.enabled": "false", "table.block_compressor": "none"}
_SHAPE = {"dialect": "pairs", "table": "usertable"}


def _load(source: dict[str, Any], users: int, seconds: float) -> tuple[int, float]:
    """Operations that a load of ours did, and its seconds.

    Raises:
        RuntimeError: some failed.
    """
    load = launch(
        LoadPlan(protocol="wiredtiger", access={"database": DATABASE}, source=source, model={"kind": "closed"}, users=users,
                 duration_s=seconds, operation_timeout_s=60.0),
        Part(users, 0, users),
    )  # fmt: skip
    while not load.is_done:
        load.frame(1.0)
    log = load.stop()
    if plan.engine_here is not None:
        plan.engine_here.release()
    if log.errors:
        raise RuntimeError(log.errors[0])
    return sum(array("q", log.seconds().ok)), log.duration_s


def _in_c(loop: Any, engine: Engine, run: dict[str, Any], records: int) -> tuple[int, float]:
    """Operations that the loop in C did, and its seconds.

    Raises:
        RuntimeError: the engine refused one.
    """
    cursors, _ = engine.cursors(DATABASE, run["users"])
    addresses, begun = (ctypes.c_void_p * run["users"])(*cursors), time.monotonic()
    done, took_s = loop(addresses, run["users"], run["seconds"], records, run["update"]), time.monotonic() - begun
    engine.release()
    if done < 0:
        raise RuntimeError("the engine refused a call of the loop in C")
    return int(done), took_s


def main() -> None:
    """Serves until its input ends."""
    library, folder, records = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    loop = ctypes.CDLL(library).run_engine_loop
    loop.restype = ctypes.c_long
    loop.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_double, ctypes.c_uint64, ctypes.c_double]
    engine = plan.engine_here = Engine(folder, SETTINGS)
    engine.create(DATABASE)
    _load({"kind": "ycsb rows", **_SHAPE, "records": records, "users": 1, "batch": 100}, 1, 600.0)
    print(engine.version, flush=True)
    for line in sys.stdin:
        run = json.loads(line)
        before = resource.getrusage(resource.RUSAGE_SELF)
        if run["side"] == "ours":
            mix = {"read": 1 - run["update"], "update": run["update"], "distribution": "uniform"}
            done, wall_s = _load({"kind": "ycsb", **_SHAPE, "records": records, **mix}, run["users"], run["seconds"])
        else:
            done, wall_s = _in_c(loop, engine, run, records)
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = {"user_s": after.ru_utime - before.ru_utime, "system_s": after.ru_stime - before.ru_stime}
        print(json.dumps({"ok": done, "wall_s": wall_s, **cpu}), flush=True)
    engine.close()


if __name__ == "__main__":
    main()
