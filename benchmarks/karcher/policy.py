"""How the extension's tuner would do on plans that were measured: what its constants were chosen by.

    python benchmarks/karcher/policy.py --measure [--folder DIR]        minutes, alone on the machine: plans.json
    python benchmarks/karcher/policy.py [--executions 50] [--rounds 60] [--noise 0.05] [--set EARLY_GAIN=1.2 ...]

Each query of TPC-H at scale 1 is executed with the defaults and with each of the extension's first candidates whose plan differs
(the median of three runs each). Then executions are simulated: the tuner is the extension's own, and so are its candidates, which
are read from extensions/postgresql/src/knobs.c; what several candidates bring together is assumed. A parameter that was not there
when the queries were executed has PostgreSQL's default, which is the last of its values. `--set` compiles the tuner with another
value of one of its constants. The tables in docs are of real executions, not of these.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from server import EXTENSION, SECTIONS, connection, running

from trimtab.workload.tpch.prepare import prepare
from trimtab.workload.tpch.queries import validation_query

HERE = Path(__file__).parent
PLANS = HERE / "plans.json"
FOLDER = Path("/var/tmp/trimtab-karcher")
_STEP = 0.01
"""Of the way back to the default's costs, as in screen.c: a cost is linear in them while the plan stays."""
_NO_ESTIMATE = 4.0
_AS_DEFAULT = 1
_TUNER = ("tuner", "search", "simplex", "points")
_WORKERS = "max_parallel_workers_per_gather"
_COSTS = ("random_page_cost", "parallel_setup_cost")


class Knob(NamedTuple):
    """One row of the extension's table."""

    name: str
    risk: float
    only_more: bool
    values: tuple[float, ...]

    def levels(self, base: float) -> list[float]:
        """Its values in order, the session's own among them."""
        return sorted({base, *(v for v in self.values if not self.only_more or v >= base)})


Candidate = dict[str, float]
"""Knob -> value, as the extension lays it over a session's own."""


def extension() -> tuple[list[Knob], list[Candidate]]:
    """The parameters of the extension and its first candidates, as knobs.c has them."""
    text = "".join((EXTENSION / "src" / name).read_text(encoding="utf-8") for name in ("knobs.h", "knobs.c"))
    rows = re.findall(r'\{"(\w+)", ([\d.]+), \w+, \w+, (\w+), \d+, \{([^}]+)\}\}', text)
    knobs = [Knob(name, float(risk), more == "true", _numbers(values)) for name, risk, more, values in rows]
    names = re.findall(r"\w+", re.search(r"enum \{ (WORK_MEM[^}]+)\}", text)[1])  # type: ignore[index]
    plays = re.search(r"\} plays\[\] = \{(.+?)\n    \};", text, re.DOTALL)[1]  # type: ignore[index]
    candidates = []
    for which, values in re.findall(r"\{\{([^}]+)\}, \{([^}]+)\}\}", plays):
        own = [knobs[names.index(name)].name for name in re.findall(r"[A-Z_]+", which)]
        candidates.append(dict(zip(own, [*_numbers(values), 0.0, 0.0], strict=False)))
    return knobs, candidates


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(each) for each in text.split(","))


def nearest(levels: Sequence[float], value: float) -> float:
    """The level that a candidate's value becomes."""
    return min(levels, key=lambda level: abs(level - value))


def with_cores(workers: Sequence[float], own: float, cores: int) -> Candidate | None:
    """The candidate that comes before all: as many workers as have a core beside their leader's, where the session has more."""
    fitting = [each for each in workers if each <= cores - 1 < own] if cores > 1 else []
    return {_WORKERS: max(fitting)} if fitting else None


def measure(folder: Path, cores: int) -> dict[str, Any]:
    """Every query with every candidate."""
    knobs, candidates = extension()
    with running(folder) as endpoint:
        prepare(endpoint, database="tpch_1", scale=1.0, schema="standard", report=_say)
        with connection(endpoint, "tpch_1") as session:
            return _measured_by(session, knobs, candidates, cores)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _measured_by(session: Any, knobs: Sequence[Knob], candidates: Sequence[Candidate], cores: int) -> dict[str, Any]:
    making = stamp.Making()
    session.execute(b"SET trimtab.mode = off")
    base = {knob.name: _own(session, knob.name) for knob in knobs}
    levels = {knob.name: knob.levels(base[knob.name]) for knob in knobs}
    every = [{name: nearest(levels[name], value) for name, value in candidate.items()} for candidate in candidates]
    first = with_cores(levels[_WORKERS], base[_WORKERS], cores)
    every = [candidate for candidate in ([first] if first else []) + every if candidate != _of(base, candidate)]
    queries = {}
    for query in range(1, 23):
        queries[str(query)] = _measured(session, validation_query(query), base, every)
        _say(f"q{query}: {queries[str(query)]['ms']:.0f} ms")
    return {
        "base": base, "cores": cores, "candidates": every, "queries": queries, "made": {"plans": making.stamp()}
    }  # fmt: skip


