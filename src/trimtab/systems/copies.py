"""How a load may copy its data by links to files of a Java program, where no knob that is tuned shapes these files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.systems.base import KnobState
from trimtab.systems.catalog import Catalog
from trimtab.systems.live_values import LiveValues

__all__ = ["copy_options"]


def copy_options(
    catalog: Catalog, choice: str | Sequence[str], states: Mapping[str, KnobState], live: LiveValues
) -> Mapping[str, str]:
    """What an endpoint says of it; {} where a load must write each row.

    Args:
        catalog: of the program.
        choice: the knobs and sets that the study names.
        states: of its knobs.
        live: what reaches the program while it runs.
    """
    ways = catalog.copies
    if ways is None or not live.can_attach:
        return {}
    sets = catalog.sets
    chosen = {name for each in ((choice,) if isinstance(choice, str) else choice) for name in sets.get(each, (each,))}
    if any(catalog.knob[n].shapes_files and not states[n].lock_reason for n in chosen & states.keys()):
        return {}
    return {"copies.flush": live.command(ways.flush), "copies.load": live.command(ways.load)}
