"""DataRights: what a workload has to be allowed on the server, for a user with just the rights it needs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DataRights"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRights:
    """What a workload does with data.

    Attributes:
        database: where its data lies.
        makes_databases: whether it makes databases of its own (its data, or a copy for every run).
        is_users_own: whether the database is the user's, so that reading and writing must be granted.
        reads_only: whether nothing in it is written.
    """

    database: str
    makes_databases: bool
    is_users_own: bool
    reads_only: bool
