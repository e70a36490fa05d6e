"""The TPC-H workload: analytical queries on a wholesaler's data; derived from TPC-H, not an audited benchmark."""

from trimtab.workload.tpch.workload import TpchWorkload

__all__ = ["TpchWorkload"]
