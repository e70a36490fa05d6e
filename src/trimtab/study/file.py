"""The study file: one TOML file, read strictly, with errors that name the key and what was meant."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from trimtab.errors import UsageError
from trimtab.records import Objective
from trimtab.trial import MeasurePlan
from trimtab.units import parse_duration

__all__ = [
    "Budget",
    "MeasureTable",
    "ProofTable",
    "SearchTable",
    "StudyFile",
    "StudyTable",
    "load_study_file",
    "plan_of",
]

_MAX_BYTES = 1 << 20
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
_TRIALS = re.compile(r"^\s*(\d+)\s*trials?\s*$")


class Budget(BaseModel):
    """How much a study may use: seconds or trials (exactly one is set)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    seconds: float | None = None
    trials: int | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Reads `"5m"`, `"1h30m"` or `"40 trials"`.

        Raises:
            UsageError: neither, or not positive.
        """
        match = _TRIALS.match(text)
        hint = 'write a duration such as "5m", or a number of trials such as "40 trials"'
        if match:
            if int(match[1]) < 1:
                raise UsageError(f"budget={text!r} holds no trial", hint=hint)
            return cls(trials=int(match[1]))
        try:
            seconds = parse_duration(text)
        except UsageError as error:
            raise UsageError(f"cannot read budget={text!r}", hint=hint) from error
        if seconds <= 0:
            raise UsageError(f"budget={text!r} is not positive", hint=hint)
        return cls(seconds=seconds)

    def __str__(self) -> str:
        return f"{self.trials} trials" if self.trials is not None else f"{self.seconds:g} s"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StudyTable(_Table):
    """[study]: what is optimised, for how long."""

    name: str = Field(description="name of the study; letters, digits, '.', '_' and '-'")
    objective: str = Field("throughput", description="throughput, latency_mean, latency_p50, latency_p95 or latency_p99; "
                           "with constraints: 'p99 where throughput >= 2000'")  # fmt: skip
    budget: str = Field("30m", description='a duration ("5m", "1h30m") or a number of trials ("40 trials")')
    seed: int = Field(1, ge=0, lt=2**32, description="of the search and of the load's parameters")
    history: str | None = Field(None, description="file or postgresql:// URL of the history; default: STATE/history.db")

    @field_validator("name")
    @classmethod
    def _is_name(cls, name: str) -> str:
        if not _NAME.match(name):
            raise ValueError("must be 1 to 64 letters, digits, '.', '_' or '-', and start with a letter or digit")
        return name


class MeasureTable(_Table):
    """[measure]: how long a trial measures."""

    window: str = Field("10s", description="shortest measuring window")
    window_max: str = Field("20s", description="longest measuring window")
    precision: float = Field(0.03, gt=0, lt=1, description="relative half width of the 95 % interval aimed at")
    warmup_floor: str = Field("2s", description="shortest warm-up")
    warmup_cap: str = Field("15s", description="longest warm-up, when the load does not become steady")
    max_error_rate: float = Field(0.01, ge=0, lt=1, description="share of failed operations that invalidates a trial")


class ProofTable(_Table):
    """[proof]: what it takes to call a config better."""

    min_gain: float = Field(0.02, ge=0, lt=10, description="smallest gain worth claiming (0.02: 2 %)")
    min_pairs: int = Field(3, ge=2, le=100, description="pairs measured at least")
    max_pairs: int = Field(8, ge=2, le=100, description="pairs measured at most")
    advice: bool = Field(True, description="measure the rule-based advice beside the two")


class SearchTable(BaseModel):
    """[search]: the searcher; its own options stand beside these keys."""

    model_config = ConfigDict(frozen=True, extra="allow")
    searcher: str = Field("auto", description="short name of a searcher; see `trimtab plugins`")
    constraints: tuple[str, ...] = Field((), description="further constraints over knobs")
    ranges: dict[str, tuple[str | int | float, str | int | float]] = Field(
        {}, description='useful ranges of your own: { work_mem = ["1MB", "200MB"] }'
    )
    advice: dict[str, str | int | float | bool] = Field(
        {}, description="settings to measure in place of the rule-based advice"
    )
    baseline_every: int = Field(6, ge=1, le=1000, description="search trials between two baseline measurements")
    patience: int = Field(
        40, ge=1, description="search trials without an improvement of 1 % after which the search ends"
    )

    @property
    def options(self) -> dict[str, Any]:
        """Options for the searcher itself."""
        return dict(self.model_extra or {})


class StudyFile(BaseModel):
    """A whole study file. `target` and `workload` are checked by the plug-ins that own them."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    study: StudyTable
    target: dict[str, dict[str, Any]] = Field(description="one table per target: [target.NAME]")
    workload: dict[str, Any]
    search: SearchTable = SearchTable()
    measure: MeasureTable = MeasureTable()
    proof: ProofTable = ProofTable()
    _directory: Path = PrivateAttr(default=Path())

    @property
    def directory(self) -> Path:
        """Where the file lies; paths in its tables are relative to it."""
        return self._directory

    @property
    def objective(self) -> Objective:
        """Parsed [study] objective."""
        return Objective.parse(self.study.objective)

    @property
    def budget(self) -> Budget:
        """Parsed [study] budget."""
        return Budget.parse(self.study.budget)

    @property
    def fingerprint(self) -> str:
        """Hash of everything that must agree for a resume; the budget may be raised between two runs."""
        data = self.model_dump(mode="json")
        data["study"].pop("budget")
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def _suggest(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"use one of: {', '.join(known)}"


_TABLES: Mapping[str, type[BaseModel]] = {
    "study": StudyTable,
    "measure": MeasureTable,
    "proof": ProofTable,
    "search": SearchTable,
}


def _explain(path: Path, error: ValidationError) -> UsageError:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        table, _, key = where.rpartition(".")
        known = list(_TABLES[table].model_fields) if table in _TABLES else list(StudyFile.model_fields)
        return UsageError(f"unknown key {where!r} in {path.name}", hint=_suggest(key, known))
    if first["type"] == "missing":
        return UsageError(f"{path.name} lacks {where!r}", hint="`trimtab init` writes a complete, explained study file")
    message = first["msg"].removeprefix("Value error, ")
    return UsageError(f"{where}={first['input']!r} in {path.name}: {message}", hint="see docs/reference/study-file.md")


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"study file={path.name} is larger than 1 MiB", hint="a study file has some dozen lines")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"there is no study file={str(path)!r}", hint="`trimtab init` writes one") from error
    except OSError as error:
        raise UsageError(
            f"cannot read study file={str(path)!r}: {error.strerror}", hint="check its path and mode"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"study file={path.name} is not UTF-8 text: {error}", hint="write it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"study file={path.name} is not TOML: {error}", hint="see docs/reference/study-file.md"
        ) from error


