"""ASK: what is asked of a target; one folder per workload, all run by the native load engine."""

from trimtab.workload.base import (
    ArrivingWorkload,
    CopyingWorkload,
    CountingWorkload,
    DeployedWorkload,
    Deployment,
    Frame,
    LoadRun,
    PausingWorkload,
    Preparation,
    ProfiledWorkload,
    RatedWorkload,
    RemarkingWorkload,
    ResettableWorkload,
    RightsWorkload,
    ScriptedWorkload,
    StartState,
    ThreadedWorkload,
    Workload,
    arrivals_s,
)
from trimtab.workload.cycle import CycledWorkload
from trimtab.workload.load_model import LoadModel

__all__ = [
    "ArrivingWorkload",
    "CopyingWorkload",
    "CountingWorkload",
    "CycledWorkload",
    "DeployedWorkload",
    "Deployment",
    "Frame",
    "LoadModel",
    "LoadRun",
    "PausingWorkload",
    "Preparation",
    "ProfiledWorkload",
    "RatedWorkload",
    "RemarkingWorkload",
    "ResettableWorkload",
    "RightsWorkload",
    "ScriptedWorkload",
    "StartState",
    "ThreadedWorkload",
    "Workload",
    "arrivals_s",
]
