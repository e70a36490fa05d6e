"""Plackett-Burman matrices of any size that Sylvester's and Paley's constructions reach.

Source: R. Plackett, J. Burman, "The Design of Optimum Multifactorial Experiments", Biometrika 33 (1946); R. Paley, "On
Orthogonal Matrices", Journal of Mathematics and Physics 12 (1933).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["plackett_burman"]

Signs = NDArray[np.int64]


def plackett_burman(n_columns: int) -> Signs:
    """The smallest matrix (n, n - 1) of -1 and 1 found with at least `n_columns` (>= 1) orthogonal, balanced columns."""
    size = 4 * ((n_columns + 4) // 4)
    while (found := _hadamard(size)) is None:
        size += 4
    # A column of ones first; what is orthogonal to it is balanced.
    return (found * found[:, :1])[:, 1:]


def _hadamard(size: int) -> Signs | None:
    """An orthogonal matrix (size, size) of -1 and 1; None where neither construction reaches."""
    if size in (1, 2):
        return np.array([[1, 1], [1, -1]])[:size, :size]
    if size % 4:
        return None
    if _is_prime(size - 1):
        return _paley_first(size - 1)
    if size // 2 % 2 == 0 and (half := _hadamard(size // 2)) is not None:
        return np.kron(np.array([[1, 1], [1, -1]]), half)
    order = size // 2 - 1
    return _paley_second(order) if order % 4 == 1 and _is_prime(order) else None


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % i for i in range(2, int(n**0.5) + 1))


def _characters(q: int) -> Signs:
    """Jacobsthal's matrix: the quadratic character of i - j modulo the prime q."""
    squares = {i * i % q for i in range(1, q)}
    character = np.array([0, *(1 if i in squares else -1 for i in range(1, q))])
    return np.asarray(character[(np.arange(q)[:, None] - np.arange(q)[None, :]) % q])


def _bordered(q: int, sign: int) -> Signs:
    """The conference matrix of q: Jacobsthal's, with a border of ones."""
    core = np.zeros((q + 1, q + 1), dtype=np.int64)
    core[0, 1:], core[1:, 0], core[1:, 1:] = 1, sign, _characters(q)
    return core


def _paley_first(q: int) -> Signs:
    return _bordered(q, -1) + np.eye(q + 1, dtype=np.int64)


def _paley_second(q: int) -> Signs:
    core = _bordered(q, 1)
    on_zero, on_one = np.array([[1, -1], [-1, -1]]), np.array([[1, 1], [1, -1]])
    return np.kron(np.eye(q + 1, dtype=np.int64), on_zero) + np.kron(core, on_one)
