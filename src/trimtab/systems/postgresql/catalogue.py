"""The live catalogue: pg_settings under the curated overlay, each knob with the reason why it may not be changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.errors import TargetError
from trimtab.space import Knob, KnobKind, RestartClass, SafetyClass, Value
from trimtab.systems.base import KnobState
from trimtab.systems.postgresql.classes import SECRET, forbidden_reason, safety_of
from trimtab.systems.postgresql.overlay import MAX_VERSION, MIN_VERSION, Bounds, OverlayKnob, load_overlay
from trimtab.systems.postgresql.rules import STANDBY_KNOBS
from trimtab.systems.postgresql.session import Connection
from trimtab.systems.postgresql.settings import Settings
from trimtab.systems.postgresql.values import parse_setting
from trimtab.systems.selection import select

__all__ = [
    "Facts",
    "Row",
    "knob_states",
    "major_version",
    "missing_knobs",
    "read_facts",
    "read_rows",
    "require_changeable",
    "selected_names",
]

_KINDS = {"bool": KnobKind.BOOLEAN, "integer": KnobKind.INTEGER, "real": KnobKind.REAL}
_MANAGED = "allow_alter_system = off: this server is configured by other means"
_NO_RELOAD = "this user may not reload the configuration"
_NO_RIGHT = "this user may not change it (no ALTER SYSTEM privilege)"
_STANDBY = "a standby must not have fewer than its primary, and this server has or is a standby"
_PINNED = {
    "command line": "set on the server's command line, which wins over every file",
    "environment variable": "set by an environment variable of the server",
    "database": "set by ALTER DATABASE for this database, which wins over the configuration files",
    "user": "set by ALTER ROLE for this user, which wins over the configuration files",
    "database user": "set by ALTER ROLE ... IN DATABASE, which wins over the configuration files",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of pg_settings, with the right to change it."""

    name: str
    setting: str
    unit: str
    context: str
    vartype: str
    source: str
    low: float | None
    high: float | None
    choices: list[str]
    boot: str
    file: str
    line: int
    is_pending: bool
    is_permitted: bool

    @property
    def value(self) -> Value:
        """The running value."""
        return parse_setting(self.setting, self.vartype)

    @property
    def needs_restart(self) -> bool:
        """Whether a change shows only after a restart."""
        return self.context == "postmaster"


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides whether knobs may be changed, beside the rows."""

    major: int
    has_jit: bool
    has_standby: bool
    is_standby: bool
    may_reload: bool
    allows_alter_system: bool


def major_version(connection: Connection) -> int:
    """The server's major version.

    Raises:
        TargetError: it is one that the catalogue does not know; nothing was changed.
    """
    number = connection.info.server_version
    major = number // 10000
    if not MIN_VERSION <= major <= MAX_VERSION:
        raise TargetError(
            f"PostgreSQL version={major} is not known to the catalogue",
            hint=f"versions {MIN_VERSION} to {MAX_VERSION} are; nothing was changed",
        )
    return major


def read_rows(connection: Connection) -> dict[str, Row]:
    """Every knob of the server, by name."""
    # has_parameter_privilege came with version 15; before it only a superuser may use ALTER SYSTEM.
    may = "has_parameter_privilege(name, 'ALTER SYSTEM')" if connection.info.server_version >= 150000 else "false"
    cursor = connection.execute(
        "SELECT name, coalesce(setting, ''), coalesce(unit, ''), context, vartype, source, min_val::float8,"
        " max_val::float8, coalesce(enumvals, '{}'), coalesce(boot_val, ''), coalesce(sourcefile, ''),"
        " coalesce(sourceline, 0), pending_restart,"
        f" (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) OR {may} FROM pg_settings ORDER BY name"
    )
    return {row[0]: Row(*row) for row in cursor}


def read_facts(connection: Connection, rows: Mapping[str, Row]) -> Facts:
    """Facts of the server that lock whole groups of knobs."""
    # pg_jit_available() is false where jit is off as well; switched on for this statement, it tells of the library alone.
    found = connection.execute(
        "SELECT set_config('jit', 'on', true), pg_jit_available(), EXISTS (SELECT FROM pg_stat_replication), pg_is_in_recovery(),"
        " has_function_privilege('pg_reload_conf()', 'EXECUTE')"
    ).fetchone()
    _, jit, standby, recovers, may_reload = found if found is not None else ("", False, False, False, False)
    allowed = "allow_alter_system" not in rows or rows["allow_alter_system"].setting == "on"
    return Facts(major_version(connection), bool(jit), bool(standby), bool(recovers), bool(may_reload), allowed)


def knob_states(
    rows: Mapping[str, Row], facts: Facts, bounds: Bounds, settings: Settings, no_restart: str
) -> dict[str, KnobState]:
    """Every knob as the server shows it under the overlay; `no_restart` is why it cannot be restarted ("": it can)."""
    curated = {name: k for name, k in load_overlay().knob.items() if k.is_known_in(facts.major)}
    states = {}
    for name, row in rows.items():
        overlay = curated.get(name)
        knob = _knob(row, overlay, bounds)
        states[name] = KnobState(
            knob=knob,
            running="***" if name in SECRET and row.setting else row.value,
            source=row.source,
            source_file=f"{row.file}:{row.line}" if row.file else "",
            is_curated=overlay is not None,
            lock_reason=_lock_reason(row, overlay, knob, facts, settings, no_restart),
            vendor_low=row.low,
            vendor_high=row.high,
        )
    return states


def _knob(row: Row, overlay: OverlayKnob | None, bounds: Bounds) -> Knob:
    kind = _KINDS.get(row.vartype, KnobKind.CHOICE)
    low, high, choices = _range(row, overlay, bounds)
    safety = safety_of(row.name)
    return Knob(
        name=row.name,
        kind=kind,
        low=low,
        high=high,
        log=overlay is not None and overlay.log and low is not None and low > 0,
        step=overlay.step if overlay is not None and row.vartype == "integer" else None,
        unit=row.unit,
        choices=choices if kind is KnobKind.CHOICE else (),
        special=overlay.special if overlay is not None and row.low is not None else (),
        default=_default(row),
        restart=RestartClass.RESTART if row.needs_restart else RestartClass.RELOAD,
        safety=overlay.safety if overlay is not None and safety is not SafetyClass.FORBIDDEN else safety,
        condition=overlay.condition if overlay is not None else None,
        doc=overlay.doc if overlay is not None else "",
    )


def _default(row: Row) -> Value:
    # boot_val of knobs in octal or of strings that are computed at start is not in the form of `setting`
    try:
        return parse_setting(row.boot, row.vartype)
    except ValueError:
        return row.value


def _range(
    row: Row, overlay: OverlayKnob | None, bounds: Bounds
) -> tuple[int | float | None, int | float | None, tuple[str, ...]]:
    """Useful low and high, rounded inwards and clipped to the server's limits; and the choices it knows."""
    if row.low is None or row.high is None:
        wanted = overlay.choices if overlay is not None else ()
        known = tuple(row.choices) or (row.setting,)
        return None, None, tuple(c for c in wanted if c in known) or known
    low, high = overlay.useful(bounds) if overlay is not None and overlay.low is not None else (row.low, row.high)
    low, high = max(low, row.low), min(high, row.high)
    if row.vartype == "integer":
        step = (overlay.step if overlay is not None else None) or 1
        lowest = math.ceil(low / step) * step
        return lowest, max(lowest, math.floor(high / step) * step), ()
    return low, high, ()


