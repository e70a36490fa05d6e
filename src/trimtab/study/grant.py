"""The role that a study needs, as SQL for an administrator; changes nothing."""

from __future__ import annotations

from pathlib import Path

from trimtab.errors import UsageError
from trimtab.study.file import StudyFile
from trimtab.study.stage import build_target, build_workload
from trimtab.systems import GrantingTarget
from trimtab.workload import RightsWorkload

__all__ = ["grant_sql"]

_MAX_ROLE = 63


def grant_sql(file: StudyFile, state_dir: Path, *, role: str = "") -> tuple[str, bool]:
    """The statements that make the study's role, and whether they suffice on this version of the server.

    Args:
        file: the study.
        state_dir: for the target's lock file.
        role: its name; "" lets the target choose.

    Raises:
        UsageError: the kind of target has no such roles, or the name is none.
        TargetError: the target cannot be reached.
    """
    if not role.isprintable() or len(role.encode()) > _MAX_ROLE:
        raise UsageError(f"role={role!r} is not a role name", hint=f"use up to {_MAX_ROLE} printable characters")
    target, workload = build_target(file, state_dir), build_workload(file)
    if not isinstance(target, GrantingTarget):
        raise UsageError(
            f"targets of kind={target.kind!r} have no rights by knob",
            hint="see the target's page for the rights it needs",
        )
    rights = workload.rights if isinstance(workload, RightsWorkload) else None
    target.open()
    try:
        return target.grant_sql(workload.context, rights, role=role)
    finally:
        target.close()
