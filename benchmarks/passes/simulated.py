"""One pass, restart-first and alternate on made-up servers whose truth is known, in the same simulated time.

    python benchmarks/passes/simulated.py [--seeds N] [--restart SECONDS]

A server has 4 knobs that need a restart and 8 that do not; three of each matter. On the "additive" ones effects add up, on the
"coupled" ones each knob that needs a restart only pays as far as one of the others follows. A trial takes 6 s, a long one 12 s,
and a restart comes on top where a knob that needs one differs from the trial before. Printed: the true gain of the config that
was proven, as a share of the best there is (median over the seeds), and that share over the share of one pass.
"""

from __future__ import annotations

import argparse
import math
import statistics

import numpy as np

from trimtab.flow import Ask, Budget, Effort, SearchOptions, Settled, Study, Task
from trimtab.flow.tuning import tuning
from trimtab.measure import Interval, Measurement
from trimtab.records import Context, Objective, PassesPlan, Status, Trial
from trimtab.space import Config, Knob, KnobKind, RestartClass, Space

LATE = [f"late{i}" for i in range(4)]
SOON = [f"soon{i}" for i in range(8)]
RUN_S, LONG_S, NOISE = 6.0, 12.0, 0.02
CONTEXT = Context("made up", 8)


def space() -> Space:
    """All knobs lie in [0, 1] and begin at 0.3."""
    restart = dict.fromkeys(LATE, RestartClass.RESTART) | dict.fromkeys(SOON, RestartClass.RELOAD)
    return Space(
        [
            Knob(name=name, kind=KnobKind.REAL, low=0.0, high=1.0, default=0.3, restart=kind)
            for name, kind in restart.items()
        ]
    )


def truth(seed: int, *, is_coupled: bool) -> tuple[dict[str, float], dict[str, float], bool]:
    """Where each knob is best, and how much a whole step away from there costs (a log-ratio)."""
    rng = np.random.default_rng([seed, 11])
    best = {name: float(rng.uniform()) for name in (*LATE, *SOON)}
    weight = {name: float(rng.uniform(0.5, 1.5)) if int(name[4:]) < 3 else 0.0 for name in best}
    return best, weight, is_coupled


def gain(config: Config, best: dict[str, float], weight: dict[str, float], is_coupled: bool) -> float:
    """Log of the speed, 0 at best."""
    away = {name: abs(float(config[name]) - best[name]) for name in best}
    lost = sum(weight[name] * away[name] ** 2 for name in best)
    if is_coupled:
        pairs = zip(LATE[:3], SOON[:3], strict=True)
        lost += sum(2 * ((float(config[a]) - best[a]) - (float(config[b]) - best[b])) ** 2 for a, b in pairs)
    return -lost


def studied(kind: str, seed: int, *, is_coupled: bool, budget_s: float, restart_s: float) -> float:
    """Share of the best possible gain (a log-ratio) that the proven config has; 0 for none."""
    best, weight, coupled = truth(seed, is_coupled=is_coupled)
    where = space()
    start = gain(where.default(), best, weight, coupled)
    task = Task(
        space=where, baseline=where.default(), advice=where.default(), objective=Objective("throughput"),
        budget=Budget(seconds=budget_s), context=CONTEXT, seed=seed, search=SearchOptions(patience=400),
    )  # fmt: skip

    def settle(scorer: object) -> Settled:
        plan = PassesPlan(kind=kind, room=int(0.6 * budget_s / RUN_S), unit_cost_s=RUN_S)
        return Settled(passes=None if kind == "one" else plan)

    study = Study(task, tuning(task, settle))
    rng = np.random.default_rng([seed, 12])
    before = task.baseline
    while not study.is_over:
        for ask in study.next():
            study.tell(_trial(ask, before, gain(ask.config, best, weight, coupled) - start, restart_s, rng))
            before = ask.config
    verdict = study.result
    if verdict.result != "better" or verdict.candidate is None:
        return 0.0
    return (gain(verdict.candidate, best, weight, coupled) - start) / -start


def _trial(ask: Ask, before: Config, log_gain: float, restart_s: float, rng: np.random.Generator) -> Trial:
    value = 1000.0 * math.exp(log_gain + rng.normal(0.0, NOISE))
    late = any(ask.config[name] != before[name] for name in LATE)
    interval = Interval(value, value, value, se=0.01 * value)
    measurement = Measurement(
        window_s=(0.0, 5.0), throughput=interval, latency_mean_ms=Interval(1.0, 1.0, 1.0, se=0.0), latency_ms={},
        n_ok=1000, n_error=0, n_timed_out=0, is_steady=True, warmup_s=0.0, series_per_s=(value,) * 5,
    )  # fmt: skip
    cost_s = {
        "measure": LONG_S if ask.effort is Effort.LONG else RUN_S, "apply": restart_s if late else 0.0
    }  # fmt: skip
    return Trial(
        number=ask.number, role=ask.role, config=ask.config, context=CONTEXT, status=Status.OK, measurement=measurement,
        cost_s=cost_s,
    )  # fmt: skip


def main() -> None:
    """Runs all and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--restart", type=float, default=30.0, help="seconds that a restart and the cold cache cost")
    parser.add_argument("--budget", type=float, default=1800.0)
    given = parser.parse_args()
    for is_coupled in (False, True):
        shares = {
            kind: statistics.median(
                studied(kind, seed, is_coupled=is_coupled, budget_s=given.budget, restart_s=given.restart)
                for seed in range(given.seeds)
            )
            for kind in ("one", "restart-first", "alternate")
        }
        name = "coupled" if is_coupled else "additive"
        print(
            f"{name}, restart {given.restart:g} s, {given.budget:g} s in all: "
            + ", ".join(
                f"{kind} {share:.2f} ({share / max(shares['one'], 1e-9):.2f})" for kind, share in shares.items()
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
