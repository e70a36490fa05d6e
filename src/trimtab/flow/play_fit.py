"""How plays fit a study: which say something about its knobs, and what is left of one beside its constraints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trimtab.errors import SpaceError
from trimtab.flow.task import Task
from trimtab.records import WITHIN_LIMITS, Play
from trimtab.space import Config, Value, is_shown

__all__ = ["fitting", "on_top", "plan_of", "restart_runs"]

_UNFELT = "without effect with the other settings"

_PARTS = (0.9, 0.8, 0.7, 0.6, 0.5)
"""Of a play's step, where the whole would break a constraint: less than half of it is another idea."""


def plan_of(
    task: Task, plays: Sequence[Play], counted: Mapping[str, float] | None = None
) -> tuple[tuple[Play, ...], dict[str, str]]:
    """Those that say something about this study's knobs, in the order in which they are to be tried; and why others do not.

    Args:
        task: of the study.
        plays: the most promising first.
        counted: what the target counted under the found settings: a play of which there is no sign is not tried.

    Where the found settings break a constraint, as a Java heap does that is larger than the study's memory budget, nothing can be
    tried on top of them: the nearest legal ones come first then, and the others go on from there.
    """
    plan, left_out = [], dict[str, str]()
    for play in plays:
        felt = {name: value for name, value in play.settings.items() if name not in task.unfelt}
        outside = [name for name in felt if name not in task.space.knobs]
        if outside or not felt:
            why = f"it sets what is not among the study's knobs: {', '.join(outside)}"
            left_out[play.name] = why if felt else "its settings have no effect here"
            continue
        settings = {name: _legal(task, name, value) for name, value in felt.items()}
        if all(settings[name] == task.baseline[name] for name in settings):
            left_out[play.name] = "your settings have it already"
            continue
        if not is_shown(play.sign, counted or {}):
            left_out[play.name] = f"the baseline's runs do not show what it needs: {play.sign}"
            continue
        plan.append(Play(name=play.name, settings=settings, worth=play.worth, chance=play.chance, reason=play.reason))
    if task.restarts:
        plan.sort(key=lambda play: -play.worth * play.chance / (1.0 + restart_runs(task, play)))
    return (*(_within_limits(task) if plan else ()), *plan), left_out


def on_top(task: Task, held: Config, play: Play) -> tuple[Config | None, str]:
    """`held` with the play's settings; None and why when there is nothing to run."""
    try:
        asked = task.space.validate(held.replace(dict(play.settings)))
        config = task.space.canonical(asked)
        broken = task.space.violations(config)
    except SpaceError as error:
        return None, f"its settings are not legal here: {error.message}"
    if broken:
        return None, f"it contradicts a constraint: {broken[0]}"
    unfelt = [name for name in play.settings if config[name] != asked[name]]
    if unfelt:
        return None, f"{', '.join(unfelt)}: {_UNFELT}"
    if config in (held, task.baseline):
        return None, "the plays kept before have it already"
    return config, ""


def fitting(task: Task, held: Config, play: Play, *, in_part: bool = True) -> tuple[Play, Config | None, str]:
    """The play as it can be tried, `held` with its settings, and why it is not the whole; None and why when it cannot be.

    Args:
        task: of the study.
        held: what it is to be tried on top of.
        play: as planned.
        in_part: whether half of its step or more will do.
    """
    config, why = on_top(task, held, play)
    if config is not None or not in_part or why.endswith(_UNFELT):
        return play, config, why
    for part in _parts(task, held, play):
        config, _ = on_top(task, held, part)
        if config is not None:
            return part, config, f"a part of the play; the whole: {why}"
    return play, None, why


def _parts(task: Task, held: Config, play: Play) -> Iterator[Play]:
    """The play with smaller steps, the largest first, down to half of it.

    Only of plays that set numbers: half a label means nothing. A step that meets a special value, such as -1 for "automatic",
    is left out, for it lies on no way between numbers.
    """
    if not all(task.space.knobs[name].is_numeric for name in play.settings):
        return
    try:
        config = task.space.canonical(held.replace(dict(play.settings)))
    except SpaceError:
        return
    start, goal = task.space.encode(held), task.space.encode(config)
    for share in _PARTS:
        nearer = task.space.decode(start + share * (goal - start))
        settings = {name: nearer[name] for name in play.settings}
        ways = (sorted((float(held[name]), float(play.settings[name]))) for name in settings)
        if all(low <= float(value) <= high for (low, high), value in zip(ways, settings.values(), strict=True)):
            yield replace(play, settings=settings)


def restart_runs(task: Task, play: Play) -> float:
    """What its slow restarts cost, in runs."""
    return sum(each.runs for each in task.restarts if not each.knobs.isdisjoint(play.settings))


def _within_limits(task: Task) -> Iterator[Play]:
    broken = task.space.violations(task.baseline)
    if broken:
        legal = task.space.repair(task.baseline)
        settings = {name: legal[name] for name in legal.difference(task.baseline)}
        first = broken[0].partition(" (")[0]
        reason = f"Your settings break a constraint of the study ({first}): the nearest that keep it."
        yield Play(name=WITHIN_LIMITS, settings=settings, reason=reason)


def _legal(task: Task, name: str, value: Value) -> Value:
    """The value of the study's own knob that is nearest: its range and its round values may be others than the target's."""
    knob = task.space.knobs[name]
    if not knob.is_numeric or isinstance(value, str | bool) or knob.contains(value) or value == task.baseline[name]:
        return value
    return knob.clip(value)
