"""How often the acceptance rule is fooled: candidates equal to the baseline (A/A) under several kinds of noise.

python benchmarks/acceptance/aa.py                  # 4000 simulated proofs of each kind, about two minutes
python benchmarks/acceptance/aa.py --first 8        # the same after eight runs of the baseline, which lend the proofs their noise
python benchmarks/acceptance/aa.py --server 40      # and 40 proofs on a real embedded PostgreSQL, about 15 minutes
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.flow.acceptance import Acceptance, AcceptanceRule, Sample
from trimtab.measure import BaselineTrack, NoisePool

__all__ = ["MODELS", "accepted", "false_claims", "main"]

Floats = NDArray[np.float64]
MIN_PAIRS, MAX_PAIRS, N_FIRST = 3, 24, 3
APART, LEANED = 6, 6.0
"""Trials between later runs of the baseline; degrees of freedom that a proof takes over from them."""

ALPHA = 0.05


def _normal(rng: np.random.Generator, n: int) -> Floats:
    return rng.normal(0, 0.05, n)


def _heavy(rng: np.random.Generator, n: int) -> Floats:
    return np.asarray(rng.standard_t(3, n) * 0.05 / np.sqrt(3))


def _drift(rng: np.random.Generator, n: int) -> Floats:
    level, found = rng.normal(0, 0.08), []
    for _ in range(n):
        level = 0.9 * level + np.sqrt(1 - 0.9**2) * rng.normal(0, 0.08)
        found.append(level + rng.normal(0, 0.01))
    return np.array(found)


def _tuna(rng: np.random.Generator, n: int) -> Floats:
    """Range of 15 % over runs, and one run in ten far slower: plan flips, bad neighbours (TUNA, EuroSys 2025)."""
    return rng.normal(0, 0.05, n) - np.where(rng.random(n) < 0.1, rng.uniform(0.15, 0.7, n), 0.0)


def _skewed(rng: np.random.Generator, n: int) -> Floats:
    return -rng.exponential(0.07, n)


def _step(rng: np.random.Generator, n: int) -> Floats:
    """From some run on the machine is a third slower."""
    return rng.normal(0, 0.03, n) - np.where(np.arange(n) >= rng.integers(0, n), 0.3, 0.0)


MODELS: Mapping[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal 5 %": _normal,
    "heavy tails (t3) 5 %": _heavy,
    "drift, AR(1) 0.9, 8 %": _drift,
    "TUNA-like, outliers": _tuna,
    "skewed 7 %": _skewed,
    "step of 30 %": _step,
}


def accepted(
    name: str,
    rng: np.random.Generator,
    *,
    gain: float = 1.0,
    p99: float = 1.0,
    spread: float = 1.0,
    delta: float = 0.02,
    n_first: int = N_FIRST,
) -> bool:
    """One proof: the baseline's first runs, then pairs in the order AB BA, looked at after each.

    Args:
        name: of the noise, a key of `MODELS`.
        rng: where chance comes from.
        gain: how many times better the candidate really is.
        p99: how many times longer its slowest operations take.
        spread: how many times more its runs scatter.
        delta: smallest gain worth claiming.
        n_first: runs of the baseline before it, a few trials apart.
    """
    n_before = N_FIRST + (n_first - N_FIRST) * APART
    noise = MODELS[name](rng, n_before + 2 * MAX_PAIRS)
    track = BaselineTrack()
    for i in [*range(N_FIRST), *range(N_FIRST - 1 + APART, n_before, APART)]:
        track.add(i, float(np.exp(noise[i])))
    drift = track.summary()
    df = min(drift.noise_df, LEANED)
    pool = NoisePool(df * 2 * drift.noise_sd**2, df)
    rule = AcceptanceRule(
        metric="throughput", is_maximised=True, delta=delta, noise_sd=drift.noise_sd, pool=pool, earlier=track.logs
    )
    test = Acceptance(rule)
    for pair in range(MAX_PAIRS):
        first, second = noise[n_before + 2 * pair : n_before + 2 * pair + 2]
        b, c = (first, second) if pair % 2 == 0 else (second, first)
        test.add(_sample(rng, b), _sample(rng, spread * c + np.log(gain), p99))
        if len(test) >= MIN_PAIRS and test.is_settled():
            break
    return test.is_accepted


def _sample(rng: np.random.Generator, log_value: float, p99: float = 1.0) -> Sample:
    """Latencies go with the throughput, p99 with noise of its own."""
    value = float(np.exp(log_value))
    slow = p99 * float(np.exp(rng.normal(0, 0.05))) / value
    metrics = {"throughput": value, "latency_mean": 1 / value, "latency_p99": slow}
    return Sample(value=value, metrics=metrics, unsteadiness=0.05 * float(np.exp(rng.normal(0, 0.3))))


def false_claims(name: str, n: int, seed: int = 1, n_first: int = N_FIRST) -> int:
    """How many of `n` proofs of equal configs end in a claim."""
    rng = np.random.default_rng(seed)
    return sum(accepted(name, rng, n_first=n_first) for _ in range(n))


def _share(n: int, seed: int, name: str, n_first: int, **truth: float) -> float:
    rng = np.random.default_rng(seed)
    return sum(accepted(name, rng, n_first=n_first, **truth) for _ in range(n)) / n


def simulate(n: int, seed: int, n_first: int = N_FIRST) -> bool:
    """Prints the table; whether no kind of noise fools the rule in more than 5 % of the proofs."""
    cases: dict[str, dict[str, float]] = {
        "equal (A/A)": {},
        "1.1 times": {"gain": 1.1},
        "1.5 times": {"gain": 1.5},
        "1.5 times, p99 1.5 times": {"gain": 1.5, "p99": 1.5 * 1.5},
        "1.5 times, scatter 5 times": {"gain": 1.5, "spread": 5.0},
    }
    print(
        f"share of {n} simulated proofs that accept the candidate ({MIN_PAIRS} to {MAX_PAIRS} pairs, looked at after each)"
    )
    print("| noise | " + " | ".join(cases) + " |")
    print("| --- |" + " --- |" * len(cases))
    worst = 0.0
    for name in MODELS:
        shares = [
            _share(n if not truth else max(200, n // 10), seed, name, n_first, **truth) for truth in cases.values()
        ]
        worst = max(worst, shares[0])
        print(f"| {name} | " + " | ".join(f"{share:.1%}" for share in shares) + " |", flush=True)
    print(f"\nfalse claims at worst: {worst:.2%} (promised: at most {ALPHA:.0%})")
    return worst <= ALPHA


STUDY = """
[study]
name = "aa"

