"""ServerUndo: the part of `trimtab.systems.undo` that is the same for every kind of database server."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from trimtab.errors import TargetError
from trimtab.systems.base import Own, Snapshot
from trimtab.systems.knobs import Reading
from trimtab.systems.rescue import R, Rescue
from trimtab.systems.undo import BY_FILES, Standing, Way

__all__ = ["ServerUndo"]


class ServerUndo(Rescue[R]):
    """See `Undoing`.

    Attributes:
        THEN: a statement that follows those which a person gives.
    """

    noun = "server"
    trouble = ""
    THEN = ""

    def __init__(self, reach: R) -> None:
        super().__init__(reach)
        self._now: Mapping[str, Reading] = {}

    @abstractmethod
    def _who(self, session: Any) -> Mapping[str, Any]:
        """Identifier and role of the server that answers, as far as they can be seen."""

    def _who_by_files(self) -> Mapping[str, Any]:
        """The identifier in the server's files, whether it is up or not."""
        return {}

    @abstractmethod
    def _statement(self, snapshot: Snapshot, name: str) -> str:
        """The statement that gives a knob its found value; "" when there is none."""

    @abstractmethod
    def _look(self, snapshot: Snapshot, own: Own) -> bool:
        """Reads what the server shows (`_now`); False where nobody lets us in."""

    @abstractmethod
    def _way(self, name: str, own: Own) -> Way:
        """Where a knob stands that has not its found value."""

    @abstractmethod
    def _same(self, now: Reading, snapshot: Snapshot) -> tuple[bool, str, str]:
        """Whether a knob has its found value; its value now, and as found, for people."""

    def _is_written(self, name: str) -> bool:
        """Whether a file still gives the knob our value."""
        return False

    @abstractmethod
    def _harm(self, snapshot: Snapshot, own: Own, names: list[str]) -> str:
        """What else a restart for `names` would bring about or lose; "" when nothing."""

    def who(self, snapshot: Snapshot) -> Mapping[str, Any]:
        """Which server answers, or whose files lie there; one that does not answer may be the one that we changed."""
        found = dict(self._who_by_files())
        try:
            with self._reach.connect() as session:
                found |= self._who(session)
        except TargetError:
            pass  # it is down, or hangs, or lets nobody in: the restore will say what stands in its way
        return found

    def by_hand(self, snapshot: Snapshot, own: Own) -> str:
        """What a person would do."""
        if snapshot.files:
            return f"by hand: {BY_FILES}"
        words = [*(self._statement(snapshot, name) for name in sorted(own.texts)), self.THEN]
        return f"by hand: {'; '.join(filter(None, words))}"

    def standing(self, snapshot: Snapshot, own: Own) -> Mapping[str, Standing] | None:
        """What the server shows after its files are right."""
        if not self._look(snapshot, own):
            return None
        found = {}
        for name in own.texts:
            if name in self._now and name in snapshot.values:
                is_same, now, was = self._same(self._now[name], snapshot)
                way = Way.FOUND if is_same else self._way(name, own)
                found[name] = Standing(
                    way, now, "" if is_same else was, is_written=way is Way.WAITING and self._is_written(name)
                )
        return found

    def why_not_restart(self, snapshot: Snapshot, own: Own, names: list[str]) -> str:
        """Why no restart is made for `names`; "" when it would bring about what was found, and nothing that others have done."""
        return "this study has no restart command" if self._reach.no_restart else self._harm(snapshot, own, names)

    def restart_for(self, snapshot: Snapshot, own: Own) -> None:
        """A restart that loses nothing of what others have set."""
        self._reach.restart()
