"""ASK: what is asked of a target; one folder per workload, all run by the native load engine."""

from trimtab.workload.base import Frame, LoadRun, Preparation, Workload

__all__ = ["Frame", "LoadRun", "Preparation", "Workload"]