def load_study_file(path: Path) -> StudyFile:
    """Reads and checks a study file; the plug-ins' own tables are checked when they are built.

    Raises:
        UsageError: unreadable, no TOML, unknown or missing key, value out of range, no or several targets.
    """
    try:
        file = StudyFile.model_validate(_read(path))
    except ValidationError as error:
        raise _explain(path, error) from error
    file._directory = path.parent
    if len(file.target) != 1:
        raise UsageError(
            f"{path.name} has {len(file.target)} targets={sorted(file.target)}; this version tunes one at a time",
            hint="keep one [target.NAME] table",
        )
    for table in (file.workload, *file.target.values()):
        if not isinstance(table.get("kind"), str):
            raise UsageError(
                f"a [target.NAME] or [workload] table in {path.name} lacks 'kind'",
                hint='add kind = "postgresql" or kind = "tpch"',
            )
    _ = file.objective, file.budget, plan_of(file)
    if file.proof.min_pairs > file.proof.max_pairs:
        raise UsageError(
            f"proof.min_pairs={file.proof.min_pairs} is above proof.max_pairs={file.proof.max_pairs}",
            hint="raise max_pairs",
        )
    return file


def plan_of(file: StudyFile) -> MeasurePlan:
    """The [measure] table as a plan.

    Raises:
        UsageError: a duration that cannot be read, or longest below shortest.
    """
    table = file.measure
    seconds = {
        key: parse_duration(getattr(table, key)) for key in ("window", "window_max", "warmup_floor", "warmup_cap")
    }
    for low, high in (("window", "window_max"), ("warmup_floor", "warmup_cap")):
        if seconds[low] > seconds[high]:
            raise UsageError(
                f"measure.{low}={getattr(table, low)!r} is above measure.{high}={getattr(table, high)!r}",
                hint=f"raise {high}",
            )
    if seconds["window"] < 1:
        raise UsageError(f"measure.window={table.window!r} is below one second", hint='use at least "1s"')
    return MeasurePlan(
        window_s=seconds["window"],
        window_max_s=seconds["window_max"],
        precision=table.precision,
        warmup_floor_s=seconds["warmup_floor"],
        warmup_cap_s=seconds["warmup_cap"],
        max_error_rate=table.max_error_rate,
    )
