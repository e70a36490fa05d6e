"""DO ONE: check → journal → apply → warm up → measure → restore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred
from trimtab.trial.commit import commit, take_back
from trimtab.trial.deadman import DeadMan
from trimtab.trial.entry import (
    Entry,
    own_from_json,
    own_to_json,
    snapshot_from_json,
    snapshot_to_json,
)
from trimtab.trial.journal import Journal
from trimtab.trial.signals import signals_wait
from trimtab.trial.undo import reattach, take_news, undo

if TYPE_CHECKING:
    from trimtab.trial.guard import Breach, GuardLimits, Guardrails, Yardstick
    from trimtab.trial.guarding import Guarding
    from trimtab.trial.listener import TrialListener
    from trimtab.trial.load import End, LoadResult, MeasurePlan, measure_load
    from trimtab.trial.room import TrialRoom
    from trimtab.trial.stop import Interrupted, KillSwitch
else:
    __getattr__ = deferred(
        __name__,
        {
            "guard": "Breach GuardLimits Guardrails Yardstick",
            "guarding": "Guarding",
            "listener": "TrialListener",
            "load": "End LoadResult MeasurePlan measure_load",
            "room": "TrialRoom",
            "stop": "Interrupted KillSwitch",
        },
    )

__all__ = [
    "Breach",
    "DeadMan",
    "End",
    "Entry",
    "GuardLimits",
    "Guarding",
    "Guardrails",
    "Interrupted",
    "Journal",
    "KillSwitch",
    "LoadResult",
    "MeasurePlan",
    "TrialListener",
    "TrialRoom",
    "Yardstick",
    "commit",
    "measure_load",
    "own_from_json",
    "own_to_json",
    "reattach",
    "signals_wait",
    "snapshot_from_json",
    "snapshot_to_json",
    "take_back",
    "take_news",
    "undo",
]
