"""Link: one generator process and the messages to and from it."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from trimtab import __version__
from trimtab.errors import LoadError
from trimtab.load import MAGIC, PROTOCOL, read_message, write_message
from trimtab.units import format_duration
from trimtab.workload.remote.place import Place
from trimtab.workload.remote.wire import open_wire

__all__ = ["Link"]

_HELLO_S = 30.0
_ANSWER_S = 30.0
_END_S = 5.0
_SHORT_S = 0.5
_PINGS = 3
_MAX_CLOCK_S = 1.0
_KEPT_BYTES = 2000
"""Of what the process writes to its standard error."""

Message = tuple[dict[str, Any], bytes]


class Link:
    """A generator that was started; `close` ends it, in whatever state it is.

    Attributes:
        frames: seconds that came and were not taken.
        is_over: whether the generator's load has ended.
        clock_s: how far the clock there is ahead of ours.
        cores: of its machine.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.frames: deque[dict[str, Any]] = deque()
        self.is_over = False
        self.clock_s = 0.0
        self.cores = 1
        self._said = b""
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._wire = open_wire(place)
        works = (self._read, self._overhear) if self._wire.errors is not None else (self._read,)
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        stream = self._wire.incoming
        try:
            first = stream.read(len(MAGIC))
            if first == MAGIC:
                while (message := read_message(stream)) is not None:
                    self._messages.put(message)
            else:
                self._said += first
        except (OSError, ValueError):
            pass
        self._messages.put(None)

    def _overhear(self) -> None:
        stream = self._wire.errors
        assert stream is not None
        while chunk := stream.read1(_KEPT_BYTES):  # type: ignore[attr-defined]
            self._said = (self._said + chunk)[-_KEPT_BYTES:]

    def greet(self) -> None:
        """Waits for the generator, and looks at its version and clock.

        Raises:
            LoadError: it did not start, is of another version, or its clock is off.
        """
        hello = self._next(_HELLO_S, "hello")
        if hello is None or hello[0]["is"] != "hello":
            raise self._not_started()
        if (hello[0]["version"], hello[0]["protocol"]) != (__version__, PROTOCOL):
            raise LoadError(
                f"the load generator from={self.place} has trimtab={hello[0]['version']}, and this one is {__version__}",
                hint="install the same version there",
            )
        self.cores = int(hello[0]["cores"])
        self.clock_s, round_trip_s = min((self._ping() for _ in range(_PINGS)), key=lambda ping: ping[1])
        if abs(self.clock_s) - round_trip_s / 2 > _MAX_CLOCK_S:
            way = "ahead of" if self.clock_s > 0 else "behind"
            raise LoadError(
                f"the clock of the load generator from={self.place} is {abs(self.clock_s):.3g} s {way} this machine's",
                hint="synchronise both clocks (chrony, systemd-timesyncd), so that logs of both can be compared",
            )

    def _ping(self) -> tuple[float, float]:
        """(how far the clock there is ahead, seconds there and back)"""
        before_s = time.time()
        there_s = float(self.ask({"do": "clock"}, "clock")[0]["clock_s"])
        after_s = time.time()
        return there_s - (before_s + after_s) / 2, after_s - before_s

    def _not_started(self) -> LoadError:
        # It may be a shell that waits for a person.
        self.close(patience_s=_SHORT_S)
        said = self._said.decode(errors="replace").strip()
        return LoadError(
            f"the load generator from={self.place} did not start: {said or self._wire.fate}", hint=self._wire.hint
        )

    def tell(self, command: Mapping[str, Any]) -> None:
        """Sends a command; a generator that is gone shows when its answer is waited for."""
        with contextlib.suppress(OSError, ValueError):
            write_message(self._wire.outgoing, command)

    def ask(self, command: Mapping[str, Any], answer: str, timeout_s: float = _ANSWER_S) -> Message:
        """Sends a command and waits for its answer.

        Raises:
            LoadError: the generator is gone, or is silent, or refuses.
        """
        self.tell(command)
        return self.wait(answer, timeout_s)

    def wait(self, answer: str, timeout_s: float = _ANSWER_S) -> Message:
        """Waits for that message, and keeps the frames that come before it; a generator that says that it is alive is not silent.

        Raises:
            LoadError: as `ask`.
        """
        deadline = time.monotonic() + timeout_s
        while (message := self.take(deadline - time.monotonic())) is not None:
            if message[0]["is"] in (answer, "error"):
                return message
            if message[0]["is"] == "alive":
                deadline = time.monotonic() + timeout_s
        raise LoadError(
            f"the load generator from={self.place} is silent for {format_duration(timeout_s)}",
            hint="the machine may be overloaded or suspended; run the trial again",
        )

    def take(self, timeout_s: float) -> Message | None:
        """The next message, None when none comes in time; frames are kept and the load's end is noted.

        Raises:
            LoadError: the generator is gone.
        """
        try:
            message = self._messages.get(timeout=max(timeout_s, 0.0))
        except queue.Empty:
            return None
        if message is None:
            self._messages.put(None)
            raise self._died()
        if message[0]["is"] == "frame":
            self.frames.append(message[0])
        self.is_over |= message[0]["is"] == "done"
        return message

    def _next(self, timeout_s: float, answer: str) -> Message | None:
        try:
            return self.wait(answer, timeout_s)
        except LoadError:
            return None

    def _died(self) -> LoadError:
        self.close(patience_s=_SHORT_S)
        said = self._said.decode(errors="replace").strip().rpartition("\n")[2]
        return LoadError(
            f"the load generator from={self.place} ended in the middle of the run: {self._wire.fate}"
            + (f": {said}" if said else ""),
            hint="look into that machine's log (out of memory, network); the run is invalid, and the server is as it was",
        )

    def close(self, patience_s: float = _END_S) -> None:
        """Ends the generator: without somebody who directs it, it stops its load and leaves. Idempotent."""
        self._wire.end(patience_s)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_END_S)
        for stream in (self._wire.incoming, self._wire.errors):
            if stream is not None and not any(thread.is_alive() for thread in self._threads):
                stream.close()
