"""YCSB: the cloud serving benchmark's core workloads (B. Cooper et al., SoCC 2010), run by the native engine."""

from trimtab.workload.ycsb.workload import YcsbWorkload

__all__ = ["YcsbWorkload"]
