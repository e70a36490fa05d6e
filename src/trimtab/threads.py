"""Linear algebra in one thread: matrices this small gain nothing from more.

Threads wait for each other: seconds instead of milliseconds on a loaded machine, and a third to a half of the CPU time on a free
one. And the order of sums, so what is asked next and how knobs rank, would depend on the number of cores.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import threadpoolctl
from threadpoolctl import ThreadpoolController

__all__ = ["blas", "single_threaded"]

_PER_THREAD = "openmp"
"""Threading layer whose limit each thread has for itself; that of the others is the process's."""


@cache
def blas() -> ThreadpoolController:
    """The libraries of linear algebra in this process; the first call loads them."""
    import scipy.linalg  # noqa: F401 - brings a library of its own, which is found only once it is loaded

    return ThreadpoolController()


@contextmanager
def single_threaded() -> Iterator[None]:
    """While inside, linear algebra uses one thread, whoever else enters or leaves meanwhile; after the last as many as before.

    Threads may be inside at the same time, and one may enter again.
    """
    with _with_layer(is_per_thread=True).limit(limits=1), _SHARED:
        yield


@cache
def _with_layer(*, is_per_thread: bool) -> ThreadpoolController:
    libraries = blas().select(user_api="blas")
    layers = {getattr(each, "threading_layer", None) for each in libraries.lib_controllers}
    return libraries.select(threading_layer=[each for each in layers if (each == _PER_THREAD) is is_per_thread])


class _Shared:
    """The limit of the process: set by the first who enters, lifted by the last who leaves.

    If each gave back what it had found, one that came second would find the first one's limit, and leave it behind for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._set: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._set = _with_layer(is_per_thread=False).limit(limits=1)
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                _give_up_control()  # of the thread that entered first
                self._set.restore_original_limits()
                _give_up_control()


_SHARED = _Shared()


def _give_up_control() -> None:
    """Since 3.7 the library lets no thread but the one that has set a limit change it, without a word, until that is given up."""
    give_up = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if give_up is not None:
        give_up(force=True)
