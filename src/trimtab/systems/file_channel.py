"""FileChannel: a configuration file with a codec, where the values of a catalogue's knobs are written."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from trimtab.errors import TargetError
from trimtab.host import FileCopy, LocalHost
from trimtab.space import Knob
from trimtab.systems.catalog import Channel
from trimtab.systems.channel_paths import needs_disk
from trimtab.systems.codec import CodecError, Located, SeveralError, Template
from trimtab.systems.codec.scalar import offered_words
from trimtab.systems.files import file_digest, not_to_be_put_back
from trimtab.units import counted

__all__ = ["FileChannel", "FileFaultError", "file_lines", "named_disk_lines"]

T = TypeVar("T")

_KERNEL = ("/proc/", "/sys/")
_DEBUG = Path("/sys/kernel/debug")
_NEW_MODE = 0o644


class FileFaultError(TargetError):
    """A file is not of its syntax, or has an address more than once."""


class FileChannel:
    """One file; bytes that are not a value of ours stay as they are.

    Args:
        name: in the catalogue.
        table: of it there.
        path: absolute.
        host: where it is.
        defaults: address -> value as text, for a template that no file was made of yet.
        further: address -> further names of it: one that stands in the file in its place is read and written there.

    Attributes:
        name, path, codec: the same.
        is_lasting: whether what is written outlives a restart of the machine.
        is_live: whether it is no file, but is read from the running system and written to it.
        keeps: what it is, for people.
    """

    is_live = False
    keeps = "configuration file"

    def __init__(
        self,
        name: str,
        table: Channel,
        path: Path,
        host: LocalHost,
        defaults: Mapping[str, str],
        further: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.path = path
        self.codec = table.made()
        self.is_lasting = not str(path).startswith(_KERNEL)
        self._in_place = table.in_place or not self.is_lasting
        self._must_exist = table.must_exist
        self._host = host
        self._defaults = defaults
        self._further = further
        self._no_place: tuple[str | None, dict[tuple[str, str], str]] = (None, {})

    def read(self) -> FileCopy | None:
        """The file; None when there is none, or it is one of the kernel that cannot be read: see `missing`.

        Raises:
            TargetError: it cannot be read.
        """
        try:
            return self._host.read_file(self.path)
        except TargetError:
            if self.is_lasting:
                raise
            return None

    def missing(self, copy: FileCopy | None) -> str:
        """Why nothing can be written to a file of the kernel, or to one that must be there, given what `read` gave; else ""."""
        if self.is_lasting:
            return "" if copy is not None else self._lacking()
        if needs_disk(self.path):
            return 'no disk is known that the other targets use: name one, names = { disk = "sda" }'
        if copy is None:
            return self._unreadable()
        return "" if os.access(self.path, os.W_OK, effective_ids=True) else self._unwritable()

    def _lacking(self) -> str:
        """Why a file that is not there cannot be made; "" when it can."""
        if self._must_exist or self._in_place:  # only what is there is written in place
            return f"there is no file={str(self.path)!r}: name the one that the program reads"
        folder = str(self.path.parent)
        return "" if os.path.isdir(folder) else f"there is no folder={folder!r}: name the file that the program reads"

    def unwritable(self) -> str:
        """Why this user cannot write a file on a disk, or not put it back as it was; "" where that is possible, and of others.

        Raises:
            TargetError: it cannot be read.
        """
        copy = self.read() if self.is_lasting and not self.is_live else None
        if self.is_live or not self.is_lasting or (copy is None and self._lacking()):
            return ""  # `missing` says why nothing can be written there
        place, right = (self.path, os.W_OK) if self._in_place else (self.path.parent, os.W_OK | os.X_OK)
        if not os.access(place, right, effective_ids=True):
            return f"this user may not write {'it' if self._in_place else 'into its folder'}"
        return not_to_be_put_back(copy, self.path.parent) if copy is not None and not self._in_place else ""

    def _unwritable(self) -> str:
        path = f"file={str(self.path)!r}"
        if os.statvfs(self.path).f_flag & os.ST_RDONLY:
            return f"{path} is mounted read-only, as it is in most containers"
        is_root = os.geteuid() == 0
        return f"the kernel does not let root write {path}" if is_root else f"{path} may only be written by root"

    def _unreadable(self) -> str:
        path = f"file={str(self.path)!r}"
        if _is_closed(self.path) or self.path.exists():
            return (
                f"the kernel does not let root read {path}" if os.geteuid() == 0 else f"{path} may only be read by root"
            )
        if self.path.is_relative_to(_DEBUG) and not _DEBUG.is_mount():
            return f"debugfs is not mounted: mount -t debugfs none {_DEBUG}"
        return f"this kernel has no {path}"

    def fitting(self, knob: Knob, copy: FileCopy | None) -> Knob:
        """The knob without the choices that a file of the kernel, given what `read` gave, does not offer."""
        offered = offered_words(_text(copy)) if copy is not None and not self.is_lasting and knob.choices else ()
        return replace(knob, choices=tuple(each for each in knob.choices if each in offered)) if offered else knob

    def fleeting(self) -> str:
        """Why what is written does not outlive a restart of the machine, and what to do; "" when it does."""
        if self.is_lasting:
            return ""
        gone = f"file={str(self.path)!r} has the kernel's usual value again after a restart of the machine"
        return f"{gone}; put the printed lines into a file of /etc/tmpfiles.d"

    def place(self, line: int) -> str:
        """Where a value is, for people."""
        return f"{self.path}:{line}"

    def told(self) -> tuple[str, bool, str]:
        """(check, is_fine, explanation) for doctor.

        Raises:
            TargetError: it cannot be read.
        """
        return f"file {self.name}", True, f"{self.path} ({self.codec.name})"

    def values(self, copy: FileCopy | None, addresses: Sequence[str]) -> dict[str, Located]:
        """Those of `addresses` that the file has. Of an attribute that several elements have, what all of them say.

        Raises:
            TargetError: the file is not of its syntax, or an address comes more than once.
        """
        if copy is None:
            return {}
        text = _text(copy)
        try:
            found = {address: self._found(text, address) for address in addresses}
        except CodecError as error:
            raise self._told(error) from error
        return {address: located for address, located in found.items() if located is not None}

    def _found(self, text: str, address: str) -> Located | None:
        try:
            return self.codec.find(text, self._name_in(text, address))
        except SeveralError as error:
            return error.common

    def changed(self, found: FileCopy | None, values: Mapping[str, str]) -> FileCopy | None:
        """The file as found with `values` at their addresses; a new one where there was none.

        Raises:
            TargetError: they cannot be written.
        """
        if not values:
            return found
        text = _text(found) if found is not None else self._fresh()
        try:
            return self._copy(found, self.codec.write(text, self._named(text, values)))
        except CodecError as error:
            raise self._told(error) from error

    def for_check(self, copy: FileCopy | None) -> bytes:
        """What a program that checks the file is given of it."""
        return self.codec.for_check(_text(copy)).encode("latin-1") if copy is not None else b""

    def no_place(self, found: FileCopy | None, address: str, value: str) -> str:
        """Why an address that the file as found does not have cannot be added with this value; "" when it can.

        It is asked for at each look: what follows from the file is kept until that has other content.
        """
        text = _text(found) if found is not None else None
        if self._no_place[0] != text:
            self._no_place = (text, {})
        known = self._no_place[1]
        if (address, value) not in known:
            try:
                if text is not None:  # of several that differ one may have this value already
                    self.codec.find(text, self._name_in(text, address))
                self.changed(found, {address: value})
                known[address, value] = ""
            except TargetError as error:
                known[address, value] = error.message
        return known[address, value]

    def _name_in(self, text: str, address: str) -> str:
        """The name by which a text has an address: itself, unless only a further one stands there."""
        names = self._further.get(address, ())
        if not names or self.codec.last(text, address) is not None:
            return address
        return next((name for name in names if self.codec.last(text, name) is not None), address)

    def _named(self, text: str, values: Mapping[str, T]) -> dict[str, T]:
        """`values` by the names that a text has for their addresses."""
        return {self._name_in(text, address): value for address, value in values.items()}

    def last(self, copy: FileCopy | None, address: str) -> str | None:
        """The value of an address, the last one where there are several; None for none.

        Raises:
            TargetError: the file is not of its syntax.
        """
        return None if copy is None else self._asked(copy, address, self.codec.last)

    def has(self, copy: FileCopy | None, address: str) -> bool:
        """Whether the file has the address, be it with a value that no knob can have, or more than once.

        Raises:
            TargetError: the file is not of its syntax.
        """

        def is_there(text: str, name: str) -> bool:
            return self.codec.last(text, name) is not None or self.codec.is_bare(text, name)

        return copy is not None and self._asked(copy, address, is_there)

    def _asked(self, copy: FileCopy, address: str, ask: Callable[[str, str], T]) -> T:
        """What `ask` says of the text and the name that it has for the address."""
        text = _text(copy)
        try:
            return ask(text, self._name_in(text, address))
        except CodecError as error:
            raise self._told(error) from error

    def without(
        self, now: FileCopy | None, found: FileCopy | None, ours: Mapping[str, Sequence[str]], left_digest: str
    ) -> FileCopy | None:
        """The file as found when nobody else has written it since we left it so; else what it is now, with what is ours out.

        Raises:
            TargetError: what is ours cannot be taken out.
        """
        found = self.with_mode_of(now, found)
        if now == found or now is None:
            return now
        before = _text(found) if found is not None else self._fresh()
        try:
            ours = self._named(before, ours)
            if file_digest(now) == left_digest or self._is_cut_off(now, found, ours):
                return found
            text = self.codec.withdraw(_text(now), before, ours)
        except CodecError as error:
            raise self._told(error) from error
        if found is None and text == self._fresh():
            return None
        if found is not None and text == _text(found):
            return found
        return now if text == _text(now) else replace(now, content=text.encode("latin-1"))

    def with_mode_of(self, now: FileCopy | None, copy: FileCopy | None) -> FileCopy | None:
        """`copy` with the mode of the file as it is `now`: no change of ours changes it, so that another one is somebody else's.
        Not that of another user's file: they might have put it there to read what is not theirs."""
        if now is None or copy is None or now.uid != copy.uid:
            return copy
        return replace(copy, mode=now.mode, gid=now.gid)

    def fragment(self, values: Mapping[str, str], names: Mapping[str, str]) -> str:
        """`values` in the syntax of the file, under comments that name it; ends with a newline.

        A value that has no place in an empty file (inside a block, of an element, of a template) is told in a comment. A file of
        the kernel is shown as a line of tmpfiles.d(5), which writes it at each start of the machine.

        Args:
            values: address -> text.
            names: address -> name of the knob, told where it is another word.
        """
        if not self.is_lasting:
            return "".join(f"# {names[at]}\nw {self.path} - - - - {value}\n" for at, value in values.items())
        text, told = "", []
        for address, value in values.items():
            try:
                text = self.codec.write(text, {address: value})
            except CodecError:
                told.append(f"# set {address} to {value!r} at its place in that file\n")
        renamed = [f"# {names[address]} is {address}\n" for address in values if names[address] != address]
        return "".join((f"# {self.path} (codec {self.codec.name})\n", *renamed, text, *told))

    def put(self, copy: FileCopy | None) -> None:
        """Makes the file this; one of the kernel gets the value written into it.

        Raises:
            TargetError: it cannot be written.
        """
        if copy is None:
            self._host.remove_file(self.path)
        elif self._in_place:
            value = self.codec.read(_text(copy))
            text = "".join(located.value for located in value.values()) + "\n" if not self.is_lasting else _text(copy)
            self._host.write_in_place(self.path, text.encode("latin-1"))
            self._require_whole(text)
        else:
            self._host.write_file(self.path, copy)

    def _require_whole(self, text: str) -> None:
        """That a file which was written in place holds all of it: a full disk takes the beginning alone.

        Raises:
            TargetError: it does not.
        """
        now = self.read() if self.is_lasting else None
        if now is not None and len(now.content) < len(text) and text.startswith(_text(now)):
            raise TargetError(
                f"file={str(self.path)!r} was written in part only: {len(now.content)} of {len(text)} bytes",
                hint="make room on its disk",
            )

    def _is_cut_off(self, now: FileCopy, found: FileCopy | None, ours: Mapping[str, Sequence[str]]) -> bool:
        """Whether `now` is the beginning of what we wrote in place, or wrote back: a kill or a full disk took the rest."""
        if found is None or not (self._in_place and self.is_lasting):
            return False
        whole, (lines, end, rest) = _text(found), _text(now).rpartition("\n")
        changes: list[Mapping[str, str]] = [{}, *({at: text} for at, texts in ours.items() for text in texts)]
        try:
            begun = self.codec.withdraw(lines + end, whole, ours) + rest
        except CodecError:
            begun = _text(now)
        try:
            goals = [self.codec.write(whole, change) for change in changes]
        except CodecError:
            return False
        return any(len(begun) < len(goal) and goal.startswith(begun) for goal in goals)

    def remove_leftover(self) -> None:
        """Removes what a `put` that was killed has left beside it."""
        if not self._in_place:
            self._host.remove_leftover(self.path)

    def _fresh(self) -> str:
        """The text that a file begins with which was not there."""
        return self.codec.filled(self._defaults) if isinstance(self.codec, Template) else ""

    def _copy(self, found: FileCopy | None, text: str) -> FileCopy:
        content = text.encode("latin-1")
        if found is not None:
            return replace(found, content=content)
        return FileCopy(content=content, mode=_NEW_MODE, uid=os.geteuid(), gid=os.getegid())

    def _told(self, error: CodecError) -> FileFaultError:
        return FileFaultError(f"file={str(self.path)!r}: {error.message}", hint=error.hint)


