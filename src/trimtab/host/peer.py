"""The process at the other end of a connection, where that end is on this machine: what an address cannot tell."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trimtab.host.process import processes

__all__ = ["is_this_machine", "peer_pid"]

_CREDENTIALS = struct.Struct("3i")


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
    inode = _inode_of(_end(connection.getpeername()), _end(connection.getsockname()))
    return _holder(f"socket:[{inode}]") if inode else None


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


def _inode_of(local: tuple[bytes, int], remote: tuple[bytes, int]) -> str:
    """Of the socket between these two ends; "" when this network namespace has none."""
    for name in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if _shown(fields[1]) == local and _shown(fields[2]) == remote:
                return fields[9]
    return ""


def _shown(text: str) -> tuple[bytes, int]:
    """An end as /proc/net/tcp shows it: words of four bytes in this machine's order."""
    address, _, port = text.partition(":")
    words = bytes.fromhex(address)
    packed = b"".join(struct.pack("=I", *struct.unpack(">I", words[i : i + 4])) for i in range(0, len(words), 4))
    return _unwrapped(packed), int(port, 16)


def _holder(name: str) -> int | None:
    for pid in processes():
        try:
            with os.scandir(f"/proc/{pid}/fd") as handles:
                if any(_link(handle.path) == name for handle in handles):
                    return pid
        except OSError:
            continue
    return None


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
