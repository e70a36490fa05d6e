"""Repeats: runs of the baseline by each client for a layer's sake, outside of the study: they show how machines differ."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from trimtab.flow import Task
from trimtab.records import Role
from trimtab.session.journal import Journal
from trimtab.session.layer import Stack
from trimtab.session.members import Client, Timer
from trimtab.session.open import Fetched
from trimtab.session.point import Point, Report, result_of
from trimtab.session.refusal import ConflictError, UnknownTicketError

__all__ = ["Repeats"]

_MOST_FAILURES = 3


@dataclass(slots=True)
class _Repeat:
    ticket: str
    point: Point
    since: float


class Repeats:
    """The shared repeats of one session; a client has one at a time, and gets it again until it has reported.

    Args:
        study_id, task: of the session.
        layers: those that ask for repeats, and learn from them.
        journal: keeps what they gave.
        timer: as of the session.
    """

    def __init__(self, study_id: int, task: Task, layers: Stack, journal: Journal, timer: Timer) -> None:
        self._study_id, self._task, self._layers = study_id, task, layers
        self._journal, self._timer = journal, timer
        self._held: dict[str, _Repeat] = {}
        self._failures: dict[str, list[str]] = {}
        self._n = 0

    def next(self, client: Client, until: float) -> Fetched | None:
        """The run of the baseline that `client` owes, `until` as it is told; None when it owes none.

        Raises:
            ConflictError: it has failed at it too often.
        """
        held = self._held.get(client.id)
        if held is None:
            if not self._layers.wants(client.id):
                return None
            failures = self._failures.get(client.id, [])
            if len(failures) >= _MOST_FAILURES:
                raise ConflictError(
                    f"this client has failed {len(failures)} times to measure the baseline: {failures[-1]}",
                    hint="fix its machine, and join again",
                )
            held = self._held[client.id] = self._made(client)
        return Fetched(state="point", point=held.point, ticket=held.ticket, until=until)

    def _made(self, client: Client) -> _Repeat:
        self._n += 1
        mark = hashlib.sha256(f"{client.id} {self._n}".encode()).hexdigest()[:10]
        point = Point(number=self._n, run=1, config=self._task.baseline, role=Role.BASELINE, client=client.id)
        return _Repeat(f"{self._study_id}.r{self._n}.1.{mark}", point, self._timer())

    @staticmethod
    def is_one(ticket: str) -> bool:
        """Whether a ticket is that of a repeat."""
        return ticket.partition(".")[2].startswith("r")

    def report(self, client: Client, ticket: str, report: Report) -> None:
        """Takes what a repeat gave.

        Raises:
            UnknownTicketError: the client has no such repeat: it had left, or the server was started anew.
            UsageError: the report does not hold what the objective needs.
        """
        held = self._held.get(client.id)
        if held is None or held.ticket != ticket:
            raise UnknownTicketError(
                f"ticket={ticket[:40]!r} was never handed out", hint="report the ticket that fetch gave"
            )
        cost_s = self._timer() - held.since
        result = result_of(report, self._task.objective, cost_s)
        del self._held[client.id]
        if result.figures:
            self._failures.pop(client.id, None)
            self._layers.repeated(client.id, result)
            said = {"client": client.id, "cost_s": cost_s, "report": report.model_dump()}
            self._journal.event("repeat", self._journal.dumps(said))
        else:
            self._failures.setdefault(client.id, []).append(f"{result.status}: {result.reason}")

    def leave(self, client_id: str) -> None:
        """Forgets a client that has left."""
        self._held.pop(client_id, None)
        self._failures.pop(client_id, None)

    def replay(self, text: str) -> None:
        """Tells the layers again, after a restart of the server."""
        said = self._journal.loads(text)
        result = result_of(Report.model_validate(said["report"]), self._task.objective, said["cost_s"])
        self._layers.repeated(said["client"], result)

    def running(self, lease_s: float) -> list[tuple[Point, float]]:
        """What is being measured, for less than a lease, and since when; another thread may ask."""
        now = self._timer()
        return [(held.point, held.since) for held in list(self._held.values()) if now - held.since < lease_s]

    def speeds(self) -> dict[str, float]:
        """How fast the machine of each client is, by id, where a layer knows it."""
        return self._layers.says()
