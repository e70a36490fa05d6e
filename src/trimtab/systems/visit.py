"""Visit: one connection for looks at a server that follow one another at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from trimtab.systems.session import Session

__all__ = ["Visit"]

C = TypeVar("C", bound=Session)


class Visit(threading.local, Generic[C]):
    """Lends one connection while a visit goes on: a login costs a server more CPU than what is asked over it.

    A visit is short: no load runs and no server is stopped or started in it. Each thread has its own; who keeps a connection,
    as a lock does, makes it outside of one.
    """

    def __init__(self) -> None:
        self._n_begun = 0
        self._session: C | None = None

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Within it `session` lends; its connection ends with the outermost."""
        self._n_begun += 1
        try:
            yield
        finally:
            self._n_begun -= 1
            if not self._n_begun:
                self.end()

    def end(self) -> None:
        """Ends the connection; who asks next has a fresh one."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def session(self, make: Callable[[], C]) -> C:
        """The visit's connection, made when it has none that lives; outside of a visit a fresh one."""
        if not self._n_begun:
            return make()
        if self._session is not None and self._session.has_ended():
            self.end()
        if self._session is None:
            self._session = make()
            self._session.is_lent = True
        return self._session
