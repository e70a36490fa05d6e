"""Credentials: what a tuner logs in with and nobody else could find out, handed to its dead-man through a pipe.

The journal holds no password. A dead-man could log in only where a file or the environment has one; so the tuner gives it
what its own logins used. It stays in the memory of the two processes: it is in no file, no argument and no environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from trimtab.redact import remember

__all__ = ["hand_over", "keep", "receive", "received"]

_kept: dict[str, dict[str, str]] = {}
_received: dict[str, dict[str, str]] = {}


def keep(server: str, secrets: Mapping[str, str]) -> None:
    """This process has logged in to `server` (its kind and its url without a password) with these."""
    if secrets:
        _kept[server] = dict(secrets)


def hand_over() -> bytes:
    """All that was kept, for `receive` in another process."""
    return json.dumps(_kept).encode()


def receive(data: bytes) -> None:
    """Takes what the tuner has handed over; no message of this process shows it."""
    for server, secrets in json.loads(data or b"{}").items():
        _received[server] = {str(key): str(value) for key, value in secrets.items()}
        for value in _received[server].values():
            remember(value)


def received(server: str) -> Mapping[str, str]:
    """What was received for `server`; empty in a process that was handed nothing."""
    return _received.get(server, {})
