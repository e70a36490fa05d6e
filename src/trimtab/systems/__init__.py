"""APPLY: systems that have knobs; one folder per system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred

if TYPE_CHECKING:
    from trimtab.systems.base import (
        Applied,
        KnobState,
        Own,
        Restarts,
        Snapshot,
        Target,
        Undone,
        always,
    )
    from trimtab.systems.capabilities import (
        CompilingTarget,
        CountingTarget,
        DiscoverableTarget,
        Disturbance,
        Evidence,
        ForensicTarget,
        FoundServer,
        GrantingTarget,
        PlayingTarget,
        RestartableTarget,
        RestrictedTarget,
        SelfTuningTarget,
        Symptom,
        Vitals,
        WarmingTarget,
        Watchable,
    )
    from trimtab.systems.follow import stale
    from trimtab.systems.gate import check_harmless, require_open
    from trimtab.systems.memory import MemoryModel
    from trimtab.systems.same_server import is_same_server
    from trimtab.systems.stack import Stack
    from trimtab.systems.tier import Step, Tier, bottom_first
else:
    __getattr__ = deferred(
        __name__,
        {
            "base": "Applied KnobState Own Restarts Snapshot Target Undone always",
            "capabilities": "CompilingTarget CountingTarget DiscoverableTarget Disturbance Evidence ForensicTarget FoundServer"
            " GrantingTarget PlayingTarget RestartableTarget RestrictedTarget SelfTuningTarget Symptom Vitals"
            " WarmingTarget Watchable",
            "follow": "stale",
            "gate": "check_harmless require_open",
            "memory": "MemoryModel",
            "same_server": "is_same_server",
            "stack": "Stack",
            "tier": "Step Tier bottom_first",
        },
    )

__all__ = [
    "Applied",
    "CompilingTarget",
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
    "RestartableTarget",
    "Restarts",
    "RestrictedTarget",
    "SelfTuningTarget",
    "Snapshot",
    "Stack",
    "Step",
    "Symptom",
    "Target",
    "Tier",
    "Undone",
    "Vitals",
    "WarmingTarget",
    "Watchable",
    "always",
    "bottom_first",
    "check_harmless",
    "is_same_server",
    "require_open",
    "stale",
]
