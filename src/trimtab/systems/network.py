"""Link: how far away the server is, so that a bad network is not taken for a bad config."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from trimtab.errors import TargetError
from trimtab.records import Endpoint

__all__ = ["Link"]

_ROUNDS = 20
_MOST_S = 1.0
_FACTOR = 5.0
_SLACK_S = 0.02
"""Slower than `_FACTOR` times the first plus this much is another network, not a busy server."""
_LOST = 2
_RETRANSMITS = struct.Struct("=100xI")
"""tcpi_total_retrans in the kernel's struct tcp_info."""


class Link:
    """Round trips to one server, and what TCP had to send again; nothing is looked at over a socket file.

    Args:
        endpoint: of the server.
        connect: makes a fresh connection; raises `TargetError`.
        ask: one round trip over it.
    """

    def __init__(
        self, endpoint: Callable[[], Endpoint], connect: Callable[[], Any], ask: Callable[[Any], object]
    ) -> None:
        self._endpoint = endpoint
        self._connect = connect
        self._ask = ask
        self._first_s: float | None = None

    def learn(self) -> None:
        """What is normal; the first look counts for the whole study."""
        if self._first_s is None:
            found = self._look()
            self._first_s = found[0] if found is not None else None

    def trouble(self) -> str:
        """What is wrong with the network now; "" when nothing is, or cannot be told."""
        found = self._look()
        if found is None or self._first_s is None:
            return ""
        round_s, n_lost, n_rounds = found
        if round_s > _FACTOR * self._first_s + _SLACK_S:
            return (
                f"the network to the server is slow: round_trip={round_s * 1e3:.1f} ms,"
                f" it was {self._first_s * 1e3:.1f} ms; a measurement now would say nothing about the config"
            )
        if n_lost >= _LOST:
            return (
                f"the network to the server loses packets: {n_lost} were sent again in {n_rounds} round trips;"
                " a measurement now would say nothing about the config"
            )
        return ""

    def _look(self) -> tuple[float, int, int] | None:
        """Shortest round trip in seconds, packets sent again, round trips; None over a socket file."""
        if self._endpoint().host.startswith("/"):
            return None
        try:
            connection = self._connect()
        except TargetError:
            return None
        with connection:
            shortest, n_rounds, until = float("inf"), 0, time.monotonic() + _MOST_S
            while n_rounds < _ROUNDS and time.monotonic() < until:
                started = time.monotonic()
                self._ask(connection)
                shortest = min(shortest, time.monotonic() - started)
                n_rounds += 1
            return shortest, _retransmits(connection.fileno()), n_rounds


def _retransmits(handle: int) -> int:
    with socket.fromfd(handle, socket.AF_INET, socket.SOCK_STREAM) as duplicate:
        try:
            info = duplicate.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RETRANSMITS.size)
        except OSError:
            return 0
    return int(_RETRANSMITS.unpack(info)[0]) if len(info) == _RETRANSMITS.size else 0
