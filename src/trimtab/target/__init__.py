"""APPLY: systems that have knobs; one folder per system."""

from trimtab.target.base import Applied, KnobState, Snapshot, Target

__all__ = ["Applied", "KnobState", "Snapshot", "Target"]