[target.db]
kind = "postgresql"
embedded = "18"
memory = "1GiB"
knobs = ["work_mem"]

[workload]
kind = "pgbench"
scale = 1
script = "select-only"

[workload.load]
users = 2

[measure]
window = "2s"
window_max = "2s"
warmup_floor = "1s"
warmup_cap = "2s"

[proof]
advice = false
"""


def on_server(n: int) -> bool:
    """`n` proofs of a real server against itself; whether no more than 5 % of them, and one, end in a claim."""
    from proofs import prove_equal

    with tempfile.TemporaryDirectory(prefix="trimtab-aa-") as folder:
        Path(folder).chmod(0o755)
        study = Path(folder) / "study.toml"
        study.write_text(STUDY, encoding="utf-8")
        claims = 0
        for number in range(n):
            proof = prove_equal(study, Path(folder) / "state")
            claims += proof.is_better
            ratio = proof.gain.ratio if proof.gain is not None else None
            shown = (
                f"{ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio is not None else proof.failure
            )
            print(f"proof {number + 1} of {n}: {shown}; claims so far: {claims}", flush=True)
    print(json.dumps({"proofs": n, "false_claims": claims}))
    return claims <= max(1, round(ALPHA * n))


def main(arguments: list[str] | None = None) -> int:
    """Entry point; 0 when the promise is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=4000, help="simulated proofs of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=N_FIRST, help="runs of the baseline before a proof, 3 or more")
    parser.add_argument("--server", type=int, default=0, metavar="N", help="proofs on a real PostgreSQL")
    options = parser.parse_args(arguments)
    is_kept = simulate(options.n, options.seed, max(N_FIRST, options.first)) if options.n else True
    return 0 if is_kept and (not options.server or on_server(options.server)) else 1


if __name__ == "__main__":
    sys.exit(main())
