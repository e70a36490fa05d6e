"""The 22 queries as SQL text, derived from TPC-H (row limits of clause 2.1.2.9; Q15 in its CTE variant)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np

from trimtab.workload.tpch.parameters import Parameters, draw, validation

__all__ = ["render", "sequence", "template", "validation_query"]


@cache
def template(query: int) -> str:
    """The SQL of `query` (1 to 22) with its parameters as `{name}`."""
    return files("trimtab.workload.tpch").joinpath("sql", f"q{query:02d}.sql").read_text(encoding="utf-8").strip()


def render(query: int, parameters: Parameters) -> str:
    """The SQL of `query` with `parameters` filled in."""
    return template(query).format_map(parameters)


def validation_query(query: int) -> str:
    """The SQL of `query` with the parameters of its published answer."""
    return render(query, validation(query))


def sequence(query: int, n: int, *, seed: int, stream: int, scale: float) -> list[str]:
    """`n` texts of `query`, each with its own parameters; a function of the arguments alone.

    Streams of the same query see different parameters, because the stream's number enters the seed.
    """
    rng = np.random.default_rng([seed, query, stream])
    return [render(query, draw(query, rng, scale)) for _ in range(n)]
