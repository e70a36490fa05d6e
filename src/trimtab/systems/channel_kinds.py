"""Which channel stands for the path of one: a file, options of tables, or a mounted file system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from trimtab.host import LocalHost
from trimtab.systems.catalog import Catalog
from trimtab.systems.file_channel import FileChannel
from trimtab.systems.mount_channel import MountChannel
from trimtab.systems.mount_options import MOUNT
from trimtab.systems.table_channel import OwnTables, TableChannel
from trimtab.systems.table_options import table_of

__all__ = ["make_channel"]


def make_channel(
    name: str, catalog: Catalog, path: Path, host: LocalHost, defaults: Mapping[str, str], url: Callable[[], str]
) -> FileChannel:
    """The channel `name` of a catalogue at `path`; see `FileChannel` for the rest. `url` is where the program answers."""
    table = catalog.channel[name]
    if (named := table_of(str(path))) is not None:
        return TableChannel(name, table, path, named, url)
    if str(path).startswith(MOUNT):
        return MountChannel(name, table, path)
    kind = OwnTables if table.tables else FileChannel
    return kind(name, table, path, host, defaults, catalog.further_names(name))
