"""Where the channels of a catalogue are: the file of each, or the table that stands for one."""

from __future__ import annotations

from pathlib import Path

from trimtab.errors import UsageError
from trimtab.systems.catalog import Catalog
from trimtab.systems.command_settings import CommandSettings
from trimtab.systems.embedded_table import EmbeddedTable
from trimtab.systems.gate import harm_of_file
from trimtab.systems.placeholder import filled
from trimtab.systems.settings import full_path
from trimtab.systems.table_options import NoTableError, table_of

__all__ = ["channel_paths", "needs_disk", "with_disk"]

_DISK = "{disk}"


def needs_disk(path: Path) -> bool:
    """Whether it has a place for the name of a disk that nobody has filled."""
    return _DISK in str(path)


def with_disk(path: Path, disk: str) -> Path:
    """The path with that name at its place, where it has one."""
    return Path(str(path).replace(_DISK, disk))


def channel_paths(
    name: str, settings: CommandSettings, catalog: Catalog, where: str, own: EmbeddedTable | None
) -> dict[str, Path]:
    """Channel -> absolute path: of the study file, else of the catalogue, relative to that; in the folder of a private one.

    {NAME} in it stands for `names`. {disk} stays where the study file does not name a disk: the stack does (`DiskTarget`).

    Raises:
        UsageError: a channel has no path, there is no such channel, the file may not be changed, or a disk's name is a path.
    """
    if own is not None:
        return {channel: Path(settings.folder) / own.paths[channel] for channel in catalog.channel}
    for channel in settings.files:
        if channel not in catalog.channel:
            raise UsageError(
                f"[target.{name}] files names {channel!r}, which is not a channel of catalog={where!r}",
                hint=f"its channels are: {', '.join(catalog.channel)}",
            )
    _require_disk(name, settings.names.get("disk", ""))
    found = {}
    for channel, table in catalog.channel.items():
        text = filled(settings.files.get(channel) or table.path, settings.names)
        if not text:
            raise UsageError(
                f"[target.{name}] lacks the path of channel={channel!r}", hint=f'add files = {{ {channel} = "/path" }}'
            )
        found[channel] = _place_of(name, channel, text, table.tables, where)
        if harm := harm_of_file(str(found[channel])):
            raise UsageError(
                f"[target.{name}] file={str(found[channel])!r} may not be changed: {harm}", hint="no option opens it"
            )
    return found


def _require_disk(name: str, disk: str) -> None:
    if "/" in disk or disk.startswith("."):
        raise UsageError(
            f"[target.{name}] names disk={disk!r} is not the name of a disk",
            hint='write it as in /sys/block: names = { disk = "sda" }',
        )


def _place_of(name: str, channel: str, text: str, is_tables: bool, where: str) -> Path:
    """An absolute path, or the name of a table where the channel may have one.

    Raises:
        UsageError: it is neither.
    """
    try:
        is_table = table_of(text) is not None
    except NoTableError as error:
        raise UsageError(
            f"[target.{name}] files {channel}: {error}", hint='name your table: "cql:KEYSPACE.TABLE"'
        ) from error
    if is_table and not is_tables:
        raise UsageError(
            f"[target.{name}] files {channel}={text!r} is a table, and this channel is a file", hint="give its path"
        )
    return Path(text) if is_table else Path(full_path(text, Path(where).parent))
