"""REMEMBER: every study and every trial that was ever measured, durable and read back exactly."""

from trimtab.history.exchange import Arrival, Arrivals, digest, export_studies, import_file, merge
from trimtab.history.formats import Format, Imported, load_format
from trimtab.history.likeness import ALIKE, machine_likeness
from trimtab.history.place import find_study, open_history_at, place_of, read_history_at
from trimtab.history.query import StudyQuery
from trimtab.history.record import STUDY_STATUSES, Event, StudyCopy, StudyRecord, StudySummary, TrialSummary
from trimtab.history.space import knobs_from_json, read_space, space_from_json, space_to_json
from trimtab.history.store import History
from trimtab.history.upkeep import Health, back_up, check, compact

__all__ = [
    "ALIKE",
    "STUDY_STATUSES",
    "Arrival",
    "Arrivals",
    "Event",
    "Format",
    "Health",
    "History",
    "Imported",
    "StudyCopy",
    "StudyQuery",
    "StudyRecord",
    "StudySummary",
    "TrialSummary",
    "back_up",
    "check",
    "compact",
    "digest",
    "export_studies",
    "find_study",
    "import_file",
    "knobs_from_json",
    "load_format",
    "machine_likeness",
    "merge",
    "open_history_at",
    "place_of",
    "read_history_at",
    "read_space",
    "space_from_json",
    "space_to_json",
]
