"""What can be known about a config before anything is changed: the memory that one client takes, and shared memory."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from trimtab.errors import ApplyError
from trimtab.host import CommandResult
from trimtab.records import Context
from trimtab.space import Config, RestartClass, Value
from trimtab.target.base import KnobState
from trimtab.target.memory import used_bytes
from trimtab.target.postgresql.classes import forbidden_reason
from trimtab.target.postgresql.memory import CONSUMERS, memory_use
from trimtab.target.postgresql.reach import AUTO_CONF, Reach
from trimtab.target.postgresql.values import setting_text
from trimtab.units import format_size

__all__ = ["check_memory", "check_shared_memory"]

_TIMEOUT_S = 30.0


def check_memory(config: Config, states: Mapping[str, KnobState], memory_bytes: int) -> None:
    """That one client at work fits into `memory_bytes`, by the memory model; how many must fit the space's budget says.

    A config that needs no more than the running one is let through: it cannot make things worse.

    Raises:
        ApplyError: it does not fit.
    """
    if any(name not in states for name in CONSUMERS):
        return
    one = Context("", clients=1)
    need = used_bytes(memory_use(config, states, one, memory_bytes))
    now = used_bytes(memory_use({}, states, one, memory_bytes))
    if need > max(memory_bytes, now):
        raise ApplyError(
            f"a single client at work would take memory={format_size(need)} of memory={format_size(memory_bytes)}",
            hint="lower the largest of the memory knobs, or raise memory in the target's table",
        )


def check_shared_memory(config: Config, states: Mapping[str, KnobState], reach: Reach, budget_bytes: int) -> None:
    """Asks the server's own program how much shared memory it would take at start (PostgreSQL 15 or later).

    The program runs over a scratch copy of the control file with the running server's settings, so that a running
    server does not stand in its way; it opens no data and listens to nothing. Its other complaints ("WAL streaming
    requires wal_level ...") count too. Nothing is checked when no knob needs a restart or no program is at hand.

    Raises:
        ApplyError: it would not start, or takes more than `budget_bytes`.
    """
    account, bin_dir, data_dir = reach.account, reach.bin_dir, reach.data_dir
    is_restart = any(states[name].knob.restart is not RestartClass.RELOAD for name in config)
    if not is_restart or "shared_memory_size" not in states or bin_dir is None or account is None or data_dir is None:
        return
    if not account.is_me and os.geteuid() != 0:
        return
    with tempfile.TemporaryDirectory(prefix="trimtab-check-") as name:
        _fill(Path(name), data_dir, {**_start_values(states), **_texts(config, states)})
        for path in (Path(name), *Path(name).rglob("*")):
            os.chown(path, account.uid, account.gid)
        result = reach.host.run(
            [str(bin_dir / "postgres"), "-D", name, "-C", "shared_memory_size"],
            timeout_s=_TIMEOUT_S,
            user=account.uid,
            group=account.gid,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )
    if result.exit_code != 0 or not result.stdout.strip().isdigit():
        raise ApplyError(f"the server would not start: {_complaints(result)}", hint="see `trimtab knobs`")
    need_bytes = int(result.stdout) << 20
    if need_bytes > budget_bytes:
        raise ApplyError(
            f"the server would take shared_memory={format_size(need_bytes)} of memory={format_size(budget_bytes)}",
            hint="lower shared_buffers and its like, or raise memory in the target's table",
        )


def _complaints(result: CommandResult) -> str:
    """The program's own words without time stamps, and without the file that is always missing."""
    lines = [re.sub(r"^\S+ \S+ \S+ \[\d+\] ", "", line) for line in result.output.splitlines()]
    return "; ".join(line for line in lines if AUTO_CONF not in line)


def _fill(folder: Path, data_dir: Path, texts: Mapping[str, str]) -> None:
    (folder / "global").mkdir(mode=0o700)
    shutil.copyfile(data_dir / "global" / "pg_control", folder / "global" / "pg_control")
    shutil.copyfile(data_dir / "PG_VERSION", folder / "PG_VERSION")
    lines = [f"{name} = '{text}'\n" for name, text in texts.items()]
    (folder / "postgresql.conf").write_text("".join(lines))


def _start_values(states: Mapping[str, KnobState]) -> dict[str, str]:
    """Running values that matter at start: those fixed there, set by somebody, and not naming files or code."""
    running: dict[str, Value] = {
        name: state.running
        for name, state in states.items()
        if state.knob.restart is not RestartClass.RELOAD
        and state.source not in ("default", "override")
        and not forbidden_reason(name)
        and "'" not in str(state.running)
    }
    return {name: setting_text(value, states[name].knob.unit) for name, value in running.items()}


def _texts(config: Config, states: Mapping[str, KnobState]) -> dict[str, str]:
    return {name: setting_text(value, states[name].knob.unit) for name, value in config.items()}
