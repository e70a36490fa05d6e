"""WarmStart: what a study takes over from past ones, as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trimtab.records import PastTrials, WarmStartSummary, WarmStudy
from trimtab.search import PastStudy
from trimtab.search.warm import WarmLog
from trimtab.space import Config, Value
from trimtab.units import counted

__all__ = ["WarmStart", "kept_past"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStart:
    """What a study takes over from past ones.

    Attributes:
        facts: id, name, digest, nearness and its parts of each study; for people and for the verdict.
        past: their trials in this study's space.
        starts: the best configs of the past, the nearest study's first.
    """

    facts: tuple[WarmStudy, ...] = ()
    past: tuple[PastStudy, ...] = ()
    starts: tuple[Config, ...] = ()

    @classmethod
    def of(cls, kept: WarmStartSummary) -> WarmStart:
        """What `summary` gave, before the past was left out."""
        return cls(facts=kept.studies, past=tuple(map(_past_of, kept.past or ())), starts=kept.starts or ())

    def summary(self, log: WarmLog | None = None) -> WarmStartSummary:
        """For the verdict: everything that the search is a function of (the history may change), and what `log` says of
        each prior: whether it was used to the end or dropped, and why.
        """
        said = log or WarmLog()
        return WarmStartSummary(
            studies=tuple(
                replace(each, dropped=said.dropped.get(each.name, ""), weight=said.weights.get(each.name, 0.0))
                for each in self.facts
            ),
            n_asks=said.n_asks,
            past=tuple(kept_past(each) for each in self.past),
            starts=self.starts,
        )

    def describe(self) -> str:
        """In a line; "" for nothing."""
        shown = [
            f"{each.name!r} (nearness {each.nearness:.2f}, {counted(each.n_trials, 'trial')})" for each in self.facts
        ]
        return f"warm start from study {', '.join(shown)}" if shown else ""


def kept_past(study: PastStudy) -> PastTrials:
    """By columns: the names of the knobs once."""
    names = tuple(study.configs[0]) if study.configs else ()
    return PastTrials(
        name=study.name,
        nearness=study.nearness,
        knobs=names,
        configs=tuple(tuple(config[name] for name in names) for config in study.configs),
        losses=tuple(study.losses),
        failed=tuple(tuple(config[name] for name in names) for config in study.failed),
    )


def _past_of(kept: PastTrials) -> PastStudy:
    def configs(rows: Sequence[Sequence[Value]]) -> tuple[Config, ...]:
        return tuple(Config(dict(zip(kept.knobs, row, strict=True))) for row in rows)

    return PastStudy(
        name=kept.name,
        nearness=kept.nearness,
        configs=configs(kept.configs),
        losses=kept.losses,
        failed=configs(kept.failed),
    )
