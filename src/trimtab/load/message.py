"""What goes over the wire between a generator and who directs it: JSON, and columns of numbers as they are.

A message is two lengths (four bytes each, big-endian), a JSON object, and bytes. A generator says `MAGIC` first, so that what a
shell prints at login is not taken for a message.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, Any

__all__ = ["MAGIC", "PROTOCOL", "read_message", "write_message"]

MAGIC = b"trimtab-load\n"
PROTOCOL = 3
"""Of these messages; both sides must have the same."""

_HEAD = struct.Struct("!II")
_MAX_JSON = 1 << 28
_MAX_BYTES = 1 << 30


def write_message(stream: IO[bytes], body: Mapping[str, Any], data: bytes = b"") -> None:
    """Sends one message.

    Raises:
        OSError: nobody listens any more.
    """
    text = json.dumps(body).encode()
    stream.write(_HEAD.pack(len(text), len(data)) + text + data)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next message; None when the other side has closed the stream, or died in the middle of a message.

    Raises:
        ValueError: what comes is no message.
    """
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    n_json, n_bytes = _HEAD.unpack(head)
    if n_json > _MAX_JSON or n_bytes > _MAX_BYTES:
        raise ValueError(f"{head!r} does not begin a message")
    text, data = stream.read(n_json), stream.read(n_bytes)
    if len(text) < n_json or len(data) < n_bytes:
        return None
    body = json.loads(text)
    if not isinstance(body, dict) or not isinstance(body.get("is", body.get("do")), str):
        raise ValueError(f"{body!r} is not a message")
    return body, data
