"""What a MySQL or MariaDB server counts of its own work: the growing numbers of SHOW GLOBAL STATUS."""

from __future__ import annotations

import re

from trimtab.systems.mysql.session import Session

__all__ = ["read_counters"]

_COUNTS = re.compile(
    r"(Aborted_|Aria_pagecache_(read|write)|Binlog_(bytes|cache|commits|stmt)|Bytes_|Com_(begin|commit|delete|insert|rollback|select|update)|"
    r"Connections$|Created_tmp|Handler_|Innodb_(buffer_pool_(pages_flushed|read|wait|write)|data_|dblwr|log_write|log_waits|os_log|"
    r"pages_(created|read|written)|row_lock_(time|waits)|rows_|deadlocks)|Key_(read|write)|Opened_|Qcache_(hits|inserts|lowmem|not)|"
    r"Queries$|Questions$|Select_|Slow_queries|Sort_|Table_(locks|open_cache_(hits|misses|overflows))|Threads_created)"
)
"""Names of counts; what goes up and down (connected threads, dirty pages) is none."""


def read_counters(session: Session) -> dict[str, float]:
    """Counts since the server's start, by the server's own names: "Innodb_pages_read", "Handler_read_key".

    Raises:
        StatementError: the connection broke.
    """
    found = {}
    for name, text in session.execute("SHOW GLOBAL STATUS"):
        if _COUNTS.match(str(name)):
            try:
                found[str(name)] = float(text)
            except ValueError:
                continue
    return found
