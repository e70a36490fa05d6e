"""LocalSession: a session without a server, for one process; the same history, the same resume."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from trimtab.history import open_history_at
from trimtab.session.point import Failure, Report
from trimtab.session.session import Session
from trimtab.session.sessions import Sessions
from trimtab.session.spec import SessionSpec
from trimtab.space import Config

__all__ = ["LocalPoint", "LocalSession"]


@dataclass(slots=True)
class LocalPoint:
    """One config to be measured; as `trimtab.client.Point`."""

    session: LocalSession
    ticket: str
    config: Config
    role: str

    def report(self, value: float) -> None:
        """Reports the objective's figure; it is on disk when this returns.

        Raises:
            UsageError: it is not above 0.
            HistoryError: it could not be kept.
        """
        self.session.take(self.ticket, Report(value=value))

    def fail(self, reason: str, status: str = "crashed") -> None:
        """Reports that there is no figure."""
        self.session.take(
            self.ticket, Report(failed=Failure.model_validate({"status": status, "reason": reason[:4000]}))
        )


class LocalSession:
    """The session of `spec`, begun or resumed in the history of `state_dir`; iterate over it for points.

    Raises:
        UsageError, SpaceError: `spec` is not legal, or its name is taken, perhaps by a session that another host has measured.
        LockedError: a server, or another process, serves from this folder.
    """

    def __init__(
        self, spec: SessionSpec, state_dir: Path, history_url: str | None = None, *, again: bool = False
    ) -> None:
        with ExitStack() as stack:
            history = stack.enter_context(open_history_at(history_url, state_dir))
            self._sessions = Sessions(history, state_dir, sync_s=0, is_measuring=True)
            stack.callback(self._sessions.close)
            self._session, self.is_new = self._sessions.begin(spec, again=again)
            self._client = self._session.join("exec").id
            self._opened = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def __iter__(self) -> Iterator[LocalPoint]:
        while (found := self._session.fetch(self._client)).state != "ended":
            if found.point is not None:
                yield LocalPoint(self, found.ticket, found.point.config, str(found.point.role))
            elif found.state == "paused":  # by somebody who had it before: nobody else can resume it now
                self._session.resume()
        self._sessions.keeper.wait()

    def take(self, ticket: str, report: Report) -> None:
        """Takes a report."""
        self._session.report(self._client, ticket, report)
        self._sessions.keeper.wait()

    @property
    def session(self) -> Session:
        """The session itself."""
        return self._session
