"""Trimtab as a child that can be killed anywhere: it imports once, then forks one command per request on stdin.

    {"verb": "cli", "words": [...], ...}      the command line as a user gives it
    {"verb": "trial", "configs": [...], ...}  what `tune` does to a server: recover first, lock, journal, dead-man, one trial
                                              for each config (without load), restore, close
    {"verb": "prove", "winners": {...}}       writes a study with that proven winner into the history for each name

All of these count from the moment when the journal's entry is about to be written: `kill_at`, the n-th call of a C
function that works on files, processes, sockets or waits, at which the process kills itself; `kill_after_s`, a time;
`kill_at_note`, the n-th note of the entry, after which it kills itself;
`trace`: it waits there for "go" on stdin, so that a tracer can be attached (the line {"pid"} says so); `count`: it only
counts such calls. Each request holds `study`, `state` and
`environment`; the command runs in the folder of its study file. The answer is one line with the fields of `actor.Ran`.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from trimtab import plugins
from trimtab.cli import main as trimtab
from trimtab.errors import TrimtabError
from trimtab.history import History, space_to_json
from trimtab.records import Role, Verdict
from trimtab.space import Config
from trimtab.study import load_study_file, recover, remember_file
from trimtab.study.kept import kept_settings
from trimtab.study.stage import Stage, open_stage
from trimtab.testing.fake_workload import FakeWorkload
from trimtab.trial import Entry, Journal, MeasurePlan, TrialRoom

_MODULES = ("posix", "fcntl", "_posixsubprocess", "_socket", "select", "psycopg", "time")
PLAN = MeasurePlan(window_s=3, window_max_s=3, warmup_floor_s=0, warmup_cap_s=0)


class Bullet:
    """Counts calls from `arm` on, and kills at one of them, or after a time."""

    def __init__(self, request: Mapping[str, Any], report: int) -> None:
        self._request = request
        self._report = report
        self.n_calls = 0
        self.n_notes = 0
        self.armed_at = 0.0

    def arm(self) -> None:
        if self.armed_at:
            return
        self.armed_at = time.monotonic()
        if self._request.get("trace"):
            os.write(self._report, json.dumps({"pid": os.getpid()}).encode() + b"\n")
            sys.stdin.readline()
        if self._request.get("count") or self._request.get("kill_at"):
            sys.setprofile(self._on_event)
        if after_s := self._request.get("kill_after_s"):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # it ends the process as SIGKILL does: no code of ours runs
            signal.setitimer(signal.ITIMER_REAL, after_s)

    def _on_event(self, frame: object, event: str, argument: object) -> None:
        if event != "c_call" or not str(getattr(argument, "__module__", "")).startswith(_MODULES):
            return
        self.n_calls += 1
        if self.n_calls == self._request.get("kill_at"):
            os.kill(os.getpid(), signal.SIGKILL)

    def noted(self) -> None:
        """A note of the entry was written."""
        self.n_notes += 1
        if self.n_notes == self._request.get("kill_at_note"):
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def told_of_notes(bullet: Bullet) -> Iterator[None]:
    """The bullet hears of each note of an entry."""

    def heard(write: Callable[..., None]) -> Callable[..., None]:
        def note(*arguments: Any, **more: Any) -> None:
            write(*arguments, **more)
            bullet.noted()

        return note

    with mock.patch.multiple(Entry, note=heard(Entry.note), note_if_possible=heard(Entry.note_if_possible)):
        yield


def armed_at_the_journal(bullet: Bullet) -> Any:
    """The bullet counts from the first entry on: before that nothing is changed."""
    begin = Journal.begin

    def armed(self: Journal, *arguments: Any, **more: Any) -> Any:
        bullet.arm()
        return begin(self, *arguments, **more)

    return mock.patch.object(Journal, "begin", armed)


def trial(study: Path, state: Path, configs: list[dict[str, Any]]) -> None:
    """What `tune` does to a server, without a load."""
    for done in recover(state)[0]:
        print(f"recovered: {done.action}", file=sys.stderr)
    with _stage(study, state) as stage, stage.stack.lock("meanwhile"):
        room = TrialRoom(
            stage.stack, FakeWorkload(lambda: 100.0), stage.space, stage.baseline, objective=stage.objective,
            state_dir=state, study="meanwhile", say=lambda text: print(text, file=sys.stderr),
        )  # fmt: skip
        with room:
            for number, changes in enumerate(configs):
                config = stage.baseline.replace(changes)
                found = room.run(config, number=number, role=Role.SEARCH, plan=PLAN, seed=number + 1)
                print(json.dumps({"status": found.status.value, "reason": found.reason}))


def _stage(study: Path, state: Path) -> Any:
    return open_stage(load_study_file(study), state)


def prove(study: Path, state: Path, winners: Mapping[str, Mapping[str, Any]]) -> None:
    """Finished studies with a winner each, as the history keeps them."""
    stage: Stage
    with _stage(study, state) as stage, History.open(state / "history.db") as history:
        for name, config in winners.items():
            _prove(stage, history, name, config)
            remember_file(state, name, study)


def _prove(stage: Stage, history: History, name: str, config: Mapping[str, Any]) -> None:
    record = history.create_study(
            name=name, settings=kept_settings(stage.file, stage.workload), space=space_to_json(stage.space),
            objective=str(stage.objective), baseline=stage.baseline, machine=stage.machine,
            context=stage.workload.context, fingerprint="", created_at=time.time(),
        )  # fmt: skip
    verdict = Verdict(result="better", config=Config(config))
    history.update_study(record.id, status="proven", verdict=verdict)


def told(action: Callable[[], None]) -> int:
    """The exit code that a command would have."""
    try:
        action()
    except TrimtabError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


def command(request: Mapping[str, Any], study: Path, state: Path) -> int:
    verb = request["verb"]
    if verb == "trial":
        return told(lambda: trial(study, state, request["configs"]))
    if verb == "prove":
        return told(lambda: prove(study, state, request["winners"]))
    try:
        trimtab(list(request["words"]))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def in_child(request: Mapping[str, Any], files: tuple[int, int], calls: int) -> None:
    """Runs one command in this process, which ends with it."""
    report = os.dup(1)
    study, state = Path(request["study"]), Path(request["state"])
    os.chdir(study.parent)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.dup2(files[0], 1)
    os.dup2(files[1], 2)
    bullet = Bullet(request, report)
    with armed_at_the_journal(bullet), told_of_notes(bullet):
        code = command(request, study, state)
    sys.setprofile(None)
    sys.stdout.flush()
    sys.stderr.flush()
    taken_s = time.monotonic() - bullet.armed_at if bullet.armed_at else 0.0
    os.pwrite(calls, json.dumps([bullet.n_calls, taken_s]).encode(), 0)
    os._exit(code)


def preload() -> None:
    """What commands import late is imported once, before the forks."""
    for name in ("apply", "rollback", "recover", "report"):
        importlib.import_module(f"trimtab.cli.{name}_command")
    importlib.import_module("scipy.optimize")  # for constraints between knobs
    for kind in ("postgresql", "mariadb"):
        plugins.load("targets", kind)


def main() -> None:
    preload()
    print(json.dumps({"ready": True}), flush=True)
    while line := sys.stdin.readline().strip():
        if line == "go":
            continue  # its tuner was gone before
        request = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as calls:
            pid = os.fork()
            if pid == 0:
                try:
                    in_child(request, (out.fileno(), err.fileno()), calls.fileno())
                finally:
                    import traceback

                    traceback.print_exc()
                    sys.stderr.flush()
                    os._exit(99)
            _, status = os.waitpid(pid, 0)
            n_calls, taken_s = json.loads(_read(calls) or "[0, 0]")
            answer = {
                "killed": os.WIFSIGNALED(status),
                "code": os.waitstatus_to_exitcode(status),
                "out": _read(out),
                "err": _read(err),
                "n_calls": n_calls,
                "changing_s": taken_s,
            }
        print(json.dumps(answer), flush=True)


def _read(file: Any) -> str:
    file.seek(0)
    content: bytes = file.read()
    return content.decode(errors="replace")


if __name__ == "__main__":
    main()
