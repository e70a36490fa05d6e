"""Bundles: plays that noise hides one by one are switched on several at a time.

Which are on is drawn from what is known of their effects so far (Thompson, "On the likelihood that one unknown probability
exceeds another", Biometrika 25, 1933; for rewards that add up: Agrawal & Goyal, "Thompson sampling for contextual bandits with
linear payoffs", ICML 2013): what helps is on more and more often, and what harms soon is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trimtab.flow.ask import Ask, Steps
from trimtab.flow.effects import Effects, Run, effects_of
from trimtab.flow.explore import early_stop
from trimtab.flow.play_fit import on_top, restart_runs
from trimtab.flow.score import BASELINE_ROLES, Scorer
from trimtab.flow.task import Task
from trimtab.records import Play, Role, Trial
from trimtab.space import Config

__all__ = ["Bundle", "Bundles"]

_MOST_HELD = 3
"""Runs that go on with plays whose restart is slow."""

_NAMED = 4
"""Plays of a bundle that the progress names."""

_KEEP = 1.0
"""Standard deviations by which an effect must be above zero for its play to be kept."""

_CLEAR = 0.1
"""Of what the plays bring, that knowing more of them would bring on average, below which no more bundles are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Plays that are on together.

    Attributes:
        plays: their names.
        config: with all their settings.
    """

    plays: frozenset[str]
    config: Config


@dataclass(slots=True, kw_only=True)
class Bundles:
    """Several plays in each run.

    Attributes:
        plays: those that may be on, each as far as the constraints allow beside `start`.
        start: the config that they are put on top of.
        made: bundles that ran, with their trials, in order.
        kept: names of the plays that are worth keeping; empty until all runs are made.
    """

    plays: Sequence[Play]
    start: Config
    made: list[tuple[Bundle, Trial]] = field(default_factory=list)
    kept: frozenset[str] = frozenset()

    def run(
        self, task: Task, scorer: Scorer, has_budget: Callable[[], bool], baseline: Callable[[], Steps[None]]
    ) -> Steps[None]:
        """Measures bundles while `has_budget`, the baseline between them as `baseline` does, and then what is kept."""
        while has_budget() and not self._is_clear(task, scorer):
            bundle = self._drawn(task, scorer)
            if bundle is None:
                return
            yield from baseline()
            yield from self._measured(task, scorer, bundle)
        effects = self.effects(scorer)
        scores = {name: mean - _KEEP * sd for name in effects.names for mean, sd in [effects.of(name)]}
        bundle = self._legal(task, scores)
        if bundle.plays and scorer.may_go_on and all(each.config != bundle.config for each, _ in self.made):
            yield from self._measured(task, scorer, bundle)
        self.kept = bundle.plays

    def effects(self, scorer: Scorer) -> Effects:
        """What the runs so far say of each play."""
        runs = [
            Run(plays=bundle.plays, gain=_gain(trial), se=_se(scorer, trial))
            for bundle, trial in self.made
            if trial.status.is_measured or trial.status.is_config_fault
        ]
        n_baselines = sum(trial.role in BASELINE_ROLES for trial in scorer.trials)
        baseline_se = scorer.noise_sd / math.sqrt(max(1, n_baselines))
        return effects_of(self.plays, runs, baseline_se, max(1.0, scorer.track.summary().noise_df))

    def _is_clear(self, task: Task, scorer: Scorer) -> bool:
        """Whether more runs of bundles would bring little."""
        effects = self.effects(scorer)
        return bool(self.made) and effects.doubt < _CLEAR * max(effects.total, task.proof.min_gain)

    def _drawn(self, task: Task, scorer: Scorer) -> Bundle | None:
        """What is on next; None where no play can be."""
        effects = self.effects(scorer)
        drawn = effects.drawn(np.random.default_rng([task.seed, len(scorer.trials)]))
        bundle = self._legal(task, {**drawn, **self._held(task)})
        if bundle.plays:
            return bundle
        for name in sorted(effects.names, key=lambda name: -effects.of(name)[0]):
            bundle = self._legal(task, {name: 1.0})
            if bundle.plays:
                return bundle
        return None

    def _held(self, task: Task) -> dict[str, float]:
        """Scores of plays whose slow restart is not due again: as in the run before, which costs less (a split plot)."""
        if not self.made:
            return {}
        last = self.made[-1][0].plays
        return {
            play.name: math.inf if play.name in last else -math.inf
            for play in self.plays
            if len(self.made) % (1 + min(_MOST_HELD, math.ceil(restart_runs(task, play))))
        }

    def _legal(self, task: Task, scores: Mapping[str, float]) -> Bundle:
        """The plays of positive score that can be on together, the highest first; no two of them set the same knob."""
        config, names, knobs = self.start, list[str](), set[str]()
        for play in sorted(self.plays, key=lambda play: -scores.get(play.name, 0.0)):
            if scores.get(play.name, 0.0) <= 0:
                break
            larger, _ = on_top(task, config, play) if knobs.isdisjoint(play.settings) else (None, "")
            if larger is not None:
                config = larger
                names.append(play.name)
                knobs |= play.settings.keys()
        return Bundle(plays=frozenset(names), config=config)

    def _measured(self, task: Task, scorer: Scorer, bundle: Bundle) -> Steps[None]:
        names = [play.name for play in self.plays if play.name in bundle.plays]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        scorer.say(f"trying {'the plays' if len(names) > 1 else 'the play'} {', '.join(names[:_NAMED])}{more}")
        trial = yield Ask(config=bundle.config, role=Role.PLAY, early_stop=early_stop(task, scorer), searcher="plays")
        self.made.append((bundle, trial))


def _gain(trial: Trial) -> float | None:
    return -trial.loss if trial.is_feasible and trial.loss is not None else None


def _se(scorer: Scorer, trial: Trial) -> float:
    own = trial.loss_se if trial.loss_se is not None and math.isfinite(trial.loss_se) else 0.0
    return max(scorer.noise_sd, own)
