"""The client of programs with threads."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self

from trimtab.client.wire import (
    CONNECT_S,
    LATE,
    NO_PROXY,
    REFUSED,
    WAIT_S,
    Best,
    Place,
    ServerError,
    Value,
    begin_body,
    best_of,
    checked,
    control_body,
    failure_body,
    join_body,
    no_httpx,
    pauses,
    report_body,
)

__all__ = ["Point", "Server", "Session"]


class Server:
    """A `trimtab serve`. Threads may share it; so may a process that is forked with it, unless `http` is given.

    Args:
        url: default: TRIMTAB_SERVER, else http://127.0.0.1:1979.
        token: default: TRIMTAB_TOKEN, else the token file in TRIMTAB_STATE or .trimtab.
        patience_s: how long a server that cannot be reached, or is overloaded, is tried again, from its first failure on.
        verify: file or folder of certificates for a server's own TLS certificate; True for the system's.
        http: an `httpx.Client` of your own, for tests and proxies.
        on_wait: is told why a request is tried again, and for how many seconds at most; once for each such request.

    Raises:
        ServerError: httpx is missing, `url` is no URL, or the certificates cannot be read.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, patience_s: float = 60.0, verify: str | bool = True,
        http: Any = None, on_wait: Callable[[str, float], None] | None = None,
    ) -> None:  # fmt: skip
        self._place, self._patience_s, self._on_wait = Place.of(url, token), patience_s, on_wait
        self._connect: Callable[[], Any] | None = None
        self._measuring: set[Session] = set()
        if http is None:
            try:
                import httpx
            except ImportError as error:
                raise no_httpx() from error
            wait = httpx.Timeout(WAIT_S + 20, connect=CONNECT_S)
            trusted = self._place.trusted(verify)
            self._connect = partial(httpx.Client, verify=trusted, timeout=wait, mounts=NO_PROXY)
            http = self._connect()
        self._http, self._pid = http, os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leaves sessions of which a point was not reported, so that it is not kept from others, or from this program when it is
        started again, until its lease ends; gives the connections back."""
        for session in list(self._measuring):
            with suppress(ServerError):
                session.leave(patience_s=0)
        if self._connect is not None:
            self._http.close()

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, patience_s: float | None = None
    ) -> dict[str, Any]:
        """One request of the API; tried again while the server cannot answer.

        Raises:
            ServerError: it was refused, or the server did not come back in time.
        """
        patience_s = self._patience_s if patience_s is None else patience_s
        until = math.inf
        for number, pause in enumerate((*pauses(patience_s), None)):
            try:
                return self._once(method, path, body)
            except ServerError as error:
                until = min(until, time.monotonic() + patience_s)  # a fetch may have waited for a point before
                if pause is None or not error.is_passing or time.monotonic() + pause > until:
                    raise
                if number == 0 and self._on_wait is not None:
                    self._on_wait(error.message, patience_s)
                time.sleep(pause)
        raise AssertionError("unreachable")

    def _once(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        import httpx

        if self._connect is not None and self._pid != os.getpid():
            # This process was forked: over the connections of the other one each would read what is meant for the other.
            self._http, self._pid = self._connect(), os.getpid()
        try:
            answer = self._http.request(
                method, f"{self._place.url}/api/v1{path}", json=body, headers=self._place.headers
            )
        except httpx.TransportError as error:
            raise self._place.unreached(error) from None
        try:
            found = answer.json()
        except ValueError:
            found = None
        return checked(answer.status_code, found)

    def session(
        self,
        name: str,
        knobs: Sequence[Mapping[str, Any]],
        *,
        client: str = "",
        patience_s: float | None = None,
        **options: Any,
    ) -> Session:
        """Begins the session, or finds the one that was begun in the same way, and joins it.

        Args:
            name: of the session; clients of one name work on one search.
            knobs: made by `integer`, `real`, `boolean`, `choice` and `ordinal`.
            client: what people are shown of this client.
            patience_s: how long a server that cannot be reached is tried again before the session is begun; None: as later on.
            options: objective ("minimise"), budget ("50 trials"), searcher, seed, clients, layers, constraints, … : see
                docs/reference/sessions.md.

        Raises:
            ServerError: the server refuses them; the message names what is wrong.
        """
        self.request("POST", "/sessions", begin_body(name, knobs, options), patience_s=patience_s)
        return self.join(name, client=client)

    def join(self, name: str, *, client: str = "") -> Session:
        """Joins a session that somebody has begun.

        Raises:
            ServerError: there is none of that name.
        """
        return Session(self, name, client)


@dataclass(slots=True)
class Point:
    """One config to be measured.

    Attributes:
        config: the values by knob.
        role: why: "baseline", "search", "proof_candidate", …
        effort: "quick", or "long" for a run that is compared with another.
        is_reported: whether it was reported.
        is_late: whether the report came too late to count: the lease was over and another client has reported, or the session
            has ended or was restarted.
    """

    session: Session = field(repr=False)
    ticket: str
    config: dict[str, Value]
    role: str
    effort: str
    is_reported: bool = False
    is_late: bool = False

    def report(
        self, value: float | Mapping[str, float] | None = None, *, latencies_ms: Sequence[float] | None = None
    ) -> Best:
        """Reports the objective's figure, figures by metric, or latencies of single operations; the best config so far.

        Raises:
            ServerError: it is not above 0, or not finite.
        """
        return self.session._report(self, report_body(value, latencies_ms))

    def fail(self, reason: str, status: str = "crashed") -> Best:
        """Reports that it gave no measurement; status "infrastructure" when the config is not to blame.

        Raises:
            ServerError: the server refuses it.
        """
        return self.session._report(self, failure_body(reason, status))


class Session:
    """A session that was joined; iterate over it for points until it ends.

    It is one client, which has one point at a time: each thread joins by itself (`Server.join`). A process that is forked with it
    does so when it fetches.

    Attributes:
        best: the best config so far.
        result: "" while it goes on, then "better", "no_improvement" or "interrupted"; as the last fetch has it.
    """

    def __init__(self, server: Server, name: str, client: str) -> None:
        self._server, self.name, self._name = server, name, client
        self.result = ""
        self._join()

    def _join(self) -> None:
        answer = self._server.request("POST", f"/sessions/{self.name}/clients", join_body(self._name))
        self.best: Best = best_of(answer)
        self._client: str = answer["client"]
        self._pid = os.getpid()

    def __iter__(self) -> Iterator[Point]:
        while (point := self.fetch()) is not None:
            yield point
            if not point.is_reported:
                point.fail("the client went on without a report", "infrastructure")

    def fetch(self, *, wait_s: float | None = None) -> Point | None:
        """The next point; None when the session has ended, or when none is ready after `wait_s` (None: waits for one).

        Raises:
            ServerError: the server cannot be reached, or the session is gone.
        """
        if self._pid != os.getpid():
            self._join()
        while True:
            answer = self._call("fetch", {"wait_s": WAIT_S if wait_s is None else wait_s})
            self.best, self.result = best_of(answer), answer.get("result", "")
            if answer["state"] == "point":
                self._server._measuring.add(self)
                return Point(self, answer["ticket"], answer["config"], answer["role"], answer["effort"])
            if answer["state"] == "ended" or wait_s is not None:
                return None

    def _report(self, point: Point, said: dict[str, Any]) -> Best:
        try:
            answer = self._call("report", {"ticket": point.ticket, **said})
        except ServerError as error:
            if error.status not in LATE:
                raise
            point.is_reported = point.is_late = True
            self._server._measuring.discard(self)
            return self.best
        point.is_reported = True
        self._server._measuring.discard(self)
        self.best = best_of(answer)
        return self.best

    def _call(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        """A server that was started anew does not know its clients: they join again."""
        path = f"/sessions/{self.name}/{what}"
        try:
            return self._server.request("POST", path, {"client": self._client, **body})
        except ServerError as error:
            if not error.is_of_client:
                raise
        self._join()
        return self._server.request("POST", path, {"client": self._client, **body})

    def tune(self, function: Callable[..., float | None]) -> Best:
        """Calls `function(**config)` for every point until the session ends; reports what it returns, else its seconds.

        An exception counts as a crash of that config; a value that is no figure (0, negative, not finite) as a failed run.
        """
        for point in self:
            started = time.perf_counter()
            try:
                value = function(**point.config)
            except Exception as error:  # noqa: BLE001 - whatever a config makes the program raise is a result
                point.fail(f"{type(error).__name__}: {error}")
                continue
            try:
                point.report(time.perf_counter() - started if value is None else value)
            except ServerError as error:
                if error.status != REFUSED:
                    raise
                point.fail(f"it returned {value!r}: {error.message}", "failed_load")
        return self.best

    def control(self, what: str) -> dict[str, Any]:
        """ "pause", "resume", "finish", "stop" or "restart"."""
        return self._server.request("POST", f"/sessions/{self.name}/{what}", control_body(what))

    def leave(self, *, patience_s: float | None = None) -> None:
        """Leaves; a point that was not reported goes to another client. With `patience_s` it tries for so long only."""
        self._server._measuring.discard(self)
        if self._pid != os.getpid():  # the client is that of the process that this one was forked from
            return
        path = f"/sessions/{self.name}/clients/{self._client}"
        try:
            self._server.request("DELETE", path, patience_s=patience_s)
        except ServerError as error:
            # Whom the server does not know has left: the answer to the first try was lost, or the server was started anew.
            if not error.is_of_client:
                raise
