"""The transaction types: the same statements in the same numbers as sysbench's oltp_* scripts of that name.

| script           | statements of one transaction                                                                     |
| ---------------- | ------------------------------------------------------------------------------------------------- |
| point_select     | one read by primary key, without a transaction around it                                          |
| read_only        | ten reads by key, then a range, its sum, the range in order, its distinct values                  |
| read_write       | read_only, then an update of an indexed column, of another column, a delete and an insert         |
| write_only       | the last four of read_write                                                                       |
| update_index     | one update of an indexed column                                                                   |
| update_non_index | one update of another column                                                                      |

On PostgreSQL two transactions that delete and insert the same row at once end in a duplicate key for the later one (under
READ COMMITTED its DELETE finds nothing); it counts as an error. On large tables it is rare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["SCRIPTS", "ScriptType", "parameters_of", "text_of"]

_POINTS = 10
_RANGES = (
    "SELECT c FROM {t} WHERE id BETWEEN :first1 AND :last1;",
    "SELECT SUM(k) FROM {t} WHERE id BETWEEN :first2 AND :last2;",
    "SELECT c FROM {t} WHERE id BETWEEN :first3 AND :last3 ORDER BY c;",
    "SELECT DISTINCT c FROM {t} WHERE id BETWEEN :first4 AND :last4 ORDER BY c;",
)
_POINT = "SELECT c FROM {t} WHERE id = :id;"
_INDEX = "UPDATE {t} SET k = k + 1 WHERE id = :indexed;"
_OTHER = "UPDATE {t} SET c = :c WHERE id = :changed;"
_REPLACE = (
    "DELETE FROM {t} WHERE id = :gone;",
    "INSERT INTO {t} (id, k, c, pad) VALUES (:gone, :k, :c, :pad);",
)
_READS = (*[_POINT] * _POINTS, *_RANGES)
_WRITES = (_INDEX, _OTHER, *_REPLACE)
C_LENGTH, PAD_LENGTH = 119, 59
"""Groups of eleven digits with hyphens between: ten, and five."""


@dataclass(frozen=True, slots=True)
class ScriptType:
    """Statements of one transaction, and the share of them that only read."""

    statements: tuple[str, ...]
    read_share: float
    is_transaction: bool = True


SCRIPTS: Mapping[str, ScriptType] = {
    "read_write": ScriptType((*_READS, *_WRITES), len(_READS) / len((*_READS, *_WRITES))),
    "read_only": ScriptType(_READS, 1.0),
    "point_select": ScriptType((_POINT,), 1.0, is_transaction=False),
    "write_only": ScriptType(_WRITES, 0.0),
    "update_index": ScriptType((_INDEX,), 0.0, is_transaction=False),
    "update_non_index": ScriptType((_OTHER,), 0.0, is_transaction=False),
}


def text_of(script: ScriptType, table: str, range_size: int) -> str:
    """The script over `table`; the ends of ranges are computed by the server from their starts."""
    text = "\n".join(script.statements).replace("{t}", table)
    for number in range(1, len(_RANGES) + 1):
        text = text.replace(f":last{number}", f":first{number} + {range_size - 1}")
    return text


def parameters_of(table_size: int, distribution: str, skew: float) -> dict[str, dict[str, Any]]:
    """Generators of every placeholder, as [workload.parameters] of own SQL has them."""
    row = {"type": "int", "low": 1, "high": table_size, "distribution": distribution}
    if distribution != "uniform":
        row["skew"] = skew
    rows = ("indexed", "changed", "gone", *(f"first{number}" for number in range(1, len(_RANGES) + 1)))
    digits = "0123456789"
    return {
        "id": row | {"each": True},
        **dict.fromkeys(rows, row),
        "k": row,
        "c": {"type": "text", "length": C_LENGTH, "alphabet": digits, "each": True},
        "pad": {"type": "text", "length": PAD_LENGTH, "alphabet": digits},
    }
