"""Running studies, seen from another process: what they do, the wish that one stops, and what killed ones have left."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from trimtab.errors import UsageError
from trimtab.host import process_mark
from trimtab.host.state import read_state_file

__all__ = ["FOLDER", "ask_to_stop", "running_now", "sweep_running"]

FOLDER = "now"
"""Of the state directory: a file for each running study."""


def running_now(state_dir: Path) -> dict[int, dict[str, Any]]:
    """What each study that runs from `state_dir` on this machine does, by its id in the history.

    Keys: "name", "created_at", "phase", "step", "trial" (number, role, changed, since) or None, "left_s" of the budget or
    None, and "seconds": the last two minutes of load, each (time, operations, p50, p95 and p99 in ms, errors).
    """
    found = {}
    for path in (state_dir / FOLDER).glob("*.json"):
        with suppress(OSError, ValueError, UsageError, KeyError, TypeError):
            said = json.loads(read_state_file(path))
            if process_mark(int(said.pop("pid"))) == said.pop("mark"):
                found[int(said.pop("study_id"))] = said
    return found


def ask_to_stop(state_dir: Path, study_id: int) -> bool:
    """Asks a study to stop as Ctrl-C does; False when it does not run from `state_dir` on this machine."""
    if study_id not in running_now(state_dir):
        return False
    (state_dir / FOLDER / f"{study_id}.stop").touch(mode=0o600)
    return True


def sweep_running(state_dir: Path) -> None:
    """Removes what killed studies have left; a running one keeps its files."""
    alive = {str(study_id) for study_id in running_now(state_dir)}
    for path in (state_dir / FOLDER).glob("*.*"):
        if path.stem not in alive:
            with suppress(OSError):
                path.unlink(missing_ok=True)
