"""Guard: what every request passes first: connections, rate, Host, Origin, size and token. Nothing behind sees one that fails."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from trimtab.serve.connections import Connections
from trimtab.serve.problem import problem
from trimtab.serve.settings import ServeSettings, is_address

__all__ = ["App", "Guard", "Receive", "Scope", "Send"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OPEN = ("/", "/health")
_MOST_ADDRESSES = 10_000
_BURST_S = 3.0
_LEAST_REFUSAL = 400
"""Status."""
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
)
_READ = frozenset((b"host", b"origin", b"content-length", b"authorization"))


class _Rates:
    """A bucket for each address, filled at a steady rate."""

    def __init__(self, per_s: float, clock: Callable[[], float]) -> None:
        self._per_s, self._most, self._clock = per_s, per_s * _BURST_S, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def is_over(self, address: str) -> bool:
        """Takes one from the bucket of `address`; whether there was none."""
        now = self._clock()
        left, at = self._left.pop(address, (self._most, now))
        left = min(self._most, left + (now - at) * self._per_s)
        self._left[address] = (max(0.0, left - 1), now)
        if len(self._left) > _MOST_ADDRESSES:
            self._left.popitem(last=False)
        return left < 1


class Guard:
    """An ASGI application around another one.

    The page itself, its static files and `/health` need no token: they hold no data.

    Args:
        app: answers what may pass.
        settings, connections: of the server.
        refused: is called with each answer that is a refusal, whoever gives it.
    """

    def __init__(
        self, app: App, settings: ServeSettings, connections: Connections, refused: Callable[[], object]
    ) -> None:
        self._app, self._settings, self._connections, self._refused = app, settings, connections, refused
        self._rates = _Rates(settings.most_per_s, time.monotonic)
        named = {settings.host.lower(), *settings.names}  # names come in lower case, and so does a Host header
        self._hosts = {*_LOOPBACK, *named} if settings.is_local else named
        # A wildcard address has no name: then any literal address is one of this machine's, and names must be given.
        self._is_wild = settings.host in ("0.0.0.0", "::")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers itself what may not pass."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _READ}
        refusal = self._refusal(scope, headers)
        sender = self._sender(send)
        if refusal is not None:
            await refusal(scope, receive, sender)
            return
        await self._app(scope, _limited(receive, self._settings.most_body), sender)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Any:
        if self._connections.are_too_many:
            # This one is closed: clients try again, and over connections that stay open nobody would be answered any more.
            said = {"Retry-After": "1", "Connection": "close"}
            return problem(503, "too many connections are open", "close some, or try again later", said)
        address = (scope.get("client") or ("", 0))[0]
        if self._rates.is_over(address):
            return problem(
                429, f"more than {self._settings.most_per_s} requests a second", "slow down", {"Retry-After": "1"}
            )
        if not self._is_own_host(headers.get("host", "")):
            return problem(
                421, "the Host header names another server", "start the server with --name NAME to be called by it"
            )
        origin = headers.get("origin")
        if origin is not None and not self._is_own_origin(origin, headers.get("host", "")):
            return problem(
                403, "the request comes from another site's page", "open the dashboard of this server itself"
            )
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > self._settings.most_body:
            return problem(413, _too_large(self._settings.most_body), "send less at a time")
        path = scope["path"]
        if path in _OPEN or path.startswith("/static/"):
            return None
        if self._bears_token(headers):
            self._connections.known(scope.get("client"))
            return None
        return problem(
            401,
            "the request bears no token, or a wrong one",
            "send `Authorization: Bearer TOKEN`",
            {"WWW-Authenticate": "Bearer"},
        )

    def _sender(self, send: Send) -> Send:
        """Adds headers to an answer, and tells of a refusal."""

        async def sender(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                if message["status"] >= _LEAST_REFUSAL:
                    self._refused()
                own = list(message.get("headers", ()))
                names = {name.lower() for name, _ in own}
                message = {**message, "headers": own + [header for header in _HEADERS if header[0] not in names]}
            await send(message)

        return sender

    def _is_own_host(self, host: str) -> bool:
        name = _host_name(host)
        if self._is_wild and (is_address(name) or name.replace(".", "").isdecimal()):
            return True
        return name in self._hosts or (self._is_wild and name in _LOOPBACK)

    def _is_own_origin(self, origin: str, host: str) -> bool:
        try:
            return urlsplit(origin).netloc == host
        except ValueError:
            return False

    def _bears_token(self, headers: dict[str, str]) -> bool:
        if not self._settings.token:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        known = self._settings.token.encode()
        return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), known)


def _too_large(most: int) -> str:
    return f"the body is larger than {most} bytes"


def _host_name(host: str) -> str:
    """Of a Host header, without its port; "" when it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _limited(receive: Receive, most: int) -> Receive:
    """A body without a length, or with a wrong one, is counted while it is read."""
    seen = 0

    async def limited() -> MutableMapping[str, Any]:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise HTTPException(413, _too_large(most))
        return message

    return limited
