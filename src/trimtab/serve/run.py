"""run: a server that goes on until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import gc
import signal
import socket
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import uvicorn

from trimtab.errors import UsageError
from trimtab.history import open_history_at
from trimtab.serve.app import make_app
from trimtab.serve.arrivals import Arrivals
from trimtab.serve.connections import Connections
from trimtab.serve.hub import Hub
from trimtab.serve.protocol import protocol
from trimtab.serve.settings import ServeSettings
from trimtab.session import Sessions
from trimtab.threads import single_threaded

__all__ = ["run"]

_GRACE_S = 5
_HINTS: dict[int | None, str] = {
    errno.EADDRINUSE: "another program may listen there: give another --port",
    errno.EACCES: "only root may listen at that port: give another --port, as a rule one above 1023",
}


def run(settings: ServeSettings, state_dir: Path, history_url: str | None, started: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM.

    Args:
        settings: where it listens; port 0 takes a free one.
        state_dir, history_url: where sessions are kept.
        started: told the URL once it listens.

    Raises:
        UsageError: the address cannot be listened to, or the certificate cannot be read.
        HistoryError, LockedError: see `Sessions`.
    """
    listening = _listening(settings)
    # Linear algebra in one thread: matrices are small here, and threads that wait for each other burn cores.
    with listening, single_threaded(), open_history_at(history_url, state_dir) as history:
        sessions = Sessions(history, state_dir, sync_s=settings.sync_s)
        hub = Hub(sessions, settings, state_dir, history_url=history_url, connections=Connections.of_this_process())
        app = make_app(hub)
        config = uvicorn.Config(
            app, http=protocol(hub.connections), log_level="warning", access_log=False, server_header=False, date_header=False,
            lifespan="off", ssl_certfile=settings.cert, ssl_keyfile=settings.key, timeout_graceful_shutdown=_GRACE_S,
            timeout_keep_alive=60, ws="none", proxy_headers=False,
        )  # fmt: skip
        try:
            try:
                config.load()
            except OSError as error:  # ssl.SSLError is one
                raise UsageError(
                    f"the certificate cannot be used: {error}", hint="give --cert and --key in PEM form"
                ) from error
            port = listening.getsockname()[1]
            started(settings.url.rpartition(":")[0] + f":{port}")
            _calm_collector()
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(_serve(uvicorn.Server(config), hub, listening))
        finally:
            hub.close()
            sessions.close()


async def _serve(server: uvicorn.Server, hub: Hub, listening: socket.socket) -> None:
    """The first signal lets requests end, the second does not wait for them."""
    loop, accepting = asyncio.get_running_loop(), _accepting(server, hub, listening)

    def stop() -> None:
        server.force_exit, server.should_exit = server.should_exit, True
        hub.end()
        if accepting is not None:
            accepting.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    vars(server)["capture_signals"] = nullcontext  # its own handlers would end the process by the signal
    await server.serve(sockets=[listening] if accepting is None else [])


def _accepting(server: uvicorn.Server, hub: Hub, listening: socket.socket) -> asyncio.Task[None] | None:
    """With TLS: what accepts connections instead of uvicorn, which counts none before its handshake."""
    config, loop = server.config, asyncio.get_running_loop()
    if config.ssl is None or config.http == "auto":
        return None

    def made() -> Any:
        speaks: Any = config.http_protocol_class
        return speaks(config=config, server_state=server.server_state, app_state={}, _loop=loop)

    return loop.create_task(Arrivals(listening, config.ssl, hub.connections, made).accept())


def _calm_collector() -> None:
    """What is there now stays, and each report leaves some hundred values for good: they need not be looked through for cycles as
    often as by default."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Of uvloop, which takes less of the processor for a request; None where there is none: asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _listening(settings: ServeSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named asyncio sends without delay; else each answer waits 40 ms for the client's acknowledgement.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((settings.host, settings.port))
        made.listen(1024)
    except (OSError, UnicodeError) as error:  # UnicodeError: of a name that can be none
        made.close()
        number, why = (error.errno, error.strerror) if isinstance(error, OSError) else (None, None)
        raise UsageError(
            f"cannot listen at host={settings.host!r} port={settings.port}: {why or error}",
            hint=_HINTS.get(number, "give an address or a name of this machine with --host"),
        ) from error
    return made