def file_lines(channels: Sequence[FileChannel], written: Collection[Path]) -> list[tuple[str, bool, str]]:
    """(check, is_fine, explanation) of the files of a system; those of the kernel, which are many, in one line. A line more where
    one of those that are `written` may not be.

    Raises:
        TargetError: one that is looked at cannot be read.
    """
    lines = [each.told() for each in channels if each.is_lasting or each.is_live]
    closed = [f"{e.path}: {why}" for e in channels if e.path in written and (why := e.unwritable())]
    lines += [("write", False, f"what is in it cannot be tuned: {'; '.join(closed)}")] if closed else []
    kernel = [each for each in channels if not (each.is_lasting or each.is_live)]
    if kernel:
        locked = [reason for each in kernel if (reason := each.missing(each.read()))]
        text = f"{len(kernel) - len(locked)} of {counted(len(kernel), 'file')} under /proc and /sys may be written"
        lines.append(("kernel", len(locked) < len(kernel), "; ".join((text, *dict.fromkeys(locked)))))
    return lines


def named_disk_lines(disk: str, channels: Iterable[Channel]) -> list[tuple[str, bool, str]]:
    """The same of whose queue is tuned, of a catalogue with settings of a disk; none while no disk is known."""
    has_queue = any(needs_disk(Path(channel.path)) for channel in channels)
    return [("queue", True, f"its settings are those of the disk {disk}")] if disk and has_queue else []


def _is_closed(path: Path) -> bool:
    """Whether this user may not even see if there is such a file."""
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _text(copy: FileCopy) -> str:
    """Every byte is one character, whatever the file's encoding is."""
    return copy.content.decode("latin-1")
