"""`python -m trimtab.load.wiredtiger FOLDER`: a process that has WiredTiger open, for a load that runs in it.

The engine is a library: whoever calls it does its work. So it gets a process of its own, which a crash of the engine ends and
nothing else, and the load is sent to it: over the socket FOLDER/engine.sock it takes a line of JSON and answers with one, or
becomes a load generator (`trimtab.load.serve`) that calls the engine on its own threads. Settings come from FOLDER/engine.conf.

With --statistics or --reload it asks the process of FOLDER instead, and prints what it says. A reload takes NAME=VALUE of
settings that are to have their earlier values again.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trimtab import __version__
from trimtab.load import plan
from trimtab.load.engine import PANIC, Engine, EngineError, read_settings
from trimtab.load.serve import Generator

__all__ = ["LOAD", "SOCKET", "ask", "main"]

SOCKET, CONF = "engine.sock", "engine.conf"
LOAD = b'{"do": "load"}\n'
_BACKLOG = 16
_PANICKED = 70


def ask(path: str | Path, command: Mapping[str, Any], timeout_s: float = 600.0) -> Any:
    """What the process that listens on a socket answers.

    Raises:
        EngineError: it refuses.
        OSError: nobody listens, or it ended before it answered.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        connection.connect(str(path))
        connection.sendall(json.dumps(command).encode() + b"\n")
        line = connection.makefile("rb").readline()
    if not line:
        raise ConnectionResetError("the process of the engine ended before it answered")
    answer = json.loads(line)
    if "error" in answer:
        raise EngineError(str(answer["error"]))
    return answer["is"]


class Server:
    """Serves the engine of a folder."""

    def __init__(self, folder: Path) -> None:
        self._conf = folder / CONF
        self._engine = Engine(folder, read_settings(self._conf), _say)
        plan.engine_here = self._engine
        self._n_loads = 0
        path = folder / SOCKET
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        path.chmod(0o600)
        self._socket.listen(_BACKLOG)
        _say(f"{self._engine.version}: serving {path}")

    def serve(self) -> None:
        """Never returns."""
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._meet, args=(connection,), daemon=True).start()

    def end(self) -> None:
        """Closes the engine and leaves; while a load runs in it, it is left as a crash would leave it."""
        with contextlib.suppress(EngineError):
            if not self._n_loads:
                self._engine.close()
        os._exit(0)

    def _meet(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            incoming, outgoing = connection.makefile("rb", buffering=0), connection.makefile("wb")
            line = b""
            while not line.endswith(b"\n"):  # byte by byte: what follows is for the generator
                byte = incoming.read(1)
                if not byte:
                    return
                line += byte
            if line == LOAD:
                self._load(connection, outgoing)
                return
            answer = self._answer(json.loads(line))
            outgoing.write(json.dumps(answer).encode() + b"\n")
            outgoing.flush()
            if PANIC in answer.get("error", ""):
                os._exit(_PANICKED)

    def _load(self, connection: socket.socket, outgoing: Any) -> None:
        self._n_loads += 1
        try:
            Generator(connection.makefile("rb"), outgoing, __version__, self._make_ready).run()
        finally:
            self._engine.release()
            self._n_loads -= 1
            _trim()
            if PANIC in self._answer({"do": "names"}).get("error", ""):
                os._exit(_PANICKED)

    def _make_ready(self, load: plan.LoadPlan, alive: Callable[[], None]) -> None:
        try:
            self._engine.renew(load.access["database"], alive)
        except EngineError as error:
            raise ValueError(str(error)) from error

    def _answer(self, command: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return {"is": self._done(command)}
        except (EngineError, OSError, KeyError, TypeError) as error:
            return {"error": str(error)}

    def _done(self, command: Mapping[str, Any]) -> Any:
        engine, what = self._engine, command["do"]
        values = {name: value for name, value in command.items() if name != "do"}
        if what == "reload":
            return engine.reconfigure(read_settings(self._conf), **values)
        if what in ("copy", "drop"):
            getattr(engine, what)(**values)
            return _trim()
        if what in ("names", "create", "mark", "count", "statistics", "checkpoint"):
            return getattr(engine, what)(**values)
        raise EngineError(f"unknown command={what!r}")


def _trim() -> None:
    """Gives back what the engine has freed; the C library would keep it, and more with each table that comes and goes."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _asked(folder: Path, option: str, back: list[str]) -> None:
    pairs = {name: value for name, _, value in (text.partition("=") for text in back)}
    answer = ask(folder / SOCKET, {"do": option.removeprefix("--"), **({"back": pairs} if pairs else {})})
    if option == "--statistics":
        for name, value in answer.items():
            print(f"{value:.17g} {name}")


def _is_meant(options: list[str]) -> bool:
    return options in ([], ["--statistics"]) or (options[0] == "--reload" and all("=" in each for each in options[1:]))


def main(argv: list[str]) -> int:
    """The exit code: 0 done, 1 the engine refuses, 2 it was not meant."""
    if not argv or argv[0].startswith("-") or not _is_meant(argv[1:]):
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(argv[0])
    try:
        if len(argv) > 1:
            _asked(folder, argv[1], argv[2:])
            return 0
        faulthandler.enable()  # a crash of the library shows where
        server = Server(folder)
    except (EngineError, OSError) as error:
        _say(f"error: {error}")
        return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: server.end())
    server.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
