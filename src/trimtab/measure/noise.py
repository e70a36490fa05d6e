"""The noise floor: how large a gain of one run must be before it can be told from nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.errors import LoadError
from trimtab.measure.interval import check_level
from trimtab.measure.measurement import Interval, Measurement
from trimtab.measure.quantile import t_quantile

__all__ = ["NoiseFloor", "noise_floor"]


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """What repeated runs of one config (A/A) say about the machine.

    Attributes:
        relative_sd: standard deviation of log(value) from run to run, nearly that of value / mean; NaN for n < 2.
        floor: the smallest gain of one more run that could be claimed, for instance 0.08 for 8 %; inf for n < 2.
        n: runs.
    """

    relative_sd: float
    floor: float
    n: int


def noise_floor(values: Sequence[float | Interval | Measurement], level: float = 0.95) -> NoiseFloor:
    """The noise floor from repeated runs of the same config.

    The next run of an unchanged config lies within exp(t * sd * sqrt(1 + 1/n)) of the mean of the n runs with
    probability `level` (prediction interval of Student's t on logarithms, n - 1 degrees of freedom; Hahn & Meeker
    1991, Statistical Intervals, chapter 4). That factor minus 1 is the floor. Noise between runs is what counts here:
    restarts, cache states and neighbours do not show inside one run.

    Args:
        values: (n,) values of the metric; of a Measurement its throughput is taken. All positive and finite. Fewer than
            two tell nothing: sd NaN, floor inf.
        level: confidence, two-sided.

    Raises:
        LoadError: a value is not positive and finite.
        UsageError: `level` is not inside (0, 1).
    """
    check_level(level)
    plain = [_plain(value) for value in values]
    if not all(0 < value < math.inf for value in plain):
        raise LoadError(
            f"the noise floor needs positive values, got values={plain}",
            hint="measure the unchanged config several times",
        )
    n = len(plain)
    if n < 2:
        return NoiseFloor(math.nan, math.inf, n)
    sd = float(np.log(plain).std(ddof=1))
    reach = t_quantile((1 + level) / 2, n - 1) * sd * math.sqrt(1 + 1 / n)
    return NoiseFloor(sd, math.expm1(reach), n)


def _plain(value: float | Interval | Measurement) -> float:
    if isinstance(value, Measurement):
        return value.throughput.estimate
    return value.estimate if isinstance(value, Interval) else float(value)
