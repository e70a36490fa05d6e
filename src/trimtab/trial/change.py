"""Change: configs set on the tiers of a stack, and the one way back; the only place that changes a target.

A change goes through the tiers in the order of `Stack.plan`, each announced in the journal just before it; the way back goes
through them by the same rule (`ways_back`). The caller puts one `DeadMan.guard` round the whole of either: made again, it
does no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from trimtab.errors import RestoreError, TargetError, TrimtabError
from trimtab.systems import Undone
from trimtab.trial.entry import APPLIED, APPLY, RESTORED, Entry, own_to_json
from trimtab.trial.follow import follow
from trimtab.trial.undo import as_target_error, followed, restarts_of, ways_back, ways_on

if TYPE_CHECKING:
    from trimtab.space import Config, Space, Value
    from trimtab.systems import MemoryModel, Own, Snapshot, Stack, Step, Target, Tier

__all__ = ["Changed", "Goal", "change", "memory_detail", "put_back", "step_detail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a change is to reach.

    Attributes:
        config: set over the values as found, by the stack's names.
        now: what is set over them before it.
        models: memory of each tier (see `Stack.models`), for the order of the steps.
        stays: whether it must outlive the next restart.
    """

    config: Config
    now: Mapping[str, Value]
    models: Mapping[str, MemoryModel]
    stays: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a change did: values in effect by the stack's names, what is ours by tier in the order of the steps, and the tiers
    that were restarted."""

    effective: Mapping[str, Value]
    owns: Mapping[str, Own]
    restarted: tuple[str, ...]


def change(
    stack: Stack,
    goal: Goal,
    entry: Entry,
    *,
    detail: Callable[[Step], Mapping[str, Any]],
    announced: Callable[[Step], None] = lambda step: None,
    spent: Callable[[Step, float], None] = lambda step, seconds: None,
    stop_if_asked: Callable[[], None] = lambda: None,
) -> Changed:
    """Changes every tier, and restarts those that follow one that was restarted; whoever calls puts all back when one fails.

    Args:
        stack: open, locked and journalled in `entry`.
        goal: what to reach.
        entry: open; every step is written there before it is made.
        detail: what the journal keeps of a step.
        announced: told that a step is about to be made.
        spent: told how many seconds a step took, whether it worked or not.
        stop_if_asked: called before each step, and while a tier is waited for; raises where somebody asks to stop.

    Raises:
        ApplyError, TargetError: a tier could not be changed; it is as it was found, others are not.
        RestoreError: it could not even be put back.
        Interrupted: what `stop_if_asked` raises.
    """
    effective: dict[str, Value] = {}
    owns: dict[str, Own] = {}
    restarted: list[str] = []
    for step in stack.plan(goal.config, now=goal.now, models=goal.models):
        tier, target = step.tier, step.tier.target
        if goal.stays and not step.config and not stack.is_one:
            continue  # a tier that the config does not speak of is left alone
        stop_if_asked()
        entry.note(APPLY, {"target": tier.name, **detail(step), "own": own_to_json(target.announce(step.config))})
        announced(step)
        started = time.monotonic()
        try:
            with tier.asked():
                applied = target.apply(step.config, stays=goal.stays)
        finally:
            spent(step, time.monotonic() - started)
        note = {"target": tier.name, "own": own_to_json(applied.own), "restarted": applied.restarted}
        entry.note(APPLIED, note)
        effective |= {tier.full(name): value for name, value in applied.effective.items()}
        owns[tier.name] = applied.own
        restarted += [tier.name] if applied.restarted else []
    # Not at the top: `recover` does without arrays.
    from trimtab.space import Config
    from trimtab.systems import Step

    def spent_on(tier: Tier, seconds: float) -> None:
        spent(Step(tier=tier, config=Config({})), seconds)

    after = follow(stack, entry, restarted, spent=spent_on, stop_if_asked=stop_if_asked)
    return Changed(effective=effective, owns=owns, restarted=(*restarted, *after))


def step_detail(step: Step, baseline: Config, space: Space) -> dict[str, Any]:
    """What the journal keeps of a trial's step: what changes, from what, how; and what orders the way back."""
    names = {name: step.tier.full(name) for name in step.config}
    return {
        "changes": dict(step.config),
        "old": {name: baseline[full] for name, full in names.items()},
        "method": sorted({str(space.knobs[full].restart) for full in names.values()}),
        **memory_detail(step),
    }


def memory_detail(step: Step) -> dict[str, Any]:
    """What the way back is ordered by, for the journal; nothing of a stack of one."""
    return {"memory": {"found": step.found_bytes, "now": step.after_bytes}} if step.tier.prefix else {}


def put_back(
    stack: Stack,
    entry: Entry,
    *,
    only: Collection[str] | None = None,
    own_of: Callable[[str], Own | None] = lambda tier: None,
) -> Undone:
    """Takes back what is ours on every tier; goes on where one tier cannot be restored. Idempotent.

    Args:
        stack: open.
        entry: that holds the tiers as found.
        only: names of the tiers; None: all.
        own_of: what is ours on a tier; None: what its target has applied.

    Raises:
        RestoreError: something of ours still stands on a tier; all others were dealt with.
    """
    done: dict[str, Undone] = {}
    failed: list[TargetError] = []
    bugs: list[Exception] = []
    for snapshot in ways_back(entry):
        tier = stack.tier(snapshot.target)
        if only is not None and tier.name not in only:
            continue
        try:
            with tier.asked():
                one = tier.target.restore(snapshot, own_of(tier.name), restarts=restarts_of(entry, tier.name))
        except (TrimtabError, OSError) as error:
            failed.append(as_target_error(error, f"target={tier.name!r} could not be put back"))
            continue
        except Exception as error:  # noqa: BLE001 - of a plug-in, say: the other tiers must not stay changed for it
            bugs.append(error)
            continue
        entry.note_if_possible(RESTORED, {"target": tier.name, "restarted": one.restarted})
        done[tier.name] = Undone(
            put_back=tuple(tier.full(text) for text in one.put_back),
            left=tuple(tier.full(text) for text in one.left),
            restarted=one.restarted,
        )
    failed += followed(entry, done, partial(_asked, stack))
    if bugs:
        raise bugs[0]
    if len(failed) == 1 and isinstance(failed[0], RestoreError):
        raise failed[0]
    if failed:
        raise RestoreError("; ".join(error.message for error in failed), hint=ways_on(entry, failed[0])) from failed[0]
    return Undone(
        put_back=tuple(text for one in done.values() for text in one.put_back),
        left=tuple(text for one in done.values() for text in one.left),
        restarted=any(one.restarted for one in done.values()),
    )


@contextmanager
def _asked(stack: Stack, snapshot: Snapshot) -> Iterator[Target]:
    tier = stack.tier(snapshot.target)
    with tier.asked():
        yield tier.target
