"""What a server counts of its own work, by the statements of its catalogue."""

from __future__ import annotations

import re
from contextlib import suppress

from trimtab.errors import TargetError
from trimtab.systems.server_catalog import ServerCatalog
from trimtab.systems.session import Session, StatementError

__all__ = ["read_counters"]


def read_counters(session: Session, catalog: ServerCatalog, major: int = 0) -> dict[str, float]:
    """Counts since the server's start, or since its statistics were reset, by the names that it gives them.

    Args:
        session: of the server; what its user may not see is left out by the server.
        catalog: says which statements show counts, and which names are counts.
        major: the server's version; 0 where no statement depends on it.

    Raises:
        TargetError: the server refuses a statement, or is gone.
    """
    found: dict[str, float] = {}
    try:
        rows = [row for each in catalog.counts if each.since <= major for row in session.rows(each.rows)]
    except StatementError as error:
        raise TargetError(f"the server's counters cannot be read: {error.message}", hint=error.hint) from error
    for name, value in rows:
        if value is not None and re.match(catalog.counters, str(name)):
            with suppress(ValueError):  # a word among the numbers
                found[str(name)] = float(value)
    return found
