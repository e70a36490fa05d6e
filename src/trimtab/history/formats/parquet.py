"""Parquet: a row for each trial with its figures and a column for each knob, for analysis; exact in column `trial`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from trimtab.history.formats.base import MAX_FILE_BYTES, Imported, file_of, refuse
from trimtab.history.formats.jsonl import (
    event_from_json,
    event_to_json,
    study_from_json,
    study_to_json,
    trial_from_json,
    trial_to_json,
)
from trimtab.history.formats.scalar import text_of
from trimtab.history.record import Event, StudyCopy, StudyRecord
from trimtab.plugins import MissingExtraError
from trimtab.records import Trial
from trimtab.space import Value

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ParquetFormat"]

FORMAT_VERSION = 1
_VERSION_KEY, _STUDIES_KEY = b"trimtab.version", b"trimtab.studies"
_LARGEST_INT = 2**63
_LONGEST_TEXT = 2**31 - 1
"""Of the metadata, which holds all studies: usually the library takes 100 MB, a few thousand of them."""
_FLOATS = ("started_at", "loss", "excess", "throughput", "latency_mean_ms", "latency_p50_ms", "latency_p95_ms",
           "latency_p99_ms", "figure")  # fmt: skip
_TEXTS = ("study_name", "role", "status", "searcher", "reason", "trial")


def _require_library() -> None:
    if find_spec("pyarrow") is None:
        raise MissingExtraError("formats", "parquet", "pyarrow")


class ParquetFormat:
    """Everything, exactly. Studies and events are JSON in the metadata; `config.NAME` has the type of the values it holds."""

    suffixes: Sequence[str] = (".parquet", ".pq")
    is_exact = True
    is_database = False

    def write(self, studies: Iterable[StudyCopy], place: str) -> Sequence[str]:
        """Columns of knobs need all configs at once, so the file is written in one piece."""
        _require_library()
        import pyarrow.parquet as pq

        heads: list[dict[str, Any]] = []
        rows: list[dict[str, Any]] = []
        configs: list[Mapping[str, Value]] = []
        for index, study in enumerate(studies):
            heads.append({"study": study_to_json(study.record), "events": [event_to_json(e) for e in study.events]})
            rows.extend(_row(index, study.record, trial) for trial in study.trials)
            configs.extend(trial.config for trial in study.trials)
        table = _table(rows, configs)
        metadata = {_VERSION_KEY: str(FORMAT_VERSION).encode(), _STUDIES_KEY: json.dumps(heads).encode()}
        pq.write_table(table.replace_schema_metadata(metadata), place, compression="zstd")
        return ()

    def read(self, place: str) -> Imported:
        """Only the columns `study` and `trial` are read; a table that lacks them is refused."""
        _require_library()
        path = file_of(place)
        return Imported(_read(str(path)))


def _row(index: int, record: StudyRecord, trial: Trial) -> dict[str, Any]:
    measured = trial.measurement
    latency = {} if measured is None else measured.latency_ms
    return {
        "study": index,
        "study_name": _utf8(record.name),
        "number": trial.number,
        "role": trial.role.value,
        "status": trial.status.value,
        "searcher": _utf8(trial.searcher),
        "reason": _utf8(trial.reason),
        "started_at": trial.started_at,
        "loss": trial.loss,
        "excess": trial.excess,
        "throughput": None if measured is None else measured.throughput.estimate,
        "latency_mean_ms": None if measured is None else measured.latency_mean_ms.estimate,
        **{f"latency_{name}_ms": latency[name].estimate for name in ("p50", "p95", "p99") if name in latency},
        "figure": None if measured is None or measured.figure is None else measured.figure.estimate,
        "trial": json.dumps(trial_to_json(trial)),
    }


def _utf8(text: str) -> str:
    return text.encode(errors="replace").decode()


def _table(rows: Sequence[Mapping[str, Any]], configs: Sequence[Mapping[str, Value]]) -> pa.Table:
    import pyarrow as pa

    kinds = {"study": pa.int32(), "number": pa.int64(), **dict.fromkeys(_FLOATS, pa.float64())}
    kinds.update(dict.fromkeys(_TEXTS, pa.large_string()))
    columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()}
    names = dict.fromkeys(name for config in configs for name in config)
    for name in names:
        columns[f"config.{_utf8(name)}"] = _knob_column([config.get(name) for config in configs])
    return pa.table(columns)


def _knob_column(values: Sequence[Value | None]) -> pa.Array:
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    is_small = all(abs(value) < _LARGEST_INT for value in values if type(value) is int)
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and is_small:
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if value is None else _float(value) for value in values], pa.float64())
    return pa.array([None if v is None else v if isinstance(v, str) and v.isprintable() and v.isascii() else text_of(v)
                     for v in values], pa.large_string())  # fmt: skip


def _float(value: Value) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _read(place: str) -> Iterator[StudyCopy]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(place, thrift_string_size_limit=_LONGEST_TEXT) as file:
            heads = _heads(file, place)
            trials: list[list[Trial]] = [[] for _ in heads]
            for batch in file.iter_batches(batch_size=256, columns=["study", "trial"]):
                for index, text in zip(batch["study"].to_pylist(), batch["trial"].to_pylist(), strict=True):
                    if not 0 <= index < len(heads):
                        raise ValueError(f"a trial is of study={index}, the file has {len(heads)}")
                    trials[index].append(trial_from_json(json.loads(text)))
        for (record, events), own in zip(heads, trials, strict=True):
            yield StudyCopy(record, own, events)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        # Of a damaged file it has no number; with one, the file cannot be reached.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise refuse(place, f"{type(error).__name__}: {str(error).strip()[:200]}") from error


def _heads(file: Any, place: str) -> list[tuple[StudyRecord, list[Event]]]:
    metadata = file.schema_arrow.metadata or {}
    if metadata.get(_VERSION_KEY) != str(FORMAT_VERSION).encode() or not {"study", "trial"} <= set(
        file.schema_arrow.names
    ):
        raise refuse(place, "it was not written by Trimtab", "write other tables as CSV, with one column a knob")
    groups = (file.metadata.row_group(index) for index in range(file.metadata.num_row_groups))
    size = sum(group.total_byte_size for group in groups)
    if size > MAX_FILE_BYTES:
        raise refuse(place, f"it holds {size} bytes, more than {MAX_FILE_BYTES}", "export fewer studies at once")
    found = json.loads(metadata[_STUDIES_KEY])
    return [(study_from_json(head["study"]), [event_from_json(event) for event in head["events"]]) for head in found]
