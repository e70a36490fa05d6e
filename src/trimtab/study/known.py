"""Known: what the history holds of a study already; several machines may share a history, and a study is of its target's host."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

from trimtab.errors import HistoryError
from trimtab.history import History, StudyRecord, host_of, is_same_host
from trimtab.study.file import StudyFile
from trimtab.study.stage import opened

__all__ = ["find_known", "target_host"]


def find_known(history: History, name: str, host: Callable[[], str]) -> StudyRecord | None:
    """The newest study of that name that was begun in this history on the target's host; None when there is none of that name.

    Args:
        history: may be shared with other machines.
        name: of the study.
        host: tells the target's host; asked only where the newest study is not one of this machine.

    Raises:
        HistoryError: there are only studies of other hosts.
    """
    first: StudyRecord | None = None
    here = ""
    for record in history.own_studies(name):
        made_on = record.machine.hostname
        if is_same_host(made_on, platform.node()):
            return record
        here = here or host()
        if is_same_host(made_on, here):
            return record
        first = first or record
    if first is not None:
        raise HistoryError(
            f"study={name!r} was made on host={first.machine.hostname!r}, and the target is on host={here!r} now",
            hint="give the study of this host another name, or begin it with --again; a host that has only been renamed, "
            "or a container, goes on with it under its old host name",
        )
    return None


def target_host(file: StudyFile, state_dir: Path) -> str:
    """Name of the host that the target runs on now; the target is opened for it, which changes nothing.

    Raises:
        TargetError: it cannot be reached.
    """
    with opened(file, state_dir) as stack:
        return host_of(stack.machine())
