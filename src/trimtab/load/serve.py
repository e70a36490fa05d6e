"""The generator's side: does what comes in, and sends back a message every second; ends when nobody listens any more."""

from __future__ import annotations

import errno
import os
import queue
import resource
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

from trimtab.load.message import MAGIC, PROTOCOL, read_message, write_message
from trimtab.load.plan import LoadPlan, Part, launch

if TYPE_CHECKING:
    from trimtab._native import Frame, Load, RunLog

__all__ = ["FRAME_FIELDS", "PASSWORD", "SECOND_COLUMNS", "Generator", "MakeReady", "log_message"]

MakeReady = Callable[[LoadPlan, Callable[[], None]], None]
"""Makes what a load needs before its users connect, and calls the function again and again while that goes on; a ValueError tells
why it cannot be had."""

PASSWORD = "TRIMTAB_LOAD_PASSWORD"
"""The environment variable with the server's password, where the plan comes without it."""

_SLICE_S = 0.05
"""Commands are looked for this often while a load runs."""

_ALIVE_S = 1.0
"""Between two messages that the generator is alive."""

FRAME_FIELDS = ("second", "n_ok", "n_error", "n_timed_out", "n_shed", "credited", "backlog", "client_cpu_s", "steal_s",
                "wait_s", "response", "lateness", "wakeup")  # fmt: skip
BUCKET_COLUMNS = ("second", "label", "value_us", "count")
SECOND_COLUMNS = ("offered", "shed", "ok", "error", "timed_out", "credited", "client_cpu_s", "steal_s", "wait_s")
_LOG_FIELDS = ("labels", "duration_s", "errors", "error_classes", "n_threads", "users", "is_open", "client_cpu_s", "memory_bytes",
               "priority")  # fmt: skip


class Generator:
    """One load, directed over two streams; `run` returns when it has ended or nobody directs it any more.

    Args:
        incoming, outgoing: of messages.
        version: of Trimtab.
        make_ready: called before the users connect.
    """

    def __init__(
        self,
        incoming: IO[bytes],
        outgoing: IO[bytes],
        version: str,
        make_ready: MakeReady = lambda plan, alive: None,
    ) -> None:
        self._incoming, self._outgoing, self._version = incoming, outgoing, version
        self._make_ready, self._told_s = make_ready, time.monotonic()
        self._commands: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._load: Load | None = None

    def run(self) -> None:
        """Greets, and serves until the load was stopped or the other side is gone; no load is left, however it ends."""
        try:
            self._serve()
        finally:
            if self._load is not None:
                self._load.stop()

    def _serve(self) -> None:
        self._outgoing.write(MAGIC)
        cores = len(os.sched_getaffinity(0))
        self._send({"is": "hello", "protocol": PROTOCOL, "version": self._version, "host": socket.gethostname(),
                    "pid": os.getpid(), "cores": cores})  # fmt: skip
        threading.Thread(target=self._listen, daemon=True).start()
        while (command := self._commands.get()) is not None:
            if not self._obey(command):
                return
            if command["do"] == "start":
                self._drive()
                return

    def _listen(self) -> None:
        try:
            while (message := read_message(self._incoming)) is not None:
                self._commands.put(message[0])
        except (OSError, ValueError):
            pass
        self._commands.put(None)

    def _send(self, body: Mapping[str, Any], data: bytes = b"") -> None:
        write_message(self._outgoing, body, data)

    def _alive(self) -> None:
        """Tells now and then that it is not silent because it hangs."""
        if time.monotonic() - self._told_s >= _ALIVE_S:
            self._told_s = time.monotonic()
            self._send({"is": "alive"})

    def _obey(self, command: Mapping[str, Any]) -> bool:
        """Whether to go on."""
        if command["do"] == "clock":
            self._send({"is": "clock", "clock_s": time.time()})
        elif command["do"] == "plan":
            return self._prepare(command)
        elif command["do"] == "start" and self._load is not None:
            self._load.start()
            self._send({"is": "started", "clock_s": time.time()})
        return bool(command["do"] != "stop")

    def _prepare(self, command: Mapping[str, Any]) -> bool:
        part, plan = Part(**command["part"]), _with_password(LoadPlan(**command["plan"]))
        try:
            _allow_files(command["files"], command["most_files"])
            self._make_ready(plan, self._alive)
            self._load = launch(plan, part, is_held=True)
        except BrokenPipeError:
            raise  # nobody listens any more
        except ConnectionError as error:
            self._send({"is": "error", "kind": "connect", "text": str(error)})
        except OSError as error:
            self._send({"is": "error", "kind": "system", "text": error.strerror or str(error)})
        except ValueError as error:
            self._send({"is": "error", "kind": "plan", "text": str(error)})
        else:
            self._send({"is": "connected"})
            return True
        return False

    def _drive(self) -> None:
        """Sends every second, until the load is stopped or nobody listens."""
        load = self._load
        assert load is not None
        while self._answer(load):
            frame = load.frame(_SLICE_S)
            if frame is not None:
                self._send({"is": "frame", **frame_message(frame)})
            elif load.is_done:
                self._send({"is": "done"})
                break
        else:
            return
        # All is sent; the log may still be asked for.
        while (command := self._commands.get()) is not None:
            if not self._give_log(load, command):
                return

    def _answer(self, load: Load) -> bool:
        """Does what was asked meanwhile; whether to go on."""
        while not self._commands.empty():
            command = self._commands.get()
            if command is None or not self._give_log(load, command):
                return False
        return True

    def _give_log(self, load: Load, command: Mapping[str, Any]) -> bool:
        is_last = command["do"] == "stop"
        self._send(*log_message(load.stop() if is_last else load.log()))
        return not is_last


def frame_message(frame: Frame) -> dict[str, Any]:
    """One second; the parts of several generators add up."""
    return {name: getattr(frame, name) for name in FRAME_FIELDS}


def log_message(log: RunLog) -> tuple[dict[str, Any], bytes]:
    """The whole log: plain fields, where each column begins, and the columns."""
    columns: list[bytes] = []
    places: dict[str, list[int]] = {}

    def put(name: str, column: bytes) -> None:
        places[name] = [sum(map(len, columns)), len(column)]
        columns.append(column)

    seconds = log.seconds()
    for name in SECOND_COLUMNS:
        put(name, getattr(seconds, name))
    for what in log.histograms:
        buckets = log.buckets(what)
        for name in BUCKET_COLUMNS:
            put(f"{what} {name}", getattr(buckets, name))
    return {"is": "log", "columns": places, **{name: getattr(log, name) for name in _LOG_FIELDS}}, b"".join(columns)


def _with_password(plan: LoadPlan) -> LoadPlan:
    """The plan with the server's password, which does not come over a connection that others may read."""
    password = os.environ.get(PASSWORD)
    if password is None or plan.access.get("password", "") is not None:
        return plan
    return replace(plan, access={**plan.access, "password": password})


def _allow_files(needed: int, enough: int) -> None:
    """Raises this process's limit of open files as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < enough:
        if hard != resource.RLIM_INFINITY:
            if hard < needed:
                raise OSError(errno.EMFILE, f"{needed} open files are needed, and this process may have {hard}")
            enough = min(enough, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
