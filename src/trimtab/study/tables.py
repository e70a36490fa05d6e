"""The tables of a study file that are the same for every target and workload: their keys, ranges and defaults."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from trimtab.study.stack_table import flat
from trimtab.trial import GuardLimits
from trimtab.units import parse_duration, parse_size

__all__ = ["BENCH", "RATE", "GuardTable", "MeasureTable", "ProofTable", "SearchTable", "StudyTable"]

BENCH, RATE = ".bench", ".rate"
"""Behind the name of a study: what the history calls the measurements of `trimtab bench` and `bench --find-rate` for it."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_switch(cls, value: object, info: ValidationInfo) -> object:
        """`latency_factor = true` would be a factor of 1, which stops every run that is slower than the baseline."""
        if isinstance(value, bool) and cls.model_fields[info.field_name or ""].annotation in (int, float):
            raise ValueError("must be a number, not true or false")
        return value


class StudyTable(_Table):
    """The goal of the study and its budget."""

    name: str = Field(description="name of the study; letters, digits, '.', '_' and '-'")
    objective: str = Field("throughput", description="throughput, latency_mean, latency_p50, latency_p95 or latency_p99; "
                           "with constraints: 'p99 where throughput >= 2000/s'")  # fmt: skip
    budget: str = Field("30m", description='a duration ("5m", "1h30m"), with everything except the preparation of the data; or a '
                        'number of trials of the search ("40 trials"), to which baselines, repeats, removal of settings and '
                        'proof are added')  # fmt: skip
    seed: int = Field(1, ge=0, lt=2**32, description="random seed of the search and of the load's parameters")
    history: str | None = Field(
        None,
        min_length=1,
        description="file (relative to the study file) or postgresql:// URL of the history; default: STATE/history.db",
    )
    keep_query_text: bool = Field(
        False, description="keep the text of your SQL statements in the history, not only digests"
    )

    @field_validator("name")
    @classmethod
    def _is_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
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
    warmup_floor: str = Field("2s", description="shortest warm-up; it lasts until all users of the load are there, and a target "
                              "may need a longer one after its restart")  # fmt: skip
    warmup_cap: str | None = Field(None, description='longest warm-up, if throughput does not become steady; default: "15s", '
                                   'and "3min" for a target that compiles what it runs, as Java does; '
                                   'the time in which users come is added')  # fmt: skip
    max_error_rate: float = Field(
        0.01, ge=0, lt=1, description="share of failed operations above which a trial is failed_load"
    )


class ProofTable(_Table):
    """What it takes to call a config better."""

    min_gain: float = Field(0.02, ge=0, lt=10, description="smallest gain worth claiming (0.02: 2 %)")
    min_pairs: int = Field(
        3,
        ge=2,
        le=100,
        description="minimum number of pairs, measured even when the budget is used up; a proof needs 3 or more; "
        "one more follows where it is expected to prove the gain",
    )
    max_pairs: int = Field(24, ge=2, le=100, description="maximum number of pairs")
    advice: bool | Literal["near"] = Field(
        "near", description='also measure the rule-based advice: true, false, or "near": only if the winner looks less than '
        "10 % better and there is time"
    )  # fmt: skip
    tolerance: float = Field(0.05, ge=0, lt=1, description="how much worse p99, mean latency or throughput (if they are not the "
                             "objective) may be before a winner is refused (0.05: 5 %)")  # fmt: skip
    max_noise: float = Field(0.2, gt=0, lt=10, description="noise of the baseline from run to run (relative standard "
                             "deviation, without odd runs) above which no config is accepted")  # fmt: skip
    ablate: bool = Field(
        True, description="remove settings from the winner that do not help, and measure the worth of the others"
    )
    ablation_share: float = Field(0.25, ge=0, le=0.8, description="share of the study's time or trials that the "
                                  "ablation may use; at least 16 trials")  # fmt: skip


class GuardTable(_Table):
    """Limits that stop a trial early; 0 turns a guard off, unless a line says otherwise."""

    latency_factor: float = Field(
        2.0,
        ge=0,
        description="stop a trial whose p99 (of observed traffic the mean) is certainly this many times the baseline's",
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
        "0",
        description="how much the used space of a volume may grow in one trial; 0: half of what was free (off with disk = 0)",
    )
    lag: str = Field("10s", description="how much further a standby of PostgreSQL may fall behind during a trial")
    regression_budget: str = Field("0", description="user time that slow and failed trials may cost in total (clients x "
                                   "seconds lost against the baseline) before the search ends; 0: unlimited")  # fmt: skip
    stop_file: str | None = Field(None, min_length=1, description="stop file: while this file exists, everything is restored "
                                  "and stops; default: STATE/stop")  # fmt: skip

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


class SearchTable(_Table):
    """The searcher. Its options are keys of the same table; see below."""

    model_config = ConfigDict(extra="allow")
    searcher: str = Field("auto", description="short name of a searcher; see `trimtab plugins`")
    constraints: tuple[str, ...] = Field(
        (), description='further constraints between settings, such as "min_wal_size <= max_wal_size"'
    )
    ranges: dict[str, tuple[str | int | float, str | int | float]] = Field(
        {},
        description='your own ranges for settings, without special values such as -1: { work_mem = ["1MB", "200MB"] }',
    )
    advice: dict[str, str | int | float | bool] = Field(
        {},
        description="settings to measure instead of the rule-based advice; what breaks a constraint is changed until it "
        "does not, and the study says so",
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
        description='past studies to start from: "auto" (the most similar ones), "off", or their names or numbers ("#7")',
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
