"""DO ONE: check → journal → apply → warm up → measure → restore."""

from trimtab.trial.commit import commit, take_back
from trimtab.trial.deadman import DeadMan
from trimtab.trial.guard import Breach, GuardLimits, Guardrails, Yardstick
from trimtab.trial.guarding import Guarding
from trimtab.trial.journal import Entry, Journal, snapshot_from_json, snapshot_to_json
from trimtab.trial.listener import TrialListener
from trimtab.trial.load import End, LoadResult, MeasurePlan, measure_load
from trimtab.trial.room import TrialRoom
from trimtab.trial.signals import signals_wait
from trimtab.trial.stop import Interrupted, KillSwitch
from trimtab.trial.undo import reattach, take_news, undo

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
    "reattach",
    "signals_wait",
    "snapshot_from_json",
    "snapshot_to_json",
    "take_back",
    "take_news",
    "undo",
]
