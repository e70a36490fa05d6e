"""Open files: what the caches of tables may ask for together, as a constraint for the space.

A server that may not open as many files as its tables and connections want says so in its log and makes the caches smaller.
Trials beyond that limit would measure another config than they are named after.

    MariaDB   table_open_cache * table_open_cache_instances * 2 + max_connections + R <= limit
    MySQL     table_open_cache * 2 + max_connections + R <= limit, for all instances together

R is what the server keeps for itself, at most 64. It is how both reckon at their start (MariaDB: "Could not increase number of
max_open_files"; MySQL: manual, "How MySQL Opens and Closes Tables").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimtab.space import Constraint
from trimtab.systems.base import KnobState
from trimtab.systems.mysql.flavour import Product

__all__ = ["open_files_constraints"]

_RESERVED = 64
_CACHES: Mapping[Product, tuple[str, ...]] = {
    "mariadb": ("table_open_cache", "table_open_cache_instances"),
    "mysql": ("table_open_cache",),
}


def open_files_constraints(
    names: Sequence[str], states: Mapping[str, KnobState], product: Product, limit: int | None
) -> tuple[Constraint, ...]:
    """The limit over those of `names` that matter, other knobs at their running values.

    Args:
        names: knobs that may change.
        states: the live catalogue.
        product: whose server it is.
        limit: how many files it may open; None when unknown, which gives no constraint, as does a running config that
            is beyond it already.
    """
    wanted = (*_CACHES[product], "max_connections")
    if limit is None or not set(names).intersection(wanted) or any(name not in states for name in wanted):
        return ()
    running = {name: float(states[name].running) for name in wanted}
    n_tables = 2.0
    for name in _CACHES[product]:
        n_tables *= running[name]
    if n_tables + running["max_connections"] + _RESERVED > limit:
        return ()
    fixed = {name: value for name, value in running.items() if name not in names}
    text = f"{' * '.join(_CACHES[product])} * 2 + max_connections + reserved <= limit"
    return (Constraint(text, name="open files", constants={**fixed, "reserved": _RESERVED, "limit": float(limit)}),)
