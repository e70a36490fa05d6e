"""REACH: run a command, read and write a file, know the limits of the machine a target lives on."""

from trimtab.host.base import CommandResult, Facts, FileCopy, Host
from trimtab.host.cgroup import MemoryCgroup
from trimtab.host.disk import disk_kind, disk_under
from trimtab.host.folder import Folder, open_regular
from trimtab.host.kernel import OomKill, kernel_oom_kills
from trimtab.host.limits import Limits, most_open_files, read_limits
from trimtab.host.local import LocalHost, sync_folder
from trimtab.host.lock import FileLock
from trimtab.host.mount import (
    Mount,
    file_system_id,
    mount_of,
    read_mounts,
    require_reconfigurable,
    set_access_times,
    set_option,
    sets_access_times,
)
from trimtab.host.peer import is_this_machine, listeners, peer_pid
from trimtab.host.process import (
    is_ending,
    is_kernel_thread,
    is_running,
    kill_group,
    machine_mark,
    process_mark,
    process_name,
    process_numbers,
    process_parent,
    process_started_s,
    process_state,
    process_ticks,
    process_title,
    processes,
    works_in,
)
from trimtab.host.scratch import scratch_folder, sweep_scratch
from trimtab.host.state import is_word, read_state_file, require_own_folder
from trimtab.host.usage import (
    ProcessUse,
    ThreadClock,
    VolumeUse,
    available_memory_bytes,
    folder_bytes,
    oom_kills,
    process_use,
    stolen_cpu_s,
    swapped_bytes,
    volume_uses,
)

__all__ = [
    "CommandResult",
    "Facts",
    "FileCopy",
    "FileLock",
    "Folder",
    "Host",
    "Limits",
    "LocalHost",
    "MemoryCgroup",
    "Mount",
    "OomKill",
    "ProcessUse",
    "ThreadClock",
    "VolumeUse",
    "available_memory_bytes",
    "disk_kind",
    "disk_under",
    "file_system_id",
    "folder_bytes",
    "is_ending",
    "is_kernel_thread",
    "is_running",
    "is_this_machine",
    "is_word",
    "kernel_oom_kills",
    "kill_group",
    "listeners",
    "machine_mark",
    "most_open_files",
    "mount_of",
    "oom_kills",
    "open_regular",
    "peer_pid",
    "process_mark",
    "process_name",
    "process_numbers",
    "process_parent",
    "process_started_s",
    "process_state",
    "process_ticks",
    "process_title",
    "process_use",
    "processes",
    "read_limits",
    "read_mounts",
    "read_state_file",
    "require_own_folder",
    "require_reconfigurable",
    "scratch_folder",
    "set_access_times",
    "set_option",
    "sets_access_times",
    "stolen_cpu_s",
    "swapped_bytes",
    "sweep_scratch",
    "sync_folder",
    "volume_uses",
    "works_in",
]
