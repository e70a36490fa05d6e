"""Pages of a web server as a workload: a list of paths with shares, read in a closed or an open loop."""

from trimtab.workload.http.workload import HttpWorkload

__all__ = ["HttpWorkload"]
