"""The quantiles beside scipy.stats, which is slower to load and right."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trimtab.measure.quantile import binomial_quantile, chi2_median, normal_quantile, t_quantile, t_tail

_PROBABILITIES = st.floats(1e-9, 1 - 1e-9)
_DOF = st.floats(0.5, 1e6)


@given(p=_PROBABILITIES, dof=_DOF)
def test_continuous_ones_are_those_of_scipy_stats(p: float, dof: float) -> None:
    assert normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-9, abs=1e-12)
    assert t_quantile(p, dof) == pytest.approx(stats.t.ppf(p, dof), rel=1e-6, abs=1e-9)
    assert chi2_median(dof) == pytest.approx(stats.chi2.median(dof), rel=1e-9)
    t = float(stats.norm.ppf(p))
    assert t_tail(t, dof) == pytest.approx(stats.t.sf(t, dof), rel=1e-6, abs=1e-12)


@given(
    p=_PROBABILITIES | st.sampled_from([0.0, 1.0]),
    n=st.integers(1, 100_000),
    share=st.floats(1e-6, 1 - 1e-6) | st.sampled_from([0.0, 1.0]),
)
def test_the_binomial_one_is_the_smallest_count_that_reaches_p(p: float, n: int, share: float) -> None:
    k = binomial_quantile(p, n, share)
    assert 0 <= k <= n
    if 0 < p < 1 and 0 < share < 1:
        assert stats.binom.cdf(k, n, share) >= p * (1 - 1e-9)
        assert k == 0 or stats.binom.cdf(k - 1, n, share) <= p * (1 + 1e-9)


def test_measuring_does_not_load_scipy_stats() -> None:
    rooms = ", ".join(f"trimtab.measure.{name}" for name in ("compare", "interval", "noise", "percentile", "residual"))
    code = f"import sys, {rooms}; print('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
