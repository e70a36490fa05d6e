"""What can be known about a config before anything is changed: what the server's own program says."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.errors import ApplyError
from trimtab.host import CommandResult
from trimtab.space import Config, RestartClass
from trimtab.systems.base import KnobState
from trimtab.systems.mysql.options import program_answer
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.values import option_text

__all__ = ["check_start"]


def check_start(config: Config, states: Mapping[str, KnobState], reach: Reach) -> None:
    """Asks the server's own program, without starting a server, what it would make of the options that need a restart.

    `--help --verbose` reads options and stops; it opens no data and listens to nothing. Nothing is checked when no knob
    needs a restart or the program cannot be run.

    Raises:
        ApplyError: it would not start with them.
    """
    late = {name: value for name, value in config.items() if states[name].knob.restart is not RestartClass.RELOAD}
    argv = list(reach.argv) if late else []
    options = [f"--{name.replace('_', '-')}={option_text(value)}" for name, value in late.items()]
    result = program_answer(reach, [*argv, *options, "--help", "--verbose"] if argv else [])
    if result is not None and result.exit_code != 0:
        raise ApplyError(f"the server would not start: {_complaints(result)}", hint="see `trimtab knobs`")


def _complaints(result: CommandResult) -> str:
    """The program's own error lines, without time stamps."""
    lines = [line.partition("[ERROR] ")[2] for line in result.stderr.splitlines() if "[ERROR] " in line]
    return "; ".join(lines) or f"exit_code={result.exit_code}"
