"""The traffic that a server has anyway as a workload: nothing is asked, its own counters are read."""

from trimtab.workload.observe.workload import ObserveWorkload

__all__ = ["ObserveWorkload"]
