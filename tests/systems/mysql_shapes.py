"""Rows as the servers give them: MariaDB 10.11 as recorded, MySQL 8 as its manual describes the two tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trimtab.systems.session import Session, StatementError

__all__ = ["ANSWERS", "BINLOG_ADMIN", "CONNECTION_ADMIN", "MARIADB_ROWS", "MYSQL_ROWS", "ScriptedSession"]


def _rows(name: str) -> list[tuple[str | None, ...]]:
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [tuple(None if cell == "NULL" else cell for cell in line.split("|")) for line in lines]


MARIADB_ROWS = _rows("mariadb_variables.txt")
"""Columns as `MARIADB_QUERY` selects them."""

MYSQL_ROWS = _rows("mysql_variables.txt")
"""Columns as `MYSQL_QUERY` selects them."""

_IO_ROW = ("Waiting for source to send event", "10.0.0.1", "repl", 3306, 60)
_SYNTAX = 1064
_DUMP = "SELECT 1 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%' LIMIT 1"
_NODES = "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'"
_SOURCES = "SHOW ALL REPLICAS STATUS"

ANSWERS: Mapping[str, Mapping[str, Sequence[tuple[Any, ...]]]] = {
    "8.0.21": {"SHOW SLAVE STATUS": [_IO_ROW], _DUMP: [], _NODES: []},
    "8.0.36": {"SHOW SLAVE STATUS": [_IO_ROW], "SHOW REPLICA STATUS": [_IO_ROW], _DUMP: [], _NODES: []},
    "8.4.3": {"SHOW REPLICA STATUS": [_IO_ROW], _DUMP: [], _NODES: []},
    # a replica of a source with a name: of the statement without ALL no row shows
    "10.6.16-MariaDB": {"SHOW SLAVE STATUS": [], "SHOW REPLICA STATUS": [], _SOURCES: [_IO_ROW], _DUMP: [], _NODES: []},
    "11.8.2-MariaDB-ubu2404": {"SHOW REPLICA STATUS": [], _SOURCES: [_IO_ROW], _DUMP: [], _NODES: []},
}
"""What each version's grammar takes (of a replica), by the two manuals; any other statement is a syntax error there."""

BINLOG_ADMIN = (
    "binlog_annotate_row_events",
    "binlog_cache_size",
    "binlog_commit_wait_count",
    "binlog_commit_wait_usec",
    "binlog_direct_non_transactional_updates",
    "binlog_expire_logs_seconds",
    "binlog_file_cache_size",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_stmt_cache_size",
    "expire_logs_days",
    "log_bin_compress",
    "log_bin_compress_min_len",
    "log_bin_trust_function_creators",
    "max_binlog_cache_size",
    "max_binlog_size",
    "max_binlog_stmt_cache_size",
    "sql_log_bin",
    "sync_binlog",
)
CONNECTION_ADMIN = (
    "connect_timeout",
    "disconnect_on_expired_password",
    "extra_max_connections",
    "init_connect",
    "max_connections",
    "max_connect_errors",
    "max_password_errors",
    "proxy_protocol_networks",
    "secure_auth",
    "slow_launch_time",
    "thread_pool_exact_stats",
    "thread_pool_dedicated_listener",
    "thread_pool_idle_timeout",
    "thread_pool_max_threads",
    "thread_pool_min_threads",
    "thread_pool_oversubscribe",
    "thread_pool_prio_kickup_timer",
    "thread_pool_priority",
    "thread_pool_size",
    "thread_pool_stall_limit",
)
"""The variables that the two rights let a user set: MariaDB's manual, GRANT."""


class ScriptedSession(Session):
    """Answers the statements that a version knows, and refuses the rest as the server does."""

    def __init__(self, version: str, answers: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
        self._answers = {"SELECT VERSION()": [(version,)], **answers}

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if statement not in self._answers:
            raise StatementError(f"You have an error in your SQL syntax near {statement!r}", code=_SYNTAX)
        return list(self._answers[statement])

    def close(self) -> None:
        """Nothing is open."""