def _of(base: Mapping[str, float], candidate: Candidate) -> Candidate:
    return {name: base[name] for name in candidate}


def _own(session: Any, name: str) -> float:
    """In the unit that knobs.c has."""
    kind, value = session.execute(b"SELECT vartype, setting FROM pg_settings WHERE name = %s", [name]).fetchone()
    return float(value == "on") if kind == "bool" else float(value)


def _set(session: Any, values: Mapping[str, float]) -> None:
    for name, value in values.items():
        session.execute(b"SELECT set_config(%s, %s, false)", [name, f"{value:.15g}"])


def _plan(session: Any, sql: str) -> tuple[str, float]:
    """Its shape, and PostgreSQL's estimate of its cost."""
    shape = "\n".join(row[0] for row in session.execute(f"EXPLAIN (COSTS OFF) {sql}".encode()).fetchall())
    (document,) = session.execute(f"EXPLAIN (FORMAT JSON) {sql}".encode()).fetchone()
    return shape, float(document[0]["Plan"]["Total Cost"])


def _ms(session: Any, sql: str) -> float:
    began = time.perf_counter()
    session.execute(sql.encode()).fetchall()
    return (time.perf_counter() - began) * 1e3


def _estimate(
    session: Any, sql: str, base: Mapping[str, float], candidate: Candidate, seen: tuple[str, float]
) -> float:
    """The cost of the candidate's plan at the session's own costs, as screen.c finds it; `seen`: shape and cost."""
    shape, cost = seen
    costs = {name: candidate[name] for name in _COSTS if name in candidate}
    if not costs:
        return cost
    _set(session, {name: value + _STEP * (base[name] - value) for name, value in costs.items()})
    stepped, further = _plan(session, sql)
    return cost + (further - cost) / _STEP if stepped == shape else -1.0


def _measured(session: Any, sql: str, base: Mapping[str, float], candidates: Sequence[Candidate]) -> dict[str, Any]:
    _ms(session, sql)
    own_ms = statistics.median(_ms(session, sql) for _ in range(5))
    began = time.perf_counter()
    session.execute(f"EXPLAIN (COSTS OFF) {sql}".encode()).fetchall()
    plan_ms = (time.perf_counter() - began) * 1e3
    plain, plain_cost = _plan(session, sql)
    ratios, rows = {plain: 1.0}, []
    for candidate in candidates:
        _set(session, candidate)
        shape, cost = _plan(session, sql)
        if shape not in ratios:
            ratios[shape] = statistics.median(_limited(session, sql, own_ms) for _ in range(3)) / own_ms
        estimate = _estimate(session, sql, base, candidate, (shape, cost)) / plain_cost
        rows.append({"plan": list(ratios).index(shape), "ratio": ratios[shape], "estimate": estimate})
        _set(session, _of(base, candidate))
    return {"ms": own_ms, "plan_ms": plan_ms, "candidates": rows}


def _limited(session: Any, sql: str, own_ms: float) -> float:
    """Four times its usual time at most: what is slower is slow enough."""
    most = 4 * own_ms + 50
    _set(session, {"statement_timeout": round(most)})
    try:
        return _ms(session, sql)
    except Exception as error:  # the driver's class for a time-out
        if "statement timeout" not in str(error):
            raise
        return most
    finally:
        _set(session, {"statement_timeout": 0})


