"""APPLY: systems that have knobs; one folder per system."""

from trimtab.target.base import Applied, CountingTarget, KnobState, Snapshot, Target, Vitals, Watchable
from trimtab.target.discovery import DiscoverableTarget, FoundServer
from trimtab.target.forensic import Disturbance, Evidence, ForensicTarget, Symptom, Withdrawal
from trimtab.target.gate import check_harmless, require_open
from trimtab.target.grant import GrantingTarget

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
    "Snapshot",
    "Symptom",
    "Target",
    "Vitals",
    "Watchable",
    "Withdrawal",
    "check_harmless",
    "require_open",
]
