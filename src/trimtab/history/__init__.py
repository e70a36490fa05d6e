"""REMEMBER: every study and every trial that was ever measured, durable and read back exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred

if TYPE_CHECKING:
    from trimtab.history.exchange import (
        Arrival,
        Arrivals,
        digest,
        export_studies,
        import_file,
        merge,
        read_file,
        reading_history,
        take_in,
    )
    from trimtab.history.formats import Format, Imported, load_format
    from trimtab.history.formats.sections import section_copy
    from trimtab.history.hosts import host_of, is_same_host
    from trimtab.history.likeness import ALIKE, machine_likeness
    from trimtab.history.place import (
        find_studies,
        find_study,
        fixed_place,
        is_database,
        is_only_written_to,
        open_history_at,
        place_of,
        read_history_at,
    )
    from trimtab.history.query import StudyQuery
    from trimtab.history.record import (
        BENCHED,
        STUDY_STATUSES,
        Event,
        StudyCopy,
        StudyRecord,
        StudySummary,
        TrialSummary,
    )
    from trimtab.history.schema import PASSWORD, secrets_apart
    from trimtab.history.space import knobs_from_json, read_space, space_from_json, space_to_json
    from trimtab.history.store import History, RefusedError, UnusableError
    from trimtab.history.typed import from_json, read_verdict, verdict_to_json
    from trimtab.history.upkeep import Health, back_up, check, compact
else:
    __getattr__ = deferred(
        __name__,
        {
            "exchange": "Arrival Arrivals digest export_studies import_file merge read_file reading_history take_in",
            "formats": "Format Imported load_format",
            "formats.sections": "section_copy",
            "hosts": "host_of is_same_host",
            "likeness": "ALIKE machine_likeness",
            "place": "find_studies find_study fixed_place is_database is_only_written_to "
            "open_history_at place_of read_history_at",
            "query": "StudyQuery",
            "record": "BENCHED STUDY_STATUSES Event StudyCopy StudyRecord StudySummary TrialSummary",
            "schema": "PASSWORD secrets_apart",
            "space": "knobs_from_json read_space space_from_json space_to_json",
            "store": "History RefusedError UnusableError",
            "typed": "from_json read_verdict verdict_to_json",
            "upkeep": "Health back_up check compact",
        },
    )

__all__ = [
    "ALIKE",
    "BENCHED",
    "PASSWORD",
    "STUDY_STATUSES",
    "Arrival",
    "Arrivals",
    "Event",
    "Format",
    "Health",
    "History",
    "Imported",
    "RefusedError",
    "StudyCopy",
    "StudyQuery",
    "StudyRecord",
    "StudySummary",
    "TrialSummary",
    "UnusableError",
    "back_up",
    "check",
    "compact",
    "digest",
    "export_studies",
    "find_studies",
    "find_study",
    "fixed_place",
    "from_json",
    "host_of",
    "import_file",
    "is_database",
    "is_only_written_to",
    "is_same_host",
    "knobs_from_json",
    "load_format",
    "machine_likeness",
    "merge",
    "open_history_at",
    "place_of",
    "read_file",
    "read_history_at",
    "read_space",
    "read_verdict",
    "reading_history",
    "secrets_apart",
    "section_copy",
    "space_from_json",
    "space_to_json",
    "take_in",
    "verdict_to_json",
]
