"""Grants: the SQL that makes a role with just the rights that tuning needs, of a target that can say so."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from trimtab.records import Context, DataRights

__all__ = ["GrantingTarget"]


@runtime_checkable
class GrantingTarget(Protocol):
    """A target whose own system can enforce which knobs may change."""

    def grant_sql(self, context: Context, rights: DataRights | None, *, role: str) -> tuple[str, bool]:
        """The statements that an administrator runs once, with comments; and whether they suffice to tune.

        The knobs are those that the settings ask to tune, whatever the user who asks may change. No statement holds a
        password. Changes nothing.

        Args:
            context: of the workload, which decides what a set of knobs holds.
            rights: what the workload does with data; None when it cannot say.
            role: name of the role; "" for the user that the settings name when it is no administrator, else "trimtab".

        Raises:
            TargetError: the system cannot be reached or read.
            UsageError: a knob that the settings name cannot be tuned.
        """
