"""Where the channels of a catalogue are: the file of each, or the table that stands for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.host import disk_under, mount_of
from trimtab.systems.catalog import Catalog
from trimtab.systems.command_settings import CommandSettings
from trimtab.systems.embedded_table import EmbeddedTable
from trimtab.systems.gate import harm_of_file
from trimtab.systems.mount_options import MOUNT
from trimtab.systems.placeholder import filled
from trimtab.systems.settings import full_path
from trimtab.systems.table_options import NoTableError, table_of

__all__ = ["channel_paths", "names_of_folders", "needs_disk", "needs_mount", "paths_of_lock"]

_DISK, _MOUNT_POINT = "disk", "mount"


def needs_disk(path: Path) -> bool:
    """Whether it has a place for the name of a disk that nobody has filled."""
    return f"{{{_DISK}}}" in str(path)


def needs_mount(path: Path) -> bool:
    """The same of a folder on a mounted file system."""
    return f"{{{_MOUNT_POINT}}}" in str(path)


def names_of_folders(folders: Sequence[Path]) -> dict[str, str]:
    """What {disk} and {mount} mean: of the first folder for which each can be seen; without one that cannot."""
    mount = next(filter(None, map(mount_of, folders)), None)
    disk = next(filter(None, map(disk_under, folders)), "")
    return ({_DISK: disk} if disk else {}) | ({_MOUNT_POINT: mount.point} if mount is not None else {})


def paths_of_lock(paths: Mapping[str, Path], catalog: Catalog) -> list[Path]:
    """The paths by which two tuners of one system know each other: without those that a study may choose by a name alone.

    Two studies of one kernel exclude each other also where each names another disk.
    """
    chosen = {
        name for name, table in catalog.channel.items() if needs_disk(Path(table.path)) or needs_mount(Path(table.path))
    }
    return [path for name, path in paths.items() if name not in chosen] or list(paths.values())


def channel_paths(
    name: str, settings: CommandSettings, catalog: Catalog, where: str, own: EmbeddedTable | None
) -> dict[str, Path]:
    """Channel -> absolute path: of the study file, else of the catalogue, relative to that; in the folder of a private one.

    {NAME} in it stands for `names`. {disk} and {mount} stay where the study file does not name them: the stack does
    (`DiskTarget`).

    Raises:
        UsageError: a channel has no path, there is no such channel, the file may not be changed, a disk's name is a path, or the
            folder of a mounted file system is none.
    """
    if own is not None:
        return {channel: Path(settings.folder) / own.paths[channel] for channel in catalog.channel}
    for channel in settings.files:
        if channel not in catalog.channel:
            raise UsageError(
                f"[target.{name}] files names {channel!r}, which is not a channel of catalog={where!r}",
                hint=f"its channels are: {', '.join(catalog.channel)}",
            )
    _require_disk(name, settings.names.get(_DISK, ""))
    _require_folder(name, settings.names.get(_MOUNT_POINT))
    found = {}
    for channel, table in catalog.channel.items():
        text = filled(settings.files.get(channel) or table.path, settings.names)
        if not text:
            raise UsageError(
                f"[target.{name}] lacks the path of channel={channel!r}", hint=f'add files = {{ {channel} = "/path" }}'
            )
        if table.path.startswith(MOUNT):
            found[channel] = _mount_at(name, channel, text)
            continue
        found[channel] = _place_of(name, channel, text, table.tables, where)
        if harm := harm_of_file(str(found[channel])):
            raise UsageError(
                f"[target.{name}] file={str(found[channel])!r} may not be changed: {harm}", hint="no option opens it"
            )
    return found


def _mount_at(name: str, channel: str, text: str) -> Path:
    """The folder whose file system is meant, as a path of its own kind."""
    if not text.startswith((f"{MOUNT}/", f"{MOUNT}{{")):
        raise UsageError(
            f"[target.{name}] files {channel}={text!r}: this channel is a mounted file system, and no file",
            hint=f'write a folder on it: files = {{ {channel} = "{MOUNT}/var/lib" }}',
        )
    return Path(text)


def _require_disk(name: str, disk: str) -> None:
    if "/" in disk or disk.startswith("."):
        raise UsageError(
            f"[target.{name}] names disk={disk!r} is not the name of a disk",
            hint='write it as in /sys/block: names = { disk = "sda" }',
        )


def _require_folder(name: str, folder: str | None) -> None:
    if folder is not None and not folder.startswith("/"):
        raise UsageError(
            f"[target.{name}] names mount={folder!r} is not the path of a folder",
            hint='write a folder on the file system: names = { mount = "/var/lib" }',
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
