"""mysqld-auto.cnf: what SET PERSIST gives a MySQL server at its next start, after every option file and the command line."""

from __future__ import annotations

from pathlib import Path

from trimtab.systems.mysql.catalogue import CATALOG
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.session import Session
from trimtab.systems.session import StatementError

__all__ = ["auto_file", "read_persisted"]

_NAME = "mysqld-auto.cnf"


def auto_file(reach: Reach) -> Path | None:
    """The file, which the server itself writes; None where its folder is not known. MariaDB has none."""
    return reach.data_dir / _NAME if reach.data_dir is not None else None


def read_persisted(session: Session) -> dict[str, str] | None:
    """Variable -> its value there as text; nothing where the server does not read the file, None where it does not say. What this
    user may not see is missing.

    Raises:
        StatementError: the server is gone.
    """
    try:
        rows = session.rows(CATALOG.sql["mysql_persisted"])
    except StatementError as error:
        if error.is_lost:
            raise
        return None
    return {str(name): str(value) for name, value in rows if value is not None}
