"""The far side of a peer: JSON lines on stdin and stdout, so that every peer is driven by the same loop.

    {"op": "start", "space": [parameter, ...], "seed": 1, "budget": 100}    -> {"library": "…", "version": "…"}
    {"op": "tell", "values": {...}, "loss": 0.1, "failed": false}           -> {}
    {"op": "ask"}                                                           -> {"values": {...}, "seconds": 0.01}

A parameter is {"name", "kind": "int" | "float" | "choice", "low", "high", "log", "choices", "default"}. Loss is minimised; a
failed trial has the worst loss seen so far (peers that know failure of their own use `failed`). This file needs no library.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Protocol

Values = dict[str, Any]


class Peer(Protocol):
    """What each adapter has: made with (space, seed, budget)."""

    library: str
    version: str

    def ask(self) -> Values: ...
    def tell(self, values: Values, loss: float, failed: bool) -> None: ...


def serve(make: Any) -> None:
    """Answers until stdin ends; whatever the library prints goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer: Peer | None = None
    for line in sys.stdin:
        request = json.loads(line)
        reply: dict[str, Any] = {}
        if request["op"] == "start":
            peer = make(request["space"], request["seed"], request["budget"])
            reply = {"library": peer.library, "version": peer.version}
        elif peer is None:
            raise SystemExit("start comes first")
        elif request["op"] == "tell":
            start = time.process_time()
            peer.tell(request["values"], request["loss"], request["failed"])
            reply = {"seconds": time.process_time() - start}
        else:
            start = time.process_time()
            reply = {"values": peer.ask(), "seconds": time.process_time() - start}
        out.write(json.dumps(reply) + "\n")
        out.flush()
