"""DO ONE: check → journal → apply → warm up → measure → restore."""

from trimtab.trial.journal import Entry, Journal, snapshot_from_json, snapshot_to_json
from trimtab.trial.load import End, LoadResult, MeasurePlan, measure_load
from trimtab.trial.room import Interrupted, TrialListener, TrialRoom

__all__ = [
    "End",
    "Entry",
    "Interrupted",
    "Journal",
    "LoadResult",
    "MeasurePlan",
    "TrialListener",
    "TrialRoom",
    "measure_load",
    "snapshot_from_json",
    "snapshot_to_json",
]
