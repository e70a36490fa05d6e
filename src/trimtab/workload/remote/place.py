"""Place: where a load generator runs, as `from` in [workload.load] names it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlsplit

from trimtab.errors import UsageError

__all__ = ["Place"]

_FORMS = (
    'use "local" (a separate process on this machine), "ssh://user@host:port?python=/path/to/python", or "tcp://host:port" '
    "(where python -m trimtab.load listens)"
)
_SAFE = re.compile(r"[\w.~/+-]+", re.ASCII)
"""What a shell at the other end takes as it is."""

_CONNECT_S = 10


@dataclass(frozen=True, slots=True)
class Place:
    """Where a generator runs.

    Attributes:
        text: as the study file has it.
        host: as ssh knows it; "" for this machine.
        port: of ssh (0 for what ssh would take), or where a generator listens.
        user: of ssh; "" for what ssh would take.
        python: the interpreter there that has Trimtab.
        is_listening: whether a generator listens there already, and nothing has to be started.
        socket: of the process of an engine, which becomes a generator; "" for a generator alone.
    """

    text: str
    host: str = ""
    port: int = 0
    user: str = ""
    python: str = "python3"
    is_listening: bool = False
    socket: str = ""

    @classmethod
    def of_engine(cls, socket: str) -> Place:
        """The process of a storage engine that is a library: the load runs in it."""
        return cls("the engine's process", socket=socket)

    @classmethod
    def parse(cls, text: object) -> Place:
        """From one entry of the study file.

        Raises:
            UsageError: it names no place.
        """
        if text == "local":
            return cls("local", python=sys.executable)
        refused = UsageError(f"[workload.load] from={text!r} names no place for a load generator", hint=_FORMS)
        if not isinstance(text, str):
            raise refused
        try:
            url = urlsplit(text)
            host, port, options = (
                _host_of(url),
                url.port or 0,
                dict(parse_qsl(url.query, strict_parsing=bool(url.query))),
            )
        except ValueError:
            raise refused from None
        if (
            url.scheme == "tcp"
            and host
            and port
            and text.removeprefix("tcp://") in (f"{host}:{port}", f"[{host}]:{port}")
        ):
            return cls(text, host, port, is_listening=True)
        place = cls(text, host, port, url.username or "", options.pop("python", "python3"))
        words = (place.host, place.user or "u", place.python)
        is_sound = all(_SAFE.fullmatch(word) and not word.startswith("-") for word in words)
        if url.scheme != "ssh" or not is_sound or url.password or url.path not in ("", "/") or options:
            raise refused
        return place

    @property
    def argv(self) -> list[str]:
        """The command that starts the generator; its streams are the generator's."""
        module = ["-m", "trimtab.load"]
        if not self.host:
            return [self.python, *module]
        port = ["-p", str(self.port)] if self.port else []
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_S}", "-o", "ServerAliveInterval=5"]
        there = f"{self.user}@{self.host}" if self.user else self.host
        return ["ssh", "-T", *options, *port, "--", there, self.python, *module]

    def __str__(self) -> str:
        return self.text


def _host_of(url: SplitResult) -> str:
    """As it is written: case counts among the names of ssh's own configuration, and `hostname` is in small letters."""
    written = url.netloc.rpartition("@")[2]
    return written[1:].partition("]")[0] if written.startswith("[") else written.partition(":")[0]
