"""Connections: whoever opens many and sends nothing, or half a request, keeps nobody else out."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.serve.asking import TOKEN, Api
from trimtab.errors import UsageError
from trimtab.serve.arrivals import Arrivals
from trimtab.serve.connections import Connections
from trimtab.serve.protocol import protocol
from trimtab.serve.run import _listening as _listening_at
from trimtab.serve.settings import ServeSettings

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HEAD = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n"
POST = HEAD.replace(b"GET", b"POST") + b"content-length: 9\r\n\r\n"
ASK = HEAD.replace(b"/health", b"/api/v1/sessions") + b"authorization: Bearer %s\r\n\r\n" % TOKEN.encode()


@asynccontextmanager
async def _listening(api: Api, connections: Connections) -> AsyncIterator[Callable[[], Awaitable[Stream]]]:
    """The application on real sockets: gives what opens a connection."""
    api.app._connections = connections
    config = uvicorn.Config(api.app, lifespan="off", log_level="critical", ws="none")
    config.load()
    state, loop, made = ServerState(), asyncio.get_running_loop(), list[Stream]()
    speaks: Any = protocol(connections)
    server = await loop.create_server(
        lambda: speaks(config=config, server_state=state, app_state={}, _loop=loop), "127.0.0.1", 0
    )

    async def opened() -> Stream:
        made.append(await asyncio.open_connection(*server.sockets[0].getsockname()))
        return made[-1]

    async with server:
        yield opened
        for _, writer in made:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        while state.connections:
            await asyncio.sleep(0)


def certified(folder: Path) -> dict[str, str]:
    """A certificate of this machine, and its key."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem",
         "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return {"cert": str(folder / "cert.pem"), "key": str(folder / "key.pem")}


@asynccontextmanager
async def _secured(
    api: Api, connections: Connections, names: Mapping[str, str]
) -> AsyncIterator[Callable[..., Awaitable[Stream]]]:
    """The same with TLS; a client without `ssl` does not shake hands."""
    api.app._connections = connections
    speaks: Any = protocol(connections)
    config = uvicorn.Config(
        api.app, http=speaks, lifespan="off", log_level="critical", ws="none",
        ssl_certfile=names["cert"], ssl_keyfile=names["key"],
    )  # fmt: skip
    config.load()
    assert config.ssl is not None
    state, loop, made = ServerState(), asyncio.get_running_loop(), list[Stream]()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        arrivals = Arrivals(
            listening, config.ssl, connections,
            lambda: speaks(config=config, server_state=state, app_state={}, _loop=loop),
        )  # fmt: skip
        accepting = loop.create_task(arrivals.accept())

        async def opened(**more: Any) -> Stream:
            made.append(await asyncio.open_connection(*listening.getsockname(), **more))
            return made[-1]

        yield opened
        for _, writer in made:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        while state.connections:
            await asyncio.sleep(0.01)
        accepting.cancel()
        await asyncio.wait([accepting])


async def _answer(stream: Stream, request: bytes) -> bytes:
    """The head of the answer to `request`."""
    reader, writer = stream
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: "))
    await reader.readexactly(int(length.partition(b": ")[2]))
    return head


async def _end(stream: Stream) -> bytes:
    """What comes until the other side closes the connection, which must not take long."""
    with suppress(ConnectionResetError):
        return await asyncio.wait_for(stream[0].read(), 5)
    return b""


@pytest.mark.parametrize("sent", [b"", HEAD, POST + b"half"], ids=["nothing", "half a head", "half a body"])
def test_a_connection_without_a_whole_request_is_closed(api: Api, sent: bytes) -> None:
    async def seen() -> tuple[bytes, bytes]:
        async with _listening(api, Connections(idle_s=0.25)) as opened:
            idle, slow = await opened(), await opened()
            idle[1].write(sent)
            assert (await _answer(slow, HEAD + b"\r\n")).startswith(b"HTTP/1.1 200 ")
            slow[1].write(HEAD)
            ends = asyncio.gather(_end(idle), _end(slow))
            while not ends.done():  # a line now and then does not help
                slow[1].write(b"x: y\r\n")
                await asyncio.sleep(0.01)
            return await ends

    first, second = asyncio.run(seen())
    assert first == b"" or (sent.startswith(POST) and first.startswith(b"HTTP/1.1 405 "))
    assert second == b""


