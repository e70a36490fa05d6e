"""oltp: short transactions on one kind of table, as sysbench's oltp_* scripts ask them; on PostgreSQL, MySQL and MariaDB."""

from trimtab.workload.oltp.workload import OltpWorkload

__all__ = ["OltpWorkload"]
