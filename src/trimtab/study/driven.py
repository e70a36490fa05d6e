"""Driven: which tier of a stack the load drives, and which one keeps its data."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.errors import UsageError
from trimtab.study.file import StudyFile
from trimtab.systems import Stack, Tier
from trimtab.workload import Workload
from trimtab.workload.server import DATA_PROTOCOLS

__all__ = ["driving", "loaded_tier", "which_target"]


def which_target(tiers: Sequence[Tier]) -> UsageError:
    """That the load could drive any of these, and the study does not say which."""
    return UsageError(
        "the study has several targets, and which of them the load drives is not said",
        hint=f"add to [workload]: target = {' or '.join(repr(tier.name) for tier in tiers)}".replace("'", '"'),
    )


def loaded_tier(file: StudyFile, tiers: Sequence[Tier], workload: Workload) -> Tier | None:
    """The only one of these open tiers that the load can drive, or the one that the study names; None when it is none of them.

    Raises:
        UsageError: it can drive several.
    """
    named = file.workload.get("target")
    fitting = [
        tier for tier in tiers if named in (None, tier.name) and tier.target.endpoint().protocol in workload.protocols
    ]
    if len(fitting) > 1:
        raise which_target(fitting)
    return fitting[0] if fitting else None


def driving(file: StudyFile, stack: Stack, workload: Workload) -> Stack:
    """The stack with the load on its tier.

    Raises:
        UsageError: the load can drive no tier, or several.
    """
    tier = loaded_tier(file, stack.tiers, workload)
    if tier is None:
        target = stack.driven.target
        raise UsageError(
            f"workload kind={workload.kind!r} cannot drive target kind={target.kind!r}",
            hint=f"it speaks {', '.join(workload.protocols)}; the target speaks {target.endpoint().protocol}",
        )
    return stack.driving(tier.name, _data_tier(file, stack, tier))


def _data_tier(file: StudyFile, stack: Stack, driven: Tier) -> str:
    """The tier that keeps the data of the driven one: as the study says, or else the only other database; "" for itself.

    Raises:
        UsageError: the study names a tier that is none, or keeps no data.
    """
    others = [
        tier.name
        for tier in stack.tiers
        if tier.name != driven.name and tier.target.endpoint().protocol in DATA_PROTOCOLS
    ]
    named = file.workload.get("data")
    if named is not None:
        if named not in others:
            raise UsageError(
                f"[workload] data={named!r} does not name a database behind target={driven.name!r}",
                hint=f"use one of: {', '.join(others)}" if others else "remove it: no other target is a database",
            )
        return str(named)
    is_database = driven.target.endpoint().protocol in DATA_PROTOCOLS
    return others[0] if len(others) == 1 and not is_database else ""
