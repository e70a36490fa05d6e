"""What goes over the wire of a server: each answer in one piece, and none held back."""

from __future__ import annotations

import asyncio
from typing import Any

from trimtab.serve.protocol import Joined

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Transport:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.sent.append(data)

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


def test_a_head_goes_with_its_body_and_never_waits_for_one() -> None:
    async def sent() -> list[list[bytes]]:
        seen, transport = [], Transport()
        joined: Any = Joined(transport, asyncio.get_running_loop())  # type: ignore[arg-type]

        async def look() -> None:
            await asyncio.sleep(0)
            seen.append(list(transport.sent))
            transport.sent.clear()

        joined.write(HEAD)
        joined.write(b"{}")
        assert transport.sent == [HEAD + b"{}"], "at once"
        await look()
        joined.write(HEAD)  # of a request for the head alone, or of a stream
        assert transport.sent == []
        await look()
        joined.write(b"5\r\nevent\r\n")
        assert transport.sent == [b"5\r\nevent\r\n"]
        joined.write(b"0\r\n\r\n")
        await look()
        joined.write(HEAD)
        joined.close()
        assert joined.is_closing()
        await look()
        return seen

    async def gone() -> list[bytes]:
        transport = Transport()
        joined: Any = Joined(transport, asyncio.get_running_loop())  # type: ignore[arg-type]
        joined.write(HEAD)
        transport.close()  # by the client
        await asyncio.sleep(0)
        return transport.sent

    assert asyncio.run(gone()) == []
    assert asyncio.run(sent()) == [[HEAD + b"{}"], [HEAD], [b"5\r\nevent\r\n", b"0\r\n\r\n"], [HEAD]]