def numbers(found: Mapping[str, Any]) -> str:
    """What policy.c reads."""
    knobs, _ = extension()
    base = {knob.name: found["base"].get(knob.name, knob.values[-1]) for knob in knobs}
    levels = {knob.name: knob.levels(base[knob.name]) for knob in knobs}
    first = with_cores(levels[_WORKERS], base[_WORKERS], found["cores"])
    lines = [str(len(knobs))]
    lines += [f"{len(levels[k.name])} {levels[k.name].index(base[k.name])} {k.risk}" for k in knobs]
    lines.append(str(len(found["candidates"])))
    for candidate in found["candidates"]:
        lines.append(" ".join(str(levels[k.name].index(candidate.get(k.name, base[k.name]))) for k in knobs))
    lines.append(str(len(found["queries"])))
    for query in found["queries"].values():
        lines.append(f"{query['ms']} {query['plan_ms']}")
        for candidate, row in zip(found["candidates"], query["candidates"], strict=True):
            estimate = row["estimate"] if row["estimate"] > 0 else _NO_ESTIMATE
            estimate = min(estimate, 1.0) if candidate == first else estimate
            n_plannings = 1 + any(name in candidate for name in _COSTS)
            lines.append(f"{row['plan'] + _AS_DEFAULT} {row['ratio']} {estimate} {n_plannings}")
    return "\n".join(lines)


def compiled(folder: Path, constants: Mapping[str, str]) -> Path:
    """The simulation with these constants in place of the tuner's own."""
    missing = set(constants)
    for name in _TUNER:
        text = (SECTIONS / f"trimtab_{name}.c").read_text(encoding="utf-8")
        for constant, value in constants.items():
            text, n = re.subn(rf"(?m)^#define {constant} \S+$", f"#define {constant} {value}", text)
            missing -= {constant} if n else set()
        (folder / f"trimtab_{name}.c").write_text(text, encoding="utf-8")
    if missing:
        raise SystemExit(f"error: the tuner has no constant={', '.join(sorted(missing))}")
    program = folder / "policy"
    sources = [str(HERE / "policy.c"), *(str(folder / f"trimtab_{name}.c") for name in _TUNER)]
    subprocess.run(["cc", "-O2", "-std=gnu99", f"-I{SECTIONS}", *sources, "-lm", "-o", str(program)], check=True)
    return program


def simulated(found: Mapping[str, Any], options: argparse.Namespace) -> str:
    """What policy.c prints."""
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder), dict(options.set or ()))
        argv = [str(program), str(options.executions), str(options.rounds), str(options.repeats), str(options.noise)]
        done = subprocess.run(argv, input=numbers(found), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    return done.stdout


def table(text: str, executions: int) -> str:
    """The simulation's lines as Markdown."""
    rows = [line.split() for line in text.splitlines()]
    queries = [row[1:] for row in rows if row[0] == "query"]
    lines = [f"| query | over {executions} executions | with what was found | probes |", "| --- " * 4 + "|"]
    lines += [f"| Q{which} | {ratio} | {end} | {probes} |" for which, ratio, end, probes in queries]
    least, n_gains = min(float(row[1]) for row in queries), sum(float(row[2]) >= 1.1 for row in queries)
    lines.append(f"\nThe least is {least:.3f}; {n_gains} of {len(queries)} end above 1.10.")
    for _, rounds, ratio, settled in (row for row in rows if row[0] == "stream"):
        lines.append(f"A stream of all, {rounds} rounds: {ratio} times as fast; in the last third {settled}.")
    return "\n".join(lines)


def _constant(text: str) -> tuple[str, str]:
    if not re.fullmatch(r"[A-Z_]+=[\d.]+", text):
        raise argparse.ArgumentTypeError(f"{text} is not CONSTANT=VALUE")
    name, _, value = text.partition("=")
    return name, value


def _count(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return int(text)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help="execute the queries; else simulate")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the server and its data, as of run.py")
    parser.add_argument("--executions", type=_count, default=50)
    parser.add_argument("--rounds", type=_count, default=60, help="of the stream of all queries")
    parser.add_argument("--repeats", type=_count, default=40)
    parser.add_argument("--noise", type=float, default=0.05, help="standard deviation of a time's logarithm")
    parser.add_argument(
        "--set", action="append", type=_constant, metavar="CONSTANT=VALUE", help="of the tuner, for this simulation"
    )
    options = parser.parse_args()
    if options.measure:
        found = measure(options.folder, len(os.sched_getaffinity(0)))
        stamp.write(PLANS, {key: found[key] for key in found if key != "made"}, found["made"], indent=1)
        return
    print(table(simulated(json.loads(PLANS.read_text(encoding="utf-8")), options), options.executions))


if __name__ == "__main__":
    main()
