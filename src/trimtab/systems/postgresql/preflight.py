"""What can be known about a config before anything is changed: the memory that one client takes, and shared memory."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from trimtab.errors import ApplyError
from trimtab.host import CommandResult, Folder, scratch_folder
from trimtab.space import Config, RestartClass, Value
from trimtab.systems.account import Account
from trimtab.systems.base import KnobState
from trimtab.systems.own_program import may_ask, program_says
from trimtab.systems.postgresql.catalogue import CATALOG
from trimtab.systems.postgresql.reach import AUTO_CONF, Reach
from trimtab.systems.postgresql.values import setting_text
from trimtab.units import format_size

__all__ = ["check_shared_memory"]

_VERSION_BYTES = 16
_CONTROL_BYTES = 8192
_PROC = Path("/proc")


def check_shared_memory(config: Config, states: Mapping[str, KnobState], reach: Reach, budget_bytes: int) -> None:
    """Asks the server's own program how much shared memory it would take at start (PostgreSQL 15 or later).

    The program runs over a scratch copy of the control file with the running server's settings, so that a running
    server does not stand in its way; it opens no data and listens to nothing. Its other complaints ("WAL streaming
    requires wal_level ...") count too. Nothing is checked when no knob needs a restart or no program is at hand.

    Raises:
        ApplyError: it would not start, or takes more than `budget_bytes`, or more huge pages than there can be.
    """
    account, bin_dir, data_dir = reach.account, reach.bin_dir, reach.data_dir
    is_restart = any(states[name].knob.restart is not RestartClass.RELOAD for name in config)
    if not is_restart or "shared_memory_size" not in states or bin_dir is None or account is None or data_dir is None:
        return
    if not may_ask(reach):
        return
    with _scratch(data_dir, account, {**_start_values(states), **_texts(config, states)}) as name:
        result = program_says(reach, [str(bin_dir / "postgres"), "-D", str(name), "-C", "shared_memory_size"])
    if result is None:
        return
    if result.exit_code != 0 or not result.stdout.strip().isdigit():
        raise ApplyError(f"the server would not start: {_complaints(result)}", hint="see `trimtab knobs`")
    need_bytes = int(result.stdout) << 20
    if need_bytes > budget_bytes:
        raise ApplyError(
            f"the server would take shared_memory={format_size(need_bytes)} of memory={format_size(budget_bytes)}",
            hint="lower shared_buffers or other memory settings, or raise memory in the target's table",
        )
    _require_huge_pages(config, states, need_bytes)


def _require_huge_pages(config: Config, states: Mapping[str, KnobState], need_bytes: int) -> None:
    """That the machine can give a server as many huge pages as it needs that does not start without (huge_pages = on).

    Raises:
        ApplyError: it cannot.
    """
    if config.get("huge_pages", states["huge_pages"].running) != "on" or states["huge_page_size"].running:
        return  # pages of another size than the machine's usual are not counted here
    found = _huge_page_bytes()
    if found is not None and need_bytes > found:
        raise ApplyError(
            f"the server would not start: with huge_pages = on it takes {format_size(need_bytes)} of huge pages, and the"
            f" machine has {format_size(found)}",
            hint="lower shared_buffers, raise vm.nr_hugepages, or set huge_pages = try",
        )


def _huge_page_bytes() -> int | None:
    """What all huge pages of the usual size may hold, those that the kernel makes when asked among them; None when unknown."""
    try:
        size = re.search(r"^Hugepagesize: +(\d+) kB$", (_PROC / "meminfo").read_text(encoding="ascii"), re.MULTILINE)
        vm = _PROC / "sys" / "vm"
        pages = [int((vm / name).read_text(encoding="ascii")) for name in ("nr_hugepages", "nr_overcommit_hugepages")]
    except (OSError, ValueError):
        return None
    return sum(pages) * (int(size[1]) << 10) if size is not None else None


def _complaints(result: CommandResult) -> str:
    """The program's own words without time stamps, and without the file that is always missing."""
    lines = [re.sub(r"^\S+ \S+ \S+ \[\d+\] ", "", line) for line in result.output.splitlines()]
    return "; ".join(line for line in lines if AUTO_CONF not in line)


@contextmanager
def _scratch(data_dir: Path, account: Account, texts: Mapping[str, str]) -> Iterator[Path]:
    """A data directory with nothing but a control file and settings, of the server's user; gone afterwards.

    Only plain files of that user's are copied, and no more of them than such a file holds: through a link, or from
    another's file, root would hand out what the user may not read. What is made here is given away by its descriptor, the
    folder itself last, so that nobody has been able to put anything else into it.
    """
    try:
        version, control = _own_files(data_dir, account)
    except OSError as error:
        raise ApplyError(
            f"the server's files in data_dir={str(data_dir)!r} cannot be copied for a check: {error.strerror}",
            hint="are they plain files of the server's user?",
        ) from error
    lines = "".join(f"{name} = '{text}'\n" for name, text in texts.items())
    with scratch_folder() as name:
        with Folder.open(name) as folder:
            _give(folder, "PG_VERSION", version, account)
            _give(folder, "postgresql.conf", lines.encode(), account)
            folder.make_folder("global", os.geteuid(), os.getegid())
            with Folder.open(name / "global") as inner:
                _give(inner, "pg_control", control, account)
                inner.give(account.uid, account.gid)
            folder.give(account.uid, account.gid)
        yield name


def _own_files(data_dir: Path, account: Account) -> tuple[bytes, bytes]:
    """PG_VERSION and the control file."""
    with Folder.open(data_dir) as folder, Folder.open(data_dir / "global") as inner:
        found = (
            folder.read("PG_VERSION", most_bytes=_VERSION_BYTES),
            inner.read("pg_control", most_bytes=_CONTROL_BYTES),
        )
    version, control = (copy.content if copy is not None and copy.uid == account.uid else None for copy in found)
    if version is None or control is None or not version.strip().isdigit():
        raise PermissionError(errno.EPERM, "PG_VERSION or pg_control is missing, or not the server's user's")
    return version, control


def _give(folder: Folder, name: str, content: bytes, account: Account) -> None:
    with os.fdopen(folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content)
        if not account.is_me:
            os.fchown(file.fileno(), account.uid, account.gid)


def _start_values(states: Mapping[str, KnobState]) -> dict[str, str]:
    """Running values that matter at start: those fixed there, set by somebody, and not naming files or code."""
    running: dict[str, Value] = {
        name: state.running
        for name, state in states.items()
        if state.knob.restart is not RestartClass.RELOAD
        and state.source not in ("default", "override")
        and not CATALOG.forbidden_reason(name)
        and "'" not in str(state.running)
    }
    return {name: setting_text(value, states[name].knob.unit) for name, value in running.items()}


def _texts(config: Config, states: Mapping[str, KnobState]) -> dict[str, str]:
    return {name: setting_text(value, states[name].knob.unit) for name, value in config.items()}
