"""What both clients share: where the server is, what its answers mean, and what is worth another try."""

from __future__ import annotations

import json
import math
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from trimtab.errors import UsageError

__all__ = [
    "CONNECT_S",
    "LATE",
    "NO_PROXY",
    "REFUSED",
    "WAIT_S",
    "Best",
    "Place",
    "ServerError",
    "Value",
    "begin_body",
    "best_of",
    "checked",
    "control_body",
    "failure_body",
    "join_body",
    "no_httpx",
    "pauses",
    "report_body",
]

Value = bool | int | float | str

CONNECT_S = 5.0
"""How long a server may take to accept a connection: an address that nobody answers at is told from one that works."""

WAIT_S = 20.0
"""How long a fetch waits for a point before it is sent again."""

LATE = (404, 409, 410)
"""Statuses of a report: the server was killed before it had written the point down, somebody else has reported it, or the session
was ended or restarted. Nothing is wrong with the program."""

NO_PROXY: Mapping[str, None] = {"all://127.0.0.1": None, "all://localhost": None, "all://[::1]": None}
"""Of httpx: this machine is reached without the proxy that the environment names, which would be sent the token, and would ask
another machine."""

_RETRIED = (429, 502, 503, 504, 507)
_LONGEST_PAUSE_S = 5.0
_MOST_REASON = 4000
"""Characters."""

_NOT_LET_IN, _UNKNOWN = 401, 404
_TOKEN_HINT = "set TRIMTAB_TOKEN to the server's token, which it keeps in the file serve.token of its --state"

REFUSED = 422
"""Status of a report that is no figure."""


