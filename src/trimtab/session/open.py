"""Open, Fetched, Accepted: what a session holds while it goes on."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trimtab.errors import TrimtabError
from trimtab.flow import Ask
from trimtab.records import BASELINE_ROLES, Context, Objective, Status, Trial, Verdict
from trimtab.session.layer import Back, Reject
from trimtab.session.point import Failure, Point, Report, Result
from trimtab.session.refusal import ConflictError, UnknownTicketError
from trimtab.space import Config

__all__ = [
    "Accepted",
    "Fetched",
    "Means",
    "Open",
    "Said",
    "State",
    "interrupted",
    "outlasted",
    "read_ticket",
    "rejected",
    "result_again",
]

State = Literal["running", "paused", "ended"]

_MOST_LAPSED = 3
"""Clients in a row that have not come back with a run of a config, until that counts as the config's fault."""

_KEPT_REPORTS = 20_000
"""Reports that are remembered so that one which is sent again is known."""


@dataclass(frozen=True, slots=True)
class Said:
    """A report as it came: the id and the name of who sent it, and the result that it makes."""

    client: str
    name: str
    report: Report
    result: Result


@dataclass(slots=True)
class Open:
    """A trial that was handed out by the study and is not told yet.

    Attributes:
        ask: what the study asked for.
        run: counts from 1.
        client, since, until: who has it, and its lease, by the session's timer.
        started_at: when `since` was, seconds since the epoch.
        is_out: whether it has passed the layers on its way out.
        passed, answer: how many of them, and what one has answered instead of a client.
        said, back: the report of its run, and its result on the way back through the layers, while one of them cannot take it.
        is_back: whether what its last run gave has passed them on its way back; only while a journal is told again.
        n_spoilt: how often it was measured again since a run of it was spoilt.
        n_lapsed: leases of this run that have ended without a report.
        mark: of its values.
    """

    ask: Ask
    run: int = 1
    client: str = ""
    since: float = 0.0
    until: float = math.inf
    started_at: float = 0.0
    is_out: bool = False
    passed: int = 0
    answer: Result | None = None
    said: Said | None = None
    back: Back | None = None
    is_back: bool = False
    n_spoilt: int = 0
    n_lapsed: int = 0
    mark: str = ""

    def ticket(self, study_id: int) -> str:
        """What a report of this run must bear: the study, the trial, the run, and a mark of the values."""
        if not self.mark:
            self.mark = hashlib.sha256(json.dumps(dict(self.ask.config)).encode()).hexdigest()[:10]
        return f"{study_id}.{self.ask.number}.{self.run}.{self.mark}"

    def point(self, *, client: str | None = None, is_replayed: bool = False) -> Point:
        """As clients and layers see it; `client`: who has measured it, if that is not who has it now."""
        return Point(
            number=self.ask.number, run=self.run, config=self.ask.config, role=self.ask.role,
            effort=str(self.ask.effort), client=self.client if client is None else client, is_replayed=is_replayed,
        )  # fmt: skip

    def take_back(self) -> None:
        """Nobody has it any more."""
        self.client, self.until = "", math.inf

    def lapsed(self, lease: str) -> Report:
        """What is taken for the report of a run that clients do not survive; they cannot say so themselves."""
        reason = f"no client has reported it within lease={lease}, {self.n_lapsed} times in a row"
        return Report(failed=Failure(status="timed_out", reason=reason))

    def trial(self, result: Result, context: Context, client: str, now: float) -> Trial:
        """What the study is told; `client`: who has measured it, "" for nobody."""
        return Trial(
            number=self.ask.number,
            role=self.ask.role,
            config=self.ask.config,
            context=context,
            status=result.status,
            reason=result.reason,
            measurement=result.measurement if result.status.is_measured else None,
            cost_s={"measure" if result.figures else "failed": result.cost_s},
            started_at=self.started_at or now,
            searcher=self.ask.searcher,
            versions={"client": client} if client else {},
        )


