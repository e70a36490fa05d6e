"""How often the acceptance rule calls a candidate unstable: one that varies as the baseline does, and one that varies more.

    python benchmarks/acceptance/stability.py [--proofs 1500] [--earlier 8]

Each proof has pairs of made-up runs whose logarithms are normal; the noise of the baseline is known, and some of its runs
(--earlier) come before the proof. A candidate that varies as the baseline does and is refused is a gain lost by chance; one
that varies more and is accepted is harm that was not seen.
"""

from __future__ import annotations

import argparse

import numpy as np

from trimtab.flow.acceptance import Acceptance, AcceptanceRule, Sample

__all__ = ["main", "refused"]

NOISES, GAINS, TIMES, PAIRS = (0.03, 0.06, 0.1, 0.14), (1.2, 1.5, 2.0), (3.0, 5.0), (4, 6, 10)


def refused(noise: float, gain: float, times: float, n_pairs: int, n_proofs: int, n_earlier: int = 0) -> float:
    """Share of proofs in which the runs of the candidate vary too much.

    Args:
        noise: standard deviation of the baseline's runs, of their logarithms.
        gain: how many times better the candidate is.
        times: how many times as much as the baseline its runs vary.
        n_pairs, n_proofs: of each proof, and how many.
        n_earlier: runs of the baseline before each.
    """
    rng, n = np.random.default_rng(5), 0
    for _ in range(n_proofs):
        earlier = tuple(rng.normal(0.0, noise, n_earlier))
        proof = Acceptance(AcceptanceRule(metric="throughput", is_maximised=True, noise_sd=noise, earlier=earlier))
        logs = rng.normal(0.0, noise, (n_pairs, 2)) * (1.0, times)
        for before, after in np.exp(logs):
            proof.add(Sample(value=before), Sample(value=gain * after))
        n += any(condition.name == "stability" and not condition.is_met for condition in proof.conditions())
    return n / n_proofs


def main() -> None:
    """Runs all and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--proofs", type=int, default=1500)
    parser.add_argument("--earlier", type=int, default=0, help="runs of the baseline before each proof")
    given = parser.parse_args()
    print(f"| candidate | gain | noise | {' | '.join(f'{n} pairs' for n in PAIRS)} |")
    print("| --- | --- | --- |" + " --- |" * len(PAIRS))
    for times in (1.0, *TIMES):
        for gain in GAINS if times == 1.0 else (1.5,):
            for noise in NOISES:
                shares = " | ".join(f"{refused(noise, gain, times, n, given.proofs, given.earlier):.1%}" for n in PAIRS)
                varies = "varies alike" if times == 1.0 else f"varies {times:g} times as much"
                print(f"| {varies} | {gain} | {noise:.0%} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
