"""From a plan and places to a running load: every generator is greeted, connected and then started with the others."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from trimtab.errors import LoadError
from trimtab.load import LoadPlan, Part
from trimtab.records import Endpoint
from trimtab.units import counted
from trimtab.workload.engine_run import cannot_connect, cannot_start, no_threads, open_files, wished_connections
from trimtab.workload.remote.link import Link
from trimtab.workload.remote.place import Place
from trimtab.workload.remote.run import RemoteRun
from trimtab.workload.server import is_local, store_of

__all__ = ["parts_of", "start_remote"]

_CONNECT_S = 180.0
"""So long may all users take to connect, and a generator be silent that makes ready what they need."""

_END_S, _POLL_S = 30.0, 0.05
"""How long sessions on the server may take to end, and how often it is asked."""

_MAX_SKEW_S = 0.25
"""Between the starts of the first and the last generator; else their seconds are not the same seconds."""


def start_remote(
    plan: LoadPlan, places: Sequence[Place], *, threads: Callable[[int], int], endpoint: Endpoint, is_open: bool
) -> RemoteRun:
    """Starts `plan` on all `places`, which share its users and requests; returns when all users are connected and work.

    Args:
        threads: how many threads a generator has on a machine of so many cores.

    Raises:
        LoadError: a generator cannot be started, is of another version, has another time, or cannot connect; none is left.
    """
    _require_reach(endpoint, places)
    # A name of their own, by which the server knows the sessions of a generator that has died.
    name = f"trimtab load {secrets.token_hex(4)}"
    if plan.protocol == "postgresql":
        plan = replace(plan, access={**plan.access, "application_name": name})
    links: list[Link] = []
    try:
        for place in places:
            links.append(Link(place))
        for link in links:
            link.greet()
        parts = parts_of(plan.users, [threads(link.cores) for link in links])
        _connect(links, parts, plan, endpoint)
        starts_s = _start(links)
    except BaseException:
        for link in links:
            link.close()
        raise
    facts = [
        f"{link.place}: {part.n_threads} of {counted(part.n_all, 'thread')}, its clock {_ms(link.clock_s)}, "
        f"its start {_ms(start_s)}"
        for link, part, start_s in zip(links, parts, starts_s, strict=True)
    ]
    return RemoteRun(links, facts, is_open=is_open, on_death=lambda: _end_sessions(endpoint, name))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:+.1f} ms"


def _require_reach(endpoint: Endpoint, places: Sequence[Place]) -> None:
    for place in places:
        if place.host and not is_local(place.host) and is_local(endpoint.host):
            raise LoadError(
                f"the load generator from={place} cannot reach endpoint={endpoint}: host={endpoint.host} is this machine's alone",
                hint="give the target's url a host that the generator's machine can reach",
            )


def parts_of(users: int, threads: Sequence[int]) -> list[Part]:
    """The threads of each generator, numbered through all of them; at most as many as there are users."""
    wanted = list(threads)
    while sum(wanted) > max(users, len(wanted)):
        wanted[wanted.index(max(wanted))] -= 1
    firsts = [sum(wanted[:i]) for i in range(len(wanted))]
    return [Part(n, first, sum(wanted)) for n, first in zip(wanted, firsts, strict=True)]


def _connect(links: Sequence[Link], parts: Sequence[Part], plan: LoadPlan, endpoint: Endpoint) -> None:
    for link, part in zip(links, parts, strict=True):
        files, most_files = open_files(plan.users), open_files(wished_connections(plan))
        sent = plan.without_password() if link.place.is_listening else plan
        link.tell(
            {"do": "plan", "plan": sent.to_json(), "part": asdict(part), "files": files, "most_files": most_files}
        )
    for link in links:
        answer, _ = link.wait("connected", _CONNECT_S)
        if answer["is"] == "error":
            raise _refusal(link.place, answer, endpoint, plan.users)


_TLS = "tls: "
"""In front of what is wrong with a file of certificates or of a key."""


def _refusal(place: Place, answer: Mapping[str, Any], endpoint: Endpoint, users: int) -> LoadError:
    """Why a generator cannot run its part."""
    text = f"from={place}: {answer['text']}"
    if answer["kind"] == "connect":
        return cannot_connect(endpoint, users, text)
    if answer["kind"] == "system":
        return no_threads(text)
    error = cannot_start(endpoint, text)
    if not str(answer["text"]).startswith(_TLS):
        return error
    hint = "a generator reads certificates and keys on its own machine: put them there under the same path"
    return LoadError(error.message, hint=hint)


def _start(links: Sequence[Link]) -> list[float]:
    """How long after the first each has started."""
    for link in links:
        link.tell({"do": "start"})
    starts_s = [float(link.wait("started")[0]["clock_s"]) - link.clock_s for link in links]
    skew_s = max(starts_s) - min(starts_s)
    if skew_s > _MAX_SKEW_S:
        raise LoadError(
            f"the load generators started {skew_s:.3g} s apart (limit {_MAX_SKEW_S:g} s)",
            hint="a machine or the network between them is overloaded; run the trial again",
        )
    return [start_s - min(starts_s) for start_s in starts_s]


def _end_sessions(endpoint: Endpoint, name: str) -> None:
    """Ends what the generators have left running; a server that is gone has ended it itself. A session that does not end, as one
    that waits for a disk, is left behind."""
    until = time.monotonic() + _END_S
    with contextlib.suppress(LoadError):
        server = store_of(endpoint)
        with server.connect() as session:
            while server.end_sessions(session, name) and time.monotonic() < until:
                time.sleep(_POLL_S)