@pytest.mark.parametrize(
    "start",
    [b"GET /", HEAD + b"x: ", POST.replace(b"content-length: 9", b"transfer-encoding: chunked") + b"0\r\nx: "],
    ids=["url", "header", "trailer"],
)
def test_a_head_without_an_end_is_not_kept(api: Api, start: bytes) -> None:
    async def seen() -> tuple[bytes, int]:
        async with _listening(api, Connections()) as opened:
            reader, writer = await opened()
            await _answer(await opened(), HEAD + b"cookie: " + b"x" * 30_000 + b"\r\n\r\n")
            writer.write(start)
            n_sent = 0
            with suppress(ConnectionError):
                while n_sent < 20_000_000:
                    writer.write(b"x" * 10_000)
                    await writer.drain()
                    await asyncio.sleep(0)
                    n_sent += 10_000
            return await _end((reader, writer)), n_sent

    answer, n_sent = asyncio.run(seen())
    assert n_sent < 20_000_000
    assert b"x: " in start or answer == b"" or answer.startswith(b"HTTP/1.1 431 ")


def test_a_long_head_is_told(api: Api) -> None:
    async def seen() -> bytes:
        async with _listening(api, Connections()) as opened:
            stream = await opened()
            stream[1].write(HEAD)
            for _ in range(8):
                stream[1].write(b"x: " + b"y" * 10_000 + b"\r\n")
                await asyncio.sleep(0.01)
            return await _end(stream)

    head, _, body = asyncio.run(seen()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body)["hint"] == "send fewer or shorter headers"


def test_strangers_keep_nobody_out(api: Api) -> None:
    async def seen() -> list[bytes]:
        async with _listening(api, Connections(most=8)) as opened:
            known = await opened()
            found = [await _answer(known, ASK)]
            strangers = [await opened() for _ in range(20)]
            for stranger in strangers[:16]:
                assert await _end(stranger) == b""
            found += [await _answer(stranger, HEAD + b"\r\n") for stranger in strangers[16:]]
            found.append(await _answer(known, ASK))
            found += [await _answer(await opened(), ASK) for _ in range(5)]
            return found

    *good, full = asyncio.run(seen())
    assert {head.split(b" ")[1] for head in good} == {b"200"}
    assert full.startswith(b"HTTP/1.1 503 ")
    assert b"application/problem+json" in full


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_strangers_that_do_not_even_shake_hands_keep_nobody_out(api: Api, tmp_path: Path, loop: str) -> None:
    names, connections = certified(tmp_path), Connections(most=8, idle_s=1.0)
    trusted = ssl.create_default_context(cafile=names["cert"])

    async def seen() -> list[bytes]:
        async with _secured(api, connections, names) as opened:
            known = await opened(ssl=trusted)
            found = [await _answer(known, ASK)]
            silent = [await opened() for _ in range(20)]
            for stranger in silent[:16]:
                assert await _end(stranger) == b""
            silent[16][1].write(b"GET / HTTP/1.1\r\n\r\n")
            await _end(silent[16])
            found += [await _answer(known, ASK), await _answer(await opened(ssl=trusted), ASK)]
            for stranger in silent[17:]:  # a handshake has its time, as a request has
                await _end(stranger)
            await asyncio.sleep(0.05)
            assert connections._n == 2
            return found

    with asyncio.Runner(loop_factory=import_module(loop).new_event_loop) as runner:
        assert {head.split(b" ")[1] for head in runner.run(seen())} == {b"200"}
    assert (connections._n, connections._strangers) == (0, {})


def test_one_too_many_is_closed_and_the_others_go_on(api: Api) -> None:
    """Clients try again after a 503: over connections that stay open nobody would be answered any more."""

    async def seen() -> tuple[list[bytes], bytes]:
        async with _listening(api, Connections(most=8)) as opened:
            streams: list[Stream] = []
            found = []
            for _ in range(9):
                streams.append(await opened())
                found.append(await _answer(streams[-1], ASK))
            end = await _end(streams[-1])
            return [*found, *[await _answer(stream, ASK) for stream in streams[:8]]], end

    found, end = asyncio.run(seen())
    assert [head.split(b" ")[1] for head in found] == [b"200"] * 8 + [b"503"] + [b"200"] * 8
    assert end == b""


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b"])
def test_an_address_of_another_machine_is_not_blamed_on_the_port(host: str) -> None:
    with pytest.raises(UsageError, match=f"cannot listen at host={host!r} port=0: ") as told:
        _listening_at(ServeSettings(host=host, port=0, is_forced=True))
    assert told.value.hint == "give an address or a name of this machine with --host"


def test_as_many_as_there_are_descriptors_for(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [(1024, 1400)]
    monkeypatch.setattr(resource, "getrlimit", lambda what: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda what, wanted: limits.append(wanted))
    assert Connections.of_this_process()._most == 1400 - 256
    assert limits[-1] == (1400, 1400)
