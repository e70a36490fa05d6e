"""Running studies, seen from another process: what they do, the wish that one stops, and what killed ones have left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from trimtab.errors import UsageError
from trimtab.host import process_mark
from trimtab.host.state import read_state_file

__all__ = ["FOLDER", "STOP", "ask_to_stop", "running_now", "sweep_running"]

FOLDER = "now"
"""Of the state directory: a file for each running study."""

STOP = ".stop"
"""Suffix, instead of that of a study's file, of the wish that it stops."""


def _alive(state_dir: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """(file, what it says) of each study that runs."""
    for path in (state_dir / FOLDER).glob("*.json"):
        with suppress(OSError, ValueError, UsageError, KeyError, TypeError):
            said = json.loads(read_state_file(path))
            if process_mark(int(said.pop("pid"))) == said.pop("mark"):
                yield path, {**said, "study_id": int(said["study_id"])}


def running_now(state_dir: Path) -> dict[int, dict[str, Any]]:
    """What each study that runs from `state_dir` on this machine does, by its id in the history.

    Keys: "name", "created_at", "phase", "step", "trial" (number, role, changed, since) or None, "left_s" of the budget or
    None, and "seconds": the last two minutes of load, each (time, operations, p50, p95 and p99 in ms, errors).
    """
    return {said.pop("study_id"): said for _, said in _alive(state_dir)}


def ask_to_stop(state_dir: Path, study_id: int, name: str, created_at: float | None = None) -> bool:
    """Asks a study to stop as Ctrl-C does; False when it does not run from `state_dir` on this machine.

    Studies of several histories may have one id: the name must be the study's as well, and its begin, where that is known.
    """
    for path, said in _alive(state_dir):
        is_same = (said["study_id"], said.get("name")) == (study_id, name)
        if is_same and created_at in (None, said.get("created_at")):
            path.with_suffix(STOP).touch(mode=0o600)
            return True
    return False


def sweep_running(state_dir: Path) -> None:
    """Removes what killed studies have left; a running one keeps its files."""
    alive = {path.stem for path, _ in _alive(state_dir)}
    for path in (state_dir / FOLDER).glob("*.*"):
        if path.stem not in alive:
            with suppress(OSError):
                path.unlink(missing_ok=True)
