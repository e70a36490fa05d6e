"""Commits: one for many requests, and none of them can take it from the others."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from trimtab.errors import HistoryError
from trimtab.serve.commits import Commits
from trimtab.session.keeper import Failed


class Keeper:
    """Gives the same future to all."""

    def __init__(self) -> None:
        self.future: Future[Failed] = Future()

    def flush(self) -> Future[Failed]:
        return self.future


def test_a_request_that_is_given_up_does_not_end_the_others() -> None:
    async def waiting() -> list[object]:
        keeper = Keeper()
        commits = Commits(keeper)  # type: ignore[arg-type]
        tasks = [asyncio.create_task(commits.kept(study_id)) for study_id in (1, 2, 3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        keeper.future.set_result({3: HistoryError("the disk is full")})
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    given_up, kept, failed = asyncio.run(waiting())
    assert isinstance(given_up, asyncio.CancelledError)
    assert kept is None
    assert str(failed) == "the disk is full"


def test_what_is_kept_already_is_not_waited_for() -> None:
    keeper = Keeper()
    keeper.future.set_result({1: HistoryError("the disk is full")})
    commits = Commits(keeper)  # type: ignore[arg-type]
    asyncio.run(commits.kept(2))
    with pytest.raises(HistoryError, match="the disk is full"):
        asyncio.run(commits.kept())
