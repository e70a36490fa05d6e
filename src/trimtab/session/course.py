"""Course: the study of a session, and what it was begun with: the configs to try first, and whether knobs come in groups."""

from __future__ import annotations

from trimtab.errors import UsageError
from trimtab.flow import Ask, Settled, Study, Task
from trimtab.flow.start import start_searcher
from trimtab.flow.tuning import tuning
from trimtab.flow.warm import WarmStart
from trimtab.records import PassesPlan, Trial, Verdict
from trimtab.session.spec import SessionSpec

__all__ = ["Course"]


class Course:
    """What a session asks for next, one trial after the other.

    Args:
        spec: of the session.
        task: of its study.

    Attributes:
        news: what it said last, for people.
    """

    def __init__(self, spec: SessionSpec, task: Task) -> None:
        self._spec, self._task = spec, task
        self.news = ""
        self._study: Study[Verdict] = Study(task, tuning(task, self._settled), say=self._hear)

    def _settled(self, scorer: object) -> Settled:
        starts = self._spec.starts(self._task.space, self._task.objective.is_maximised)
        is_grouped = any(entry.kind == "group" for entry in self._spec.layers)
        return Settled(
            warm=WarmStart(starts=starts) if starts else None,
            passes=PassesPlan(kind="tiers", room=self._task.budget.trials) if is_grouped else None,
        )

    def _hear(self, text: str) -> None:
        self.news = text

    @property
    def trials(self) -> list[Trial]:
        """All that was told, in order."""
        return self._study.scorer.trials

    @property
    def n_changed(self) -> int:
        """How often trials that were told before have come to say something else (see `Scorer.n_changed`)."""
        return self._study.scorer.n_changed

    @property
    def verdict(self) -> Verdict | None:
        """What came of it; None while it goes on."""
        return self._study.result if self._study.is_over else None

    def next(self) -> Ask | None:
        """The next trial; None while what was asked for must be told first, and when there is a verdict.

        Raises:
            Whatever the flow raises: nothing more can be asked then.
        """
        asks = self._study.next()
        return asks[0] if asks else None

    def tell(self, trial: Trial) -> Trial:
        """Takes a trial that was asked for, and returns it with its loss."""
        return self._study.tell(trial)

    def conclude(self, reason: str) -> None:
        """Ends the search; what comes after it is still asked for."""
        self._study.conclude(reason)

    def stop(self, reason: str) -> Verdict:
        """Ends it at once; what the flow makes of what there is.

        Raises:
            Stopped: it makes nothing of it.
        """
        return self._study.stop(reason)

    def try_out(self) -> None:
        """Shows what is wrong with the searcher, its options, the groups or the prior before anything is measured.

        Raises:
            UsageError, SpaceError: something is.
        """
        settled, knobs = self._settled(None), self._task.space.knobs
        given = next((name for entry in self._spec.layers if entry.kind == "group" for name in entry.options), None)
        if given is not None:
            raise UsageError(f"unknown option {given!r} of layer 'group'", hint="it has no options")
        if settled.passes is not None and len({name.rpartition(".")[0].partition(".")[0] for name in knobs}) < 2:
            raise UsageError(
                f"layer 'group' has nothing to divide: all n_knobs={len(knobs)} knobs are of one group",
                hint="the group of a knob is what comes before the dot of its name: cache.size and net.threads are of two",
            )
        start_searcher(self._task, None, settled)
