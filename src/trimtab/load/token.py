"""How two sides of a TCP connection show each other that they know the same token, without sending it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import time

__all__ = ["MIN_CHARACTERS", "TokenError", "admit", "enter"]

MIN_CHARACTERS = 16
"""Of a token; a shorter one could be found by trying."""

_GREETING = "trimtab-load-token"
_MAX_LINE = 256


class TokenError(Exception):
    """The other side does not know the token, or is no load generator; the text says which."""


def admit(connection: socket.socket, token: str) -> None:
    """The generator's side.

    Raises:
        TokenError: whoever came does not know the token.
        OSError: nobody is there any more.
    """
    ours = secrets.token_hex(16)
    connection.sendall(f"{_GREETING} {ours}\n".encode())
    theirs, _, proof = _line(connection).partition(" ")
    if not _is_same(proof, _proof(token, "director", ours, theirs)):
        raise TokenError("it does not know the token")
    connection.sendall(f"{_proof(token, 'generator', ours, theirs)}\n".encode())


def enter(connection: socket.socket, token: str) -> None:
    """The side that directs.

    Raises:
        TokenError: there is no generator, or its token is another.
        OSError: nobody is there any more.
    """
    greeting, _, theirs = _line(connection).partition(" ")
    if greeting != _GREETING:
        raise TokenError("what answers there is no load generator")
    ours = secrets.token_hex(16)
    connection.sendall(f"{ours} {_proof(token, 'director', theirs, ours)}\n".encode())
    if not _is_same(_line(connection), _proof(token, "generator", theirs, ours)):
        raise TokenError("its token is another")


def _proof(token: str, role: str, first: str, second: str) -> str:
    return hmac.new(token.encode(), f"{role} {first} {second}".encode(), hashlib.sha256).hexdigest()


def _is_same(given: str, proof: str) -> bool:
    """What is given may be no text at all."""
    return hmac.compare_digest(given.encode(), proof.encode())


def _line(connection: socket.socket) -> str:
    """One line and not a byte more: what follows is for somebody else. All of it has to come within the connection's time-out."""
    limit_s, began_s, line = connection.gettimeout(), time.monotonic(), b""
    try:
        while not line.endswith(b"\n"):
            if limit_s is not None:
                connection.settimeout(max(1e-3, began_s + limit_s - time.monotonic()))
            byte = connection.recv(1)
            if not byte or len(line) > _MAX_LINE:
                break
            line += byte
    finally:
        connection.settimeout(limit_s)
    return line.decode("ascii", errors="replace").rstrip("\n")
