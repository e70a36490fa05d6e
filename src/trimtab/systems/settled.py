"""Settled: whether a program uses what its files say, asked before anything is changed.

A restart or a reload of ours would bring in what somebody has written into the files and not yet put into effect, and would lose
what somebody has set in the running program alone; no way back could restore either.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping

from trimtab.errors import TargetError
from trimtab.host import process_started_s
from trimtab.space import Knob, RestartClass, Value
from trimtab.systems.base import KnobState
from trimtab.systems.catalog import Catalog
from trimtab.systems.codec import Located
from trimtab.systems.command_lifecycle import AlwaysThere
from trimtab.systems.cql import is_cql
from trimtab.systems.file_channel import FileChannel
from trimtab.systems.file_knobs import inactive
from trimtab.systems.file_undo import Place
from trimtab.systems.lifecycle_table import Loss
from trimtab.systems.literal import stand_in_reason
from trimtab.systems.live_values import LiveValues
from trimtab.systems.own_words import OwnWords

__all__ = ["Settled"]

_ROUNDING = 1e-3
"""A program may tell fewer digits than its file has."""

_ALONE = (
    "no file names {}: if that was set in the running program, a restart loses it, and trials that restart it measure another"
    " program than the one found. Write into its files what it uses"
)
_FORGOTTEN = "set allow_restart = false, or tune a private one (run)"


class Settled:
    """See the module.

    Args:
        catalog: of the program.
        reach: the way to it.
        places: of every knob.
        parsed: a knob and the text that a file has for it -> the value.
        says: what the program says of itself.
        live: what can be set in the program while it runs.
    """

    def __init__(
        self,
        catalog: Catalog,
        reach: AlwaysThere,
        places: Mapping[str, Place],
        parsed: Callable[[Knob, str], Value],
        says: OwnWords,
        live: LiveValues,
    ) -> None:
        self._catalog = catalog
        self._reach = reach
        self._places = places
        self._parsed = parsed
        self._says = says
        self._live = live

    def unread(self) -> tuple[str, ...]:
        """That a program which does not tell its values may not use what its files say."""
        channels = {place.channel.name: place.channel for place in self._places.values()}
        tables = {each: self._catalog.channel[name] for name, each in channels.items()}
        read_at_start = [each.path for each, table in tables.items() if not (table.counts_at_once or table.read)]
        reach = self._reach
        if not reach.runs or reach.settings.read is not None or reach.began_after(read_at_start):
            return ()
        return (
            "the configuration files were written after the program began: it may use other values than they say."
            " Restart it, or give a read command",
        )

    def differing(self, states: Mapping[str, KnobState], *, can_restart: bool) -> tuple[str, ...]:
        """What a restart (a reload, where `can_restart` is false) would change by itself, for people."""
        found = []
        for name, located in self._in_files(states):
            knob, running = states[name].knob, states[name].running
            if located is None or not self._would_change(knob, can_restart=can_restart):
                continue
            value = self._value(knob, located.value)
            if value is not None and not _is_same(value, running):
                there = f"{knob.format(value)} by {self._places[name].channel.place(located.line)}"
                found.append(f"{name}={knob.format(running)}, and {there}")
        return tuple(sorted([*found, *(self._disagreeing() if can_restart else ())]))

    def _disagreeing(self) -> Iterator[str]:
        """What is no knob (`must_agree`), where a file says otherwise than the program, or another program is asked."""
        for channel in {place.channel.name: place.channel for place in self._places.values()}.values():
            addresses = self._catalog.channel[channel.name].must_agree
            copy = channel.read() if addresses and self._reach.is_up() else None
            written = {address: text for address in addresses if (text := channel.last(copy, address)) is not None}
            told = self._says.values(channel, list(written)) if written else None
            if told is None:
                continue
            for address, text in written.items():
                if (used := told.get(address, "")).casefold() != text.casefold():
                    yield f"{address}={used or repr(used)}, and {text} by {channel.path}"

    def losses(self, states: Mapping[str, KnobState], *, can_restart: bool) -> tuple[str, ...]:
        """What a restart of ours would take from the program for good, for people; nothing where none is made, or the program was
        started by us."""
        if not can_restart or self._reach.settings.run is not None:
            return ()
        alone = sorted(self._alone(states))
        return (*([_ALONE.format(", ".join(alone))] if alone else ()), *self._forgotten())

    def _alone(self, states: Mapping[str, KnobState]) -> Iterator[str]:
        """The settings that somebody may have given a value in the running program alone: no file names them, they have not their
        default, and they are not set again after a restart."""
        for name, located in self._in_files(states):
            knob, running = states[name].knob, states[name].running
            is_kept = name in self._live.knobs or (self._reach.takes_back and knob.restart is RestartClass.RELOAD)
            if located is None and not is_kept and self._is_settable(name) and not _is_same(running, knob.default):
                yield f"{name}={knob.format(running)} (by default {knob.format(knob.default)})"

    def _forgotten(self) -> Iterator[str]:
        """What the catalogue says that a program like this one loses."""
        for loss in self._catalog.loses:
            if self._is_shown(loss):
                shown = ", ".join(f"{address}={value or repr(value)}" for address, value in loss.shows.items())
                yield f"a restart loses {loss.what} ({shown}), and trials restart the program; {_FORGOTTEN}"

    def facts(self) -> Mapping[str, float]:
        """The facts of what the catalogue says that such programs lose: 1 where this one shows it, else 0."""
        return {loss.fact: float(self._is_shown(loss)) for loss in self._catalog.loses if loss.fact}

    def _is_shown(self, loss: Loss) -> bool:
        reach = self._reach
        if reach.settings.read is None or not reach.is_up():
            return False
        return all(reach.shown(address) == value for address, value in loss.shows.items())

    def _in_files(self, states: Mapping[str, KnobState]) -> Iterator[tuple[str, Located | None]]:
        """The settings that count and whose values the program tells, with what its files say of each."""
        asked = {name: place for name, place in self._places.items() if self._is_told(place.channel)}
        values = {name: state.running for name, state in states.items()}
        off = inactive({name: values[name] for name in asked}, values, lambda name: states[name].knob)
        copies = {channel.name: channel.read() for channel in {place.channel for place in asked.values()}}
        for name in asked.keys() - off:
            place = asked[name]
            yield name, place.located(place.channel.values(copies[place.channel.name], place.addresses))

    def require(self, states: Mapping[str, KnobState], *, can_restart: bool) -> None:
        """That neither a restart nor a reload changes anything by itself.

        Raises:
            TargetError: one would; nothing was changed.
        """
        if can_restart and (apart := "; ".join(self._disagreeing())):
            raise TargetError(
                f"the program and its file differ in what no trial may change: {apart}",
                hint="is it the program of this file that is asked, or does an included file say otherwise? A restart could load"
                " other data, or none: set it in the running program first, or write into its file what it uses; or set"
                " allow_restart = false",
            )
        if not (differing := self.differing(states, can_restart=can_restart)):
            return
        what = "restart" if can_restart else "reload"
        more = "; or set allow_restart = false" if can_restart else ""
        raise TargetError(
            f"a {what} would change what the program uses, for its files say otherwise: {'; '.join(differing)}",
            hint=f"{what} the program, or write into its files what it uses, and start again{more}",
        )

    def _is_told(self, channel: FileChannel) -> bool:
        """Whether the running program itself tells the values of a channel: what `httpd -t` prints is read from the files."""
        table, reach = self._catalog.channel[channel.name], self._reach
        if table.counts_at_once or channel.is_live or not reach.is_up():
            return False
        is_asked = "{pid}" in table.read or is_cql(reach.filled(table.read)) or reach.takes_back
        return reach.settings.read is not None or (bool(table.read) and is_asked)

    def _would_change(self, knob: Knob, *, can_restart: bool) -> bool:
        """Whether a difference would be the work of somebody, and lost: what a program has made of its own file at its start is
        none, and what can be set in the program is set again after a restart (see `Files.lost`)."""
        reach = self._reach
        is_read = knob.restart is RestartClass.RELOAD and knob.name not in self._live.knobs
        if (is_read and reach.takes_back) or (knob.restart is RestartClass.RELOAD and not is_read):
            return False
        if not can_restart:
            return is_read and reach.settings.reload is not None
        return self._is_settable(knob.name) or self._is_newer(self._places[knob.name].channel)

    def _is_settable(self, name: str) -> bool:
        """Whether the program takes another value while it runs."""
        entry = self._catalog.knob[name]
        return bool(entry.live) or entry.restart == RestartClass.RELOAD.value

    def _is_newer(self, channel: FileChannel) -> bool:
        """Whether the file was written since the program began, by its inode: one put in its place may bear an old date."""
        pid = self._reach.pid
        age_s = process_started_s(pid) if pid is not None else None
        try:
            return age_s is None or channel.path.stat().st_ctime > time.time() - age_s
        except OSError:
            return False

    def _value(self, knob: Knob, text: str) -> Value | None:
        """None where the text is none that the catalogue knows: the program may show it in another way."""
        try:
            value = self._parsed(knob, text)
        except TargetError:
            return None
        entry = self._catalog.knob[knob.name]
        is_meant = not stand_in_reason(knob, entry, self._catalog.units, text)
        return value if is_meant and (not entry.choices or value in entry.choices) else None


def _is_same(one: Value, other: Value) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return not isinstance(one, str) and not isinstance(other, str) and math.isclose(one, other, rel_tol=_ROUNDING)
    return one == other
