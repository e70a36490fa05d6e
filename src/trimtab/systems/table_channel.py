"""Options of Cassandra's tables as a channel: of a table of the user's over CQL, or of those that a load makes for itself.

Both are lines of `trimtab.systems.table_options`. A table's own are read from the node's schema and written by ALTER TABLE: at
once, and for rows that are written from then on. Those of a load's own tables lie in a file of Trimtab's; whoever makes such a
table asks the endpoint for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.host import FileCopy, LocalHost
from trimtab.systems.catalog import Channel
from trimtab.systems.cql import cql_rows
from trimtab.systems.file_channel import FileChannel
from trimtab.systems.table_options import (
    MAPS,
    OPTIONS,
    altered,
    left_out,
    option_lines,
    option_of,
    statement_for,
    values_of,
    with_clause,
)

__all__ = ["OwnTables", "TableChannel"]

_READ = "SELECT JSON {options} FROM system_schema.tables WHERE keyspace_name = '{keyspace}' AND table_name = '{table}'"
_MODE = 0o600


class OwnTables(FileChannel):
    """A file of Trimtab's own: how the tables are made that a load makes for itself. See `FileChannel`."""

    def missing(self, copy: FileCopy | None) -> str:
        """Why it cannot be written."""
        folder = self.path.parent
        return "" if folder.is_dir() else f"there is no folder={str(folder)!r} for the file of its channel"

    def told(self) -> tuple[str, bool, str]:
        """For doctor."""
        return f"file {self.name}", True, f"{self.path}: how the tables are made that Trimtab loads"

    def statement(self, values: Mapping[str, str]) -> str:
        """The same for a table of the user's, as a comment."""
        return f"# for your own table, with cqlsh:\n# ALTER TABLE KEYSPACE.TABLE WITH {with_clause(values)};\n"


class TableChannel(FileChannel):
    """A table of the user's. See `FileChannel`: the file is what the node says of the table's options.

    Args:
        name, table: as of any channel.
        path: its name, `cql:KEYSPACE.TABLE`.
        which: the same, (keyspace, table).
        url: of the node.
    """

    is_live = True
    keeps = "schema of the table"

    def __init__(self, name: str, table: Channel, path: Path, which: tuple[str, str], url: Callable[[], str]) -> None:
        super().__init__(name, table, path, LocalHost(), {})
        self._which = which
        self._url = url

    def read(self) -> FileCopy | None:
        """Its options; None when there is no such table.

        Raises:
            TargetError: the node does not answer.
        """
        keyspace, table = self._which
        rows = cql_rows(self._url(), _READ.format(options=", ".join(OPTIONS), keyspace=keyspace, table=table))
        if not rows:
            return None
        return FileCopy(content=option_lines(rows[0][0] or "{}").encode("latin-1", "replace"), mode=_MODE, uid=0, gid=0)

    def missing(self, copy: FileCopy | None) -> str:
        """Why nothing can be changed: there is no such table."""
        return "" if copy is not None else f"the node has no table {'.'.join(self._which)}"

    def told(self) -> tuple[str, bool, str]:
        """For doctor."""
        why = self.missing(self.read())
        return f"file {self.name}", not why, why or f"the options of table {'.'.join(self._which)}, by ALTER TABLE"

    def changed(self, found: FileCopy | None, values: Mapping[str, str]) -> FileCopy | None:
        """See `FileChannel`; what was said of a class goes with it.

        Raises:
            TargetError: there is no such table.
        """
        if found is None:
            if values:
                raise TargetError(self.missing(None), hint="give files = { table = 'cql:KEYSPACE.TABLE' } as it is now")
            return None
        text = _lines(found)
        gone = dict.fromkeys(left_out(values_of(text), values))
        return replace(found, content=self.codec.write(text, {**gone, **values}).encode("latin-1"))

    def without(
        self, now: FileCopy | None, found: FileCopy | None, ours: Mapping[str, Sequence[str]], left_digest: str
    ) -> FileCopy | None:
        """See `FileChannel`; a class that comes back has all that was found of it."""
        goal = super().without(now, found, ours, left_digest)
        if goal is None or now is None or found is None or goal in (now, found):
            return goal
        before, was, text = values_of(_lines(found)), values_of(_lines(now)), _lines(goal)
        made = values_of(text)
        back = {f"{each}.class" for each in MAPS}
        options = {option_of(at) for at in back if was.get(at) != made.get(at) == before.get(at)}
        whole = {at: before.get(at) for at in {*made, *before} if option_of(at) in options}
        return replace(goal, content=self.codec.write(text, whole).encode("latin-1"))

    def fragment(self, values: Mapping[str, str], names: Mapping[str, str]) -> str:
        """The statement that sets them."""
        goal = values_of(_lines(self.changed(self.read(), values)))
        told = "".join(f"# {names[at]}={text}\n" for at, text in values.items() if at in names)
        statement = statement_for(self._which, goal, {option_of(address) for address in values})
        return f"# with cqlsh\n{told}{statement};\n"

    def put(self, copy: FileCopy | None) -> None:
        """Gives the table these options; nothing happens where they are its own, and a table that was not there stays away.

        Raises:
            TargetError: the node refuses them, or there is no such table any more.
        """
        now = self.read()
        if copy is None or now == copy:
            return
        if now is None:
            raise TargetError(self.missing(None), hint="it was dropped: there is nothing to put back")
        if values := altered(values_of(_lines(now)), values_of(_lines(copy))):
            cql_rows(self._url(), statement_for(self._which, values))

    def remove_leftover(self) -> None:
        """There is none."""


def _lines(copy: FileCopy | None) -> str:
    return copy.content.decode("latin-1") if copy is not None else ""
