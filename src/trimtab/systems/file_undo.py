"""How a system of files is undone: the part of `trimtab.systems.undo` for every system that a catalogue describes.

It is restarted only for a value of ours that it may be using, and never when that would bring in what somebody else has written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trimtab.errors import RestoreError, TargetError
from trimtab.host import FileCopy, machine_mark
from trimtab.space import Value
from trimtab.systems.base import Own, Restarts, Snapshot
from trimtab.systems.codec import Located
from trimtab.systems.command_lifecycle import AlwaysThere
from trimtab.systems.file_channel import FileChannel
from trimtab.systems.files import file_from_json
from trimtab.systems.live_values import LiveValues
from trimtab.systems.start_limit import started
from trimtab.systems.undo import BY_FILES, InForceError, LeftDownError, Standing, Way

__all__ = ["Place", "Undo"]

_NOT_THERE = "(not in the file)"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a knob is.

    Attributes:
        channel, address: its file, and its place there.
        fallbacks: addresses whose values it has, so many times, while the file does not name it: the first that the file names.
    """

    channel: FileChannel
    address: str
    fallbacks: tuple[tuple[str, float], ...] = ()

    @property
    def addresses(self) -> list[str]:
        """All that its value may come from."""
        return [self.address, *(address for address, _ in self.fallbacks)]

    def located(self, values: Mapping[str, Located]) -> Located | None:
        """Its value among those of the file, by address; None when its default counts."""
        if own := values.get(self.address):
            return own
        for address, times in self.fallbacks:
            if there := values.get(address):
                return replace(there, value=_multiplied(there.value, times))
        return None

    def told(self, texts: Mapping[str, str]) -> str | None:
        """The same of what a program tells, by address."""
        if self.address in texts:
            return texts[self.address]
        return next((_multiplied(texts[at], times) for at, times in self.fallbacks if at in texts), None)

    def text(self, copy: FileCopy | None) -> str:
        """The value in the file, for people."""
        located = self.channel.values(copy, [self.address]).get(self.address)
        return located.value if located is not None else _NOT_THERE

    def last_text(self, copy: FileCopy | None) -> str:
        """The same; the last one where there are several."""
        found = self.channel.last(copy, self.address)
        return found if found is not None else _NOT_THERE


