"""Bundles: plays that noise hides one by one are switched on several at a time.

Which are on is drawn from what is known of their effects so far (Thompson, "On the likelihood that one unknown probability
exceeds another", Biometrika 25, 1933; for rewards that add up: Agrawal & Goyal, "Thompson sampling for contextual bandits with
linear payoffs", ICML 2013): what helps is on more and more often, and what harms soon is not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trimtab.flow.ask import Ask, Steps
from trimtab.flow.effects import Effects, Run, effects_of
from trimtab.flow.explore import early_stop
from trimtab.flow.losses import burdens, failed_run, full_runs
from trimtab.flow.play_fit import on_top, restart_runs
from trimtab.flow.score import Scorer
from trimtab.flow.task import Task
from trimtab.measure import Interval, exp_interval
from trimtab.measure.quantile import t_quantile
from trimtab.records import Play, Role, Trial
from trimtab.space import Config

__all__ = ["Bundle", "Bundles"]

_MOST_HELD = 3
"""Runs that go on with plays whose restart is slow."""

_NAMED = 4
"""Plays of a bundle that the progress names."""

_KEEP = 1.0
"""Standard deviations by which an effect must be above zero for its play to be kept."""

_CLEAR, _CLEAR_AGREED, _LEAST = 0.02, 0.1, 0.01
"""Of what the plays bring, or of the last at least, that knowing more of them would bring on average, below which it is enough;
and where the draws agree, so that another run would be a repeat."""

_AGREED = 3
"""Runs in a row with the same plays after which they do."""

_IN_VAIN = 4
"""Runs in a row that could not be measured, after which no more are made."""

_CHOICES = 3
"""Bundles that are measured at the end, until one of them has run well."""

_DRAWS = 8
"""Draws among which one is looked for that has not failed."""


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
        made: bundles that ran, with the numbers of their trials, in order.
        kept: names of the plays that are worth keeping, which have run well together; empty until all runs are made.
    """

    plays: Sequence[Play]
    start: Config
    made: list[tuple[Bundle, int]] = field(default_factory=list)
    kept: frozenset[str] = frozenset()

    @property
    def are_several(self) -> bool:
        """Whether two of the plays can be on together."""
        sets = [play.settings.keys() for play in self.plays]
        return any(one.isdisjoint(other) for one, other in itertools.combinations(sets, 2))

    def run(
        self, task: Task, scorer: Scorer, has_budget: Callable[[], bool], baseline: Callable[[], Steps[None]]
    ) -> Steps[None]:
        """Measures bundles while `has_budget`, the baseline between them as `baseline` does, and then what is kept."""
        while has_budget() and not self._is_enough(task, scorer):
            yield from baseline()
            bundle = self._drawn(task, scorer)
            if bundle is None:
                break
            yield from self._measured(task, scorer, bundle)
        yield from self._settle(task, scorer)

    def effects(self, scorer: Scorer) -> Effects:
        """What the runs so far say of each play. One that was not measured says nothing, unless the config is to blame."""
        start, start_se = self._reference(scorer)
        runs = [
            Run(plays=bundle.plays, gain=_gain(trial, start), se=scorer.run_se(trial))
            for bundle, trial in self._trials(scorer)
            if _says_something(trial)
        ]
        return effects_of(self.plays, runs, start_se, max(1.0, scorer.track.summary().noise_df))

    def runs_of(self, name: str, scorer: Scorer) -> list[Trial]:
        """The runs that a play was in, and that say something of it."""
        return [trial for bundle, trial in self._trials(scorer) if name in bundle.plays and _says_something(trial)]

    def worth(self, name: str, scorer: Scorer) -> Interval | None:
        """How many times better a config is with the play; None where none of its runs was measured."""
        runs = self.runs_of(name, scorer)
        if not any(trial.status.is_measured for trial in runs):
            return None
        effects = self.effects(scorer)
        mean, sd = effects.of(name)
        sd *= math.sqrt(effects.scatter)
        half = t_quantile(0.975, effects.df) * sd
        return exp_interval(Interval(mean, mean - half, mean + half, 0.95, sd, len(runs)))

    def seems_to_help(self, name: str, scorer: Scorer) -> bool:
        """Whether a play brings more than the noise hides, by its runs as they are judged now."""
        mean, sd = self.effects(scorer).of(name)
        return mean > _KEEP * sd

    def _trials(self, scorer: Scorer) -> list[tuple[Bundle, Trial]]:
        """As the scorer has them now: what a trial has shown may have been taken back."""
        trials = {trial.number: trial for trial in scorer.trials}
        return [(bundle, trials[number]) for bundle, number in self.made]

    def _reference(self, scorer: Scorer) -> tuple[float, float]:
        """Loss of `start`, that of missed constraints included, and its standard error."""
        losses = burdens(scorer.trials, self.start)
        return sum(losses) / max(1, len(losses)), scorer.noise_sd / math.sqrt(max(1, len(losses)))

    def _is_enough(self, task: Task, scorer: Scorer) -> bool:
        """Whether more runs would bring little, or cannot be measured."""
        last = [trial for _, trial in self._trials(scorer)[-_IN_VAIN:]]
        if len(last) == _IN_VAIN and not any(_says_something(trial) for trial in last):
            return True
        effects = self.effects(scorer)
        clear = _CLEAR_AGREED if self._agree(task, scorer) else _CLEAR
        return bool(self.made) and effects.doubt < clear * max(effects.total, task.proof.min_gain, _LEAST)

    def _agree(self, task: Task, scorer: Scorer) -> bool:
        """Whether the last draws were the same, and another one need not be."""
        last = [bundle.plays for bundle, _ in self.made[-_AGREED:]]
        return len(last) == _AGREED and len(set(last)) == 1 and not self._held(task, scorer)

    def _drawn(self, task: Task, scorer: Scorer) -> Bundle | None:
        """What is on next; None where no play can be. What has failed is not run again: something else is drawn."""
        effects, rng = self.effects(scorer), np.random.default_rng([task.seed, len(scorer.trials)])
        for _ in range(_DRAWS):
            bundle = self._legal(task, {**effects.drawn(rng), **self._held(task, scorer)})
            if not bundle.plays:
                break
            if failed_run(scorer.trials, bundle.config) is None:
                return bundle
        for name in sorted(effects.names, key=lambda name: -effects.of(name)[0]):
            bundle = self._legal(task, {name: 1.0})
            if bundle.plays and failed_run(scorer.trials, bundle.config) is None:
                return bundle
        return None

    def _held(self, task: Task, scorer: Scorer) -> dict[str, float]:
        """Scores of plays whose slow restart is not due again: as in the run before, which costs less (a split plot).

        What was not measured was restarted, and so was all when the baseline was measured in between.
        """
        numbers = {number for _, number in self.made}
        warm = itertools.takewhile(
            lambda trial: trial.number in numbers and trial.status.is_measured, reversed(scorer.trials)
        )
        n_warm = sum(1 for _ in warm)
        last = self.made[-1][0].plays if n_warm else frozenset[str]()
        return {
            play.name: math.inf if play.name in last else -math.inf
            for play in self.plays
            if n_warm % (1 + min(_MOST_HELD, math.ceil(restart_runs(task, play))))
        }

    def _legal(self, task: Task, scores: Mapping[str, float]) -> Bundle:
        """The plays of positive score that can be on together, the highest first.

        No two of them set the same knob, and none makes another one's settings have no effect.
        """
        config, names, knobs = self.start, list[str](), set[str]()
        for play in sorted(self.plays, key=lambda play: -scores.get(play.name, 0.0)):
            if scores.get(play.name, 0.0) <= 0:
                break
            larger, _ = on_top(task, config, play) if knobs.isdisjoint(play.settings) else (None, "")
            if larger is not None and all(larger[knob] == config[knob] for knob in knobs):
                config = larger
                names.append(play.name)
                knobs |= play.settings.keys()
        return Bundle(plays=frozenset(names), config=config)

    def _measured(self, task: Task, scorer: Scorer, bundle: Bundle) -> Steps[None]:
        names = [play.name for play in self.plays if play.name in bundle.plays]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        scorer.say(f"trying {'the plays' if len(names) > 1 else 'the play'} {', '.join(names[:_NAMED])}{more}")
        trial = yield Ask(config=bundle.config, role=Role.PLAY, early_stop=early_stop(task, scorer), searcher="plays")
        self.made.append((bundle, trial.number))

    def _settle(self, task: Task, scorer: Scorer) -> Steps[None]:
        """Chooses what is kept: what seems to help, once it has run well together."""
        for _ in range(_CHOICES):
            effects = self.effects(scorer)
            sure = {name: mean - _KEEP * sd for name in effects.names for mean, sd in [effects.of(name)]}
            bundle = self._legal(task, sure)
            has_failed = failed_run(scorer.trials, bundle.config) is not None
            if bundle.plays and not has_failed and not self._ran_well(scorer, bundle) and scorer.may_go_on:
                yield from self._measured(task, scorer, bundle)
            if not bundle.plays or self._ran_well(scorer, bundle):
                self.kept = bundle.plays
                return
        effects = self.effects(scorer)
        known = [bundle.plays for bundle, _ in self.made if self._ran_well(scorer, bundle)]
        best = max(known, key=lambda plays: sum(effects.of(name)[0] for name in plays), default=frozenset[str]())
        self.kept = best if sum(effects.of(name)[0] for name in best) > 0 else frozenset()

    def _ran_well(self, scorer: Scorer, bundle: Bundle) -> bool:
        if failed_run(scorer.trials, bundle.config) is not None:
            return False
        # Where the baseline misses a constraint, a step towards it is worth keeping.
        return any(t.is_feasible or scorer.par == math.inf for t in full_runs(scorer.trials, bundle.config))


def _says_something(trial: Trial) -> bool:
    has_loss = trial.status.is_measured and trial.loss is not None and math.isfinite(trial.loss)
    return has_loss or trial.status.is_config_fault


def _gain(trial: Trial, start_loss: float) -> float | None:
    """Log of how many times better than the start; what misses a constraint is worse by as much. None where the config failed, or
    a constraint could not be measured."""
    if trial.status.is_config_fault or trial.loss is None or not math.isfinite(trial.excess):
        return None
    return start_loss - trial.loss - trial.excess
