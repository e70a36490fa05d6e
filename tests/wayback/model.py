"""The model of `test_meanwhile`: what each party has set on a server, and which values each place may hold therefore.

A place is a line of the file that Trimtab writes ("auto", a name) or a value in use that no file holds ("live", a name;
MariaDB's SET GLOBAL). What Trimtab has set and not taken back yet is a `Change`: place -> (before, ours). A change of
somebody else's takes the place out of every `Change`: from then on it is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trimtab.space import Value

__all__ = ["Change", "Model", "Place"]

Place = tuple[str, str]
"""("auto" or "live", name of the setting)."""


@dataclass
class Change:
    """What one command of ours has set: `study` is applied, or a trial or a command died ("pending")."""

    verb: str
    study: str
    places: dict[Place, tuple[Value | None, Value | None]]
    names: frozenset[str]
    also: dict[Place, set[Value]] = field(default_factory=dict)
    """Values as found that a restart by somebody else has made void: an undo may set them again."""


@dataclass
class Model:
    """What must be there.

    Attributes:
        theirs: each place's value when nothing of ours stood on it; None: no such line.
        boot: the value of each setting without any line.
        conf: lines of the administrators' own file.
        applied: what was applied, the last on top.
        pending: what a command that died may have left, until it is taken back.
    """

    theirs: dict[Place, Value | None]
    boot: Mapping[str, Value]
    conf: dict[str, Value] = field(default_factory=dict)
    applied: list[Change] = field(default_factory=list)
    pending: list[Change] = field(default_factory=list)
    also: dict[Place, set[Value]] = field(default_factory=dict)

    def at_rest(self, place: Place) -> Value | None:
        """The value when nothing is pending: of the topmost applied change that has the place, else theirs."""
        for change in reversed(self.applied):
            if place in change.places:
                return change.places[place][1]
        return self.theirs[place]

    def allowed(self, place: Place) -> set[Value | None]:
        """What the place may hold now."""
        found = {self.at_rest(place), *self.also.get(place, ())}
        for change in self.pending:
            if place in change.places:
                found |= {*change.places[place], *change.also.get(place, ())}
        return found

    def of_config(self, verb: str, study: str, config: Mapping[str, Value], kinds: Iterable[str]) -> Change:
        """The change that setting `config` makes to a server at rest."""
        places: dict[Place, tuple[Value | None, Value | None]] = {}
        for kind in kinds:
            for name, value in config.items():
                if (kind, name) in self.theirs:
                    places[kind, name] = (self.at_rest((kind, name)), value)
        return Change(verb, study, places, frozenset(config))

    def somebody_sets(self, place: Place, value: Value | None) -> None:
        self.theirs[place] = value
        self.also.pop(place, None)
        for change in (*self.applied, *self.pending):
            change.places.pop(place, None)

    def stands(self, change: Change) -> None:
        """A study was applied; an attempt that died before, and was taken back first, looks the same in the file."""
        self.applied = [each for each in self.applied if each.study != change.study]
        self.applied.append(change)

    def taken_back(self, change: Change) -> None:
        """An applied change was undone: where it stood, the value before it is there again."""
        self.applied.remove(change)
        below = {place for each in self.applied for place in each.places}
        for place, (before, _) in change.places.items():
            if place not in below:
                self.theirs[place] = before
                self.also[place] = set(change.also.get(place, ()))

    def in_file(self, name: str) -> Value:
        """What the server uses after a start with the files at rest."""
        line = self.at_rest(("auto", name))
        return line if line is not None else self.conf.get(name, self.boot[name])

    def server_started(self) -> None:
        """By somebody else, or after a power cut: what was set without a file is gone, and the files' values are in use."""
        for place in [place for place in self.theirs if place[0] == "live"]:
            line = ("auto", place[1])
            their_line, before_it = self.theirs[line], self.theirs[place]
            self.theirs[place] = their_line if their_line is not None else self.conf.get(place[1], self.boot[place[1]])
            self.also.pop(place, None)
            if self.pending and before_it is not None:
                # A change that died may have ordered this very restart: its undo may set again what was lost by it.
                self.also[place] = {before_it}
            below = self.theirs[place]
            for change in (*self.applied, *self.pending):
                before = change.places.pop(place, None)
                if line in change.places:
                    ours = change.places[line][1] if change.verb != "rollback" else change.places[line][0]
                    change.places[place] = (below if change.verb != "rollback" else self.theirs[place], ours)
                    void = {value for value in (before or ()) if value is not None}
                    change.also[place] = change.also.get(place, set()) | void
                    # What is applied over it finds its value and not theirs.
                    below = ours if change.verb == "apply" and change not in self.pending else below

    def seen(self, place: Place, value: Value | None) -> None:
        """Of several values that the place may have had, this is the one."""
        if value in self.also.pop(place, ()) and not any(
            place in change.places for change in (*self.applied, *self.pending)
        ):
            self.theirs[place] = value
