"""The study file: one TOML file, read strictly, with errors that name the key and what was meant."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from trimtab.errors import UsageError
from trimtab.flow import Budget
from trimtab.records import FIGURES, METRICS, Objective
from trimtab.study.plain_search import require_plain_search
from trimtab.study.stack_table import StackTable, check_targets, own_table, tiers_of
from trimtab.study.tables import GuardTable, MeasureTable, ProofTable, SearchTable, StudyTable
from trimtab.trial import Guarding, MeasurePlan
from trimtab.units import format_duration, parse_duration

__all__ = ["Budget", "StudyFile", "guarding_of", "load_study_file", "plan_of"]

_MAX_BYTES = 1 << 20
_TYPE = re.compile(r"bool|int|float|str|literal\[.*\]")
"""Behind the place of an error in a value that may have several types: the first of them."""


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
    def history(self) -> str | None:
        """[study] history, a file's path in full; None: the state directory's own."""
        from trimtab.history import fixed_place  # not before it is needed: a slip in the file is told at once

        return None if self.study.history is None else fixed_place(self.study.history, self.directory)

    @property
    def stop_file(self) -> Path | None:
        """[guard] stop_file in full; None: that of the state directory."""
        name = self.guard.stop_file
        return None if name is None else self.directory / os.path.expanduser(name)

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
        """Hash of everything that must agree for a resume, catalogues included. Between two runs the budget, the guards and the
        place of the history may be changed, but for whether there is a budget of user time."""
        return self._fingerprint(None)

    @property
    def earlier_fingerprint(self) -> str:
        """As earlier versions made it, which counted where the history is."""
        return self._fingerprint(self.study.history)

    def _fingerprint(self, history: str | None) -> str:
        data = self.model_dump(mode="json")
        data["study"]["history"] = history
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
        if self.guard.regression_budget_s:
            data["temper"] = "prudent"  # it decides what the search asks, as `searcher_options` says
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
    first, *others = error.errors()
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        table, _, key = where.rpartition(".")
        known = list(_TABLES[table].model_fields) if table in _TABLES else list(StudyFile.model_fields)
        return UsageError(f"unknown key {where!r} in {path.name}", hint=_suggest(key, known))
    is_short = first["type"] == "missing" and isinstance(first["loc"][-1], int)
    if first["type"] == "missing" and not is_short:
        return UsageError(f"{path.name} lacks {where!r}", hint="`trimtab init` writes a complete, explained study file")
    message = first["msg"].removeprefix("Value error, ")
    if is_short or _is_of_several_types(first["loc"], [other["loc"] for other in others]):
        where, message = where.rpartition(".")[0], "it takes no such value"
    given = first["input"]
    shown = given.isoformat() if isinstance(given, date | time) else repr(given)  # as the file has it
    if first["type"] == "dict_type" and first["loc"][0] == "target":
        text = f"{where}={shown} in {path.name} is in a target without a name"
        return UsageError(text, hint="begin the table with a name that you choose, for example [target.db]")
    return UsageError(f"{where}={shown} in {path.name}: {message}", hint=_described(where))


def _is_of_several_types(place: tuple[int | str, ...], others: Sequence[tuple[int | str, ...]]) -> bool:
    """Whether an error at `place` is of the first of several types that the value may have: others follow for the same value."""
    is_type = _TYPE.fullmatch(str(place[-1])) is not None
    return is_type and any(other[:-1] == place[:-1] and _TYPE.fullmatch(str(other[-1])) for other in others)


def _described(where: str) -> str:
    """What the reference says of this key."""
    table, key = [*where.split("."), ""][:2]
    field = _TABLES[table].model_fields.get(key) if table in _TABLES else None
    described = f"{table}.{key}: {field.description}; " if field is not None and field.description else ""
    return f"{described}see docs/reference/study-file.md"


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"study file={path.name} is larger than 1 MiB", hint="a study file has some dozen lines")
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors begin a file with a mark
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
    except ValueError as error:  # Python's own, of an integer of thousands of digits
        raise UsageError(
            f"study file={path.name} has a number of too many digits", hint="see docs/reference/study-file.md"
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
    return Guarding(file.guard.limits, file.stop_file or state_dir / "stop")


def plan_of(file: StudyFile, *, compiles: bool = False, arrivals_s: float = 0.0) -> MeasurePlan:
    """The [measure] table as a plan.

    Args:
        file: the study file.
        compiles: for a target that compiles what it runs often.
        arrivals_s: while the users of the load come; no window begins then, and the default of `warmup_cap` is longer by it.

    Raises:
        UsageError: a duration that cannot be read, longest below shortest, or a warm-up that ends before all users are there.
    """
    table = file.measure
    texts = {key: getattr(table, key) for key in ("window", "window_max", "warmup_floor")}
    usual_s = parse_duration("3min" if compiles else "15s") + math.ceil(arrivals_s)
    texts["warmup_cap"] = table.warmup_cap if table.warmup_cap is not None else format_duration(usual_s)
    seconds = {key: parse_duration(text) for key, text in texts.items()}
    for low, high in (("window", "window_max"), ("warmup_floor", "warmup_cap")):
        if seconds[low] > seconds[high]:
            raise UsageError(
                f"measure.{low}={texts[low]!r} is above measure.{high}={texts[high]!r}",
                hint=f"raise {high}",
            )
    if seconds["warmup_cap"] < arrivals_s:
        raise UsageError(
            f"measure.warmup_cap={texts['warmup_cap']!r} is too short:"
            f" the users of the load are there, and do what they do on average, after {format_duration(arrivals_s)}",
            hint="raise warmup_cap, or shorten that: in a closed loop by [workload.load] start or a smaller think_scale; in an"
            ' open loop by fewer users or a higher rate, and with rate_of="sessions" by a smaller think_scale',
        )
    if seconds["window"] < 1:
        raise UsageError(f"measure.window={table.window!r} is below one second", hint='use at least "1s"')
    return MeasurePlan(
        window_s=seconds["window"],
        window_max_s=seconds["window_max"],
        precision=table.precision,
        warmup_floor_s=max(seconds["warmup_floor"], arrivals_s),
        warmup_cap_s=seconds["warmup_cap"],
        max_error_rate=table.max_error_rate,
    )
