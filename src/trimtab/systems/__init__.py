"""APPLY: systems that have knobs; one folder per system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred

if TYPE_CHECKING:
    from trimtab.systems.base import (
        Applied,
        CountingTarget,
        KnobState,
        Own,
        PlayingTarget,
        Restarts,
        Snapshot,
        Target,
        Undone,
        Vitals,
        Watchable,
        always,
    )
    from trimtab.systems.discovery import DiscoverableTarget, FoundServer
    from trimtab.systems.forensic import Disturbance, Evidence, ForensicTarget, Symptom
    from trimtab.systems.gate import check_harmless, require_open
    from trimtab.systems.grant import GrantingTarget
    from trimtab.systems.memory import MemoryModel
    from trimtab.systems.same_server import is_same_server
    from trimtab.systems.stack import Stack
    from trimtab.systems.tier import Step, Tier, bottom_first
else:
    __getattr__ = deferred(
        __name__,
        {
            "base": "Applied CountingTarget KnobState Own PlayingTarget Restarts Snapshot Target Undone Vitals Watchable"
            " always",
            "discovery": "DiscoverableTarget FoundServer",
            "forensic": "Disturbance Evidence ForensicTarget Symptom",
            "gate": "check_harmless require_open",
            "grant": "GrantingTarget",
            "memory": "MemoryModel",
            "same_server": "is_same_server",
            "stack": "Stack",
            "tier": "Step Tier bottom_first",
        },
    )

__all__ = [
    "Applied",
    "CountingTarget",
    "DiscoverableTarget",
    "Disturbance",
    "Evidence",
    "ForensicTarget",
    "FoundServer",
    "GrantingTarget",
    "KnobState",
    "MemoryModel",
    "Own",
    "PlayingTarget",
    "Restarts",
    "Snapshot",
    "Stack",
    "Step",
    "Symptom",
    "Target",
    "Tier",
    "Undone",
    "Vitals",
    "Watchable",
    "always",
    "bottom_first",
    "check_harmless",
    "is_same_server",
    "require_open",
]
