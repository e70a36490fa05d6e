"""Passage: how the open points of a session pass its layers, on their way out and back; live, and told again after a restart."""

from __future__ import annotations

from trimtab.errors import InternalError
from trimtab.records import Role, Status
from trimtab.session.layer import Again, Answer, Stack
from trimtab.session.open import Open, rejected
from trimtab.session.point import Result

__all__ = ["Passage"]

_MOST_RUNS = 1000
"""Runs that layers may want of a point: as many as `repeat` takes."""

_MOST_SPOILT = 5
"""How often a run of the baseline is made again that failed for another reason than the config."""


class Passage:
    """The layers as points pass them. What it is told is a function of the session's journal, so it can be told again."""

    def __init__(self, layers: Stack) -> None:
        self._layers = layers

    def out(self, given: Open, *, is_replayed: bool = False) -> None:
        """On its way to a client: it `is_out` then, or has an `answer`, which a layer gives instead of one."""
        said, given.passed = self._layers.outgoing(given.point(is_replayed=is_replayed))
        given.is_out, given.answer = said is None, None
        if said is not None:
            given.answer = said.result if isinstance(said, Answer) else rejected(said)

    def answered(self, given: Open, answer: Result, *, is_replayed: bool = False) -> Result:
        """What that answer comes to on its way back through the layers that the point has passed.

        A layer that wants several runs of a point is given the answer as often: it would be the same each time.

        Raises:
            InternalError: it never has enough.
        """
        point = given.point(is_replayed=is_replayed)
        for _ in range(_MOST_RUNS):
            found = self._layers.incoming(point, answer, given.passed)
            if not isinstance(found, Again):
                return found
        raise InternalError("a layer asks without end for a point that no client has measured")

    def back(self, given: Open, result: Result, client: str, *, is_replayed: bool = False) -> Result | None:
        """What a client's report of it comes to; None when it is to be measured again.

        So is a run of the baseline, without which nothing can be said, that failed for another reason than the config. Where a
        layer raises something (its disk is full), the next call goes on with that layer: the others have counted the run.
        """
        given.back = given.back or self._layers.back(result)
        found = self._layers.onward(given.point(client=client, is_replayed=is_replayed), given.back)
        given.back = None
        if isinstance(found, Again):
            return None
        is_spoilt = given.ask.role is Role.BASELINE and found.status is Status.INFRASTRUCTURE
        if is_spoilt and given.n_spoilt < _MOST_SPOILT:
            given.n_spoilt += 1
            return None
        return found
