"""Meanwhile: Trimtab and administrators work on one server, step by step, and each step is judged.

`World` has one method for each thing that can happen. After each it looks at the server and fails when

* a change of somebody else's is not there any more;
* something of ours stands where nothing of ours may be;
* the server was restarted more often than the step announces;
* a command ended with a traceback, a secret in its output, or without a word on why.

`end` puts the obstacles away (the right password, a running server) and lets Trimtab take back everything: nothing may be left,
and a trial must work again.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.wayback.actor import Actor, Ran, deadmen
from tests.wayback.ground import Ground, MariaDbGround, PostgresGround, ground_of
from tests.wayback.model import Change, Model
from tests.wayback.ways import CANARY, Way
from trimtab.space import Value

__all__ = ["STUDIES", "World"]

STUDIES = ("one", "two")


class World:
    """See the module.

    Attributes:
        log: what happened, a line a step: printed when a step fails.
        seen: how often what came about, for the count at the end.
    """

    def __init__(self, way: Way, actor: Actor) -> None:
        self.way, self.actor = way, actor
        self.ground: Ground = ground_of(way)
        self.last: Ran
        self.model = Model(self.ground.places, self.ground.in_use())
        self.log: list[str] = []
        self.seen: Counter[str] = Counter()
        self._is_password_right = True
        self._taken_s = {"trial": 1.0, "apply": 0.6, "rollback": 0.6, "recover": 0.3}
        actor.prove(**dict(zip(STUDIES, self.ground.configs, strict=False)))
        self._n_starts = self.ground.n_starts()

    # --- what Trimtab does ---

    def trial(self, config: int = 0, *, kill: int | None = None, power_cut: bool = False) -> None:
        """Tunes with one of the configs; killed after that share (per cent) of its usual time."""
        values = self.ground.configs[config]
        with self._step(f"trial {config}{_how(kill, power_cut)}"):
            change = self.model.of_config("trial", "meanwhile", values, self.ground.kinds)
            n_allowed = self._n_for_undo() + (3 if self._restarts(values) else 0)
            self._run("trial", change, kill, power_cut, n_allowed, lambda **more: self.actor.trial(values, **more))

    def apply(self, study: int = 0, *, kill: int | None = None, power_cut: bool = False) -> None:
        name, values = STUDIES[study], self.ground.configs[study]
        with self._step(f"apply {name}{_how(kill, power_cut)}"):
            change = self.model.of_config("apply", name, values, self.ground.kinds)
            ends_a_rollback = any(each.verb == "rollback" for each in self.model.pending)
            n_allowed = self._n_for_undo() + (2 if self._restarts(values) else 0)
            words = ("apply", name, *self.apply_options, "--yes")
            ran = self._run("apply", change, kill, power_cut, n_allowed, lambda **more: self.actor.cli(*words, **more))
            if not ran.killed and ran.code == 0:
                if ends_a_rollback:  # that had died: the command found what it left
                    change = self.model.of_config("apply", name, values, self.ground.kinds)
                self.model.stands(change)

    @property
    def apply_options(self) -> tuple[str, ...]:
        return ()

    def rollback(self, study: int = 0, *, kill: int | None = None, power_cut: bool = False) -> None:
        name = STUDIES[study]
        with self._step(f"rollback {name}{_how(kill, power_cut)}"):
            applied = next((each for each in reversed(self.model.applied) if each.study == name), None)
            was_begun = any((each.verb, each.study) == ("rollback", name) for each in self.model.pending)
            change = Change(
                "rollback", name, dict(applied.places) if applied else {}, applied.names if applied else frozenset()
            )
            n_allowed = self._n_for_undo() + (1 if self._restarts(dict.fromkeys(change.names, 0)) else 0)
            words = ("rollback", name)
            ran = self._run(
                "rollback", change, kill, power_cut, n_allowed, lambda **more: self.actor.cli(*words, **more)
            )
            if not ran.killed and ran.code == 0 and not (was_begun and applied not in self.model.applied):
                assert applied is not None, f"nothing was applied: {ran}"
                assert applied is self.model.applied[-1], f"another study was applied over it: {ran}"
                self.model.taken_back(applied)

    def recover(self, *, kill: int | None = None, power_cut: bool = False) -> None:
        with self._step(f"recover{_how(kill, power_cut)}"):
            n_allowed = self._n_for_undo()
            self._run("recover", None, kill, power_cut, n_allowed, lambda **more: self.actor.cli("recover", **more))

    # --- what administrators do ---

    def somebody_sets(self, name: str, which: int) -> None:
        """By SQL: ALTER SYSTEM, or SET GLOBAL."""
        if self.way.pid is None or (self.way.product == "mariadb" and name in self.ground.needs_restart):
            return
        value = self.ground.theirs[name][which]
        with self._step(f"somebody sets {name}={value} by SQL"):
            self.model.somebody_sets(self.ground.set_by_sql(name, value), value)

    def somebody_resets(self, name: str) -> None:
        if self.way.pid is None or self.way.product == "mariadb":
            return
        with self._step(f"somebody resets {name}"):
            self.model.somebody_sets(self.ground.set_by_sql(name, None), None)

    def somebody_edits(self, name: str, which: int, *, takes_effect: bool = False) -> None:
        """Their own file; what is in it takes effect at once (by a reload or a restart of theirs), or waits for somebody."""
        value = self.ground.theirs[name][which]
        with self._step(f"somebody writes {name}={value} into a file of their own"):
            self.model.conf[name] = value
            self.ground.write_conf(self.model.conf)
        if takes_effect and isinstance(self.ground, PostgresGround) and name not in self.ground.needs_restart:
            with self._step("somebody reloads the server"):
                self.ground.reload()
        elif takes_effect:
            self.somebody_restarts()

    def somebody_edits_ours(self, which: int) -> None:
        """A line at the end of Trimtab's own file (MariaDB), of a setting that Trimtab leaves alone."""
        if not isinstance(self.ground, MariaDbGround) or self.way.reach != "files":
            return
        name = "read_buffer_size"
        value = self.ground.theirs[name][which]
        with self._step(f"somebody writes {name}={value} into Trimtab's file"):
            self.ground.write_line(name, value)
            self.model.somebody_sets(("auto", name), value)

    def somebody_restarts(self) -> None:
        with self._step("somebody restarts the server"):
            self.way.control("restart")
            self._n_allowed = 1
            self.model.server_started()

    def power_cut(self) -> None:
        """Everything is gone at once, and the server starts with the machine."""
        with self._step("power cut of the server, and its start"):
            self.way.crash()
            self.way.start_after_crash()
            self._n_allowed = 1
            self.model.server_started()

    def wrong_password(self) -> None:
        """Somebody changes the password of Trimtab's user, and does not tell."""
        if self.way.pid is None:
            return
        with self._step("the password is changed"):
            self.ground.set_password(CANARY + "another")
            self._is_password_right = False

    def right_password(self) -> None:
        if self.way.pid is None:
            return
        with self._step("the right password again"):
            self._mend_password()

    def _mend_password(self) -> None:
        self.ground.set_password(self.way.password)
        self._is_password_right = True

    # --- the end ---

    def end(self) -> None:
        """Everything is taken back, and nothing stands in the way of the next command."""
        with self._step("the end: obstacles are put away"):
            self.actor.wait_for_deadman()
            if self.way.pid is None:
                self.way.control("start")
                self._n_allowed = 1
                self.model.server_started()
            self._mend_password()
        with self._step("the end: recover"):
            n_allowed = self._n_for_undo()
            ran = self._run("recover", None, None, False, n_allowed, lambda **more: self.actor.cli("recover", **more))
            assert ran.code == 0, f"recover does not end well: {ran}"
            assert not self.actor.has_open_entries(), f"an entry is still open: {ran}"
        while self.model.applied:
            top = self.model.applied[-1].study
            self.rollback(STUDIES.index(top))
            assert not self.model.applied or self.model.applied[-1].study != top, f"{self.last}"
        self.somebody_restarts()
        in_use = self.ground.in_use()
        wrong = {
            name: (value, self.model.in_file(name))
            for name, value in in_use.items()
            if value != self.model.in_file(name)
        }
        assert not wrong, f"in use and in the files: {wrong}"
        self.trial()
        ran = self.last
        assert ran.code == 0, f"no trial is possible any more: {ran}"
        assert '"status": "ok"' in ran.out, f"no trial is possible any more: {ran}"

    # --- how a step is judged ---

    @contextmanager
    def _step(self, text: str) -> Iterator[None]:
        self.log.append(text)
        self._n_allowed = 0
        try:
            yield
            self._look()
        except AssertionError as error:
            lines = "\n".join(f"  {number}. {line}" for number, line in enumerate(self.log, 1))
            raise AssertionError(f"{self.way.product} by {self.way.reach}: {error}\n{lines}") from error

    def _run(self, verb: str, change: Change | None, kill: int | None, power_cut: bool, n_allowed: int, call) -> Ran:  # type: ignore[no-untyped-def]
        more = {"kill_after_s": max(0.005, self._taken_s[verb] * kill / 100)} if kill is not None else {}
        ran: Ran = call(**more)
        self._n_allowed = n_allowed
        self.log[-1] += f" -> {'killed' if ran.killed else ran.code} {ran.cause[:200]}"
        assert CANARY not in ran.out + ran.err, f"a secret in the output: {ran}"
        if ran.killed:
            self.seen[f"{verb} killed"] += 1
            if power_cut:
                for pid in deadmen(self.way):
                    os.kill(pid, signal.SIGKILL)
            self.actor.wait_for_deadman()
            self._wait_for_server()
            # A rollback first takes back what a trial left: while that stands, it has changed nothing itself.
            if change is not None and (verb != "rollback" or self.actor.has_begun(verb)):
                self.model.pending.append(change)
        else:
            self.seen[f"{verb} {ran.code}"] += 1
            assert ran.code == 0 or ran.cause, f"no word on what happened: {ran}"
            if ran.code == 0 and kill is None:
                self._taken_s[verb] = ran.changing_s or self._taken_s[verb]
            if change is not None and self.actor.has_open_entries():
                self.model.pending.append(change)
        self._settle(change if verb == "apply" and not ran.killed and ran.code == 0 else None)
        self._explained()
        self.last = ran
        return ran

    def _explained(self) -> None:
        """Every value of ours that stands is told by `recover --show`."""
        shown = self.actor.cli("recover", "--show")
        assert shown.code == 0, f"recover --show: {shown}"
        standing = [*self.model.pending, *self.model.applied] if self.actor.has_open_entries() else self.model.applied
        now = self.ground.places
        for change in standing:
            ours = {place[1] for place, (before, mine) in change.places.items() if now.get(place) == mine != before}
            missing = {name for name in ours if f"  {name}: set to " not in shown.out}
            assert not missing, f"{change.verb} {change.study}: not told by recover --show: {missing}"

    def _wait_for_server(self) -> None:
        """A restart command goes on when the tuner that gave it is killed."""
        if self.way.reach == "files":
            self.way.wait_up()

    def _settle(self, applied: Change | None = None) -> None:
        """When no entry is open any more, what was pending is either taken back or stays as a whole; what `applied` has just set
        says nothing of it: both may set the same value."""
        if self.actor.has_open_entries():
            return
        pending, self.model.pending = self.model.pending, []
        for change in pending:
            now = self.ground.places
            is_covered = applied is not None and change.verb == "apply" and applied.study != change.study
            over = applied.places if applied is not None and is_covered else {}
            told = {
                place: ours for place, (before, ours) in change.places.items() if before != ours and place not in over
            }
            is_ours = {now[place] == ours for place, ours in told.items()}
            if change.verb == "trial" or not is_ours:
                continue
            assert len(is_ours) == 1, f"half of {change.verb} {change.study} stands: {now}"
            if change.verb == "apply" and is_ours == {True}:
                self.model.stands(change)
            if change.verb == "rollback" and is_ours == {False}:
                applied = next((each for each in self.model.applied if each.study == change.study), None)
                if applied is not None:
                    self.model.taken_back(applied)

    def _restarts(self, values: object) -> bool:
        return self.way.reach != "connection" and bool(set(values) & self.ground.needs_restart)  # type: ignore[call-overload]

    def _n_for_undo(self) -> int:
        """Restarts that taking back what is pending may cost: one, and only where a setting of ours needs it."""
        return int(any(self._restarts(dict.fromkeys(change.names, 0)) for change in self.model.pending))

    def _look(self) -> None:
        now = self.ground.places
        for place, value in now.items():
            allowed = self.model.allowed(place)
            assert value in allowed, f"{place[0]} {place[1]} is {value}, and may be {allowed}"
            self.model.seen(place, value)
        assert self.ground.conf() == self.model.conf, f"their own file: {self.ground.conf()}, not {self.model.conf}"
        n_starts = self.ground.n_starts()
        n_new, self._n_starts = n_starts - self._n_starts, n_starts
        assert n_new <= self._n_allowed, f"{n_new} starts of the server, where {self._n_allowed} are announced"
        self.seen["steps"] += 1

    def value_at_rest(self, name: str) -> Value:
        return self.model.in_file(name)


def _how(kill: int | None, power_cut: bool) -> str:
    if kill is None:
        return ""
    return f", killed after {kill} % of its time" + (", the dead-man too" if power_cut else "")
