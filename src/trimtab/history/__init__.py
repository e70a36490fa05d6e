"""REMEMBER: every study and every trial that was ever measured, durable and read back exactly."""

from trimtab.history.codec import knobs_from_json, space_to_json
from trimtab.history.record import STUDY_STATUSES, Event, StudyRecord
from trimtab.history.store import History

__all__ = ["STUDY_STATUSES", "Event", "History", "StudyRecord", "knobs_from_json", "space_to_json"]
