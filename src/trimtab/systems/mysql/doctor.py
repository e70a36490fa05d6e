"""What can be reached, read, changed and restarted, and what stands in the way; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.host import Limits
from trimtab.records import Context
from trimtab.systems.base import KnobState
from trimtab.systems.doctor import Line, disk_lines, knob_line, memory_lines, recover_line, restart_line
from trimtab.systems.mysql.catalogue import Facts
from trimtab.systems.mysql.memory import model
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.mysql.settings import Settings

__all__ = ["examine"]


def examine(
    reach: Reach, settings: Settings, states: Mapping[str, KnobState], facts: Facts, budget_bytes: int, limits: Limits
) -> list[Line]:
    """(check, is_fine, explanation), in the order in which to read them."""
    with reach.connect() as session:
        user = session.value("SELECT CURRENT_USER()")
        is_read_only = bool(session.value("SELECT @@GLOBAL.read_only"))
    rights = "may use SET GLOBAL" if facts.may_set else "may not use SET GLOBAL: see the locked knobs"
    return [
        ("server", True, f"{facts.flavour} at {reach.endpoint()}"),
        (
            "role",
            not is_read_only,
            "read-only, perhaps a replica: tune its primary" if is_read_only else "takes writes",
        ),
        ("replication", True, "replicates from or to another server" if facts.has_replica else "none"),
        ("rights", facts.may_set, f"user {user} {rights}"),
        ("files", True, _files_text(reach)),
        restart_line(reach.no_restart),
        recover_line(reach.no_later_login(), "~/.my.cnf"),
        *_memory_lines(settings, states, budget_bytes, limits),
        *disk_lines(reach.host, reach.data_dir),
        knob_line(states),
    ]


def _files_text(reach: Reach) -> str:
    if reach.include_file is None:
        return "no include_file: changes are lost at the server's next restart"
    return f"Trimtab's own option file {reach.include_file}"


def _memory_lines(settings: Settings, states: Mapping[str, KnobState], budget_bytes: int, limits: Limits) -> list[Line]:
    def total_with(clients: int) -> float:
        return model(states, Context("", clients=clients), budget_bytes).total({})

    return memory_lines(total_with, budget_bytes, limits, is_limited=bool(settings.memory_limit))
