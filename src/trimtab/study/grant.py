"""The roles that a study needs, as SQL for administrators; changes nothing."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.records import DataRights
from trimtab.study.driven import loaded_tier
from trimtab.study.file import StudyFile
from trimtab.study.stage import build_stack, build_workload
from trimtab.systems import GrantingTarget
from trimtab.trial.signals import signals_interrupt
from trimtab.workload import RightsWorkload

__all__ = ["Grant", "grant_sql"]

_MAX_ROLE = 63
_NO_DATA = DataRights(database="", makes_databases=False, is_users_own=False, reads_only=True)
"""What a load does with the data of a target that it does not drive."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The statements that make a study's role on one target, and whether they suffice on this version of the server."""

    sql: str
    is_enough: bool


def grant_sql(file: StudyFile, state_dir: Path, *, role: str = "") -> dict[str, Grant]:
    """Target -> the role that the study needs there, of each target that has rights by knob.

    Args:
        file: the study.
        state_dir: for the targets' lock files.
        role: its name; "" lets each target choose.

    Raises:
        UsageError: no kind of target has such roles, the name is none, or it is not said which target the load drives.
        TargetError: a target cannot be reached.
    """
    if not role.isprintable() or len(role.encode()) > _MAX_ROLE:
        raise UsageError(f"role={role!r} is not a role name", hint=f"use up to {_MAX_ROLE} printable characters")
    stack, workload = build_stack(file, state_dir), build_workload(file)
    granting = [(tier, target) for tier in stack.tiers if isinstance(target := tier.target, GrantingTarget)]
    if not granting:
        raise UsageError(
            f"targets of kind={stack.kind!r} have no rights by knob",
            hint="see the target's page for the rights it needs",
        )
    rights = workload.rights if isinstance(workload, RightsWorkload) else None
    with signals_interrupt(), ExitStack() as opened:
        for tier, _ in granting:
            opened.callback(tier.target.close)
            with tier.asked():
                tier.target.open()
        loaded = loaded_tier(file, [tier for tier, _ in granting], workload)
        found = {}
        for tier, target in granting:
            with tier.asked():
                on_data = rights if tier is loaded else _NO_DATA
                found[tier.name] = Grant(*target.grant_sql(workload.context, on_data, role=role))
        return found
