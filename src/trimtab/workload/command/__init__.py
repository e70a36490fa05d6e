"""Any command as a workload: run again and again, its time or its own figure is what is measured."""

from trimtab.workload.command.workload import CommandWorkload

__all__ = ["CommandWorkload"]