class ServerError(UsageError):
    """The server refused a request, or cannot be reached.

    Attributes:
        status: of the HTTP answer; 0 when there was none.
        unknown: "ticket" where the server does not know the reported point; else "".
    """

    def __init__(self, message: str, *, hint: str | None = None, status: int = 0, unknown: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status, self.unknown = status, unknown

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status == 0 or self.status in _RETRIED

    @property
    def is_of_client(self) -> bool:
        """Whether the server may not know the client any more, so that it is to join again."""
        return self.status == _UNKNOWN and self.unknown != "ticket"


@dataclass(frozen=True, slots=True)
class Best:
    """The best config so far, how many times better than the baseline it is, and whether that is proven."""

    config: Mapping[str, Value]
    gain: float
    is_proven: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is, and what it is shown; `is_given`: by the program, not by the environment."""

    url: str
    token: str
    is_given: bool = False

    @classmethod
    def of(cls, url: str | None, token: str | None) -> Place:
        """What is given, else TRIMTAB_SERVER and TRIMTAB_TOKEN, else this machine and the token file of TRIMTAB_STATE.

        The end of a line that a secret or a setting has been stored with does not count; so it is for the server.

        Raises:
            ServerError: a URL that is none, or a token that no server has.
        """
        is_given = bool(url)
        url = (url or os.environ.get("TRIMTAB_SERVER") or "http://127.0.0.1:1979").strip().rstrip("/")
        if not _is_url(url):
            raise ServerError(f"server={url!r} is not a URL", hint="write it as http://127.0.0.1:1979")
        if token is None:
            token = os.environ.get("TRIMTAB_TOKEN") or _of_file()
        token = token.strip()
        if not (token.isascii() and token.isprintable()):
            raise ServerError("the token is none: it holds more than letters and digits", hint=_TOKEN_HINT)
        return cls(url, token, is_given)

    def unreached(self, why: Exception) -> ServerError:
        """What is raised where nothing answers."""
        where = (
            "if not, start it, or give the address of one that runs" if self.is_given else "TRIMTAB_SERVER says where"
        )
        return ServerError(
            f"server={self.url!r} cannot be reached: {why}", hint=f"is `trimtab serve` running there? {where}"
        )

    def trusted(self, verify: str | bool) -> ssl.SSLContext | bool:
        """What httpx checks the server's certificate by: the certificates of a file or folder, else those of SSL_CERT_FILE; True:
        its own, False: nothing, as where nothing is encrypted.

        Raises:
            ServerError: they cannot be read.
        """
        named = verify if isinstance(verify, str) else os.environ.get("SSL_CERT_FILE", "")
        if verify is False or self.url.startswith("http://"):
            return False
        if verify is True and not named:
            return True
        is_folder = os.path.isdir(named)
        try:
            made = ssl.create_default_context(cafile=None if is_folder else named, capath=named if is_folder else None)
        except OSError as error:  # ssl.SSLError is one
            raise ServerError(
                f"the certificates of file={named!r} cannot be read: {error.strerror or error}",
                hint="name a file with certificates in PEM form: verify of the client, or SSL_CERT_FILE",
            ) from None
        made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the server's own suffices, as for libcurl
        return made

    @property
    def headers(self) -> dict[str, str]:
        """Of every request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def _of_file() -> str:
    path = Path(os.environ.get("TRIMTAB_STATE", ".trimtab")) / "serve.token"
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def checked(status: int, body: Any) -> dict[str, Any]:
    """The body of a good answer.

    Raises:
        ServerError: it is a problem; with what the server said.
    """
    if isinstance(body, dict) and status < 400:
        return body
    told = body if isinstance(body, dict) else {}
    detail = str(told.get("detail", "")) or f"the server answered with status={status}"
    hint = told.get("hint") or (None if told else "is this the address of a `trimtab serve`?")
    if told and status == _NOT_LET_IN:
        hint = _TOKEN_HINT
    raise ServerError(detail, hint=hint, status=status, unknown=str(told.get("unknown", "")))


def best_of(answer: Mapping[str, Any]) -> Best:
    """Which every answer carries.

    Raises:
        ServerError: this one does not: something else answers there.
    """
    try:
        told = answer["best"]
        return Best(dict(told["config"]), float(told["gain"]), bool(told["is_proven"]))
    except (KeyError, TypeError, ValueError):
        raise ServerError(
            "the server's answer is not understood", hint="is this the address of a `trimtab serve` of this version?"
        ) from None


def begin_body(name: str, knobs: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> dict[str, Any]:
    """To begin a session; what is None is left to the server.

    Raises:
        ServerError: something in it is not a value of JSON, such as infinity; its status is 422, as of what the server refuses.
    """
    said = {
        "name": name,
        "knobs": [dict(knob) for knob in knobs],
        **{k: v for k, v in options.items() if v is not None},
    }
    try:
        body: dict[str, Any] = json.loads(json.dumps(said, allow_nan=False, default=_plain))
    except (TypeError, ValueError) as error:
        raise ServerError(
            f"the session cannot be begun: {error}",
            hint="give knobs and options finite numbers, texts, lists and dictionaries",
            status=REFUSED,
        ) from None
    return body


def _plain(value: Any) -> Any:
    """A number or an array of a numerical library as one of Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r:.80} is not a value of JSON")


def report_body(value: float | Mapping[str, float] | None, latencies_ms: Sequence[float] | None) -> dict[str, Any]:
    """A report of a figure, of several by name, or of single latencies.

    Raises:
        ServerError: a figure that is not finite, or no number, which no server takes; its status is 422, as of one that the
            server refuses.
    """
    said: dict[str, Any] = {}
    if isinstance(value, Mapping):
        said["values"] = {name: _figure(each) for name, each in value.items()}
    elif value is not None:
        said["value"] = _figure(value)
    if latencies_ms is not None:
        said["latencies_ms"] = [_figure(each) for each in latencies_ms]
    return said


def _figure(value: Any) -> float:
    hint = "report a point that gave no figure with fail()"
    try:
        figure = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ServerError(f"value={value!r:.80} is not a number", hint=hint, status=REFUSED) from None
    if not math.isfinite(figure):
        raise ServerError(f"value={figure} is not finite", hint=hint, status=REFUSED)
    return figure


def join_body(name: str) -> dict[str, Any]:
    """To join a session; one that is sent again, because its answer was lost, says that it is of the same client."""
    return {"name": name, "request": uuid4().hex}


def control_body(what: str) -> dict[str, Any]:
    """Of a control; a restart that is sent again, because its answer was lost, says that it is the same one."""
    return {"request": uuid4().hex} if what == "restart" else {}


def failure_body(reason: str, status: str) -> dict[str, Any]:
    """A report that a point gave no figure; bytes of `reason` that are no text are shown as "?"."""
    text = reason[:_MOST_REASON].encode("utf-8", "replace").decode("utf-8")
    return {"failed": {"status": status, "reason": text}}


def pauses(patience_s: float) -> list[float]:
    """Seconds between tries, longer and longer, `patience_s` in all."""
    found: list[float] = []
    pause = 0.1
    while sum(found) + pause <= patience_s:
        found.append(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
    return found


def _is_url(text: str) -> bool:
    """Whether it names a host, and a port that there may be, where it names one."""
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        return is_whole and text.isprintable() and " " not in text
    except ValueError:
        return False


def no_httpx() -> ServerError:
    """The library is missing."""
    return ServerError(
        "trimtab.client needs the library httpx, which is not installed", hint="pip install 'trimtab[client]'"
    )
