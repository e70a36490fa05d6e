"""Linear algebra in one thread: matrices this small gain nothing from more.

Threads wait for each other: seconds instead of milliseconds on a loaded machine, and a third to a half of the CPU time on a free
one. And the order of sums, so what is asked next and how knobs rank, would depend on the number of cores.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["blas", "single_threaded"]


@cache
def blas() -> ThreadpoolController:
    """The libraries of linear algebra in this process; the first call loads them."""
    import scipy.linalg  # noqa: F401 - brings a library of its own, which is found only once it is loaded

    return ThreadpoolController()


def single_threaded() -> AbstractContextManager[Any]:
    """While inside, linear algebra uses one thread."""
    limiter: AbstractContextManager[Any] = blas().limit(limits=1, user_api="blas")
    return limiter
