"""What a MySQL or MariaDB server counts of its own work: the growing numbers of SHOW GLOBAL STATUS."""

from __future__ import annotations

import re

from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.session import Session

__all__ = ["read_counters"]


def read_counters(session: Session) -> dict[str, float]:
    """Counts since the server's start, by the server's own names: "Innodb_pages_read", "Handler_read_key".

    Raises:
        StatementError: the connection broke.
    """
    found = {}
    for name, text in session.execute("SHOW GLOBAL STATUS"):
        if re.match(CATALOG.counters, str(name)):
            try:
                found[str(name)] = float(text)
            except ValueError:
                continue
    return found
