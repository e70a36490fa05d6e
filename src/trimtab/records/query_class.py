"""QueryClass: what a server that tunes its own queries has learnt of one class of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

__all__ = ["CLASSES_KEPT", "QueryClass", "classes_from_json", "classes_to_json"]

CLASSES_KEPT = "query classes"
"""Kind of the event in which a study keeps what the server had learnt at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryClass:
    """One class of queries: those of one query id, role and size of data. No text of a statement.

    Attributes:
        query_id: as the server counts it, in decimal.
        database, role: their names; "" for those that are gone.
        phase: watching, searching, proving, settled or pinned.
        left_alone: why it is only observed; "" when it may be touched.
        calls, probes: executions, and those of them that tried something.
        own_ms: time of an execution with the session's own settings.
        gain: own time over the time with `settings`; 1 while nothing is proven. gain_low, gain_high: its 95 % interval.
        total_ms, lost_ms, gained_ms: the account: all executions; what probing cost; what faster settings brought.
        settings: name -> value of what differs from the session's own.
    """

    query_id: str
    database: str
    role: str
    phase: str
    left_alone: str
    calls: int
    probes: int
    own_ms: float
    gain: float
    gain_low: float
    gain_high: float
    total_ms: float
    lost_ms: float
    gained_ms: float
    settings: Mapping[str, str]

    @property
    def is_faster(self) -> bool:
        """Whether its settings are proven faster: those that are pinned were not measured against others."""
        return self.gain_low > 1


def classes_to_json(classes: Iterable[QueryClass]) -> str:
    """As the text of an event of kind `CLASSES_KEPT`."""
    return json.dumps([asdict(each) for each in classes])


def classes_from_json(text: str) -> list[QueryClass]:
    """What `classes_to_json` was given.

    Raises:
        ValueError: it is no such text.
    """
    try:
        return [QueryClass(**each) for each in json.loads(text)]
    except TypeError as error:
        raise ValueError(f"no classes of queries: {error}") from error
