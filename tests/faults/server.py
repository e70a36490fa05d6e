"""The servers of the fault matrix: each test gets one of its own with the witness table, copied from a template."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.servers import template
from tests.servers.postgresql import Server, copied, plain, set_password

__all__ = ["Server", "copy_server", "make_template", "set_password", "settings_of"]

WITNESS_ROWS = 500
_WITNESS = (
    "CREATE TABLE witness (id bigserial PRIMARY KEY, body text NOT NULL)",
    f"INSERT INTO witness (body) SELECT md5(g::text) FROM generate_series(1, {WITNESS_ROWS}) g",
    "CREATE TABLE sink (id bigserial PRIMARY KEY, n int NOT NULL)",
    "ANALYZE witness",
)
_SMALL = "shared_buffers = '16MB'\n"


def make_template(version: str) -> Path:
    """A data directory of `version` with the witness table, made once and copied for every test."""

    def make(folder: Path) -> None:
        folder.rmdir()
        server = copied(plain(version), folder, version, is_embedded=True, settings=_SMALL)
        server.control("start")
        with server.admin() as connection:
            for statement in _WITNESS:
                connection.execute(statement)
        server.control("stop")
        (folder / "server.log").unlink()

    return template(f"postgresql-{version}-witness", make)


def copy_server(template: Path, folder: Path, version: str, *, is_embedded: bool) -> Server:
    """A server of the test's own from the template; not started."""
    return copied(template, folder, version, is_embedded=is_embedded, settings=_SMALL)


def settings_of(server: Server) -> Mapping[str, str]:
    """What the server itself uses, without what belongs to a session or differs at each start."""
    rows = server.query(
        "SELECT name, setting FROM pg_settings WHERE source NOT IN ('client', 'session')"
        " AND name NOT IN ('in_hot_standby', 'transaction_isolation', 'transaction_read_only', 'application_name',"
        " 'transaction_deferrable', 'client_encoding', 'shared_memory_size', 'shared_memory_size_in_huge_pages',"
        " 'num_os_semaphores')"
    )
    return {str(name): str(setting) for name, setting in rows}
