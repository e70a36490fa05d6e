"""What can be reached, read, changed and restarted, and what stands in the way; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from trimtab.host import Limits
from trimtab.records import Context
from trimtab.target.base import KnobState
from trimtab.target.postgresql.autoconf import file_faults
from trimtab.target.postgresql.catalogue import read_rows
from trimtab.target.postgresql.memory import memory_use, used_bytes
from trimtab.target.postgresql.pending import unsettled
from trimtab.target.postgresql.reach import Reach
from trimtab.target.postgresql.settings import Settings
from trimtab.units import format_size

__all__ = ["Line", "examine"]

Line = tuple[str, bool, str]
_LOW_DISK_BYTES = 2 << 30


def examine(
    reach: Reach, settings: Settings, states: Mapping[str, KnobState], budget_bytes: int, limits: Limits
) -> list[Line]:
    """(check, is_fine, explanation), in the order in which to read them."""
    with reach.connect() as connection:
        found = connection.execute(
            "SELECT current_setting('server_version'), pg_is_in_recovery(),"
            " (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), current_user"
        ).fetchone()
        version, is_standby, is_superuser, user = found if found is not None else ("?", False, False, "?")
        faults = file_faults(connection)
        waits = ", ".join(unsettled(connection, read_rows(connection)))
    managed = states["allow_alter_system"].running is False if "allow_alter_system" in states else False
    return [
        ("server", True, f"PostgreSQL {version} at {reach.endpoint()}"),
        ("role", not is_standby, "a standby: tune its primary" if is_standby else "a primary"),
        ("rights", True, f"user {user} is {'a superuser' if is_superuser else 'no superuser: see the locked knobs'}"),
        ("alter system", not managed, "allow_alter_system = off" if managed else "allowed"),
        ("files", not faults, "; ".join(faults) or _files_text(reach)),
        ("restart", True, f"{reach.no_restart}: such knobs are locked" if reach.no_restart else "possible"),
        (
            "pending",
            not waits,
            f"in the files, not yet in use: {waits}" if waits else "the server uses what the files say",
        ),
        *_memory_lines(settings, states, budget_bytes, limits),
        *_disk_lines(reach),
        *_knob_lines(states),
    ]


def _files_text(reach: Reach) -> str:
    where = f"data directory {reach.data_dir}" if reach.data_dir is not None else "not reachable, changed by SQL alone"
    return f"{where}; no faults in the configuration files"


def _memory_lines(settings: Settings, states: Mapping[str, KnobState], budget_bytes: int, limits: Limits) -> list[Line]:
    budget = f"budget {format_size(budget_bytes)}, machine {format_size(limits.memory_bytes)} ({limits.memory_source})"
    limit = "held by a cgroup" if settings.memory_limit else "a sum over knobs; no cgroup holds the server to it"
    none, one = (memory_use({}, states, Context("", clients=n), budget_bytes) for n in (0, 1))
    per_client = used_bytes(one) - used_bytes(none)
    n_clients = int((budget_bytes - used_bytes(none)) // per_client) if per_client > 0 else 0
    fits = f"the running config leaves room for {n_clients} clients, each with {format_size(per_client)}"
    breaks = f"the running config breaks the budget even with one client: {format_size(used_bytes(one))}"
    return [
        ("memory", budget_bytes <= limits.memory_bytes, f"{budget}; {limit}"),
        ("memory use", n_clients >= 1, fits if n_clients >= 1 else f"{breaks}; it is measured all the same"),
    ]


def _disk_lines(reach: Reach) -> list[Line]:
    if reach.data_dir is None:
        return []
    free = reach.host.disk_free_bytes(reach.data_dir)
    return [("disk", free >= _LOW_DISK_BYTES, f"{format_size(free)} free under the data directory")]


def _knob_lines(states: Mapping[str, KnobState]) -> list[Line]:
    curated = [state for state in states.values() if state.is_curated]
    n_open = sum(not state.lock_reason for state in curated)
    reasons = Counter(state.lock_reason for state in curated if state.lock_reason)
    locked = "; ".join(f"{count} locked: {reason}" for reason, count in reasons.most_common())
    return [
        (
            "knobs",
            n_open > 0,
            f"{n_open} of {len(curated)} curated knobs may be changed" + (f"; {locked}" if locked else ""),
        )
    ]
