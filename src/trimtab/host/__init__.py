"""REACH: run a command, read and write a file, know the limits of the machine a target lives on."""

from trimtab.host.base import CommandResult, Facts, FileCopy, Host
from trimtab.host.cgroup import MemoryCgroup
from trimtab.host.kernel import OomKill, kernel_oom_kills
from trimtab.host.limits import Limits, most_open_files, read_limits
from trimtab.host.local import LocalHost, sync_folder
from trimtab.host.lock import FileLock
from trimtab.host.process import is_ending, is_running, process_mark, process_state
from trimtab.host.usage import (
    ProcessUse,
    VolumeUse,
    available_memory_bytes,
    folder_bytes,
    oom_kills,
    process_use,
    swapped_bytes,
    volume_uses,
)

__all__ = [
    "CommandResult",
    "Facts",
    "FileCopy",
    "FileLock",
    "Host",
    "Limits",
    "LocalHost",
    "MemoryCgroup",
    "OomKill",
    "ProcessUse",
    "VolumeUse",
    "available_memory_bytes",
    "folder_bytes",
    "is_ending",
    "is_running",
    "kernel_oom_kills",
    "most_open_files",
    "oom_kills",
    "process_mark",
    "process_state",
    "process_use",
    "read_limits",
    "swapped_bytes",
    "sync_folder",
    "volume_uses",
]
