"""Session: a connection for control, the same for every kind of server; what it fails with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from trimtab.errors import TargetError

__all__ = [
    "FullError",
    "LoginRefusedError",
    "NotYetError",
    "Session",
    "StatementError",
    "UserFullError",
    "require_answer",
]


class LoginRefusedError(TargetError):
    """The server runs and answers, and does not let this user in: neither waiting nor a restart would help."""


class FullError(TargetError):
    """All connections of the server are in use: one may be free soon; a config of ours may be the reason."""


class UserFullError(FullError, LoginRefusedError):
    """All connections that this user may have are in use: one may be free soon, and no restart is due."""


class NotYetError(TargetError):
    """The server is there and says that it starts, stops or recovers: it wants to be waited for, not to be restarted."""


class StatementError(TargetError):
    """The server refused a statement, or was lost while it ran.

    Args:
        message: in the server's words.
        code: its error number or SQLSTATE; 0 or "" when there is none.
        is_lost: whether the connection is gone, so that nobody knows what became of the statement.
        is_denied: whether this user lacks a right.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int | str,
        is_lost: bool = False,
        is_denied: bool = False,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.is_lost = is_lost
        self.is_denied = is_denied


class Session(ABC):
    """One autocommit connection; a `with` block ends it.

    Attributes:
        is_lent: whether such a block leaves it open, unless it fails: it belongs to a visit.
    """

    is_lent = False

    def has_ended(self) -> bool:
        """Whether it shows that it has, without a question; where that cannot be told it has not."""
        return False

    @abstractmethod
    def rows(self, statement: Any, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of one statement, [] when it has none; `%s` stands for a parameter (only when there are any).

        Raises:
            StatementError: the server refuses it, or is gone.
        """

    def row(self, statement: Any, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row; None when there is none."""
        return next(iter(self.rows(statement, parameters)), None)

    def value(self, statement: Any, parameters: Sequence[Any] = ()) -> Any:
        """The first value of the first row; None when there is none."""
        found = self.row(statement, parameters)
        return found[0] if found is not None else None

    def seen(self, statement: Any, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]] | None:
        """The rows of one statement; None where this user lacks the right to see them.

        Raises:
            StatementError: the server refuses it for another reason, or is gone.
        """
        try:
            return self.rows(statement, parameters)
        except StatementError as error:
            if not error.is_denied:
                raise
            return None

    def told(self, statement: Any, parameters: Sequence[Any] = ()) -> Any:
        """The first value of the first row; None where the server does not answer that, for whatever reason."""
        try:
            return self.value(statement, parameters)
        except StatementError:
            return None

    def finds(self, statement: Any) -> bool:
        """Whether a statement has a row; False where the server refuses it.

        Raises:
            StatementError: the server is gone.
        """
        try:
            return bool(self.rows(statement))
        except StatementError as error:
            if error.is_lost:
                raise
            return False

    @abstractmethod
    def close(self) -> None:
        """Ends it; idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or not self.is_lent:
            self.close()


def require_answer(connect: Callable[[], Session]) -> None:
    """A fresh login and a query: a time-out may end a session between the two.

    Raises:
        TargetError: nobody is let in, or no query is answered.
    """
    try:
        with connect() as session:
            session.rows("SELECT 1")
    except StatementError as error:
        raise TargetError(f"the server accepts logins but no query: {error.message}", hint="see its log") from error
