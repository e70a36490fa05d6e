"""What can be known about a config before anything is changed: memory, disk, and what the server's own program says."""

from __future__ import annotations

import os
from collections.abc import Mapping

from trimtab.errors import ApplyError
from trimtab.host import CommandResult
from trimtab.space import Config, RestartClass
from trimtab.systems.base import KnobState
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.values import option_text
from trimtab.units import format_size

__all__ = ["check_disk", "check_start"]

_TIMEOUT_S = 30.0
_REDO = ("innodb_log_file_size", "innodb_redo_log_capacity")
_DISK_SHARE = 0.5
"""Of the free space, what a redo log may take: MariaDB writes it in full, beside the old one, before it notices that it
does not fit, and leaves what it has written behind."""


def check_disk(config: Config, states: Mapping[str, KnobState], reach: Reach) -> None:
    """That a larger redo log fits on the disk.

    Raises:
        ApplyError: it does not; nothing was written.
    """
    for name in _REDO:
        if name not in config or reach.data_dir is None:
            continue
        more = float(config[name]) - float(states[name].running)
        free = reach.host.disk_free_bytes(reach.data_dir)
        if more > 0 and float(config[name]) > free * _DISK_SHARE:
            raise ApplyError(
                f"{name}={option_text(config[name])} needs disk={format_size(float(config[name]))},"
                f" and free={format_size(free)} under the data directory",
                hint=f"keep it below half of the free space: {format_size(free * _DISK_SHARE)}",
            )


def check_start(config: Config, states: Mapping[str, KnobState], reach: Reach) -> None:
    """Asks the server's own program, without starting a server, what it would make of the options that need a restart.

    `--help --verbose` reads options and stops; it opens no data and listens to nothing. Nothing is checked when no knob
    needs a restart or the program cannot be run.

    Raises:
        ApplyError: it would not start with them.
    """
    late = {name: value for name, value in config.items() if states[name].knob.restart is not RestartClass.RELOAD}
    account, argv = reach.account, reach.argv
    if not late or not argv or account is None or not (account.is_me or os.geteuid() == 0):
        return
    options = [f"--{name.replace('_', '-')}={option_text(value)}" for name, value in late.items()]
    result = reach.host.run(
        [*argv, *options, "--help", "--verbose"],
        timeout_s=_TIMEOUT_S,
        user=None if account.is_me else account.uid,
        group=None if account.is_me else account.gid,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )
    if result.exit_code != 0:
        raise ApplyError(f"the server would not start: {_complaints(result)}", hint="see `trimtab knobs`")


def _complaints(result: CommandResult) -> str:
    """The program's own error lines, without time stamps."""
    lines = [line.partition("[ERROR] ")[2] for line in result.stderr.splitlines() if "[ERROR] " in line]
    return "; ".join(lines) or f"exit_code={result.exit_code}"
