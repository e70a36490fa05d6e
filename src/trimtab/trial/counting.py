"""What makes a trial complete beside its measurement: the target's own counters, the seed, and the versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import metadata
from typing import Any

from trimtab import __version__
from trimtab.errors import TrimtabError
from trimtab.records import Trial
from trimtab.systems import CountingTarget, Stack
from trimtab.trial.load import LoadResult
from trimtab.workload import Workload

__all__ = ["complete", "counted", "versions_of"]


def counted(stack: Stack, run: Callable[..., LoadResult], *arguments: Any, **options: Any) -> LoadResult:
    """The result of `run`, with what the tiers counted before and after it, where any counts anything."""
    before = _counters(stack)
    result = run(*arguments, **options)
    return replace(result, counters_before=before, counters_after=_counters(stack))


def _counters(stack: Stack) -> dict[str, float]:
    found: dict[str, float] = {}
    for tier in stack.tiers:
        # A target that is down shows in the trial's status: a missing count says nothing beside it.
        with suppress(TrimtabError):
            if isinstance(tier.target, CountingTarget):
                found |= {tier.full(name): value for name, value in tier.target.counters().items()}
    return found


def complete(trial: Trial, result: LoadResult | None) -> Trial:
    """The trial with what its load run showed beside the measurement."""
    if result is None:
        return trial
    return replace(
        trial, peaks=result.peaks, counters_before=result.counters_before, counters_after=result.counters_after
    )


def versions_of(workload: Workload) -> Mapping[str, str]:
    """Versions of Trimtab and of the package that the workload comes from."""
    return {"trimtab": __version__, "workload": _version_of(type(workload).__module__.partition(".")[0])}


@cache
def _version_of(package: str) -> str:
    if package == "trimtab":
        return __version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
