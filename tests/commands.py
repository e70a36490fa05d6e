"""`trimtab` commands as processes of their own, forked from one that has loaded the program before.

    process = start_trimtab(["tune", "study.toml"], cwd=folder, env=environment, stdout=PIPE)     # a subprocess.Popen

Such a command is a process as a user's is: it has its number, environment, folder, session and signals, and kill -9 ends it and
nothing else. It lacks the interpreter's start and the imports, 0.5 to 1.5 s of CPU which a run of the suite would pay a thousand
times, and /proc shows it with the command line of the process that it was forked from. So there is an interpreter of its own for
whoever asks for one (`is_forked=False`), for variables that the interpreter reads at its start, and in the long form
(TRIMTAB_TESTS=full) for everything.

One process serves all workers of a test run. It is started by the first that asks, and ends with the run: see
`tests.servers.run`.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

from tests.needs import IS_FULL
from tests.servers import new_folder, run_folder

__all__ = ["PYTHON", "start_script", "start_trimtab", "without_spaces"]

_ROOT = Path(__file__).parents[1]
_PATIENCE_S = 60.0
_LARGEST = 1 << 20
_READ_AT_START = ("PYTHON", "LC_", "LANG", "TZ", "MALLOC_", "LD_", "OMP_", "OPENBLAS_")
_NOT_LOADED = ("trimtab.__main__", "trimtab.testing", "trimtab.search.optuna", "trimtab.search.smac")
"""Whoever needs these imports them: they are large, or no part of a command."""

_LATE = ("jinja2", "scipy.optimize", "scipy.special", "scipy.stats", "sklearn.linear_model", "sklearn.tree")
"""What Trimtab imports at its first use: for a `tune` that is a second of CPU, more than all else that a short one does."""


def start_trimtab(
    arguments: Sequence[str], *, env: Mapping[str, str], script: Path | None = None, is_forked: bool = True, **more: Any
) -> subprocess.Popen[str]:
    """A `trimtab` command that goes on, or a Python `script`; `more` as `subprocess.Popen` takes it, of which a fork knows cwd,
    the three streams and start_new_session."""
    kind = _Forked if is_forked and not IS_FULL and _starts_alike(env) else subprocess.Popen
    program = ["-m", "trimtab"] if script is None else [str(script)]
    return kind([sys.executable, *program, *arguments], env=dict(env), text=True, **more)


def start_script(text: str, *arguments: object, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A process that runs the text of a script, which may import tests, and of which the input and the output are pipes."""
    path = new_folder("script") / "script.py"
    path.write_text(f"import sys\nsys.path.insert(0, {str(_ROOT)!r})\n{text}", encoding="utf-8")
    pipe, environment = subprocess.PIPE, os.environ if env is None else env
    return start_trimtab([*map(str, arguments)], script=path, env=environment, cwd=_ROOT, stdin=pipe, stdout=pipe)


def _starts_alike(env: Mapping[str, str]) -> bool:
    return _at_start(env) == _OURS


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in env.items() if name.startswith(_READ_AT_START)}


_OURS = _at_start(os.environ)
"""Of this run, before any test changes something."""


def without_spaces(program: str) -> str:
    """That interpreter of a virtual environment as one word: by a link of this run, if the repository's path has spaces."""
    if len(program.split()) == 1:
        return program
    link = run_folder() / "venv"
    with suppress(FileExistsError):  # of another worker
        link.symlink_to(Path(program).parents[1])
    return str(link / "bin" / Path(program).name)


PYTHON = without_spaces(sys.executable)
"""For commands in study files, addresses and first lines of scripts."""


class _Forked(subprocess.Popen[str]):
    """A Popen whose child is made by the loaded process and waited for by it: only these two steps differ."""

    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        names = (
            "executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env", "startupinfo", "creationflags", "shell", "p2cread",
            "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite", "restore_signals", "gid", "gids", "uid", "umask",
            "start_new_session", "process_group",
        )  # fmt: skip
        given = dict(zip(names, rest, strict=True))
        foreign = ("executable", "preexec_fn", "pass_fds", "gid", "gids", "uid")
        unknown = [name for name in foreign if given[name] is not None and given[name] != ()]
        assert not unknown, f"a forked command takes no {unknown}: use is_forked=False"
        request = {
            "arguments": list(args[1:]),
            "cwd": os.fspath(given["cwd"] or os.getcwd()),
            "env": given["env"],
            "is_leader": bool(given["start_new_session"]),
        }
        streams = [
            own if handle == -1 else handle
            for own, handle in enumerate((given["p2cread"], given["c2pwrite"], given["errwrite"]))
        ]
        self._ended = _server()
        socket.send_fds(self._ended, [json.dumps(request).encode()], streams)
        self.pid = int(self._ended.recv(64))
        self._child_created = True
        self._close_pipe_fds(*(given[n] for n in names[9:15]))  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._ended], [], [], 0)[0]:
            return 0, 0
        status = self._ended.recv(64)
        assert status, "the process that forks commands is gone"
        self._ended.close()
        return self.pid, int(status)

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


