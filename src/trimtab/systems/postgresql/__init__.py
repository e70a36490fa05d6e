"""PostgreSQL 13 to 18: an embedded server, one on this machine, or one reached by SQL alone."""

from trimtab.systems.postgresql.target import PostgresTarget

__all__ = ["PostgresTarget"]
