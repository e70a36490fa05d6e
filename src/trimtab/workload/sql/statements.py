"""What the statements of a script do beyond their answers: whether they write, and whether what they write can be rolled back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from trimtab.errors import LoadError, UsageError
from trimtab.redact import hide_values
from trimtab.workload.scripts import ScriptText
from trimtab.workload.server import Session

if TYPE_CHECKING:
    from trimtab._native import Statement

__all__ = ["require_transactional", "require_wrappable", "writes"]

_DIALECTS = ("postgresql", "mysql", "cql")
_SHOWN = 40
"""Characters of a statement in a message."""

_NO_TRANSACTIONS = (
    "SELECT t.table_name, t.engine FROM information_schema.tables t LEFT JOIN information_schema.engines e "
    "ON e.engine = t.engine WHERE t.table_schema = DATABASE() AND t.engine IS NOT NULL "
    "AND COALESCE(e.transactions, 'NO') <> 'YES'"
)


@cache
def writes(text: str, dialects: tuple[str, ...] = _DIALECTS) -> bool:
    """Whether a statement of the script may change data.

    A study file does not say whose SQL it is, and strings end elsewhere in MySQL's: so in any dialect in which it can be read.
    """
    return any(statement.writes for dialect in dialects for statement in _statements(text, dialect))


def require_wrappable(scripts: Sequence[ScriptText], dialect: str, wrap: str) -> None:
    """Makes sure that a transaction around each script ends where the script does.

    Args:
        scripts: their texts.
        dialect: whose SQL it is.
        wrap: "rollback" or "commit", as the transaction ends; "none": there is none.

    Raises:
        UsageError: a statement ends it, or may make the server commit what is to be rolled back.
    """
    if wrap == "none":
        return
    for script, statement in _all(scripts, dialect):
        if statement.controls:
            raise UsageError(
                f"{_place(script, statement, dialect)} cannot be used with {_CAUSES[wrap]}: it ends or begins a transaction",
                hint=_HINTS[wrap],
            )
        if wrap == "rollback" and statement.commits:
            raise UsageError(
                f"{_place(script, statement, dialect)} cannot be used with {_CAUSES[wrap]}: MySQL and MariaDB may commit at it",
                hint='take it out, or choose start_state = "template", "undo" or "none"',
            )


_CAUSES = {"rollback": 'start_state="rollback"', "commit": "transaction=true"}
_HINTS = {
    "rollback": "take BEGIN, COMMIT and ROLLBACK out: Trimtab begins each transaction itself and rolls it back; or choose "
    'start_state = "template", "undo" or "none"',
    "commit": "take BEGIN, COMMIT and ROLLBACK out: Trimtab begins each transaction itself and commits it; or remove transaction",
}


def require_transactional(session: Session, scripts: Sequence[ScriptText]) -> None:
    """Makes sure that MySQL and MariaDB can roll back what the scripts write.

    Raises:
        LoadError: a statement that writes names a table whose engine has no transactions.
    """
    written = [(s, statement) for s, statement in _all(scripts, "mysql") if statement.writes]
    if not written:
        return
    for table, engine in session.execute(_NO_TRANSACTIONS):
        name = re.compile(rf"(?<![\w$]){re.escape(str(table))}(?![\w$])", re.IGNORECASE)
        for script, statement in written:
            if name.search(statement.text):
                raise LoadError(
                    f'{_place(script, statement, "mysql")} cannot be used with start_state="rollback": table={table} cannot '
                    f"be rolled back, engine={engine} has no transactions",
                    hint='give it another engine (InnoDB), or choose start_state = "undo" or "none"',
                )


def _all(scripts: Sequence[ScriptText], dialect: str) -> Iterator[tuple[ScriptText, Statement]]:
    for script in scripts:
        for statement in _statements(script.text, dialect):
            yield script, statement


def _statements(text: str, dialect: str) -> list[Statement]:
    """Of a text that cannot be read so, none: compiling it says what is wrong."""
    from trimtab._native import read_statements

    try:
        return read_statements(text, dialect)
    except ValueError:
        return []


def _place(script: ScriptText, statement: Statement, dialect: str) -> str:
    words = hide_values(" ".join(statement.text.split()), dialect)
    shown = words if len(words) <= _SHOWN else words[:_SHOWN] + "..."
    return f"script={script.source!r} line={statement.line}: {shown}"
