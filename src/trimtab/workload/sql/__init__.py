"""Own SQL: statements of the user's on a database of the user's, and the profile that proposes them."""

from trimtab.workload.sql.workload import SqlWorkload

__all__ = ["SqlWorkload"]
