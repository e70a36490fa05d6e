"""REACH: run a command, read and write a file, know the limits of the machine a target lives on."""

from trimtab.host.base import CommandResult, Facts, FileCopy, Host
from trimtab.host.cgroup import MemoryCgroup
from trimtab.host.limits import Limits, read_limits
from trimtab.host.local import LocalHost, sync_folder
from trimtab.host.lock import FileLock

__all__ = [
    "CommandResult",
    "Facts",
    "FileCopy",
    "FileLock",
    "Host",
    "Limits",
    "LocalHost",
    "MemoryCgroup",
    "read_limits",
    "sync_folder",
]
