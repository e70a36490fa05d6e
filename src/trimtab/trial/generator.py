"""Generator: the load generator's threads through a study. It has as many as the server needs: no config is lost because it made
the server faster than the generator was."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trimtab.measure import Measurement, cpu_limit
from trimtab.records import Trial
from trimtab.trial.load import LoadResult
from trimtab.units import counted, format_percent
from trimtab.workload import ThreadedWorkload, Workload

__all__ = ["Generator"]

_HALF = 0.5
"""At the baseline each thread may be busy for so much of the time: a config that makes the server faster needs room, too."""


class Generator:
    """Gives a workload more threads where its generator had too few; what is found holds for the rest of the study.

    Args:
        say: told when there are more.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._least = 0
        self._tried = 0
        """Threads of the last run after which there were to be more."""
        self._is_settled = False

    def recall(self, trials: Iterable[Trial]) -> None:
        """Takes over what an earlier session of the same study has found."""
        measured = [trial.measurement for trial in trials if trial.measurement is not None]
        self._least = max((m.n_threads for m in measured), default=0)
        self._is_settled = bool(measured)

    def sized(self, workload: Workload) -> Workload:
        """The workload with as many threads as are known to be needed."""
        if not self._least or not isinstance(workload, ThreadedWorkload):
            return workload
        return workload.with_threads(self._least)

    def larger(self, workload: Workload, result: LoadResult, is_baseline: bool) -> Workload:
        """The workload with more threads, when this run of it must be made again with them; else the workload itself.

        A generator grows when its CPU was the bottleneck, and at the study's first baseline until each of its threads is busy
        for less than half of the time. It does not when the user has said how many threads it has, or its machine has no more
        cores.
        """
        m = result.measurement
        if m is None or result.breach is not None or not isinstance(workload, ThreadedWorkload):
            return workload
        grown = self._grown(workload, m) if self._is_too_small(m, is_baseline) else workload
        if grown is workload:
            self._is_settled = self._is_settled or is_baseline
            return workload
        busy = format_percent(m.client_cpu_share / m.n_threads)
        self._say(
            f"the load generator was busy {busy} of the time with {counted(m.n_threads, 'thread')}: it gets more for the rest of "
            "the study, and the run is repeated"
        )
        return grown

    def _is_too_small(self, m: Measurement, is_baseline: bool) -> bool:
        if cpu_limit(m.client_cpu_share, m.n_threads):
            return True
        return is_baseline and not self._is_settled and m.client_cpu_share > _HALF * m.n_threads

    def _grown(self, workload: ThreadedWorkload, m: Measurement) -> Workload:
        """`workload` itself when it cannot grow."""
        if m.n_threads <= self._tried:
            return workload
        grown = workload.with_threads(2 * m.n_threads)
        if grown is not workload:
            self._tried, self._least = m.n_threads, 2 * m.n_threads
        return grown