class Means:
    """The mean loss of each config that was measured in full; every trial is looked at once. Threads may share it.

    Every answer of a session holds the best config, so all of them are looked at only when the best one was measured again.
    """

    def __init__(self) -> None:
        self._n = self._n_changed = 0
        self._losses: dict[Config, tuple[float, int]] = {}
        self._best: tuple[float, Config | None] = (math.inf, None)
        self._lock = threading.Lock()

    def best(self, trials: Sequence[Trial], n_changed: int = 0) -> tuple[Config | None, float]:
        """The config with the least mean, and that; `trials` only grows while `n_changed` is the same."""
        with self._lock:
            n = len(trials)
            if n_changed != self._n_changed:
                self._n, self._losses, self._best = 0, {}, (math.inf, None)
                self._n_changed = n_changed
            for index in range(self._n, n):
                trial = trials[index]
                if trial.status is Status.OK and trial.is_feasible and trial.loss is not None:
                    self._add(trial.config, trial.loss)
            self._n = n
            return self._best[1], self._best[0]

    def _add(self, config: Config, loss: float) -> None:
        total, n = self._losses.get(config, (0.0, 0))
        self._losses[config] = (total + loss, n + 1)
        mean = (total + loss) / (n + 1)
        if config == self._best[1] and mean > self._best[0]:
            means = ((total / n, each) for each, (total, n) in self._losses.items())
            self._best = min(means, key=lambda pair: pair[0])
        elif mean < self._best[0] or config == self._best[1]:
            self._best = (mean, config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The answer to a fetch.

    Attributes:
        state: "point": `point` is to be measured; "wait": nothing is ready; "paused"; "ended".
        point, ticket: with state "point".
        until: by the server's clock, when the point is handed to somebody else; 0 without one.
    """

    state: Literal["point", "wait", "paused", "ended"]
    point: Point | None = None
    ticket: str = ""
    until: float = 0.0


class Accepted:
    """The reports that were accepted last: who has sent each, and a digest of it, so that one which is sent again is known."""

    def __init__(self) -> None:
        self._by_ticket: dict[str, tuple[str, bytes]] = {}

    def has(self, ticket: str, client: str, report: Report) -> bool:
        """Whether that client has sent this very report before.

        Raises:
            ConflictError: the ticket was reported otherwise.
        """
        before = self._by_ticket.get(ticket)
        if before is not None and before != (client, _digest(report)):
            raise ConflictError(f"ticket={ticket!r} has been reported already", hint="fetch the next point")
        return before is not None

    def add(self, ticket: str, client: str, report: Report) -> None:
        """Remembers a report, and forgets the oldest where there are too many."""
        self._by_ticket[ticket] = (client, _digest(report))
        if len(self._by_ticket) > _KEPT_REPORTS:
            del self._by_ticket[next(iter(self._by_ticket))]


def _digest(report: Report) -> bytes:
    """The whole may hold 50,000 latencies."""
    return hashlib.sha256(report.model_dump_json().encode()).digest()


def read_ticket(ticket: str) -> tuple[int, int, int]:
    """The study, trial and run of a ticket of `Open.ticket`, whatever its mark.

    Raises:
        UnknownTicketError: it is none.
    """
    *parts, _ = ticket.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 12 for part in parts):
        raise UnknownTicketError(
            f"ticket={ticket[:40]!r} is none of this server's", hint="report the ticket that fetch gave"
        )
    study_id, number, run = map(int, parts)
    return study_id, number, run


def outlasted(opens: Mapping[int, Open], now: float) -> Iterator[tuple[Open, str]]:
    """Takes back what was not reported within its lease; gives runs that have outlasted several clients, with the last of them.
    Never those of the baseline: its failure would end the session."""
    for each in list(opens.values()):
        if each.client and now >= each.until:
            client = each.client
            each.take_back()
            each.n_lapsed += 1
            if each.n_lapsed >= _MOST_LAPSED and each.ask.role not in BASELINE_ROLES:
                yield each, client


def interrupted(why: TrimtabError, objective: Objective) -> Verdict:
    return Verdict(result="interrupted", stop_reason=why.message, metric=objective.metric,
                   objective=str(objective), unit=objective.unit)  # fmt: skip


def rejected(answer: Reject) -> Result:
    return Result(status=Status.INFEASIBLE, reason=answer.reason)


def result_again(trial: Trial) -> Result:
    """What a stored trial came from, as layers see it."""
    measured = trial.measurement
    if measured is None:
        return Result(status=trial.status, reason=trial.reason)
    figures = {"throughput": measured.throughput, "latency_mean": measured.latency_mean_ms}
    figures |= {f"latency_{name}": interval for name, interval in measured.latency_ms.items()}
    if measured.figure is not None:
        figures |= {"cost": measured.figure, "score": measured.figure}
    known = {name: interval for name, interval in figures.items() if math.isfinite(interval.estimate)}
    return Result(status=trial.status, figures=known, histogram=measured.histogram)
