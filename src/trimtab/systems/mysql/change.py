"""The channel of a MySQL or MariaDB server: an option file of our own, and SET GLOBAL; all or nothing, read back every time.

Knobs that SET GLOBAL changes are set so; those that need a restart go into the option file, which the server reads last. The
file always holds the whole config, so that a restart for one knob does not lose another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab.errors import ApplyError, ForeignChangeError
from trimtab.host import FileCopy
from trimtab.records import Fault
from trimtab.space import Config, Knob, Value
from trimtab.systems.base import KnobState, Own, Restarts, Snapshot
from trimtab.systems.files import file_digest, file_from_json
from trimtab.systems.knobs import Reading, parse_text
from trimtab.systems.mysql.options import given_options, start_values
from trimtab.systems.mysql.pending import require_settled
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.rescue import redo_files
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.set_global import Catalogue, set_dynamic
from trimtab.systems.mysql.undo import GROUP, HEADS, Undo
from trimtab.systems.mysql.values import is_same, option_text
from trimtab.systems.mysql.variables import POOL, told_live_range, waits
from trimtab.systems.picture import STOPPED
from trimtab.systems.server_change import ServerChange

__all__ = ["OptionFile"]

_FILE_MODE = 0o644


class OptionFile(Undo):
    """See `Channel`.

    Args:
        reach: the way to the server.
        read: reads its variables.
        ours: those that are curated for it.
        resize_s: what its buffer pool is given to take another size.

    Attributes:
        left_digest: of the option file, as our last change left it; "" when there is none, or it was undone.
        left_values: the values of its variables then, or after the undo; None when they are not known.
    """

    FILE = "include_file"
    NO_LINK = "give a file of Trimtab's own; it need not exist"

    def __init__(
        self,
        reach: Reach,
        read: Callable[[Session], dict[str, Reading]],
        ours: Callable[[Session], frozenset[str]],
        resize_s: float,
    ) -> None:
        super().__init__(reach, read, resize_s)
        self._ours = ours
        self.left_digest = ""
        self.left_values: Mapping[str, Value] | None = None

    @property
    def files(self) -> Sequence[Path]:
        """The option file; none by connection alone."""
        return [self._reach.include_file] if self._reach.include_file is not None else []

    def fleeting(self, names: Collection[str]) -> str:
        """Without an option file nothing stays."""
        if self._reach.include_file is not None:
            return ""
        hint = "set include_file in the target's table, or put the printed settings into the server's own file"
        return f"Trimtab has no option file on this server; {hint}"

    def texts(self, knob: Knob, value: Value) -> tuple[str, ...]:
        """As an option file has it."""
        return (option_text(value),)

    def _saved(self, session: Session, *, can_restart: bool) -> tuple[Mapping[str, Value], Mapping[str, Any]]:
        variables, ours = self._read(session), self._ours(session)
        require_settled(session, self._reach, variables, ours, can_restart=can_restart)
        values = {name: variable.value for name, variable in variables.items() if name in ours}
        self.left_digest, self.left_values = "", values
        live = {"pool_live_range": told_live_range(variables[POOL])} if POOL in variables else {}
        return values, {"redo_files": redo_files(self._reach), **live}

    def change(self, config: Config, states: Mapping[str, KnobState], base: Snapshot, *, stays: bool) -> _Change:
        """See `Change`."""
        return _Change(self, config, base, HEADS[stays])

    def bring_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> bool:
        """See `Undoing`."""
        self.left_digest, self.left_values = "", None
        return super().bring_back(snapshot, own, restarts)

    def _look(self, snapshot: Snapshot, own: Own) -> bool:
        is_seen = super()._look(snapshot, own)
        self.left_values = {name: variable.value for name, variable in self._now.items()}
        return is_seen


class _Change(ServerChange[Reach]):
    def __init__(self, channel: OptionFile, config: Config, base: Snapshot, head: str) -> None:
        super().__init__(channel._reach, config, base)
        self._channel = channel
        self._catalogue = Catalogue(channel._read, frozenset(base.values))
        self._head = head
        self._wanted = {**base.values, **config}
        self._first: frozenset[str] | None = None
        self._goal: FileCopy | None = None

    def write(self) -> None:
        """The file as found, with the config after it: of two settings in one file the later counts."""
        path, host = self._reach.include_file, self._reach.host
        found = file_from_json(self._base.files[str(path)]) if path is not None else None
        self._require_known(found)
        if path is None:
            return
        if self._config:
            self._goal = goal = self._with_config(found)
            host.write_file(path, goal)
            return
        self._goal = found
        host.remove_leftover(path)
        if found is None:
            host.remove_file(path)
        elif host.read_file(path) != found:
            host.write_file(path, found)

    def _with_config(self, found: FileCopy | None) -> FileCopy:
        before = found.content if found is not None else b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        lines = "".join(f"{name} = {option_text(value)}\n" for name, value in self._config.items())
        mode, uid, gid = (found.mode, found.uid, found.gid) if found is not None else _owner(self._reach)
        content = before + f"{self._head}\n{GROUP}\n{lines}".encode()
        return FileCopy(content=content, mode=mode, uid=uid, gid=gid)

    def _require_known(self, found: FileCopy | None) -> None:
        """That file and variables are as they were found or as we left them: what somebody else has set since would be lost.

        Raises:
            ForeignChangeError: they are not.
        """
        path = self._reach.include_file
        if path is not None and _digest(self._reach) not in (file_digest(found), self._channel.left_digest):
            raise ForeignChangeError(
                f"file={str(path)!r} was changed by somebody else since Trimtab last read it", hint=STOPPED
            )
        with self._reach.connect() as session:
            now = self._catalogue.variables(session)
        base, left = self._base.values, self._channel.left_values
        if left is not None:
            _require_values(now, base, left)
        self._first = frozenset(name for name, variable in now.items() if not is_same(variable.value, base[name]))

    def take_effect(self) -> None:
        """Before a restart only what is ours: the config, and what differed from what was found; after one everything, for the
        server has begun with its files."""
        first, self._first = self._first, None
        ours = self._wanted.keys() if first is None else {*self._config, *first}
        with self._reach.connect() as session:
            wanted = {name: value for name, value in self._wanted.items() if name in ours}
            now = self._catalogue.variables(session)
            is_due = first is not None and _must_restart(now, self._wanted)
            set_dynamic(session, now, wanted, resize_s=self._channel._resize_s, is_restart_due=is_due)
            self._now = self._catalogue.variables(session)
        if first is not None and self.must_restart():
            _require_values(self._now, self._base.values, {}, ours)  # a restart would lose it

    def must_restart(self) -> bool:
        return _must_restart(self._now, self._wanted)

    def check(self) -> None:
        """That each knob has moved from where it was, to what was asked or to what the server made of it: it may have rounded
        a number or clamped it to a limit of its own."""
        for name, value in self._config.items():
            if name not in self._now:
                continue
            found = self._now[name].value
            if is_same(found, value) or not is_same(found, self._base.values.get(name, found)):
                continue
            file = self._now[name].file
            where = f" ({self._now[name].source} {file})" if file else ""
            self._require_read(as_ours=False)
            raise ApplyError(
                f"the server keeps {name}={option_text(found)}{where} although {option_text(value)} was set",
                hint="another file or option wins over Trimtab's own, or the value is beyond a limit of the server's",
            )
        if self._head == HEADS[True]:
            self._require_read(as_ours=True)

    def _require_read(self, *, as_ours: bool) -> None:
        """That the server's next start has our option file: what SET GLOBAL takes says nothing of that.

        Args:
            as_ours: whether it must take our values from there, too: those of a file that it reads later would win.

        Raises:
            ApplyError: it has not, as far as its program can be asked.
        """
        path, given = self._reach.include_file, given_options(self._reach)
        if path is None or given is None:
            return
        differing = [name for name, value in self._config.items() if given.get(name) != option_text(value)]
        start = start_values(self._reach) if as_ours and differing else {}
        lost = [name for name in differing if name not in given or (as_ours and not self._is_started(name, start))]
        if lost:
            raise ApplyError(
                f"the server's next start would lose {', '.join(lost)}: it does not read include_file={str(path)!r}, or reads"
                " another file after it",
                hint="give a file of the folder that it reads last (!includedir), whose name sorts last there and ends in .cnf",
                fault=Fault.ENVIRONMENT.value,
            )

    def _is_started(self, name: str, start: Mapping[str, str]) -> bool:
        """Whether that start gives a knob our value, however it is written there."""
        found = self._now.get(name)
        return found is None or is_same(parse_text(start.get(name, ""), found.kind), self._config[name])

    def require_ours(self) -> None:
        path = self._reach.include_file
        if path is not None:
            if _digest(self._reach) != file_digest(self._goal):
                raise ForeignChangeError(
                    f"file={str(path)!r} was changed by somebody else while Trimtab changed it", hint=STOPPED
                )
            self._channel.left_digest = file_digest(self._goal)
        self._channel.left_values = {name: variable.value for name, variable in self._now.items()}


def _must_restart(now: Mapping[str, Reading], wanted: Mapping[str, Value]) -> bool:
    return any(
        name in wanted and waits(variable, wanted[name]) and not is_same(variable.value, wanted[name])
        for name, variable in now.items()
    )


def _digest(reach: Reach) -> str:
    return file_digest(reach.host.read_file(reach.include_file)) if reach.include_file is not None else ""


def _require_values(
    now: Mapping[str, Reading], base: Mapping[str, Value], left: Mapping[str, Value], ours: Collection[str] = ()
) -> None:
    """That no variable but `ours` has another value than it was found or left with, by SET GLOBAL: what else the server changes
    by itself, with another one or at a start, is nobody's.

    Raises:
        ForeignChangeError: there is one.
    """
    theirs = [
        f"{name}={option_text(variable.value)}"
        for name, variable in sorted(now.items())
        if variable.source == "SET GLOBAL"
        and name not in ours
        and not any(is_same(variable.value, known[name]) for known in (base, left) if name in known)
    ]
    if theirs:
        raise ForeignChangeError(f"somebody else has used SET GLOBAL: {', '.join(theirs)}", hint=STOPPED)


def _owner(reach: Reach) -> tuple[int, int, int]:
    """Of a new file: readable for the server; root's belongs to whom its folder belongs to, nobody else may give files away."""
    if reach.include_file is None:
        raise RuntimeError("there is no option file")
    if os.geteuid() != 0:
        return _FILE_MODE, os.geteuid(), os.getegid()
    status = reach.include_file.parent.stat()
    return _FILE_MODE, status.st_uid, status.st_gid
