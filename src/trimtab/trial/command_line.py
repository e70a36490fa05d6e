"""Commands that a message proposes, such that they work where the message was printed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from shlex import quote

__all__ = ["command_at", "text_at"]

_WAY_BACK = r"`(trimtab (?:recover|rollback)\b[^`]*)`"
"""In a text of a room that knows no state directory."""


def command_at(state_dir: Path, command: str) -> str:
    """`command` for what lies in `state_dir`: with --state, unless it means that directory here anyway."""
    meant = os.environ.get("TRIMTAB_STATE") or ".trimtab"
    is_meant = os.path.abspath(state_dir) == os.path.abspath(meant)
    return command if is_meant or "--state" in command else f"{command} --state {quote(str(state_dir))}"


def text_at(state_dir: Path, text: str) -> str:
    """`text`, whose commands that take something back are for `state_dir`."""
    return re.sub(_WAY_BACK, lambda found: f"`{command_at(state_dir, found[1])}`", text)
