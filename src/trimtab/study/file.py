"""The study file: one TOML file, read strictly, with errors that name the key and what was meant."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from trimtab.errors import UsageError
from trimtab.flow import Budget
from trimtab.records import FIGURES, METRICS, Objective
from trimtab.study.plain_search import require_plain_search
from trimtab.study.stack_table import StackTable, check_targets, flat, own_table, tiers_of
from trimtab.trial import Guarding, GuardLimits, MeasurePlan
from trimtab.units import parse_duration, parse_size

__all__ = [
    "BENCH",
    "RATE",
    "Budget",
    "GuardTable",
    "MeasureTable",
    "ProofTable",
    "SearchTable",
    "StackTable",
    "StudyFile",
    "StudyTable",
    "guarding_of",
    "load_study_file",
    "plan_of",
]

_MAX_BYTES = 1 << 20
BENCH, RATE = ".bench", ".rate"
"""Behind the name of a study: what the history calls the measurements of `trimtab bench` and `bench --find-rate` for it."""
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StudyTable(_Table):
    """The goal of the study and its budget."""

    name: str = Field(description="name of the study; letters, digits, '.', '_' and '-'")
    objective: str = Field("throughput", description="throughput, latency_mean, latency_p50, latency_p95 or latency_p99; "
                           "with constraints: 'p99 where throughput >= 2000'")  # fmt: skip
    budget: str = Field("30m", description='a duration ("5m", "1h30m") or a number of trials ("40 trials")')
    seed: int = Field(1, ge=0, lt=2**32, description="random seed of the search and of the load's parameters")
    history: str | None = Field(None, description="file or postgresql:// URL of the history; default: STATE/history.db")
    keep_query_text: bool = Field(
        False, description="keep the text of your SQL statements in the history, not only digests"
    )

    @field_validator("name")
    @classmethod
    def _is_name(cls, name: str) -> str:
        if not _NAME.match(name):
            raise ValueError("must be 1 to 64 letters, digits, '.', '_' or '-', and start with a letter or digit")
        ending = next((each for each in (BENCH, RATE) if name.endswith(each)), None)
        if ending is not None:
            raise ValueError(
                f"names that end in {ending!r} are those of `trimtab bench` for another study; choose another"
            )
        return name


class MeasureTable(_Table):
    """How long a trial measures."""

    window: str = Field("10s", description="shortest measuring window")
    window_max: str = Field("20s", description="longest measuring window")
    precision: float = Field(0.03, gt=0, lt=1, description="half width of the 95 % interval, as a share of the value")
    warmup_floor: str = Field("2s", description="shortest warm-up; a target may need a longer one after its restart")
    warmup_cap: str | None = Field(None, description='longest warm-up, if throughput does not become steady; default: "15s", '
                                   'and "3min" for a target that compiles what it runs, as Java does')  # fmt: skip
    max_error_rate: float = Field(0.01, ge=0, lt=1, description="share of failed operations that invalidates a trial")


class ProofTable(_Table):
    """What it takes to call a config better."""

    min_gain: float = Field(0.02, ge=0, lt=10, description="smallest gain worth claiming (0.02: 2 %)")
    min_pairs: int = Field(
        3,
        ge=2,
        le=100,
        description="minimum number of pairs, measured even when the budget is used up; a proof needs 3 or more",
    )
    max_pairs: int = Field(24, ge=2, le=100, description="maximum number of pairs")
    advice: bool | Literal["near"] = Field(
        "near", description='also measure the rule-based advice: true, false, or "near": only if the winner looks less than '
        "10 % better and there is time"
    )  # fmt: skip
    tolerance: float = Field(0.05, ge=0, lt=1, description="how much worse p99, mean latency or throughput (if they are not the "
                             "objective) may be before a winner is refused (0.05: 5 %)")  # fmt: skip
    max_noise: float = Field(0.2, gt=0, lt=10, description="noise of the baseline from run to run (relative standard "
                             "deviation) above which no config is accepted")  # fmt: skip
    ablate: bool = Field(
        True, description="remove settings from the winner that do not help, and measure the worth of the others"
    )
    ablation_share: float = Field(0.25, ge=0, le=0.8, description="share of the study's time or trials that the "
                                  "ablation may use; at least 16 trials")  # fmt: skip


class GuardTable(_Table):
    """Limits that stop a trial early; 0 turns a guard off."""

    latency_factor: float = Field(
        2.0, ge=0, description="stop a trial whose p99 is certainly this many times the baseline's"
    )
    throughput_factor: float = Field(0.5, ge=0, le=1, description="stop a trial whose throughput is certainly below this "
                                     "share of the baseline's")  # fmt: skip
    memory: float = Field(
        0.95, ge=0, le=2, description="share of the memory budget that the server's processes may use"
    )
    swap: str = Field("256MB", description="how much the machine may swap in and out during one trial")
    disk: float = Field(0.85, ge=0, le=1, description="used share of the server's volumes; of a volume that is fuller before a "
                        "trial, half of the free space may be used")  # fmt: skip
    disk_growth: str = Field(
        "0", description="how much the used space of a volume may grow in one trial; 0: half of what was free"
    )
    lag: str = Field("10s", description="how much further a standby may fall behind during a trial")
    regression_budget: str = Field("0", description="user time that slow and failed trials may cost in total (clients x "
                                   "seconds lost against the baseline) before the search ends; 0: unlimited")  # fmt: skip
    stop_file: str | None = Field(None, description="stop file: while this file exists, everything is restored and stops; "
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
    """The searcher. Its options are keys of the same table; see below."""

    model_config = ConfigDict(frozen=True, extra="allow")
    searcher: str = Field("auto", description="short name of a searcher; see `trimtab plugins`")
    constraints: tuple[str, ...] = Field(
        (), description='further constraints between settings, such as "min_wal_size <= max_wal_size"'
    )
    ranges: dict[str, tuple[str | int | float, str | int | float]] = Field(
        {},
        description='your own ranges for settings, without special values such as -1: { work_mem = ["1MB", "200MB"] }',
    )
    advice: dict[str, str | int | float | bool] = Field(
        {}, description="settings to measure instead of the rule-based advice"
    )
    plays: Literal["auto", "on", "off"] = Field(
        "auto",
        description='try first what an expert would try for this kind of load: "auto" (with searcher "auto"), "on", "off"',
    )
    passes: Literal["one", "restart-first", "alternate", "tiers"] = Field(
        "one",
        description='"one": search all settings at once; "restart-first": those that need a restart with few long trials, then '
        'the others with many short ones; "alternate": again and again, until a pass brings nothing; "tiers": one target after '
        "the other, until a round brings nothing",
    )
    round_values: bool = Field(
        True, description="try only values that a person would write (384MB, 15min, 0.005); false: every value"
    )
    baseline_every: int = Field(
        6, ge=1, le=1000, description="plays or search trials between two baseline measurements"
    )
    patience: int = Field(
        40, ge=1, description="search trials without an improvement of 1 % after which the search ends"
    )
    prune: int | str = Field(
        "off",
        description='rank the settings first and tune only the highest ranked, more while it pays: "auto", a number, or "off"',
    )
    ranks: str | None = Field(
        None,
        description="past study whose ranks are used if this study's first trials agree with them",
    )
    warm_start: str | tuple[str, ...] = Field(
        "off",
        description='past studies to start from: "auto" (the most similar in the history), "off", or their names',
    )

    @field_validator("ranges", "advice", mode="before")
    @classmethod
    def _by_target(cls, value: object) -> object:
        """`db.work_mem = ...` is a table in TOML, and a name here."""
        return flat(value) if isinstance(value, dict) else value

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
    stack: StackTable | None = None
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
    def searcher_options(self) -> dict[str, Any]:
        """Options of the searcher. `auto` is prudent where a budget of user time says that the server has users."""
        options = self.search.options
        if self.search.searcher == "auto" and self.guard.regression_budget_s:
            options.setdefault("temper", "prudent")
        return options

    @property
    def objective(self) -> Objective:
        """Parsed [study] objective."""
        objective = Objective.parse(self.study.objective)
        named = (objective.metric, *(constraint.metric for constraint in objective.constraints))
        if any(metric in FIGURES for metric in named):
            raise UsageError(
                f"objective={self.study.objective!r} is for sessions, whose programs report a figure themselves",
                hint=f"use one of: {', '.join(METRICS)}",
            )
        return objective

    @property
    def budget(self) -> Budget:
        """Parsed [study] budget."""
        return Budget.parse(self.study.budget)

    @property
    def fingerprint(self) -> str:
        """Hash of everything that must agree for a resume, catalogues included; budget and guards may be changed between two
        runs."""
        data = self.model_dump(mode="json")
        data["study"].pop("budget")
        data["study"].pop("keep_query_text")
        # As in files of studies that began before there was this key, or before its default changed.
        for key, before in {"warm_start": "off", "round_values": False, "plays": "off", "passes": "one"}.items():
            if data["search"][key] == before:
                data["search"].pop(key)
        data["measure"]["warmup_cap"] = data["measure"]["warmup_cap"] or "15s"
        if "max_pairs" not in self.proof.model_fields_set:
            data["proof"]["max_pairs"] = 8
        data.pop("guard")
        if self.stack is None:
            data.pop("stack")  # as in files of one target
        if catalogs := self._catalogs():
            data["catalogs"] = catalogs
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def tiers(self) -> dict[str, tuple[str, ...]]:
        """Target -> targets that it needs, from the bottom of the stack up."""
        return tiers_of(self.target)

    def table_of(self, target: str) -> dict[str, Any]:
        """The table of a target as its kind reads it: with the budget of the stack, and without what only the stack knows."""
        return own_table(self.target, target, self.stack)

    def _catalogs(self) -> dict[str, str]:
        """Target -> digest of the catalogue that its table names; the target says so itself when there is none to read."""
        found = {}
        for name, table in self.target.items():
            path = table.get("catalog")
            with suppress(OSError):
                if isinstance(path, str):
                    content = (self.directory / Path(path).expanduser()).read_bytes()
                    found[name] = hashlib.sha256(content).hexdigest()
        return found


def _suggest(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"use one of: {', '.join(known)}"


_TABLES: Mapping[str, type[BaseModel]] = {
    "study": StudyTable,
    "measure": MeasureTable,
    "proof": ProofTable,
    "guard": GuardTable,
    "search": SearchTable,
    "stack": StackTable,
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
        UsageError: unreadable, no TOML, unknown or missing key, value out of range, no target.
    """
    try:
        file = StudyFile.model_validate(_read(path))
    except ValidationError as error:
        raise _explain(path, error) from error
    file._directory = path.absolute().parent
    if not file.target:
        raise UsageError(f"{path.name} has no target", hint="add a [target.NAME] table")
    for table in (file.workload, *file.target.values()):
        if not isinstance(table.get("kind"), str):
            raise UsageError(
                f"a [target.NAME] or [workload] table in {path.name} lacks 'kind'",
                hint='add kind = "postgresql" or kind = "tpch"',
            )
    check_targets(file.target, file.workload, file.stack)
    _ = file.objective, file.budget, plan_of(file, compiles=True), file.guard.limits, file.guard.regression_budget_s
    if file.search.ranks is not None and file.search.prune == "off":
        raise UsageError(
            f"search.ranks={file.search.ranks!r} has no effect while search.prune is off",
            hint='add prune = "auto" to [search], or how many knobs to tune',
        )
    if file.search.passes != "one" and file.search.prune != "off":
        raise UsageError(
            f"search.passes={file.search.passes!r} and search.prune={file.search.prune!r} both divide the settings",
            hint="use one of them",
        )
    if file.search.passes == "tiers" and len(file.target) == 1:
        raise UsageError(
            "search.passes='tiers' has nothing to divide: the study has one target",
            hint="leave passes out, or tune several targets as one",
        )
    require_plain_search(file.search, file.workload)
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


def plan_of(file: StudyFile, *, compiles: bool = False) -> MeasurePlan:
    """The [measure] table as a plan; `compiles`: for a target that compiles what it runs often.

    Raises:
        UsageError: a duration that cannot be read, or longest below shortest.
    """
    table = file.measure
    texts = {key: getattr(table, key) for key in ("window", "window_max", "warmup_floor")}
    texts["warmup_cap"] = table.warmup_cap if table.warmup_cap is not None else "3min" if compiles else "15s"
    seconds = {key: parse_duration(text) for key, text in texts.items()}
    for low, high in (("window", "window_max"), ("warmup_floor", "warmup_cap")):
        if seconds[low] > seconds[high]:
            raise UsageError(
                f"measure.{low}={texts[low]!r} is above measure.{high}={texts[high]!r}",
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
