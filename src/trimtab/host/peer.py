"""The process at the other end of a connection, where that end is on this machine: what an address cannot tell."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from trimtab.host.process import processes

__all__ = ["is_this_machine", "listeners", "peer_pid"]

_CREDENTIALS = struct.Struct("3i")
_LISTENS = "0A"
"""State of a socket that listens, as /proc/net/tcp shows it."""


def peer_pid(connection: socket.socket) -> int | None:
    """The process that holds the other end; None when it is on another machine, or cannot be seen.

    Of a unix socket the kernel tells who listens on it (SO_PEERCRED); of TCP it shows both ends of a connection inside this
    machine's network namespace, and root, or the same user, may see who holds the other one. A forwarder is found as itself.
    """
    if connection.family == socket.AF_UNIX:
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(found)[0]) or None
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    ends = _end(connection.getpeername()), _end(connection.getsockname())
    inode = next((fields[9] for fields in _rows() if (_shown(fields[1]), _shown(fields[2])) == ends), "")
    return next(_holders({f"socket:[{inode}]"}), None) if inode else None


def listeners(port: int) -> frozenset[int]:
    """The processes that listen on a TCP port in this network namespace, as far as this user may see them."""
    names = {f"socket:[{fields[9]}]" for fields in _rows() if fields[3] == _LISTENS and _shown(fields[1])[1] == port}
    return frozenset(_holders(names)) if names else frozenset()


def is_this_machine(host: str) -> bool:
    """Whether a name or an address means this machine: one of its interfaces has it, or it is a socket's. A name that nobody
    knows says nothing of another machine."""
    if host in ("", "localhost") or host.startswith("/"):
        return True
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return True
    return any(_can_bind(family, address) for family, _, _, _, address in found)


def _can_bind(family: int, address: Sequence[Any]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address[0], 0, *address[2:]))
    except OSError:
        return False
    return True


def _end(address: tuple[object, ...]) -> tuple[bytes, int]:
    """(address, port); one of IPv4 is told as that, also where IPv6 has wrapped it."""
    host, port = str(address[0]).partition("%")[0], int(str(address[1]))
    packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    return _unwrapped(packed), port


def _unwrapped(packed: bytes) -> bytes:
    return packed[12:] if packed.startswith(b"\0" * 10 + b"\xff\xff") else packed


def _rows() -> Iterator[list[str]]:
    """The fields of each socket of TCP in this network namespace."""
    for name in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        yield from (row.split() for row in rows)


def _shown(text: str) -> tuple[bytes, int]:
    """An end as /proc/net/tcp shows it: words of four bytes in this machine's order."""
    address, _, port = text.partition(":")
    words = bytes.fromhex(address)
    packed = b"".join(struct.pack("=I", *struct.unpack(">I", words[i : i + 4])) for i in range(0, len(words), 4))
    return _unwrapped(packed), int(port, 16)


def _holders(names: Collection[str]) -> Iterator[int]:
    """The processes that have one of these open."""
    for pid in processes():
        try:
            with os.scandir(f"/proc/{pid}/fd") as handles:
                is_one = any(_link(handle.path) in names for handle in handles)
        except OSError:
            continue
        if is_one:
            yield pid


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
