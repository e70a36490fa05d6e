"""Commits: requests that wait until what they have changed is kept; those that one commit serves are woken together."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from trimtab.session import Keeper
from trimtab.session.keeper import Failed, require_kept

__all__ = ["Commits"]


class Commits:
    """What one event loop waits for of a keeper.

    The keeper's thread calls the loop once for each commit and not for each request: every call takes the interpreter's lock
    from one of the two.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._flush: Future[Failed] | None = None
        self._woken: asyncio.Future[Failed] | None = None

    async def kept(self, study_id: int | None = None) -> None:
        """Returns when everything that was done before is in the history.

        Args:
            study_id: whose errors are of interest; None: everybody's.

        Raises:
            TrimtabError: why something is not.
        """
        flush = self._keeper.flush()
        if not flush.done():
            if flush is not self._flush or self._woken is None:
                self._flush, self._woken = flush, asyncio.wrap_future(flush)
            await asyncio.shield(self._woken)  # a request that is given up must not take it from the others
        require_kept(flush.result(), study_id)
