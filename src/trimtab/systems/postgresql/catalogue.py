"""What the server shows of its knobs (pg_settings) and of what locks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.errors import TargetError
from trimtab.systems.base import KnobState
from trimtab.systems.knobs import Kind, Reading, Sight
from trimtab.systems.postgresql.session import Connection
from trimtab.systems.server_catalog import server_catalog

__all__ = [
    "CATALOG",
    "Facts",
    "is_kept",
    "major_version",
    "missing_knobs",
    "read_facts",
    "read_rows",
    "require_changeable",
]

CATALOG = server_catalog("postgresql")

_KINDS: Mapping[str, Kind] = {"bool": "bool", "integer": "integer", "real": "real", "enum": "choice"}
_MANAGED = "allow_alter_system = off: this server is configured by other means"
_NO_RELOAD = "this user may not reload the configuration"
_NO_RIGHT = "this user may not change it (no ALTER SYSTEM privilege)"
_STANDBY = "a standby must not have fewer than its primary, and this server has or is a standby"
_OWN_SESSION = ("client", "session")


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides whether knobs may be changed, beside their readings."""

    major: int
    has_jit: bool
    has_standby: bool
    is_standby: bool
    may_reload: bool
    allows_alter_system: bool

    def sight(self, readings: Mapping[str, Reading]) -> Sight:
        """What the server shows, with the locks that follow from these facts."""
        curated = CATALOG.known(major=self.major)

        def useless(reading: Reading) -> str:
            entry = curated.get(reading.name)
            lacks = entry is not None and entry.needs == "jit" and not self.has_jit
            return "this server has no JIT compiler" if lacks else ""

        return Sight(readings=readings, curated=curated, useless=useless, denied=self._denied)

    def _denied(self, reading: Reading) -> str:
        if reading.name in CATALOG.standby and (self.has_standby or self.is_standby):
            return _STANDBY
        if not self.allows_alter_system:
            return _MANAGED
        return _NO_RIGHT if not reading.is_permitted else "" if self.may_reload else _NO_RELOAD


def major_version(connection: Connection) -> int:
    """The server's major version.

    Raises:
        TargetError: it is one that the catalogue does not know; nothing was changed.
    """
    major, (lowest, highest) = connection.info.server_version // 10000, CATALOG.versions
    if not lowest <= major <= highest:
        raise TargetError(
            f"PostgreSQL version={major} is not known to the catalogue",
            hint=f"versions {lowest} to {highest} are; nothing was changed",
        )
    return major


def read_rows(connection: Connection) -> dict[str, Reading]:
    """Every knob of the server, by name."""
    # has_parameter_privilege came with version 15; before it only a superuser may use ALTER SYSTEM.
    may = "has_parameter_privilege(name, 'ALTER SYSTEM')" if connection.info.server_version >= 150000 else "false"
    cursor = connection.execute(
        "SELECT name, coalesce(setting, ''), coalesce(unit, ''), context, vartype, source, min_val::float8,"
        " max_val::float8, coalesce(enumvals, '{}'), coalesce(boot_val, ''), coalesce(sourcefile, ''),"
        " coalesce(sourceline, 0), pending_restart,"
        f" (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) OR {may} FROM pg_settings ORDER BY name"
    )
    found = {}
    for name, text, unit, context, kind, source, low, high, choices, boot, file, line, is_pending, may_set in cursor:
        found[name] = Reading(
            name=name, text=text, kind=_KINDS.get(kind, "text"), unit=unit, default=boot, low=low, high=high,
            choices=tuple(choices), is_late=context == "postmaster", source=source, file=file, line=line,
            is_fixed=context == "internal", is_pending=is_pending, is_permitted=may_set,
        )  # fmt: skip
    return found


def is_kept(reading: Reading) -> bool:
    """Whether a value belongs to the server and not to our own session, and may be written down."""
    return not reading.is_fixed and reading.source not in _OWN_SESSION and reading.name not in CATALOG.secret


def read_facts(connection: Connection, rows: Mapping[str, Reading]) -> Facts:
    """Facts of the server that lock whole groups of knobs."""
    # pg_jit_available() is false where jit is off as well; switched on for this statement, it tells of the library alone.
    found = connection.execute(
        "SELECT set_config('jit', 'on', true), pg_jit_available(), EXISTS (SELECT FROM pg_stat_replication), pg_is_in_recovery(),"
        " has_function_privilege('pg_reload_conf()', 'EXECUTE')"
    ).fetchone()
    _, jit, standby, recovers, may_reload = found if found is not None else ("", False, False, False, False)
    allowed = "allow_alter_system" not in rows or rows["allow_alter_system"].value is True
    return Facts(major_version(connection), bool(jit), bool(standby), bool(recovers), bool(may_reload), allowed)


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


def missing_knobs(choice: str | Sequence[str], rows: Mapping[str, Reading], major: int) -> tuple[str, ...]:
    """One line about the knobs that `knobs = ...` asks for, that the catalogue knows, and that this server lacks."""
    asked: dict[str, None] = {}
    for name in (choice,) if isinstance(choice, str) else choice:
        asked.update(dict.fromkeys(CATALOG.sets.get(name, (name,))))
    missing = [name for name in asked if name in CATALOG.knob and name not in rows]
    if not missing:
        return ()
    return (f"left out, because PostgreSQL {major} does not have them: {', '.join(missing)}",)
