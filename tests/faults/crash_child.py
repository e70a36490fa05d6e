"""The tuner that is killed at crash points: imports once, then forks one tuner per line on stdin.

    apply|rollback TAB strace|calls TAB N TAB deadman|alone    →    the child's pid; it waits for "go"
    recover                                                    →    what `recover` did, when it is done

`apply` is `commit` of three knobs, `rollback` is `take_back`, each as the commands call them. With "calls" the child kills
itself at the N-th call of a C function (finer than any system call of Python's; for machines without strace).
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from trimtab.space import Config
from trimtab.study import load_study_file, recover
from trimtab.study.change import _keep, _kept, _rollback_file
from trimtab.study.stage import build_target
from trimtab.trial import commit, take_back

CONFIG = Config({"work_mem": 8192, "random_page_cost": 1.5, "shared_buffers": 3000})
NAME = "faults"


class NoDeadMan:
    """In its place where only the journal shall help."""

    @classmethod
    def start(cls, entry: object) -> NoDeadMan:
        return cls()

    def wait_ready(self) -> None:
        pass

    def guard(self, change: Callable[[], Any], *, even_alone: bool = False) -> Any:
        return change()

    def stop(self) -> None:
        pass


def kill_at_call(number: int) -> None:
    n_calls = 0

    def on_event(frame: object, event: str, argument: object) -> None:
        nonlocal n_calls
        if event == "c_call":
            n_calls += 1
            if n_calls == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(on_event)


def wait_for_go(how: str, number: int) -> None:
    sys.stdin.readline()
    if how == "calls":
        kill_at_call(number)


def tuner(verb: str, how: str, number: int, study: Path, state: Path) -> None:
    path = _rollback_file(state, NAME)
    if verb == "rollback":
        snapshots = _kept(path)
        wait_for_go(how, number)
        take_back(snapshots, study=NAME, state_dir=state, file=path)
        os._exit(0)
    target = build_target(load_study_file(study), state)
    target.open()
    with target.lock("crash points"):
        wait_for_go(how, number)
        commit([(target, CONFIG)], study=NAME, state_dir=state, keep=lambda found: _keep(path, found))
    os._exit(0)  # the server stays up for the next point


def main(study: Path, state: Path) -> None:
    print("ready", flush=True)
    while line := sys.stdin.readline().strip():
        if line == "recover":
            pid = os.fork()
            if pid == 0:
                done = recover(state)
                print("; ".join(item.action for item in done) or "nothing", flush=True)
                os._exit(0)
            os.waitpid(pid, 0)
            continue
        if line == "go":
            continue  # its tuner was gone before
        verb, how, number, guard = line.split("\t")
        pid = os.fork()
        if pid == 0:
            try:
                stub = mock.patch("trimtab.trial.commit.DeadMan", NoDeadMan)
                if guard == "alone":
                    stub.start()
                print(os.getpid(), flush=True)
                tuner(verb, how, int(number), study, state)
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        print("killed" if os.WIFSIGNALED(status) else f"ended {os.WEXITSTATUS(status)}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
