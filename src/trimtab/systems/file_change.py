"""Files: the channel of a system whose values are all in files with a codec."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.errors import ApplyError, ForeignChangeError, TargetError
from trimtab.host import FileCopy
from trimtab.space import Config, Knob, Value
from trimtab.systems.base import KnobState, Snapshot
from trimtab.systems.codec import Located
from trimtab.systems.command_lifecycle import AlwaysThere
from trimtab.systems.file_channel import FileChannel
from trimtab.systems.file_knobs import inactive
from trimtab.systems.file_undo import Place, Undo
from trimtab.systems.files import file_digest, file_from_json, file_to_json
from trimtab.systems.live_values import LiveValues
from trimtab.systems.picture import STOPPED

__all__ = ["Files", "Words"]

_ROUNDING = 2.0
"""What a program makes of a number is at most so many times as large, or as small."""


@dataclass(frozen=True, slots=True)
class Words:
    """How the values of a catalogue's knobs are written.

    Attributes:
        knob: name -> knob, with its range on this machine.
        literal: knob and value -> text.
        parsed: the inverse.
        states: reads every knob with the value in use.
        told: the values in use, of those knobs of which the program itself tells them.
        together: knobs that a file must name whenever it names this one.
        require_settled: raises where a restart (`can_restart`) or a reload would change by itself what is in use.
    """

    knob: Callable[[str], Knob]
    literal: Callable[[Knob, Value], str]
    parsed: Callable[[Knob, str], Value]
    states: Callable[[], Mapping[str, KnobState]]
    told: Callable[[], Mapping[str, Value]]
    together: Callable[[str], Collection[str]]
    require_settled: Callable[..., None]


class Files(Undo):
    """See `Channel`.

    Args:
        lifecycle: of the program.
        places: of every knob.
        words: how values are written.
        reloads: the knobs that a reload changes.
        live: those that are set in the program while it runs.
        resets: knob -> those further down that the system sets to values of its own when it changes.
        left: path -> digest of the files as we left them.
        catalog: its text, for the journal.

    Attributes:
        known_to_be_read: names of the files from which the program was seen to take over a value of ours.
    """

    def __init__(
        self,
        lifecycle: AlwaysThere,
        places: Mapping[str, Place],
        words: Words,
        reloads: Collection[str],
        live: LiveValues,
        resets: Mapping[str, Collection[str]],
        left: Callable[[], Mapping[str, str]],
        catalog: str,
    ) -> None:
        super().__init__(lifecycle, places, reloads, live, resets, words.told, self.written)
        self._words = words
        self._left = left
        self._catalog = catalog
        self.known_to_be_read: set[str] = set()

    def written(self, name: str, value: Value) -> str:
        return self._words.literal(self._words.knob(name), value)

    @property
    def files(self) -> Sequence[Path]:
        """All of them are ours to write."""
        return [channel.path for channel in self._channels]

    def fleeting(self, names: Collection[str]) -> str:
        """As the first of their channels says for which that is so."""
        return next(filter(None, (self._places[name].channel.fleeting() for name in names)), "")

    def texts(self, knob: Knob, value: Value) -> tuple[str, ...]:
        """As the file has it."""
        return (self._words.literal(knob, value),)

    def texts_for(self, channel: FileChannel, config: Mapping[str, Value], off: Collection[str] = ()) -> dict[str, str]:
        """Address -> text of the knobs that are written to this channel; not of those that have no effect (`off`)."""
        mine = {n: self._places[n] for n in config if self._places[n].channel is channel and n not in off}
        return {place.address: self.written(name, config[name]) for name, place in mine.items()}

    def whole(self, config: Config, base: Snapshot | None) -> Config:
        """`config` with the knobs, as found, that a file must name beside those in it, where it does not name them yet."""
        if base is None:
            return config
        more = {}
        for other in sorted(self._partners(config) - config.keys()):
            place = self._places[other]
            if not place.channel.values(file_from_json(base.files[str(place.channel.path)]), [place.address]):
                more[other] = base.values[other]
        return Config({**config, **more}) if more else config

    def _partners(self, config: Mapping[str, Value]) -> set[str]:
        return {other for name in config for other in self._words.together(name)}

    def left_out(
        self, config: Mapping[str, Value], values: Mapping[str, Value], found: Mapping[FileChannel, FileCopy | None]
    ) -> frozenset[str]:
        """The knobs of `config` that are not written: those without effect in it, and those that have their value because no
        file names them, where that value cannot be written.

        Args:
            config: the values to set.
            values: of all knobs, as found.
            found: the files, as found.
        """
        off = set(inactive(config, values, self._words.knob))
        for name in config.keys() - off - self._partners(config):
            knob, place = self._words.knob(name), self._places[name]
            if config[name] == values.get(name) and _is_beyond(knob, config[name]):
                off |= set() if place.channel.values(found[place.channel], [place.address]) else {name}
        return frozenset(off)

    def saved(
        self, *, can_restart: bool
    ) -> tuple[Mapping[str, Mapping[str, Any]], Mapping[str, Value], Mapping[str, Any]]:
        """The files, the values in use, and the catalogue of now."""
        files = {str(channel.path): file_to_json(channel.read()) for channel in self._channels}
        states = self._words.states()
        self._words.require_settled(states, can_restart=can_restart)
        return files, {name: state.running for name, state in states.items()}, {"catalog": self._catalog}

    def change(self, config: Config, states: Mapping[str, KnobState], base: Snapshot, *, stays: bool) -> _Change:
        """See `Change`."""
        return _Change(self, config, base, self.live_now(states))

    def live_now(self, states: Mapping[str, KnobState]) -> frozenset[str]:
        """The knobs that can be set in the program as it runs now."""
        values = {name: state.running for name, state in states.items()}
        return frozenset(name for name in self._live.knobs if not self._live.watcher(name, values))

    def lost(self, snapshot: Snapshot) -> Mapping[str, Value]:
        """Of those that can be set in the program as it runs, and that its file gives no other value than when we came: one of
        ours or of somebody else's counts. Those that have an effect under a condition alone are left as they are.

        With files that are not as found: those that a file names, and those that were set in the program alone. What else no file
        names may be what the program makes of the files as they are now."""
        found = snapshot.values
        settable = {name for name in self._live.knobs if not self._live.watcher(name, found)}
        settable |= self._reloads if self._lifecycle.takes_back else set()
        told = self._words.told() if settable else {}
        names = {name for name in settable & told.keys() & found.keys() if told[name] != found[name]}
        places = {name: self._places[name] for name in names if self._words.knob(name).condition is None}
        copies = {place.channel: place.channel.read() for place in places.values()}
        kept = {channel: file_from_json(snapshot.files[str(channel.path)]) for channel in copies}
        same = {n: kept[p.channel] for n, p in places.items() if p.text(copies[p.channel]) == p.text(kept[p.channel])}
        all_count = bool(same) and self._has_files_of(snapshot)
        return {n: found[n] for n, copy in same.items() if all_count or self._was_set(n, copy, found[n], told[n])}

    def _was_set(self, name: str, copy: FileCopy | None, found: Value, now: Value) -> bool:
        """Whether the file as found names a knob; or whether it had another value than that gives it, and has now what its file
        gives: nothing else has made it."""
        place, knob = self._places[name], self._words.knob(name)
        values = place.channel.values(copy, place.addresses)
        if place.address in values:
            return True
        located = place.located(values)
        given = self._words.parsed(knob, located.value) if located is not None else knob.default
        return found != given and now == self.in_file(name)

    def named(self, name: str) -> str | None:
        """What the file of a knob says of it now, which may be the value of another knob there; None where its default counts."""
        place = self._places[name]
        located = place.located(place.channel.values(place.channel.read(), place.addresses))
        return located.value if located is not None else None

    def in_file(self, name: str) -> Value:
        """The value that the file of a knob gives it now."""
        knob, text = self._words.knob(name), self.named(name)
        return self._words.parsed(knob, text) if text is not None else knob.default

    def of_channel(self, channel: FileChannel) -> set[str]:
        """The knobs that are written to it."""
        return {name for name, place in self._places.items() if place.channel is channel}

    def differing(
        self, channel: FileChannel, now: FileCopy | None, goal: FileCopy | None, found: Mapping[str, Value]
    ) -> set[str]:
        """The knobs that have another value in `goal` than `now`. One that a file does not name has its value as `found`, which
        need not be its default: another file may give it, or the program may compute it at its start."""
        mine = {name: place for name, place in self._places.items() if place.channel is channel}
        before, after = (channel.values(copy, [place.address for place in mine.values()]) for copy in (now, goal))

        def value(name: str, values: Mapping[str, Located]) -> Value:
            knob, located = self._words.knob(name), mine[name].located(values)
            return self._words.parsed(knob, located.value) if located is not None else found.get(name, knob.default)

        return {name for name in mine if value(name, before) != value(name, after)}

    def rewritten(self, channel: FileChannel, now: FileCopy | None, goal: FileCopy | None) -> set[str]:
        """The knobs of a reload that stand in `goal` otherwise than `now`; none where the reload is not told what goes back."""
        if not self._lifecycle.takes_back:
            return set()
        mine = {name: self._places[name] for name in self.of_channel(channel) & self._reloads}
        return {name for name, place in mine.items() if place.text(now) != place.text(goal)}


class _Change:
    def __init__(self, files: Files, config: Config, base: Snapshot, live: frozenset[str]) -> None:
        self._files = files
        self._config = config
        self._base = base
        self._live = live
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        self._written: dict[FileChannel, str] = {}
        self._effective: Mapping[str, Value] = {}
        self._must_restart = self._was_asked = False
        self._off = files.left_out(config, base.values, self._found())

    def _found(self) -> dict[FileChannel, FileCopy | None]:
        return {c: file_from_json(self._base.files[str(c.path)]) for c in self._files._channels}

    def write(self) -> None:
        files, as_found = self._files, self._found()
        for channel in files._channels:
            now, found = channel.read(), as_found[channel]
            mine = files.of_channel(channel)
            if self._without_effect(mine & files.reset_by(files._resets)):
                continue  # what the kernel has set holds, and it may refuse another value
            if not mine & files.reset_by(self._changed):
                left = files._left().get(str(channel.path), file_digest(found))
                _require_ours(channel, file_digest(now), left, file_digest(found))
            goal = channel.with_mode_of(now, channel.changed(found, files.texts_for(channel, self._config, self._off)))
            if goal == now:
                if mine & self._config.keys() and channel.is_lasting and not channel.is_live:
                    self._written[channel] = file_digest(now)  # it has what an earlier change of ours has written
                continue
            self._changed |= files.differing(channel, now, goal, self._base.values)
            self._gone |= files.rewritten(channel, now, goal) - (self._config.keys() - self._off)
            channel.put(goal)
            self._written[channel] = file_digest(channel.read())
        is_late = bool(self._changed - files._reloads - self._live)
        self._must_restart = is_late or not files._lifecycle.is_up()

    def _without_effect(self, names: Collection[str]) -> frozenset[str]:
        """Those of `names` whose condition is false under this config."""
        values = {**self._base.values, **self._config}
        return inactive({name: values[name] for name in names}, values, self._files._words.knob)

    def take_effect(self) -> None:
        """By a reload, and live, when no restart does it; what cannot be set live takes a restart after all."""
        files = self._files
        if self._must_restart:
            if self._was_asked:
                files.set_again(self._lost())
            self._was_asked = True  # and again after the restart
            return
        if self._changed or self._gone:
            gone = {files._places[name].address: files.written(name, self._back(name)) for name in self._gone}
            changed = (self._changed | self._config.keys()) & files._reloads
            files._lifecycle.reload(gone, [files._places[name].address for name in changed])
        try:
            files._live.set(self._live_values())
        except TargetError as error:
            if not files.may_restart:
                raise ApplyError(error.message, hint=error.hint) from error
            self._must_restart = self._was_asked = True

    def _lost(self) -> Mapping[str, Value]:
        """What the restart has taken, of knobs that this config does not speak of."""
        return {name: value for name, value in self._files.lost(self._base).items() if name not in self._config}

    def _live_values(self) -> Mapping[str, Value]:
        """What is to be set in the running program: what has changed in its files, and what it uses otherwise than it should."""
        files = self._files
        live = self._live - files._reloads
        wanted = {name: value for name, value in self._config.items() if name in live and name not in self._off}
        told = files._words.told() if wanted else {}
        others = {name: value for name, value in wanted.items() if told.get(name, value) != value}
        back = (self._changed & live) - wanted.keys()
        changed = {name: value for name, value in wanted.items() if name in self._changed}
        return {**{name: self._back(name) for name in back}, **changed, **others}

    def _back(self, name: str) -> Value:
        """The value of a knob that is as found again: the one in use then, unless another knob of its file gives it another."""
        place = self._files._places[name]
        return self._files.in_file(name) if place.fallbacks else self._base.values[name]

    def must_restart(self) -> bool:
        return self._must_restart

    def check(self) -> None:
        self.require_ours()
        self._files._lifecycle.health()
        states = self._files._words.states()
        self._effective = {name: states[name].running for name in self._config}
        self._require_used()

    def _require_used(self) -> None:
        """That the program has taken over what was written.

        A number that the program has rounded to the one that was found counts as that, in a file of which another value was seen
        in use. Where none of several counts, the program does not read the file, and no config is to blame.

        Raises:
            ApplyError: it has not.
        """
        found, places, known = self._base.values, self._files._places, self._files.known_to_be_read
        wanted = {n: value for n, value in self._config.items() if n not in self._off and value != found[n]}
        same = [name for name in wanted if self._effective[name] == found[name]]
        known |= {places[name].channel.name for name in wanted.keys() - same}
        unused = [n for n in same if places[n].channel.name not in known or not _is_near(wanted[n], found[n])]
        if not unused:
            return
        name, *more = unused
        path = str(places[name].channel.path)
        raise ApplyError(
            f"the program still uses {name}={self._effective[name]!r}, not {wanted[name]!r}: it may not read file={path!r}, or"
            f" another place, read later, sets {name}",
            hint=None
            if self._must_restart
            else 'does a reload change it? if not, write restart = "restart" in the catalogue',
            fault="environment" if more and len(unused) == len(wanted) else "",
        )

    def require_ours(self) -> None:
        for channel, digest in self._written.items():
            _require_ours(channel, file_digest(channel.read()), digest)

    def effective(self) -> Mapping[str, Value]:
        return self._effective


def _is_beyond(knob: Knob, value: Value) -> bool:
    """Whether it is a number that nobody would set: outside the useful range, and not special."""
    if isinstance(value, str | bool) or knob.low is None or knob.high is None:
        return False
    return not knob.low <= value <= knob.high and value not in knob.special


def _is_near(asked: Value, used: Value) -> bool:
    """Whether a program may have made the one number of the other: it rounds to pages, to powers of two."""
    numbers = (asked, used)
    if any(isinstance(each, bool | str) for each in numbers) or not all(float(each) > 0 for each in numbers):
        return False
    return 1 / _ROUNDING <= float(asked) / float(used) <= _ROUNDING


def _require_ours(channel: FileChannel, now: str, *known: str) -> None:
    """That nobody else has written the file: its digest is one of those that we have seen or left.

    Raises:
        ForeignChangeError: somebody has.
    """
    if now not in known:
        raise ForeignChangeError(
            f"file={str(channel.path)!r} was changed by somebody else while Trimtab changed it", hint=STOPPED
        )
