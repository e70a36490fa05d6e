"""OwnWords: what a program says of itself, of its settings, and of files that it has not read yet."""

from __future__ import annotations

import math
import os
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from trimtab.errors import ApplyError, TargetError
from trimtab.host import CommandResult, FileCopy, scratch_folder
from trimtab.records import Fault
from trimtab.space import Knob
from trimtab.space.condition import is_true
from trimtab.systems.account import Account
from trimtab.systems.catalog import Catalog
from trimtab.systems.codec import CodecError
from trimtab.systems.command_lifecycle import AlwaysThere
from trimtab.systems.command_settings import CommandSettings
from trimtab.systems.cql import cql_rows, cql_settings, is_cql
from trimtab.systems.dump import printed_values
from trimtab.systems.file_channel import FileChannel
from trimtab.systems.file_undo import Place
from trimtab.systems.java import require_java
from trimtab.systems.placeholder import places
from trimtab.systems.written import newer_than_workers
from trimtab.units import Dimension

__all__ = ["OwnWords"]


class OwnWords:
    """See the module.

    Args:
        catalog: with the commands that ask.
        settings: the table of the study file.
        reach: the way to the program.
    """

    def __init__(self, catalog: Catalog, settings: CommandSettings, reach: AlwaysThere) -> None:
        self._catalog = catalog
        self._settings = settings
        self._reach = reach
        self._asked: dict[str, str] = {}
        self._files: Sequence[Path] = ()
        self._elsewhere: frozenset[str] = frozenset()

    def values(self, channel: FileChannel, addresses: Sequence[str]) -> Mapping[str, str] | None:
        """The values in use, of those settings that it speaks of; None where nothing tells them.

        Raises:
            TargetError: a command fails, or is not understood.
        """
        table = self._catalog.channel[channel.name]
        if table.counts_at_once:
            return None
        if self._settings.read is not None:
            return self._reach.values(addresses) if self._reach.is_up() else None
        if not table.read or ("{pid}" in table.read and self._reach.pid is None):
            return None
        if is_cql(self._reach.filled(table.read)) and not self._reach.is_up():
            return None
        if table.prints == "flags" and (pid := self._reach.pid) is not None:
            require_java(pid)
        text = self._told("read", table.read, is_lasting="{pid}" in table.read)
        if head := table.shows_files:
            named = [line.removeprefix(head) for line in text.splitlines() if line.startswith(head)]
            self._files = [Path(each.removesuffix(":")) for each in named]  # nginx ends such a line so
        names = self._further_names(addresses, channel.name)
        try:
            told = printed_values(table.prints, text, [*addresses, *names])
        except CodecError as error:
            raise TargetError(f"read={table.read!r} is not understood: {error.message}", hint=error.hint) from error
        found = {names.get(name, name): told[name] for name in (*names, *addresses) if name in told}
        if table.refuses_twice:
            copy = channel.read()
            self._elsewhere = frozenset(address for address in found if not channel.has(copy, address))
        return found

    def _further_names(self, addresses: Sequence[str], channel: str) -> dict[str, str]:
        """Further name -> address, of those of these addresses that have some."""
        asked, further = frozenset(addresses), self._catalog.further_names(channel)
        return {other: at for at, also in further.items() if at in asked for other in also}

    def text(
        self, channel: FileChannel, told: Mapping[str, str] | None, place: Place, in_file: str | None
    ) -> str | None:
        """The value in use of one setting; None where its default counts.

        Args:
            channel: that it is in.
            told: what `values` gave.
            place: of the setting.
            in_file: what its file says.
        """
        if told is None:
            return in_file
        if self._catalog.channel[channel.name].prints == "settings":
            return told.get(place.address, in_file)  # it may be told whole and in no other way than its file
        found = place.told(told)
        return in_file if found is None and self._settings.read is not None else found

    def unread(self) -> tuple[str, ...]:
        """That the program has not read a file of those that its last `values` came from since somebody wrote it."""
        pid = self._reach.pid
        newer = newer_than_workers(self._files, pid) if pid is not None else None
        if newer is None:
            return ()
        return (
            f"file={str(newer)!r} was written after the program had read its files: what it says counts from the next reload on,"
            " and the first one of a study would bring it in. Reload the program before",
        )

    def lacks(self, name: str, values: Mapping[str, str] | None) -> str:
        """Why the program here has no such setting; "" when it may have it."""
        entry, address = self._catalog.knob[name], self._catalog.address_of(name)
        channel = self._catalog.channel[self._catalog.channel_of(name)]
        tells_all = channel.tells_all or self._settings.read is not None
        if tells_all and values is not None and address not in values:
            return "this program has no such setting, or does not show it"
        if not self._is_without(entry.needs):
            return ""
        came_with = self._catalog.came_with.get(entry.needs)
        return f"it needs {came_with or repr(entry.needs)}, which this program {'is not' if came_with else 'does not have'}"

    def absent(self, places: Mapping[str, Place]) -> frozenset[str]:
        """The knobs that the program here does not have, as far as it or its files show.

        Raises:
            TargetError: a file cannot be read or understood.
        """
        return frozenset(n for n, place in places.items() if self.lacks(n, None) or not self._has_place(n, place))

    def _has_place(self, name: str, place: Place) -> bool:
        """Whether its file has it, or could, and leaves it an effect; of a knob that counts without it, too, True."""
        knob = self._catalog.knob[name]
        if not knob.must_stand:
            return True
        channel, copy = place.channel, place.channel.read()
        if self.beside(name, channel, copy):
            return False
        return channel.has(copy, place.address) or not channel.no_place(copy, place.address, str(knob.default))

    def beside(self, name: str, channel: FileChannel, copy: FileCopy | None) -> str:
        """Why a setting has no effect because of what stands, or does not stand, in its file beside it; "" when it has.

        Raises:
            TargetError: the file is not of its syntax.
        """
        knob = self._catalog.knob[name]
        if self._catalog.address_of(name) in self._elsewhere:
            return "another file that the program reads has it, and the program refuses a second one"
        if knob.needs_beside and copy is not None and not channel.has(copy, knob.needs_beside):
            return f"its file has no {knob.needs_beside}, which it needs"
        ruler = next((each for each in knob.ruled_by if channel.has(copy, each)), "")
        return f"it has no effect while its file has {ruler}" if ruler else ""

    def why_renamed(self, channel: FileChannel, copy: FileCopy | None, former: str) -> str:
        """Why a setting cannot be written under its name of now; "" when it can.

        Raises:
            TargetError: its file, or the program's answer, is not understood.
        """
        if channel.has(copy, former):
            return f"its file has it under its earlier name, {former}, and the program refuses both: rename it there"
        return f"this program knows it by its earlier name alone, {former}" if self._tells_earlier_names() else ""

    def _tells_earlier_names(self) -> bool:
        """Whether it is of before its settings were renamed: it tells earlier names, and none of those that took their places."""
        text = self._features()
        renamed = [name for name, knob in self._catalog.knob.items() if knob.formerly] if text else []
        told = _words(text or "")
        return any(self._catalog.knob[name].formerly in told for name in renamed) and not any(
            self._catalog.address_of(name) in told for name in renamed
        )

    def fitting(self, knob: Knob) -> Knob:
        """The knob without the choices that the program here does not have."""
        needs = self._catalog.knob[knob.name].choices_need
        absent = {choice for choice, need in needs.items() if self._is_without(need)}
        return replace(knob, choices=tuple(each for each in knob.choices if each not in absent)) if absent else knob

    def shown(self, name: str) -> str | None:
        """The choice of a knob that the `features` command shows; None where it shows none, or there is no such command."""
        if self._settings.features is None:
            return None
        text = self._told("features", self._settings.features, is_lasting=True)
        return next((each for each, words in self._catalog.knob[name].shown_by.items() if words in text), None)

    def _is_without(self, need: str) -> bool:
        """Whether the `features` command says so; nobody knows without one, or of a node that cannot be asked now."""
        text = self._features() if need else None
        if text is None:
            return False
        begin = r"(?<!\w)" if need[0].isalnum() else ""  # file_cache_module is no cache_module
        return re.search(begin + re.escape(need), text) is None

    def _features(self) -> str | None:
        """What the `features` command prints; None without one, or of a node that cannot be asked now."""
        command = self._settings.features
        if command is None or (is_cql(self._reach.filled(command)) and not self._reach.is_up()):
            return None
        return self._told("features", command, is_lasting=True)

    def facts(self) -> Mapping[str, float]:
        """The facts of the catalogue that the program tells now; none while it does not run.

        Raises:
            TargetError: a command fails, or prints no number.
        """
        if not self._catalog.facts or not self._reach.is_up():
            return {}
        return {name: _number(name, self._fact(name, command)) for name, command in self._catalog.facts.items()}

    def unfelt(self) -> frozenset[str]:
        """The knobs that cannot be felt by what the program tells now; none while it does not run.

        Raises:
            TargetError: a command fails, or prints no number.
        """
        knobs = {name: knob.only_when for name, knob in self._catalog.knob.items() if knob.only_when}
        if not knobs or not (facts := self.facts()):
            return frozenset()
        numbers = dict.fromkeys(facts, Dimension.NUMBER)
        return frozenset(name for name, condition in knobs.items() if not is_true(condition, facts, numbers))

    def _fact(self, name: str, command: str) -> str:
        if not is_cql(filled := self._reach.filled(command)):
            return self._printed(f"[facts] {name}", command)
        url, _, statement = filled.partition(" ")
        rows = cql_rows(url, statement)
        return (rows[0][0] if rows and rows[0] else None) or "0"

    def _told(self, key: str, command: str, *, is_lasting: bool) -> str:
        """What a command prints, asked once in the life of a process where that cannot change in it."""
        if not is_lasting:
            return self._printed(key, command)
        asked = f"{self._reach.instance} {command}"
        if asked not in self._asked:
            self._asked[asked] = self._printed(key, command)
        return self._asked[asked]

    def _printed(self, key: str, command: str) -> str:
        if is_cql(url := self._reach.filled(command)):
            return cql_settings(url)
        result = self._ask(command)
        if result.exit_code != 0:
            raise TargetError(
                f"{key}={shlex.join(result.argv)!r} ended with exit_code={result.exit_code}: {result.output[-500:]}",
                hint="run it by hand to see why",
            )
        return result.stdout

    def _ask(self, command: str, names: Mapping[str, str] | None = None) -> CommandResult:
        """Runs a command of the catalogue.

        Raises:
            TargetError: it cannot be run; where its program is missing, the hint says what brings it.
        """
        try:
            return self._reach.ask(command, names)
        except TargetError as error:
            name = next(iter(places(shlex.split(command)[0])), "")
            package = next((each.needs[name] for each in self._catalog.embedded.values() if name in each.needs), "")
            if not (package and isinstance(error.__cause__, FileNotFoundError)):
                raise
            raise TargetError(
                f"program={self._reach.words(command)[0]!r} is not installed here",
                hint=f'apt-get install {package}; one in another place: names = {{ {name} = "/..." }} in the target\'s table',
            ) from error

    def check(self, now: Mapping[FileChannel, FileCopy | None], goals: Mapping[FileChannel, FileCopy | None]) -> None:
        """That the program would take these files.

        Raises:
            ApplyError: it would not, with its own words.
        """
        changed = [channel for channel, goal in goals.items() if goal != now[channel]]
        table = self._catalog.channel
        asked = [channel for channel in changed if table[channel.name].check]
        for channel in asked:
            if said := self._refusal(channel, goals):
                more = "; it refuses the file as found, too" if self._refusal(channel, now) else ""
                raise ApplyError(
                    f"the program would refuse file={str(channel.path)!r}: {said}{more}",
                    hint=f"does check={table[channel.name].check!r} ask the program that runs?"
                    if more
                    else "nothing was changed",
                    fault=Fault.CONFIG,
                )

    def _candidates(self, folder: Path, goals: Mapping[FileChannel, FileCopy | None]) -> dict[str, str]:
        """A copy of each file for the user who asks, and for nobody else: files may hold passwords."""
        account = self._reach.runs_as
        names = {}
        for channel, goal in goals.items():
            path = folder / channel.name
            path.write_bytes(channel.for_check(goal))
            path.chmod(0o600)
            _give(path, account)
            names[f"file.{channel.name}"] = str(path)
        _give(folder, account)
        return names

    def _refusal(self, channel: FileChannel, copies: Mapping[FileChannel, FileCopy | None]) -> str:
        """What it says against these files when it is asked about one of them; "" when it takes them.

        Raises:
            TargetError: it cannot be asked.
        """
        try:
            with scratch_folder() as scratch:
                names = self._candidates(scratch, copies)
                names["file"] = names.get(f"file.{channel.name}", os.devnull)
                result = self._ask(self._catalog.channel[channel.name].check, names)
        except OSError as error:
            raise TargetError(
                f"file={str(channel.path)!r} cannot be copied for a check: {error.strerror}",
                hint=f"make room in {tempfile.gettempdir()}",
            ) from error
        said = result.output[-1000:].strip() or f"exit_code={result.exit_code}"
        for each in copies:
            said = re.sub(rf"{re.escape(f'{scratch}/{each.name}')}(?=[\s:,'\"]|$)", str(each.path), said)
        said = said.replace(str(scratch), str(channel.path.parent))
        return said if result.exit_code != 0 else ""


@lru_cache(maxsize=8)  # asked for each setting that was renamed
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[\w.]+", text))


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise TargetError(
            f"[facts] {name} printed {text.strip()[:100]!r}, expected a number from 0",
            hint="run it by hand to see why",
        )
    return number


def _give(path: Path, account: Account | None) -> None:
    if account is not None and not account.is_me:
        os.chown(path, account.uid, account.gid)
