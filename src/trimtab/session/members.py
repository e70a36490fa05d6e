"""Members: the clients of a session, and which of them makes its proof."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from trimtab.records import Role
from trimtab.session.refusal import ConflictError, UnknownError

__all__ = ["PROOF", "Client", "Members", "Timer"]

Timer: TypeAlias = Callable[[], float]

PROOF = (Role.PROOF_BASELINE, Role.PROOF_CANDIDATE, Role.PROOF_ADVICE, Role.ABLATION)
"""Trials that are compared with each other one to one."""

_MOST = 10_000


@dataclass(slots=True)
class Client:
    """Somebody who makes trials; `seen_s`: when it said something last, by the session's timer; `request`: what it has joined
    with, "" where nothing is known."""

    id: str
    name: str
    joined_at: float
    seen_at: float
    seen_s: float
    n_reports: int = 0
    request: str = ""


class Members:
    """Those that have joined and not left.

    Args:
        session: its name, for messages.
        patience_s: a client that makes the proof and says nothing for so long is taken for gone.
        clock, timer: as of a session.
    """

    def __init__(self, session: str, patience_s: float, clock: Timer, timer: Timer) -> None:
        self.by_id: dict[str, Client] = {}
        self._session, self._patience_s, self._clock, self._timer = session, patience_s, clock, timer
        self._prover = ""

    def join(self, name: str, *, request: str = "") -> Client:
        """Takes a client in, once for each `request` ("": not known), which is sent again where its answer was lost. Where there
        are too many, those that have said nothing for as long as `patience_s` make room.

        Raises:
            ConflictError: there are too many that have.
        """
        known = next((each for each in self.by_id.values() if request and each.request == request), None)
        if known is not None:
            return self.get(known.id)
        now, now_s = self._clock(), self._timer()
        if len(self.by_id) >= _MOST:
            for silent in [each.id for each in self.by_id.values() if now_s - each.seen_s >= self._patience_s]:
                del self.by_id[silent]
        if len(self.by_id) >= _MOST:
            raise ConflictError(
                f"session={self._session!r} has n_clients={len(self.by_id)} already", hint="let some leave first"
            )
        client = Client(secrets.token_hex(8), name, now, now, now_s, request=request)
        self.by_id[client.id] = client
        return client

    def get(self, client_id: str) -> Client:
        """The client of that id, who has just shown that it lives.

        Raises:
            UnknownError: there is none.
        """
        found = self.by_id.get(client_id)
        if found is None:
            raise UnknownError(
                f"session={self._session!r} has no such client", hint="join again: the server may have been restarted"
            )
        found.seen_at, found.seen_s = self._clock(), self._timer()
        return found

    def are_gone(self) -> bool:
        """Whether there are none, or none has said anything for as long as a lease."""
        now_s = self._timer()
        return all(now_s - each.seen_s >= self._patience_s for each in list(self.by_id.values()))

    def shown(self, client_id: str) -> str:
        """The name of a client, else the beginning of its id; "" for none."""
        found = self.by_id.get(client_id)
        return client_id[:6] if found is None else found.name or client_id[:6]

    def may_have(self, client: Client, role: Role) -> bool:
        """Whether a point of that role may go to `client`, where machines differ: one of them makes the whole proof."""
        if role not in PROOF:
            return True
        prover = self.by_id.get(self._prover)
        if prover is None or client.seen_s - prover.seen_s >= self._patience_s:
            self._prover = client.id
        return self._prover == client.id
