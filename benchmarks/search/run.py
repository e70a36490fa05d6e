"""Trimtab's searchers beside the peers: recorded trials, synthetic surfaces, time of one ask, changing workloads.

    make bench-search                                   everything; the environments of the peers are made first
    python benchmarks/search/run.py --part surfaces --quick
    python benchmarks/search/run.py --part replay --contenders auto "optuna TPE" --again auto
    python benchmarks/search/run.py --part rugged --seeds 5 --minutes 4     one piece; the same again goes on

Runs are kept under .bench-search/ and not made twice; `--again` makes those of some contenders again. Shares of the
reachable gain are true ones, of the config that was measured best. Results go to benchmarks/search/results.json, from which
table.py writes the tables of docs/measurements/search.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# Before numpy is loaded: one thread, as on the one core that the benchmark is given.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

sys.path.insert(0, str(Path(__file__).parents[1]))

import ask  # noqa: E402
import context  # noqa: E402
import replay  # noqa: E402
import stamp  # noqa: E402
from contenders import ABSENT, PEERS, make  # noqa: E402
from store import Record, Store, against_best, by_task, overall, paired, quartiles, ranks  # noqa: E402
from tasks import CHECKPOINTS, CHOSEN_ON, N_TRIALS, Task, run  # noqa: E402

from trimtab.testing.rugged import make_rugged  # noqa: E402
from trimtab.testing.surfaces import make_surface  # noqa: E402

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PARTS = ("replay", "surfaces", "rugged", "context", "ask")
OURS = (
    "auto", "gp", "forest", "tpe", "projection", "trust-region", "bestconfig", "ensemble", "differential-evolution",
    "hill-climbing", "pattern-search", "nelder-mead", "random", "textbook",
)  # fmt: skip
SEEDS = {"replay": 5, "surfaces": 20, "rugged": 20, "context": 5, "ask": 1}
"""Five tables of recorded trials answer alike for every seed but for noise; every surface is another one."""

SURFACES = [(n, noise) for n in (20, 50, 200) for noise in (0.03, 0.10)]
SLOW_SURFACES = [(20, 0.03)]
HELD_OUT = 400
"""Surfaces from this number on are scored; constants were chosen on numbers below 400."""

RUGGED_HELD_OUT = 500
"""Rugged surfaces from this number on are scored; constants were chosen on numbers below 100, the quality test has 300 on."""


def surface_task(n_knobs: int, noise: float, number: int) -> Task:
    """A synthetic surface as a task."""
    surface = make_surface(n_knobs, number, noise)
    return Task(
        f"{n_knobs} knobs, {noise:.0%} noise", surface.space, surface.baseline, surface.advice, noise, surface.loss,
        surface.optimum,
    )  # fmt: skip


RUGGED_NOISES = (0.03, 0.10)


def rugged_task(noise: float, number: int) -> Task:
    """A rugged surface as a task: interactions, thresholds, no advice."""
    surface = make_rugged(number, noise)
    return Task(f"rugged, {noise:.0%} noise", surface.space, surface.baseline, (), noise, surface.loss, surface.optimum)


def planned(
    part: str, data: Path, contenders: list[str], seeds: range
) -> Iterator[tuple[str, str, int, Callable[[], Task]]]:
    """(task, contender, seed, how to make the task) of every run of a part; slow peers run on some tasks only."""
    if part == "replay":
        tasks = {name: name in replay.SLOW for name in replay.names()} if data.is_dir() else {}
        making = {name: lambda seed, name=name: replay.load(name, data, seed) for name in tasks}
    elif part == "rugged":
        tasks = {f"rugged, {noise:.0%} noise": noise == RUGGED_NOISES[0] for noise in RUGGED_NOISES}
        making = {
            name: lambda seed, noise=noise: rugged_task(noise, RUGGED_HELD_OUT + seed)
            for name, noise in zip(tasks, RUGGED_NOISES, strict=True)
        }
    else:
        sizes = {f"{n} knobs, {noise:.0%} noise": (n, noise) for n, noise in SURFACES}
        tasks = {name: size in SLOW_SURFACES for name, size in sizes.items()}
        making = {
            name: lambda seed, size=size: surface_task(*size, HELD_OUT + seed) for name, size in sizes.items()
        }  # fmt: skip
    for task, is_for_slow in tasks.items():
        for contender in contenders:
            if contender not in PEERS or not PEERS[contender].is_slow or is_for_slow:
                for seed in seeds:
                    yield task, contender, seed, lambda task=task, seed=seed: making[task](seed)


def run_part(part: str, store: Store, options: argparse.Namespace) -> None:
    """Makes the runs of a part that are missing."""
    n_trials, until = options.trials, time.monotonic() + 60 * options.minutes
    for name, contender, seed, load in planned(
        part, options.data, options.contenders, range(options.seeds or SEEDS[part])
    ):
        if store.has(part, name, contender, seed) or (options.tasks and name not in options.tasks):
            continue
        if contender in PEERS and not PEERS[contender].python.exists():
            continue
        if time.monotonic() > until:
            print(f"{part}: {options.minutes:g} minutes are over; the same command goes on", file=sys.stderr)
            return
        task, making, start = load(), stamp.Making(), time.perf_counter()
        with_peer = make(contender, task, seed, n_trials)
        try:
            made = run(task, with_peer, n_trials, seed)
        finally:
            with_peer.close()
        seconds = time.perf_counter() - start
        share = {str(n): round(made.share[n - 1], 4) for n in CHECKPOINTS if n <= n_trials}
        store.add({
            "part": part, "task": name, "contender": contender, "seed": seed, "share": share, "failed": made.failed,
            "worse": made.worse, "restarts": made.restarts, "seconds": round(seconds, 2), "made": making.stamp(),
        })  # fmt: skip
        print(f"{part}: {name}: {contender}, seed {seed}: {share} in {seconds:.1f} s", file=sys.stderr)


def run_context(store: Store, options: argparse.Namespace) -> None:
    """Makes the simulations of changing workloads that are missing."""
    n_cycles = 4 if options.quick else context.N_CYCLES
    for name in context.CONTENDERS:
        for seed in range(options.seeds or SEEDS["context"]):
            if not store.has("context", "YCSB cycle", name, seed):
                making, start = stamp.Making(), time.perf_counter()
                latency = context.simulate(name, seed, n_cycles)
                taken = round(time.perf_counter() - start, 2)
                key: Record = {"part": "context", "task": "YCSB cycle", "contender": name, "seed": seed}
                store.add({**key, "latency": latency, "seconds": taken, "made": making.stamp()})
                print(f"context: {name}, seed {seed} in {taken} s", file=sys.stderr)


def run_ask(store: Store, options: argparse.Namespace) -> None:
    """Times the asks that are missing; wants a quiet machine."""
    sizes = ask.SIZES[:2] if options.quick else ask.SIZES
    for n_knobs in ask.KNOBS:
        for name in [n for n in (*ask.OURS, *PEERS) if n in options.contenders]:
            is_here = name not in PEERS or PEERS[name].python.exists()
            if is_here and not store.has("ask", f"{n_knobs} knobs", name, 0):
                making, start = stamp.Making(), time.perf_counter()
                rows = ask.measure(n_knobs, name, sizes)
                taken = round(time.perf_counter() - start, 2)
                key: Record = {"part": "ask", "task": f"{n_knobs} knobs", "contender": name, "seed": 0}
                store.add({**key, "rows": rows, "seconds": taken, "made": making.stamp()})
                print(f"ask: {n_knobs} knobs, {name}: {rows} in {taken} s", file=sys.stderr)


def absent(contenders: list[str]) -> dict[str, str]:
    """Peers that take no part, with the reason."""
    missing = {
        name: f"its environment {kind.python.parents[1].name} is not there; see Makefile, bench-search"
        for name, kind in PEERS.items()
        if name in contenders and not kind.python.exists()
    }
    return ABSENT | missing


def results(store: Store, options: argparse.Namespace) -> Record:
    """What results.json holds."""
    found: Record = {"seeds": options.seeds or SEEDS, "trials": options.trials}
    found["absent"] = absent(options.contenders)
    found["seconds"] = {part: round(sum(r.get("seconds", 0.0) for r in store.of(part))) for part in PARTS}
    for part in ("replay", "surfaces", "rugged"):
        found[part] = by_task(store.of(part))
        found[f"{part} paired"] = paired([r for r in store.of(part) if r["task"] not in CHOSEN_ON])
        found[f"{part} overall"] = overall(store.of(part))
        found[f"{part} best"] = against_best(store.of(part), PEERS)
        found[f"{part} ranks"] = ranks([r for r in store.of(part) if r["contender"] in ("auto", "random", *PEERS)])
    found["context"] = context.summary(store.of("context"), quartiles)
    found["ask"] = {}
    for record in store.of("ask"):
        found["ask"].setdefault(record["task"], {})[record["contender"]] = record["rows"]
    return found


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--contenders", nargs="+", default=[*OURS, *PEERS])
    parser.add_argument("--tasks", nargs="+", help="only these tasks")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no run of a part after so many; the next call goes on"
    )
    parser.add_argument("--again", nargs="+", default=[], help="contenders whose runs are made again")
    parser.add_argument("--seeds", type=int, help="runs of each contender on each task; default: by part")
    parser.add_argument("--trials", type=int, default=N_TRIALS)
    parser.add_argument("--report", action="store_true", help="only write the results of the runs that are there")
    parser.add_argument("--quick", action="store_true", help="two seeds, 30 trials; to see that everything works")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "replay")
    parser.add_argument("--runs", type=Path, default=ROOT / ".bench-search" / "runs.jsonl")
    parser.add_argument("--out", type=Path, help="default: results.json beside this file; none with --quick")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.trials = 2, 30
        options.runs = options.runs.with_name("quick.jsonl")
    elif options.out is None:
        options.out = HERE / "results.json"
    return options


def main() -> int:
    """Runs what is missing, writes results; exit code 0."""
    options = parsed()
    store = Store(options.runs)
    store.forget(options.again)
    for name, reason in absent(options.contenders).items():
        print(f"{name} takes no part: {reason}", file=sys.stderr)
    if "replay" in options.part and not options.data.is_dir():
        print(f"no recorded trials at {options.data}: --data says where they are", file=sys.stderr)
    other = {"context": run_context, "ask": run_ask}
    for part in () if options.report else options.part:
        if part in other:
            other[part](store, options)
        else:
            run_part(part, store, options)
    found = results(store, options)
    if options.out is not None:
        by_part = {part: [record.get("made") for record in store.of(part)] for part in PARTS}
        stamp.write(
            options.out,
            found,
            {part: stamp.merged(some) for part, some in by_part.items() if some},
            indent=1,
            sort_keys=True,
        )
    else:
        print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
