"""Whether somebody else has changed a target since its config was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.errors import ForeignChangeError

if TYPE_CHECKING:
    from trimtab.study.stage import Stage

__all__ = ["require_unchanged"]


def require_unchanged(stage: Stage) -> None:
    """The target still runs what `stage` was opened with: data may take long to make, and people to answer.

    Raises:
        ForeignChangeError: somebody has changed it meanwhile; nothing was touched.
    """
    states = stage.stack.states()
    changed = [
        f"{name}={states[name].running!r} (it was {stage.states[name].running!r})"
        for name in stage.baseline
        if name in states and states[name].running != stage.states[name].running
    ]
    if changed:
        raise ForeignChangeError(
            f"somebody else has changed the target since its config was read: {', '.join(changed[:3])}",
            hint="start again when it is settled",
        )
