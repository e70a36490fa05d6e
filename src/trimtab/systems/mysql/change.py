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
from trimtab.space import Config, Knob, Value
from trimtab.systems.base import KnobState, Snapshot
from trimtab.systems.files import file_from_json
from trimtab.systems.knobs import Reading
from trimtab.systems.mysql.pending import require_settled
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.rescue import redo_files
from trimtab.systems.mysql.session import Session
from trimtab.systems.mysql.set_global import Catalogue, set_dynamic
from trimtab.systems.mysql.undo import GROUP, HEADS, Undo
from trimtab.systems.mysql.values import is_same, option_text
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
    """

    FILE = "include_file"
    NO_LINK = "give a file of Trimtab's own; it need not exist"

    def __init__(
        self,
        reach: Reach,
        read: Callable[[Session], dict[str, Reading]],
        ours: Callable[[Session], frozenset[str]],
    ) -> None:
        super().__init__(reach, read)
        self._ours = ours

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
        return values, {"redo_files": redo_files(self._reach)}

    def change(self, config: Config, states: Mapping[str, KnobState], base: Snapshot, *, stays: bool) -> _Change:
        """See `Change`."""
        catalogue = Catalogue(self._read, frozenset(base.values))
        return _Change(self._reach, catalogue, config, base, HEADS[stays])


class _Change(ServerChange[Reach]):
    def __init__(self, reach: Reach, catalogue: Catalogue, config: Config, base: Snapshot, head: str) -> None:
        super().__init__(reach, config, base)
        self._catalogue = catalogue
        self._head = head
        self._written: bytes | None = None

    def write(self) -> None:
        """The file as found, with the config after it: of two settings in one file the later counts."""
        path, host = self._reach.include_file, self._reach.host
        if path is None:
            return
        found = file_from_json(self._base.files[str(path)])
        if not self._config:
            host.remove_leftover(path)
            if found is None:
                host.remove_file(path)
            elif host.read_file(path) != found:
                host.write_file(path, found)
            return
        before = found.content if found is not None else b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        lines = "".join(f"{name} = {option_text(value)}\n" for name, value in self._config.items())
        self._written = before + f"{self._head}\n{GROUP}\n{lines}".encode()
        mode, uid, gid = (found.mode, found.uid, found.gid) if found is not None else _owner(self._reach)
        host.write_file(path, FileCopy(content=self._written, mode=mode, uid=uid, gid=gid))

    def take_effect(self) -> None:
        with self._reach.connect() as session:
            set_dynamic(session, self._catalogue.variables(session), {**self._base.values, **self._config})
            self._now = self._catalogue.variables(session)

    def must_restart(self) -> bool:
        wanted = {**self._base.values, **self._config}
        return any(
            variable.is_late and name in wanted and not is_same(variable.value, wanted[name])
            for name, variable in self._now.items()
        )

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
            raise ApplyError(
                f"the server keeps {name}={option_text(found)}{where} although {option_text(value)} was set",
                hint="another file or option wins over Trimtab's own, or the value is beyond a limit of the server's",
            )

    def require_ours(self) -> None:
        path = self._reach.include_file
        if path is None or self._written is None:
            return
        now = self._reach.host.read_file(path)
        if now is None or now.content != self._written:
            raise ForeignChangeError(
                f"file={str(path)!r} was changed by somebody else while Trimtab changed it", hint=STOPPED
            )


def _owner(reach: Reach) -> tuple[int, int, int]:
    """Of a new file: readable for the server; root's belongs to whom its folder belongs to, nobody else may give files away."""
    if reach.include_file is None:
        raise RuntimeError("there is no option file")
    if os.geteuid() != 0:
        return _FILE_MODE, os.geteuid(), os.getegid()
    status = reach.include_file.parent.stat()
    return _FILE_MODE, status.st_uid, status.st_gid
