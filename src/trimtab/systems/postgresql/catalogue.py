"""What the server shows of its knobs (pg_settings) and of what locks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.systems.knobs import Kind, Reading, Sight
from trimtab.systems.postgresql.session import Connection
from trimtab.systems.server_catalog import ServerKnob, server_catalog

__all__ = [
    "CATALOG",
    "Facts",
    "is_kept",
    "major_version",
    "missing_knobs",
    "overridden_knobs",
    "read_facts",
    "read_rows",
    "without_io_uring",
]

CATALOG = server_catalog("postgresql")

_KINDS: Mapping[str, Kind] = {"bool": "bool", "integer": "integer", "real": "real", "enum": "choice"}
_DENIED = {key: denial.reason for key, denial in CATALOG.denied.items()}
_OWN_SESSION = ("client", "session")
_IO_URING = "io_uring"
_SHARED = "max_worker_processes"
"""Subscriptions and extensions take their processes out of it, too: with fewer than there may be now they would stand still, and
a load that does not need them would look faster."""
_MOST_TOLD = 5
_SYSCTL = Path("/proc/sys/kernel")


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides whether knobs may be changed, beside their readings."""

    major: int
    has_jit: bool
    has_standby: bool
    is_standby: bool
    may_reload: bool
    is_admin: bool
    allows_alter_system: bool

    def with_rights(self) -> Facts:
        """The same, for a user who may do what tuning needs."""
        return replace(self, may_reload=True)

    def sight(self, readings: Mapping[str, Reading]) -> Sight:
        """What the server shows, with the locks that follow from these facts."""
        curated = _no_fewer(CATALOG.known(major=self.major), readings.get(_SHARED))

        def useless(reading: Reading) -> str:
            entry = curated.get(reading.name)
            lacks = entry is not None and entry.needs == "jit" and not self.has_jit
            return "this server has no JIT compiler" if lacks else ""

        return Sight(readings=readings, curated=curated, useless=useless, denied=self._denied)

    def _denied(self, reading: Reading) -> str:
        if reading.name in CATALOG.standby and (self.has_standby or self.is_standby):
            return _DENIED["standby"]
        if not self.allows_alter_system:
            return _DENIED["managed"]
        return _DENIED["no_right"] if not reading.is_permitted else "" if self.may_reload else _DENIED["no_reload"]


def _no_fewer(curated: Mapping[str, ServerKnob], now: Reading | None) -> Mapping[str, ServerKnob]:
    """`curated` with a range of `_SHARED` that begins at what it is now."""
    if now is None or isinstance(now.value, str):
        return curated
    return {**curated, _SHARED: _from(curated[_SHARED], int(now.value))}


@lru_cache(maxsize=16)
def _from(entry: ServerKnob, low: int) -> ServerKnob:
    """Made once: knobs are made anew where their entries are others."""
    return entry.model_copy(update={"low": low})


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
    rows = connection.rows(CATALOG.sql["knobs"].format(may_alter=may))
    return {row[0]: _reading(*row[:8], tuple(row[8]), *row[9:]) for row in rows}


@lru_cache(maxsize=2048)
def _reading(
    name: str, text: str, unit: str, context: str, kind: str, source: str, low: float | None, high: float | None,
    choices: tuple[str, ...], boot: str | None, file: str, line: int, is_pending: bool, may_set: bool,
) -> Reading:  # fmt: skip
    """A row as a reading; they are read several times in a trial, and few differ from those before."""
    return Reading(
        name=name, text=text, kind=_KINDS.get(kind, "text"), unit=unit, default=boot, low=low, high=high,
        choices=choices, is_late=context == "postmaster", source=source, file=file, line=line,
        is_fixed=context == "internal", is_pending=is_pending, is_permitted=may_set,
    )  # fmt: skip


def without_io_uring(rows: Mapping[str, Reading]) -> Mapping[str, Reading]:
    """`rows` of a server on this machine, without the choice that its kernel forbids: such a server does not start.

    `kernel.io_uring_disabled` (Linux: admin-guide/sysctl/kernel): 2 forbids it to all; 1 to all but `io_uring_group` and those
    with CAP_SYS_ADMIN, which PostgreSQL, never run as root, has not. What a container forbids besides (seccomp) only shows at
    a start.
    """
    method, disabled = rows.get("io_method"), _number_in("io_uring_disabled")
    is_forbidden = disabled == 2 or (disabled == 1 and _number_in("io_uring_group") < 0)
    if method is None or method.text == _IO_URING or not is_forbidden:
        return rows
    choices = tuple(choice for choice in method.choices if choice != _IO_URING)
    return {**rows, method.name: replace(method, choices=choices)}


def _number_in(name: str) -> int:
    """0 where this kernel has no such setting, or hides it."""
    try:
        return int((_SYSCTL / name).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def is_kept(reading: Reading) -> bool:
    """Whether a value belongs to the server and not to our own session, and may be written down."""
    return not reading.is_fixed and reading.source not in _OWN_SESSION and reading.name not in CATALOG.secret


def read_facts(connection: Connection, rows: Mapping[str, Reading]) -> Facts:
    """Facts of the server that lock whole groups of knobs."""
    _, jit, standby, recovers, may_reload, is_admin = connection.rows(CATALOG.sql["facts"])[0]
    allowed = "allow_alter_system" not in rows or rows["allow_alter_system"].value is True
    return Facts(major_version(connection), jit, standby, recovers, may_reload, is_admin, allowed)


def missing_knobs(choice: str | Sequence[str], rows: Mapping[str, Reading], major: int) -> tuple[str, ...]:
    """One line about the knobs that `knobs = ...` asks for, that the catalogue knows, and that this server lacks."""
    missing = [name for name in _asked(choice) if name in CATALOG.knob and name not in rows]
    if not missing:
        return ()
    return (f"left out, because PostgreSQL {major} does not have them: {', '.join(missing)}",)


def overridden_knobs(choice: str | Sequence[str], connection: Connection) -> tuple[str, ...]:
    """One line about the knobs that `knobs = ...` asks for and that another role or database has its own value of: in sessions
    there, which may be those of the load, nothing shows of what is tuned."""
    asked, held = _asked(choice), list[str]()
    for role, database, name in connection.rows(CATALOG.sql["overridden"]):
        if name in asked:
            whose = (f"role={role}" if role else "", f"database={database}" if database else "")
            held.append(f"{name} for {' in '.join(filter(None, whose))}")
    if not held:
        return ()
    more = f", and {len(held) - _MOST_TOLD} more" if len(held) > _MOST_TOLD else ""
    told = ", ".join(held[:_MOST_TOLD])
    return (
        f"set by ALTER ROLE or ALTER DATABASE, so that sessions there keep their values whatever is tuned: {told}{more}",
    )


def _asked(choice: str | Sequence[str]) -> Mapping[str, None]:
    """The names that `knobs = ...` means, in order."""
    asked: dict[str, None] = {}
    for name in (choice,) if isinstance(choice, str) else choice:
        asked.update(dict.fromkeys(CATALOG.sets.get(name, (name,))))
    return asked