_started: list[subprocess.Popen[bytes]] = []
"""The loaded process, in the worker that started it: it runs until the run ends."""


def _server() -> socket.socket:
    """A connection to the loaded process, which is started when there is none; it serves one command."""
    place = run_folder() / "commands"
    place.mkdir(exist_ok=True)
    path = place / "socket"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            server = subprocess.Popen(
                [sys.executable, "-m", "tests.commands", str(path)], cwd=_ROOT, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, start_new_session=True, env={**_OURS, "PATH": os.environ["PATH"]},
            )  # fmt: skip
            _started.append(server)
            _wait_for(path)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(path))
    return connection


def _wait_for(path: Path) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not path.exists():
        assert time.monotonic() < until, "the process that forks commands did not start"
        time.sleep(0.02)


def _load() -> None:
    """Imports what any command may need. What lacks an optional package is skipped, as the commands do."""
    import trimtab
    from trimtab import plugins
    from trimtab.errors import TrimtabError

    for module in pkgutil.walk_packages(trimtab.__path__, "trimtab."):
        if not module.name.startswith(_NOT_LOADED):
            with suppress(ImportError):
                importlib.import_module(module.name)
    for group in get_args(plugins.Group):
        plugins.names(group)  # reads what each installed package registers
    for name in _LATE:
        importlib.import_module(name)
    for name in plugins.names("targets"):
        with suppress(TrimtabError):  # it lacks an optional package
            plugins.load("targets", name)  # with its catalogue, which takes a third of a second


class _Server:
    """Takes requests, forks, and tells the end of each command to who asked for it."""

    def __init__(self, path: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._poll = select.poll()
        self._asking: dict[int, socket.socket] = {}
        self._running: dict[int, tuple[int, socket.socket]] = {}
        new = path.with_name("new")
        self._listener.bind(str(new))
        self._listener.listen(64)
        new.rename(path)  # who sees it can connect
        self._poll.register(self._listener, select.POLLIN)

    def serve(self) -> list[str]:
        """Goes on for ever in the server; returns the arguments in each command that is forked."""
        while True:
            for handle, _ in self._poll.poll():
                if handle == self._listener.fileno():
                    self._meet()
                elif handle in self._running:
                    self._tell(handle)
                elif (arguments := self._fork(handle)) is not None:
                    return arguments

    def _meet(self) -> None:
        """Who connects may take its time to ask, or be cut off before that (a test over its time): nobody waits for it."""
        connection, _ = self._listener.accept()
        self._asking[connection.fileno()] = connection
        self._poll.register(connection, select.POLLIN)

    def _tell(self, handle: int) -> None:
        self._poll.unregister(handle)
        pid, connection = self._running.pop(handle)
        _, status = os.waitpid(pid, 0)
        os.close(handle)
        with suppress(OSError), connection:
            connection.send(str(status).encode())

    def _fork(self, handle: int) -> list[str] | None:
        self._poll.unregister(handle)
        connection = self._asking.pop(handle)
        data, streams, _, _ = socket.recv_fds(connection, _LARGEST, 3)
        if not data:  # whoever connected has died
            connection.close()
            return None
        pid = os.fork()
        if pid == 0:
            self._listener.close()
            for other in self._running:
                os.close(other)
            for held in (connection, *self._asking.values(), *(held for _, held in self._running.values())):
                held.close()
            return _become(json.loads(data), streams)
        process = os.pidfd_open(pid)
        self._running[process] = pid, connection
        self._poll.register(process, select.POLLIN)
        for stream in streams:
            os.close(stream)
        with suppress(OSError):
            connection.send(str(pid).encode())
        return None


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> list[str]:
    """Makes this process the command's."""
    if request["is_leader"]:
        os.setsid()
    for own, stream in enumerate(streams):
        os.dup2(stream, own)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]
    return list(request["arguments"])


def _main(path: str) -> None:
    _load()
    gc.collect()
    gc.freeze()  # a collection in a command would copy all pages that it looks at
    program, *arguments = _Server(Path(path)).serve()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if program == "-m":
            sys.argv = arguments
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [program, *arguments]
            runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, int | None):
            _leave(end.code or 0)
        raise
    _leave(0)


def _leave(code: int) -> None:
    """Ends as an interpreter does, but for what takes longest: it does not take apart each of the loaded modules."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    _main(sys.argv[1])
