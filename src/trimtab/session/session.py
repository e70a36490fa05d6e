"""Session: a study whose trials are made by clients: points go out, reports come back, in any order, and nothing is lost.

It knows no network and no clock of its own; whoever serves it hands in the time. One thread at a time may call it. Everything
that it decides it writes into its journal in order, so it can be told again after a restart: the study behind it is a function
of that order (see `trimtab.flow.study`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from trimtab.errors import InternalError, LoadError, TrimtabError
from trimtab.flow import Stopped
from trimtab.records import Trial, Verdict, in_hindsight
from trimtab.session.course import Course
from trimtab.session.journal import Journal
from trimtab.session.layer import Setting, Stack
from trimtab.session.members import Client, Members, Timer
from trimtab.session.open import Accepted, Fetched, Means, Open, Said, State, interrupted, outlasted, read_ticket
from trimtab.session.passage import Passage
from trimtab.session.point import Report, Result, result_of
from trimtab.session.refusal import ConflictError, GoneError, UnknownTicketError
from trimtab.session.repeats import Repeats
from trimtab.session.replay import Replay
from trimtab.session.spec import SessionSpec
from trimtab.space import Config

__all__ = ["Session"]

_MOST_UNSEEN = 200
"""Points that layers may answer or reject in one fetch: a space that is all but forbidden must not hold the server."""

_BASELINE_HINT = "make the program run with the values of the baseline, and begin the session again"

_BUG_HINT = "please report it; what was measured is kept, and `restart` begins the session again"

_MOST_LOST = 100
"""Points that clients may have had at a crash without the journal knowing it."""


class Session:
    """One session. Other threads may read `best`, `running`, `trials` and the attributes at any time.

    Args:
        spec: what was asked for.
        study_id: its study in the history.
        setting: what its layers may know, and its task.
        journal: takes what happens, in order.
        clock: seconds since the epoch, for what people are shown.
        timer: seconds that no step of that clock changes, for leases and costs.

    Attributes:
        members: the clients.
        version: counts up with every change.
        request: by which a client has restarted it; "" where none is known.
    """

    def __init__(
        self, spec: SessionSpec, study_id: int, setting: Setting, journal: Journal, clock: Timer, timer: Timer
    ) -> None:
        self.spec, self.study_id, self.task = spec, study_id, setting.task
        self.members = Members(spec.name, spec.lease_s, clock, timer)
        self.version = 0
        self.request = ""
        self.verdict = Verdict()
        self.error = ""
        self._clock, self._timer, self._journal, self._lease_s = clock, timer, journal, spec.lease_s
        layers = Stack.of([(e.kind, e.options) for e in spec.layers if e.kind != "group"], setting)
        self._passage, self._has_layers = Passage(layers), not layers.is_empty
        self._is_unequal = any(entry.kind == "machines" for entry in spec.layers)
        self._repeats = Repeats(study_id, self.task, layers, journal, timer)
        self._means = Means()
        self._most_lost = -1
        self._is_paused = self._is_over = False
        self._opens: dict[int, Open] = {}
        self._accepted = Accepted()
        self._past: list[Trial] | None = None
        self._course = Course(spec, self.task)
        self._replay = Replay(self._course, self._passage, self._opens, self.task.objective)

    # ----- what it is

    @property
    def state(self) -> State:
        """Whether points go out."""
        return "ended" if self._is_over else "paused" if self._is_paused else "running"

    @property
    def is_forgotten(self) -> bool:
        """Whether it has ended, and no client has asked for anything as long as a lease."""
        return self._is_over and self.members.are_gone()

    @property
    def trials(self) -> list[Trial]:
        """All that was told, in order."""
        return self._course.trials if self._past is None else self._past

    @property
    def news(self) -> str:
        """What its study said last, for people."""
        return self._course.news

    @property
    def status(self) -> str:
        """As the history has it."""
        if not self._is_over:
            return "running"
        return {"better": "proven", "no_improvement": "no_improvement"}.get(self.verdict.result, "stopped")

    def best(self) -> tuple[Config, float]:
        """The best config so far, proven or not, and its gain (1: the baseline itself)."""
        if self._is_over and self.verdict.result == "better" and self.verdict.candidate is not None:
            proven = self.verdict.gain
            return self.verdict.candidate, proven.estimate if proven is not None else 1.0
        if self._is_over and self.verdict.result == "no_improvement":
            return self.task.baseline, 1.0
        config, loss = self._means.best(self.trials, self._course.n_changed)
        return (config, math.exp(-loss)) if config is not None and loss < 0 else (self.task.baseline, 1.0)

    @property
    def is_proven(self) -> bool:
        """Whether `best` is a proven winner."""
        return self._is_over and self.verdict.result == "better"

    def running(self) -> list[dict[str, Any]]:
        """What is out: number (None: a shared repeat), run, role, client ("": its lease is over), seconds, what it changes."""
        now, opens = self._timer(), list(self._opens.values())
        points = [*((each.point(client=None if now < each.until else ""), each.since, each.ask.number) for each in opens),
                  *((point, since, None) for point, since in self._repeats.running(self._lease_s))]  # fmt: skip
        return [
            {
                "number": number, "run": point.run, "role": str(point.role), "client": self.members.shown(point.client),
                "seconds": round(max(0.0, now - since), 1) if point.client else 0.0,
                "changed": {name: point.config[name] for name in point.config.difference(self.task.baseline)},
            }
            for point, since, number in points
        ]  # fmt: skip

    @property
    def clients(self) -> dict[str, Client]:
        """Those that have joined and not left, by id."""
        return self.members.by_id

    def speeds(self) -> dict[str, float]:
        """How fast the machine of each client is, by id, where layer `machines` knows it."""
        return self._repeats.speeds()

    # ----- clients

    def join(self, name: str, *, request: str = "") -> Client:
        """Takes a client in; see `Members.join`.

        Raises:
            ConflictError: there are too many.
        """
        client = self.members.join(name, request=request)
        self.version += 1
        return client

    def leave(self, client_id: str) -> None:
        """Lets a client go; what it had is handed out again.

        Raises:
            UnknownError: no such client.
        """
        self.members.get(client_id)
        del self.clients[client_id]
        self._repeats.leave(client_id)
        for each in self._opens.values():
            if each.client == client_id:
                each.take_back()
        self.version += 1

    # ----- the conversation

    def fetch(self, client_id: str) -> Fetched:
        """The next point for that client; while it has one, the same again, with its lease renewed.

        Raises:
            UnknownError: no such client.
            ConflictError: it cannot measure the baseline, which layer `machines` wants of it.
        """
        client = self.members.get(client_id)
        now = self._timer()
        if self._is_over:
            return Fetched(state="ended")
        held = next((each for each in self._opens.values() if each.client == client.id), None)
        if held is not None:
            return self._handed(held, client, now)
        if self._is_paused:
            return Fetched(state="paused")
        repeat = self._repeats.next(client, self._clock() + self._lease_s)
        if repeat is not None:
            self.version += 1
            return repeat
        self._expire(now)
        free = self._next_free()
        if free is None or (self._is_unequal and not self.members.may_have(client, free.ask.role)):
            return Fetched(state="ended" if self._is_over else "wait")
        free.since, free.started_at = now, self._clock()
        return self._handed(free, client, now)

    def _handed(self, given: Open, client: Client, now: float) -> Fetched:
        given.client, given.until = client.id, now + self._lease_s
        self.version += 1
        point, until = given.point(), self._clock() + self._lease_s
        return Fetched(state="point", point=point, ticket=given.ticket(self.study_id), until=until)

    def _expire(self, now: float) -> None:
        """Whoever has not reported in time is taken for gone; a config that has outlasted several is told as one that failed."""
        for each, client_id in outlasted(self._opens, now):
            if (client := self.members.by_id.get(client_id)) is not None:
                said = self._said(each, client, each.lapsed(self.spec.lease))
                self._settle(each, said, self._outcome(each, said))

    def _next_free(self) -> Open | None:
        """A point that nobody has: one that was taken back or is to be repeated, or a new one; None while there is none."""
        for _ in range(_MOST_UNSEEN):
            waiting = next((each for each in self._opens.values() if not each.client), None)
            waiting = waiting or self._drawn()
            if waiting is None:
                return None
            if waiting.is_out:
                return waiting
            self._passage.out(waiting)
            if waiting.answer is None:
                return waiting
            self._tell(waiting, self._passage.answered(waiting, waiting.answer), client="")
        return None

    def _drawn(self) -> Open | None:
        """Asks the study; what it has decided is written down."""
        try:
            with self._bugs_end_it():
                ask = self._course.next()
        except TrimtabError as error:
            self._fail(error)
            return None
        if self._course.verdict is not None:
            self._end(self._course.verdict)
            return None
        if ask is None:
            return None
        self._opens[ask.number] = Open(ask)
        self._journal.event("asked", str(ask.number))
        return self._opens[ask.number]

    @contextmanager
    def _bugs_end_it(self) -> Iterator[None]:
        """What nobody foresaw in a flow or a searcher goes on to whoever asked, and the session has ended: steps that are broken
        off would only say that they are over, with no verdict."""
        try:
            yield
        except TrimtabError:
            raise
        except Exception as error:
            self._fail(InternalError(f"a bug in Trimtab: {type(error).__name__}: {error}", hint=_BUG_HINT))
            raise

    def report(self, client_id: str, ticket: str, report: Report) -> Literal["told", "again", "known"]:
        """Takes a report: "told", "again" when the point is to be measured once more, "known" when this was said before.

        The first report of a run counts, also when its lease has ended and nobody else has reported, and when a layer could not
        take it (a full disk): it goes on with that layer whatever is sent then. The same report from the same client may be sent
        again.

        Raises:
            UnknownError: no such client, or the point was never handed out.
            ConflictError: somebody has reported that run already, or the session has ended.
            UsageError: the report says nothing, or not what the objective needs.
        """
        client = self.members.get(client_id)
        if self._accepted.has(ticket, client.id, report):
            return "known"
        if self._repeats.is_one(ticket) and not self._is_over:
            self._repeats.report(client, ticket, report)
            self._accepted.add(ticket, client.id, report)
            client.n_reports += 1
            self.version += 1
            return "told"
        reported = self._of_ticket(ticket)
        said = reported.said or self._said(reported, client, report)
        outcome = self._outcome(reported, said)
        self._accepted.add(ticket, client.id, report)
        client.n_reports += 1
        return self._settle(reported, said, outcome)

    def _outcome(self, reported: Open, said: Said) -> Result | None:
        reported.said = said
        outcome = self._passage.back(reported, said.result, said.client)
        reported.said = None
        return outcome

    def _settle(self, reported: Open, said: Said, outcome: Result | None) -> Literal["told", "again"]:
        self.version += 1
        run = ""
        if outcome is None or self._has_layers:
            kept = {
                "number": reported.ask.number,
                "run": reported.run,
                "cost_s": said.result.cost_s,
                "client": said.client,
            }
            run = self._journal.dumps({**kept, "report": said.report.model_dump()})
        if outcome is None:
            self._journal.event("run", run)
            reported.run, reported.n_lapsed = reported.run + 1, 0
            reported.take_back()
            return "again"
        self._tell(reported, outcome, client=said.name, run=run)
        return "told"

    def _said(self, reported: Open, client: Client, report: Report) -> Said:
        cost_s = self._timer() - reported.since if reported.since else 0.0
        return Said(client.id, client.name or client.id, report, result_of(report, self.task.objective, cost_s))

    def _of_ticket(self, ticket: str) -> Open:
        study_id, number, run = read_ticket(ticket)
        if self._is_over and study_id == self.study_id:
            raise ConflictError(f"session={self.spec.name!r} has ended", hint="its best config is in `best`")
        if study_id != self.study_id:
            raise GoneError(
                f"ticket={ticket!r} is of another run of the session", hint="it was restarted: fetch the next point"
            )
        found = self._opens.get(number)
        found = found if found is not None and found.is_out else self._lost(number)
        if found is not None and found.run == run and found.is_out and found.ticket(self.study_id) == ticket:
            return found
        if any(trial.number == number for trial in self.trials) or (found is not None and run < found.run):
            raise ConflictError(f"ticket={ticket!r} has been reported already", hint="fetch the next point")
        raise UnknownTicketError(f"ticket={ticket!r} was never handed out", hint="report the ticket that fetch gave")

    def _lost(self, number: int) -> Open | None:
        """A point that went out just before a crash, so that the journal does not have it. What the study asks next is the same
        again, because it is a function of the journal, unless somebody has reported another point in between."""
        if any(trial.number == number for trial in self.trials):
            return None
        while number not in self._opens and number <= self._most_lost and self._drawn() is not None:
            pass
        found = self._opens.get(number)
        if found is not None and not found.is_out:
            self._passage.out(found)
        return found

    def _tell(self, told: Open, result: Result, client: str, run: str = "") -> None:
        with self._bugs_end_it():
            trial = self._course.tell(told.trial(result, self.task.context, client, self._clock()))
        del self._opens[told.ask.number]
        self._journal.told(trial, run)
        self.version += 1

    # ----- control

    def pause(self) -> None:
        """No new points go out; reports are taken. Idempotent."""
        self._control("pause")

    def resume(self) -> None:
        """Points go out again. Idempotent."""
        self._control("resume")

    def finish(self) -> None:
        """Ends the search: what follows (the proof) goes out if clients go on fetching. Idempotent."""
        self._control("finish")

    def stop(self, reason: str = "stopped by the user") -> None:
        """Ends it at once, without a proof. Idempotent."""
        if self._is_over:
            return
        try:
            with self._bugs_end_it():
                verdict = self._course.stop(reason)
            self._end(verdict)
        except Stopped as stopped:  # before anything was measured
            self._end(interrupted(stopped, self.task.objective))
        except TrimtabError as error:
            self._fail(error)

    def _control(self, what: Literal["pause", "resume", "finish"]) -> None:
        if self._is_over:
            raise ConflictError(f"session={self.spec.name!r} has ended", hint="`restart` begins it again")
        self._apply(what)
        self._journal.event(what, "asked by a client")
        self.version += 1

    def _apply(self, what: str) -> None:
        if what == "finish":
            self._course.conclude("a client asked to finish")
        else:
            self._is_paused = what == "pause"

    def _end(self, verdict: Verdict) -> None:
        self.ended(verdict, sorted(self.trials, key=lambda trial: trial.number), self.error)
        self._opens.clear()
        self._journal.end(self.status, verdict)
        self.version += 1

    def _fail(self, error: TrimtabError) -> None:
        """The study cannot go on: its baseline fails, or a searcher is broken."""
        if isinstance(error, LoadError):  # whose own hint speaks of a server under load
            error = LoadError(error.message, hint=_BASELINE_HINT)
        self.error = str(error)
        self._journal.event("failed", self.error)
        self._end(interrupted(error, self.task.objective))

    # ----- after a restart of the server

    def replay(self, kind: str, text: str, trials: dict[int, Trial]) -> None:
        """Tells it again what its journal says, event by event, before anything else. What it says twice counts once.

        Raises:
            UsageError: the journal does not fit this version's searchers: the trials stay in the history.
        """
        if kind == "asked":
            self._replay.asked(int(text))
        elif kind == "told":
            self._replay.told(int(text), trials)
        elif kind == "run":
            self._replay.run(self._journal.loads(text))
        elif kind == "repeat":
            self._repeats.replay(text)
        elif kind in ("pause", "resume", "finish"):
            self._apply(kind)

    def try_out(self) -> None:
        """Shows what is wrong with the searcher, its options, the groups or the prior before anything is measured.

        Raises:
            UsageError, SpaceError: something is.
        """
        self._course.try_out()

    def ended(self, verdict: Verdict, trials: list[Trial], error: str) -> None:
        """Its study ends, or had ended before: nothing is replayed, and `trials`, by number, say what they do in a report."""
        self._past, self._means = in_hindsight(self.task.objective, trials), Means()
        self._is_over, self.verdict, self.error = True, verdict, error

    def restored(self, trials: dict[int, Trial]) -> None:
        """After the last event: what had been handed out may still be reported.

        A trial without "told" was kept by an earlier version just before it was killed; nothing was asked for in between.
        """
        for number in sorted(self._opens.keys() & trials.keys()):
            self._replay.told(number, trials)
            self._journal.event("told", str(number))
        numbers = [*self._opens, *(trial.number for trial in self.trials)]
        self._most_lost = max(numbers, default=-1) + _MOST_LOST
