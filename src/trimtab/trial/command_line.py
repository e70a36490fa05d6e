"""Commands that a message proposes, such that they work where the message was printed."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

__all__ = ["command_at"]


def command_at(state_dir: Path, command: str) -> str:
    """`command` for what lies in `state_dir`: with --state, unless it means that directory here anyway."""
    meant = os.environ.get("TRIMTAB_STATE") or ".trimtab"
    is_meant = os.path.abspath(state_dir) == os.path.abspath(meant)
    return command if is_meant else f"{command} --state {quote(str(state_dir))}"