class Undo:
    """See `Undoing`.

    Args:
        lifecycle: of the program.
        places: of every knob.
        reloads: the knobs that a reload changes.
        live: those that are set in the program while it runs.
        resets: knob -> those further down that the system sets to values of its own when it changes.
        told: reads the values in use, of those knobs of which the program itself tells them.
        written: the value of a knob as its file has it.
    """

    noun = "program"
    trouble = ""

    def __init__(
        self,
        lifecycle: AlwaysThere,
        places: Mapping[str, Place],
        reloads: Collection[str],
        live: LiveValues,
        resets: Mapping[str, Collection[str]],
        told: Callable[[], Mapping[str, Value]],
        written: Callable[[str, Value], str],
    ) -> None:
        self._resets = resets
        self._text = written
        self._live = live
        self._told = told
        self._lifecycle = lifecycle
        self._places = places
        self._reloads = frozenset(reloads)
        self._channels = list({place.channel.name: place.channel for place in places.values()}.values())
        self._is_as_found = True
        self._is_done = False

    @property
    def may_restart(self) -> bool:
        """Whether it can be restarted, and the study file allows it."""
        return self._lifecycle.settings.allow_restart and not self._lifecycle.no_restart

    def who(self, snapshot: Snapshot) -> Mapping[str, Any]:
        """Nothing: files on this machine are known by it."""
        left = snapshot.picture.get("machine", "")
        if left and machine_mark() and left != machine_mark():
            raise RestoreError(
                "not touched, because these files are another machine's",
                hint="run `trimtab recover` where the study ran",
            )
        return {}

    def by_hand(self, snapshot: Snapshot, own: Own) -> str:
        """What a person would do."""
        return BY_FILES

    def bring_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> bool:
        """Files without ours, and a program that serves; it is restarted at once for a value of ours that it may be using."""
        for picture in (snapshot.picture, own.picture):
            self._lifecycle.know(str(picture.get("instance", "")))
        self.trouble = ""
        in_program = self._in_program(snapshot, own)
        files, live = ([each for each in self._channels if each.is_live is is_live] for is_live in (False, True))
        self._all_back(files, snapshot, own)
        self._is_as_found = self._has_files_of(snapshot)
        if not self._is_as_found and own.is_whole and self._lifecycle.was_stopped():
            if any(place.channel.is_live for name, place in self._places.items() if name in own.texts):
                raise RestoreError(
                    "the program is down, its files were changed by somebody else since, and values that Trimtab set are in it",
                    hint="start it when that is ready, then run `trimtab recover`",
                )
            raise LeftDownError(
                "the program is down, and its files were changed by somebody else since",
                hint="start it when that is ready",
            )
        must_restart = self._is_as_found and bool(self._waiting(snapshot, own))
        back = {name: snapshot.values[name] for name in in_program}
        try:
            self._is_done = self._into_effect(snapshot, own, restarts, must_restart, back)
        except TargetError:
            if self._serves():
                self._all_back(live, snapshot, own)
            raise
        self._all_back(live, snapshot, own)
        return self._is_done

    def _has_files_of(self, snapshot: Snapshot) -> bool:
        """Whether every file has the content that it had when we came."""
        files = (channel for channel in self._channels if not channel.is_live)
        return all(_content(channel.read()) == _content(_found(snapshot, channel)) for channel in files)

    def _all_back(self, channels: Iterable[FileChannel], snapshot: Snapshot, own: Own) -> None:
        for channel in channels:
            self._file_back(channel, snapshot, own)

    def _file_back(self, channel: FileChannel, snapshot: Snapshot, own: Own) -> None:
        channel.remove_leftover()
        mine = {name: place.address for name, place in self._places.items() if place.channel is channel}
        ours = {mine[name]: texts for name, texts in own.texts.items() if name in mine}
        is_reset = self._is_reset(mine, snapshot, own)
        if not ours and not is_reset:
            return
        now, found = channel.read(), _found(snapshot, channel)
        left = own.picture.get("files", {}).get(str(channel.path), "")
        goal = found if is_reset else channel.without(now, found, ours, left)
        if goal != now:
            channel.put(goal)

    def _is_reset(self, names: Collection[str], snapshot: Snapshot, own: Own) -> bool:
        """Whether the system has given one of `names` a value of its own because we changed another knob, which is back."""
        return any(
            not self.reset_by([other]).isdisjoint(names)
            and (place := self._places[other]).text(place.channel.read()) == place.text(_found(snapshot, place.channel))
            for other in own.texts
            if other in self._places
        )

    def reset_by(self, names: Iterable[str]) -> set[str]:
        """The knobs that the system sets to values of its own when `names` change."""
        return {other for name in names for other in self._resets.get(name, ())}

    def _waiting(self, snapshot: Snapshot, own: Own) -> frozenset[str]:
        """Our knobs that only a restart changes, when the program may be using ours.

        A process that ran already when we came has never read them, unless it watches the file; one that began after its files
        were put back has not either.
        """
        late, lifecycle = frozenset(own.late) & self._places.keys(), self._lifecycle
        if not late or not lifecycle.is_up():
            return frozenset()
        is_the_same = lifecycle.instance == snapshot.picture.get("instance", "")
        if is_the_same and not any(self._live.watcher(name, snapshot.values) for name in late):
            return frozenset()
        return frozenset() if self._began_after(late, own) else late

    def _began_after(self, names: Collection[str], own: Own) -> bool:
        """Whether the process that runs now began after the files of these knobs were put back. One that ran with ours did not,
        whatever the dates of the files say, which others may have put back, and the clock, which may have been set since."""
        channels = [self._places[name].channel for name in names]
        paths: list[Path] = [channel.path for channel in channels if not channel.is_live]
        return self._lifecycle.instance != own.picture.get("instance") and self._lifecycle.began_after(paths)

    def _into_effect(
        self, snapshot: Snapshot, own: Own, restarts: Restarts, must_restart: bool, back: Mapping[str, Value]
    ) -> bool:
        """Makes the program use its files, and `back` in it; whether it was restarted or started."""
        if must_restart or not self._serves():
            return self._restarted(snapshot, restarts)
        failed = self._reloaded(snapshot, own, back) if self._reloads & set(own.texts) else None
        try:
            self._live.set({name: value for name, value in back.items() if name not in self._reloads})
        except TargetError:
            if not (self._is_as_found and self.may_restart):
                raise
            return self._restarted(snapshot, restarts)
        if failed is not None:
            raise failed
        return False

    def _reloaded(self, snapshot: Snapshot, own: Own, back: Mapping[str, Value]) -> InForceError | None:
        """Makes it read its files again. Where that fails: that ours may be in force, or None with its `trouble` told.

        It is not restarted instead: a program that does not take its files as found might not come back.
        """
        try:
            changed = [self._places[name].address for name in own.texts.keys() & self._reloads]
            self._lifecycle.reload(self._by_reload(snapshot, back), changed)
        except TargetError as error:
            if not self._serves():
                raise
            if held := self._held(snapshot, own):
                return self._in_force(held, error)
            self.trouble = "the reload fails with the settings as found, too"
        else:
            self._lifecycle.health()
        return None

    def _in_force(self, held: str, error: TargetError) -> InForceError:
        s = self._lifecycle.settings
        by = s.restart or (f"{s.stop}; {s.start}" if s.stop is not None and s.start is not None else "")
        hint = "put the reload command right, then run `trimtab recover`, which runs it again"
        hint += f"; or restart the {self.noun}{f' (`{by}`)' if by else ''}, and then run it"
        text = f"the files hold nothing of Trimtab's any more, but the {self.noun} {held}: {error.message}"
        found = InForceError(text, hint=hint)
        found.__cause__ = error
        return found

    def _held(self, snapshot: Snapshot, own: Own) -> str:
        """What of ours a program that was not reloaded uses, or may use, for people; "" for nothing: its process began after its
        files were put back, or its `read` command tells that it has its values as found, or those of somebody else."""
        channels = {name: self._places[name].channel for name in sorted(own.texts.keys() & self._reloads)}
        names = [name for name, channel in channels.items() if channel.is_lasting and not channel.is_live]
        if not names or self._began_after(names, own):
            return ""
        # One that keeps what its files name no longer may show only a part of what it keeps, as a mongod does. What a channel
        # reads may be what the files say, as of an httpd.
        can_tell = self._lifecycle.settings.read is not None and not self._lifecycle.takes_back
        try:
            told = self._told() if can_tell else {}
        except TargetError:
            told = {}
        parts: dict[str, list[str]] = {"still uses": [], "may still use": []}
        for name in names:
            found, ours = snapshot.values[name], own.values.get(name, ())
            if name not in told:
                value = own.said(name, ours[-1]) if ours else str(own.texts[name][-1])
                parts["may still use"].append(f"{name}={value} (found {own.said(name, found)})")
            elif told[name] != found and (told[name] in ours or not own.is_whole):
                parts["still uses"].append(f"{name}={own.said(name, told[name])} (found {own.said(name, found)})")
        return " and ".join(f"{what} {', '.join(values)}" for what, values in parts.items() if values)

    def _restarted(self, snapshot: Snapshot, restarts: Restarts) -> bool:
        """True, once it serves again with its files, and has what it had in itself alone."""
        lifecycle = self._lifecycle
        restarts()
        started(lambda: lifecycle.restart() if lifecycle.is_up() else lifecycle.ensure_up(), lifecycle.later_s)
        lifecycle.health()
        self.set_again(self.lost(snapshot))
        return True

    def lost(self, snapshot: Snapshot) -> Mapping[str, Value]:
        """What was set in the program alone when we came, and is not in use any more after a restart."""
        return {}

    def set_again(self, values: Mapping[str, Value]) -> None:
        """Sets them in the program that runs.

        Raises:
            TargetError: one is refused.
        """
        by_reload = values.keys() & self._reloads
        if by_reload:
            self._lifecycle.reload({self._places[name].address: self._text(name, values[name]) for name in by_reload})
        if alive := {name: value for name, value in values.items() if name not in by_reload}:
            self._live.set(alive)

    def _by_reload(self, snapshot: Snapshot, back: Mapping[str, Value]) -> dict[str, str]:
        """Address -> text of those of `back` that a reload changes and that stand in their file as found, or not at all: a
        program that takes from its files what they say and keeps the rest would keep ours. What others have written counts."""
        texts = {}
        for name in back.keys() & self._reloads:
            place = self._places[name]
            now, found = place.channel.read(), _found(snapshot, place.channel)
            if place.text(now) in (place.text(found), place.text(None)):
                texts[place.address] = self._text(name, back[name])
        return texts

    def _in_program(self, snapshot: Snapshot, own: Own) -> list[str]:
        """Our knobs that were set in the running program, live or by a reload, and may have a value of ours there; those that
        somebody else has set since have not. After a change that was not finished nobody knows."""
        ours = {*own.texts, *self._following(own)}
        known = {*self._live.known, *(self._reloads if self._lifecycle.takes_back else ())}
        names = [name for name in ours if name in known and name not in own.late]
        if not names or not self._lifecycle.is_up():
            return []
        try:
            values = self._told() if own.is_whole else {}
        except TargetError:
            return names

        def may_be_ours(name: str) -> bool:
            if name not in values or name not in own.values:
                return True
            # A mongod shows only what was set last of its engine: a knob that has its found value by these words may have ours.
            is_as_found = name in self._reloads and values[name] == snapshot.values[name]
            return is_as_found or values[name] in own.values[name]

        return [name for name in names if may_be_ours(name)]

    def _following(self, own: Own) -> set[str]:
        """The knobs that have the value of one of ours where the file does not name them."""
        given = {(place.channel.name, place.address) for name, place in self._places.items() if name in own.texts}
        return {
            name
            for name, place in self._places.items()
            if any((place.channel.name, address) in given for address, _ in place.fallbacks)
        }

    def _serves(self) -> bool:
        try:
            self._lifecycle.health()
        except TargetError:
            return bool(self._lifecycle.no_restart) and self._lifecycle.is_up()
        return True

    def standing(self, snapshot: Snapshot, own: Own) -> Mapping[str, Standing]:
        """What the files say, and what waits for a restart that was not made."""
        waiting = frozenset() if self._is_done else self._waiting(snapshot, own)
        found = {}
        for name in set(own.texts) & self._places.keys():
            place = self._places[name]
            # Somebody may have added a second one since: what Trimtab has written there is gone all the same.
            now, before = place.last_text(place.channel.read()), place.text(_found(snapshot, place.channel))
            way = Way.WAITING if name in waiting else Way.FOUND if now == before else Way.THEIRS
            found[name] = Standing(way, now, before)
        return found

    def why_not_restart(self, snapshot: Snapshot, own: Own, names: list[str]) -> str:
        """Why a restart is not made; it is made at once when nobody else has written the files."""
        return "" if self._is_as_found else "it would put changes of somebody else's into effect"

    def restart_for(self, snapshot: Snapshot, own: Own) -> None:
        """A restart."""
        self._lifecycle.restart()
        self._lifecycle.health()
        self.set_again(self.lost(snapshot))


def _found(snapshot: Snapshot, channel: FileChannel) -> FileCopy | None:
    table = snapshot.files.get(str(channel.path))
    if table is None:
        raise RestoreError(
            f"the snapshot has no file={str(channel.path)!r}", hint="use the study's own target: its files were others"
        )
    return file_from_json(table)


def _multiplied(text: str, times: float) -> str:
    """A whole number so many times, rounded down; a text that is none stays."""
    return text if times == 1.0 or not text.isdigit() else str(int(int(text) * times))


def _content(copy: FileCopy | None) -> bytes:
    return copy.content if copy is not None else b""