def _lock_reason(
    row: Row, overlay: OverlayKnob | None, knob: Knob, facts: Facts, settings: Settings, no_restart: str
) -> str:
    """The first reason why the knob may not be changed here; "" when it may."""
    wants = knob.safety.value
    is_open = knob.safety is SafetyClass.PERFORMANCE or wants in settings.unlock
    no_more_restart = no_restart if settings.allow_restart else "needs a restart, and allow_restart = false"
    reasons = (
        (True, forbidden_reason(row.name)),
        (row.context == "internal", "fixed by the server"),
        (overlay is None, "not curated"),
        (not is_open, f'safety class {wants} is locked; unlock = ["{wants}"] opens it'),
        (overlay is not None and overlay.needs_jit and not facts.has_jit, "this server has no JIT compiler"),
        (row.needs_restart, no_more_restart),
        (row.name in STANDBY_KNOBS and (facts.has_standby or facts.is_standby), _STANDBY),
        (True, _PINNED.get(row.source, "")),
        (not facts.allows_alter_system, _MANAGED),
        (not row.is_permitted, _NO_RIGHT),
        (not facts.may_reload, _NO_RELOAD),
    )
    return next((reason for applies, reason in reasons if applies and reason), "")


def require_changeable(states: Mapping[str, KnobState]) -> None:
    """That anything may be changed here.

    Raises:
        TargetError: allow_alter_system is off, or this user has the right to change nothing.
    """
    reasons = {state.lock_reason for state in states.values() if state.is_curated}
    if _MANAGED in reasons:
        raise TargetError(
            "the server does not allow ALTER SYSTEM (allow_alter_system = off)",
            hint="that says that something else (Patroni, Ansible, an operator) configures it: tune it there",
        )
    if _NO_RELOAD in reasons:
        raise TargetError(
            "this user may not reload the configuration", hint="GRANT EXECUTE ON FUNCTION pg_reload_conf() TO the user"
        )
    if "" not in reasons and _NO_RIGHT in reasons:
        raise TargetError(
            "this user may not change any setting of the server",
            hint="GRANT ALTER SYSTEM ON PARAMETER work_mem, ... TO the user (PostgreSQL 15+), or use a superuser",
        )


def missing_knobs(choice: str | Sequence[str], rows: Mapping[str, Row], major: int) -> tuple[str, ...]:
    """One line about the knobs that `knobs = ...` asks for, that the catalogue knows, and that this server lacks."""
    overlay = load_overlay()
    asked: dict[str, None] = {}
    for name in (choice,) if isinstance(choice, str) else choice:
        asked.update(dict.fromkeys(overlay.sets.get(name, (name,))))
    missing = [name for name in asked if name in overlay.knob and name not in rows]
    if not missing:
        return ()
    return (f"left out, because PostgreSQL {major} does not have them: {', '.join(missing)}",)


def selected_names(
    choice: str | Sequence[str], states: Mapping[str, KnobState], *, reads_only: bool = False
) -> tuple[str, ...]:
    """The changeable knobs that `knobs = ...` asks for; one of another version is told by `missing_knobs` (see `select`).

    Raises:
        UsageError: an unknown name, or one that is locked or not curated.
    """
    return select(choice, states, load_overlay(), reads_only=reads_only, skips_absent=True)
