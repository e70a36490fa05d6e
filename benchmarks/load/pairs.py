"""Two clients turn by turn, so that what else the machine does hits both."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from clients import Client, Sample

Range = dict[str, float]


def spread(values: Iterable[float]) -> Range:
    """Median, lowest and highest."""
    found = sorted(values)
    return {"median": rounded(median(found)), "low": rounded(found[0]), "high": rounded(found[-1])}


def rounded(value: float) -> float:
    """To four digits."""
    return float(f"{value:.4g}")


def _side(samples: list[Sample]) -> dict[str, Range]:
    return {what: spread(getattr(sample, what) for sample in samples) for what in ("rate", "cpu_us", "user_us")}


def compare(ours: Client, peer: Client, n_pairs: int) -> dict[str, dict[str, Range]]:
    """Both sides and the ratios, ours to the peer's, of neighbouring runs; who begins changes from pair to pair."""
    mine, theirs = [], []
    for pair in range(n_pairs):
        if pair % 2:
            theirs.append(peer())
            mine.append(ours())
        else:
            mine.append(ours())
            theirs.append(peer())
    both = list(zip(mine, theirs, strict=True))
    ratio = {what: spread(getattr(a, what) / getattr(b, what) for a, b in both) for what in ("rate", "cpu_us")}
    return {"ours": _side(mine), "peer_runs": _side(theirs), "ratio": ratio}
