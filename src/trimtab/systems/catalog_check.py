"""What is wrong with a catalogue, as a file and on this machine: for `trimtab catalog check`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import UsageError
from trimtab.host import LocalHost, read_limits
from trimtab.space import Space
from trimtab.systems.base import KnobState
from trimtab.systems.catalog import Catalog
from trimtab.systems.catalog_file import catalog_faults, read_catalog
from trimtab.systems.file_knobs import knob_of
from trimtab.systems.rules import advised, constraints, memory_of

__all__ = ["CatalogReport", "check_catalog"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogReport:
    """What a check of a catalogue found.

    Attributes:
        kind: of the system; "" when the file cannot be read so far.
        faults: (message, hint) of each.
        n_knobs, n_files, n_constraints: what it holds.
    """

    kind: str
    faults: tuple[tuple[str, str], ...]
    n_knobs: int = 0
    n_files: int = 0
    n_constraints: int = 0


def check_catalog(path: Path) -> CatalogReport:
    """Everything that is wrong with a catalogue, without any system.

    Raises:
        UsageError: the file cannot be read.
    """
    catalog, faults = catalog_faults(read_catalog(path))
    if catalog is None:
        return CatalogReport(kind="", faults=tuple(faults))
    if not faults:
        faults = _faults_here(catalog)
    return CatalogReport(
        kind=catalog.kind,
        faults=tuple(faults),
        n_knobs=len(catalog.knob),
        n_files=len(catalog.channel),
        n_constraints=len(catalog.constraint) + bool(catalog.memory),
    )


def _faults_here(catalog: Catalog) -> list[tuple[str, str]]:
    """What does not fit together with this machine's memory and cores."""
    limits = read_limits()
    disk = float(LocalHost().disk_free_bytes(Path("/")))
    bounds = {"memory": float(limits.memory_bytes), "cores": float(limits.cores), "disk": disk}
    found, states = [], {}
    for name, entry in catalog.knob.items():
        try:
            knob = knob_of(name, entry, bounds, must_restart=False)
        except UsageError as error:
            found.append((f"[knob.{name}] {error.message}", error.hint or "look at low, high and default"))
            continue
        states[name] = KnobState(knob=knob, running=knob.default, is_curated=True)
    if found:
        return found
    try:
        facts, names = {**bounds, "clients": 1.0, "ssd": 0.0, "hdd": 0.0}, tuple(states)
        memory = memory_of(catalog, states, facts, budget_bytes=limits.memory_bytes)
        budget, rules = memory.constraint(names), constraints(catalog, names, states, facts)
        limited = (*(() if budget is None else (budget,)), *rules)
        space = Space([state.knob for state in states.values()], limited)
        if not space.is_feasible(space.default()):  # else one is there, and need not be looked for
            space.require_feasible()
        advised(catalog, states, facts, memory)
    except UsageError as error:
        found.append((error.message, error.hint or "look at the constraints and ranges"))
    return found
