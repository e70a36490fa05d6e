"""Output of the solver: HiGHS prints a line now and then, and then thousands of times, whatever it is asked for (ERGO-Code/HiGHS
issue 2783). It must not get into the output of a command, which may be JSON."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

__all__ = ["not_printed"]

_IS_GLIBC = "CS_GNU_LIBC_VERSION" in os.confstr_names
"""Other C libraries keep `stdout` where it cannot be written to: there the lines stay where they are printed."""


class _Stdout:
    """The C library's own, by which no Python code prints, and how many threads have it elsewhere now."""

    def __init__(self) -> None:
        self._lock, self._n_users, self._found = Lock(), 0, 0

    def divert(self, by: int) -> None:
        """One user more or less: the first one takes it away, the last one puts it back."""
        with self._lock:
            stdout = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stdout")
            if self._n_users == 0:
                self._found = stdout.value or 0
            self._n_users += by
            stdout.value = (_nowhere() or self._found) if self._n_users else self._found


@cache
def _nowhere() -> int:
    """A stream of the C library that keeps nothing; 0 where there is none because this process may open no more files."""
    library = ctypes.CDLL(None)
    library.fopen.restype = ctypes.c_void_p
    return library.fopen(os.devnull.encode(), b"we") or 0


_STDOUT = _Stdout()


@contextmanager
def not_printed() -> Iterator[None]:
    """What C code prints meanwhile on stdout is lost; what Python prints, and what other processes do, is as ever."""
    if not _IS_GLIBC:
        yield
        return
    _STDOUT.divert(1)
    try:
        yield
    finally:
        _STDOUT.divert(-1)
