"""pgbench: PostgreSQL's own benchmark scripts, built in and from files."""

from trimtab.workload.pgbench.workload import PgbenchWorkload

__all__ = ["PgbenchWorkload"]
