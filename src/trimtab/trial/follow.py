"""Follow: targets restarted because one that they follow was restarted, on the way there and on the way back.

The snapshots say which target follows which, and the journal has every restart; so whoever takes a change back makes up for
what a death in between has left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from trimtab.errors import ApplyError, TargetError, UnavailableError
from trimtab.systems import RestartableTarget, stale
from trimtab.trial.entry import APPLIED, APPLY, RESTARTED, RESTORED, TRIED, Entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trimtab.systems import Snapshot, Stack, Target, Tier, Undone

__all__ = ["follow", "left_behind", "restart_as_it_is", "settle"]

_SETTLE_S = 10.0
"""How long a tier whose database was restarted may take to notice and to connect again."""
_AWAY_S = 75.0
"""The same for one that answers that it cannot serve now: httpd may ask a server that was away after 60 s only."""
_POLL_S = 0.05


def left_behind(entry: Entry, done: Mapping[str, Undone]) -> tuple[str, ...]:
    """The targets that run since before one that they follow was restarted, in the order in which to restart them.

    A change or a restart that was announced and never reported may have been made.

    Args:
        entry: open.
        done: target -> what was just taken back there, whether the journal has it or not.
    """
    follows = {snapshot.target: snapshot.follows for snapshot in entry.snapshots if snapshot.follows}
    restarts: list[tuple[str, bool]] = []
    under_way: dict[str, None] = {}
    for step, detail in entry.steps():
        name = str(detail.get("target"))
        if step in (APPLY, TRIED):
            under_way[name] = None
        elif step in (APPLIED, RESTORED, RESTARTED):
            is_sure = bool(detail.get("restarted", step == RESTARTED))
            if is_sure or (step == RESTORED and name in under_way):
                restarts.append((name, is_sure))
            under_way.pop(name, None)
    restarts += [(name, False) for name in under_way]
    return stale(follows, [*restarts, *((name, True) for name, each in done.items() if each.restarted)])


def restart_as_it_is(target: Target, snapshot: Snapshot, entry: Entry) -> None:
    """Restarts one that follows another, and notes it.

    Raises:
        TargetError: it does not come back.
    """
    if isinstance(target, RestartableTarget):
        target.restart(snapshot)
    entry.note_if_possible(RESTARTED, {"target": snapshot.target})


def follow(
    stack: Stack,
    entry: Entry,
    restarted: Sequence[str],
    *,
    spent: Callable[[Tier, float], None] = lambda tier, s: None,
    stop_if_asked: Callable[[], None] = lambda: None,
) -> tuple[str, ...]:
    """After a change: restarts the tiers that follow one of `restarted`, and waits until all that need one serve.

    Returns:
        The tiers that it has restarted.

    Raises:
        ApplyError: one does not come back, or does not serve any more.
        Interrupted: what `stop_if_asked` raises, while one is waited for.
    """
    found = {snapshot.target: snapshot for snapshot in entry.snapshots}
    later = stale(stack.follows, [(name, True) for name in restarted])
    for tier in stack.depending(restarted):
        started = time.monotonic()
        try:
            with tier.asked():
                if tier.name in later:
                    restart_as_it_is(tier.target, found[tier.name], entry)
            _await_health(tier, stop_if_asked)
        except TargetError as error:
            raise ApplyError(
                f"{error.message} (after a restart of {', '.join(dict.fromkeys(restarted))}, which it needs)",
                hint=error.hint,
                log_excerpt=tier.target.log_excerpt(),
            ) from error
        finally:
            spent(tier, time.monotonic() - started)
    return later


def settle(stack: Stack, is_stopped: Callable[[], bool]) -> None:
    """After a way back that has restarted something: waits until no tier answers that what it needs was away.

    Whatever else is wrong with one is left to the next look, and so is all when somebody asks to stop.
    """
    for tier in stack.depending([tier.name for tier in stack.tiers]):
        until = time.monotonic() + _AWAY_S
        while not is_stopped() and time.monotonic() <= until:
            try:
                tier.target.health()
                break
            except UnavailableError:
                time.sleep(_POLL_S)
            except TargetError:
                return


def _await_health(tier: Tier, stop_if_asked: Callable[[], None]) -> None:
    started = time.monotonic()
    while True:
        try:
            with tier.asked():  # not round the rest: who asks to stop asks for more than this tier
                tier.target.health()
            return
        except TargetError as error:
            most_s = _AWAY_S if isinstance(error, UnavailableError) else _SETTLE_S
            if time.monotonic() > started + most_s:
                raise
        stop_if_asked()
        time.sleep(_POLL_S)
