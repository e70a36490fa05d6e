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
from trimtab.trial import Guarding, GuardLimits, MeasurePlan
from trimtab.units import parse_duration, parse_size

__all__ = [
    "Budget",
    "GuardTable",
    "MeasureTable",
    "ProofTable",
    "SearchTable",
    "StudyFile",
    "StudyTable",
    "guarding_of",
    "load_study_file",
    "plan_of",
]

_MAX_BYTES = 1 << 20
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
_TRIALS = re.compile(r"^\s*(\d{1,20})\s*trials?\s*$")
_MAX_TRIALS = 1_000_000


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
            if not 1 <= int(match[1]) <= _MAX_TRIALS:
                few = "no trial" if int(match[1]) < 1 else f"more than {_MAX_TRIALS} trials"
                raise UsageError(f"budget={text!r} holds {few}", hint=hint)
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
    keep_query_text: bool = Field(
        False, description="keep the texts of own statements in the history, not only digests"
    )

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
    tolerance: float = Field(0.05, ge=0, lt=1, description="share by which p99, mean latency or throughput, where they are not "
                             "the objective, may be shown worse before a winner is refused")  # fmt: skip
    max_noise: float = Field(0.2, gt=0, lt=10, description="scatter of the baseline from run to run (relative standard "
                             "deviation) above which nothing is accepted")  # fmt: skip
    ablate: bool = Field(True, description="take from the winner what it does not need, and measure each line's worth")
    ablation_share: float = Field(0.25, ge=0, le=0.8, description="share of the whole study's time (budget in seconds) "
                                  "or trials that the ablation may use; at least 16 trials")  # fmt: skip


class GuardTable(_Table):
    """[guard]: what a trial may do to the server before it is ended; 0 switches a guard off."""

    latency_factor: float = Field(2.0, ge=0, description="p99 surely this many times the baseline's ends a trial")
    throughput_factor: float = Field(0.5, ge=0, le=1, description="throughput surely below this share of the baseline's "
                                     "ends a trial")  # fmt: skip
    memory: float = Field(
        0.95, ge=0, le=2, description="share of the memory budget that the server's processes may use"
    )
    swap: str = Field("256MB", description="that the machine may swap in and out during one trial")
    disk: float = Field(0.85, ge=0, le=1, description="used share of the server's volumes; one that is fuller before a trial "
                        "may be filled half way")  # fmt: skip
    disk_growth: str = Field("0", description="that a volume may grow by in one trial; 0: half of what was free")
    lag: str = Field("10s", description="that a standby may fall behind during a trial, beyond what it was before")
    regression_budget: str = Field("0", description="user time that slow and failed trials may cost in all (clients x seconds "
                                   "lost against the baseline), then the search ends; 0: unlimited")  # fmt: skip
    stop_file: str | None = Field(None, description="kill switch: while this file exists, everything is restored and stops; "
                                  "default: STATE/stop")  # fmt: skip

    @property
    def limits(self) -> GuardLimits:
        """As the trial room wants them.

        Raises:
            UsageError: a size or duration that cannot be read.
        """
        return GuardLimits(
            latency_factor=self.latency_factor,
            throughput_factor=self.throughput_factor,
            memory=self.memory,
            swap_bytes=int(parse_size(self.swap)),
            disk=self.disk,
            disk_growth_bytes=int(parse_size(self.disk_growth)),
            lag_s=parse_duration(self.lag),
        )

    @property
    def regression_budget_s(self) -> float:
        """Seconds of user time; 0: unlimited."""
        return parse_duration(self.regression_budget)


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
    prune: int | str = Field(
        "off",
        description='rank the knobs first, then tune the first so many, more while it pays: "auto", a number, or "off"',
    )
    ranks: str | None = Field(
        None,
        description="study of the history whose ranks are taken over when this study's first trials agree with them",
    )
    warm_start: str | tuple[str, ...] = Field(
        "off",
        description='past studies whose trials this one starts from: "auto" (the nearest of the history), "off", or names',
    )

    @field_validator("prune", mode="before")
    @classmethod
    def _is_prune(cls, prune: object) -> object:
        is_number = isinstance(prune, int) and not isinstance(prune, bool) and prune >= 1
        if not is_number and prune not in ("auto", "off"):
            raise ValueError('must be "auto", "off", or how many knobs to tune (1 or more)')
        return prune

    @field_validator("warm_start", mode="before")
    @classmethod
    def _is_warm_start(cls, value: object) -> object:
        is_list = isinstance(value, list | tuple) and value and all(isinstance(each, str) and each for each in value)
        if not is_list and value not in ("auto", "off"):
            raise ValueError('must be "auto", "off", or a list of names of studies: ["tpch-june", "tpch-july"]')
        return value

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
    guard: GuardTable = GuardTable()
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
        """Hash of everything that must agree for a resume; budget and guards may be changed between two runs."""
        data = self.model_dump(mode="json")
        data["study"].pop("budget")
        data["study"].pop("keep_query_text")
        if data["search"]["warm_start"] == "off":
            data["search"].pop("warm_start")  # as in files of studies that began before there was this key
        data.pop("guard")
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def _suggest(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"use one of: {', '.join(known)}"


_TABLES: Mapping[str, type[BaseModel]] = {
    "study": StudyTable,
    "measure": MeasureTable,
    "proof": ProofTable,
    "guard": GuardTable,
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
    except RecursionError as error:
        raise UsageError(
            f"study file={path.name} is nested too deeply",
            hint="tables and lists need not be nested more than three deep",
        ) from error
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
    _ = file.objective, file.budget, plan_of(file), file.guard.limits, file.guard.regression_budget_s
    if file.search.ranks is not None and file.search.prune == "off":
        raise UsageError(
            f"search.ranks={file.search.ranks!r} has no effect while search.prune is off",
            hint='add prune = "auto" to [search], or how many knobs to tune',
        )
    if file.proof.min_pairs > file.proof.max_pairs:
        raise UsageError(
            f"proof.min_pairs={file.proof.min_pairs} is above proof.max_pairs={file.proof.max_pairs}",
            hint="raise max_pairs",
        )
    return file


def guarding_of(file: StudyFile, state_dir: Path) -> Guarding:
    """The [guard] table as the trial room wants it; a relative stop_file lies beside the study file."""
    name = file.guard.stop_file
    return Guarding(file.guard.limits, state_dir / "stop" if name is None else file.directory / name)


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
