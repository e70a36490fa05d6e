"""The tables of docs/measurements/load-speed.md, written from results.json; a test holds the two equal.

python benchmarks/load/table.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from tables import between, rewrite

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "measurements" / "load-speed.md"
BEGIN, END = "<!-- tables: written by benchmarks/load/table.py -->", "<!-- end of tables -->"

Record = dict[str, Any]

_TITLES = {
    "select": "One prepared read, compared with pgbench",
    "drivers": "The engine's own drivers, compared with tokio-postgres and mysql_async in the same engine",
    "ycsb": "YCSB compared with go-ycsb, a point select with sysbench",
    "open": "10,000 operations per second in an open loop",
    "memory": "Memory",
    "pages": "A page of 1 kB, compared with wrk",
    "browsers": "Emulated browsers with think time",
    "cassandra": "One prepared read on Cassandra, compared with the crate scylla in the same engine",
    "wiredtiger": "YCSB on WiredTiger, compared with a loop in C",
    "mongodb": "A read over OP_MSG, compared with pymongo",
}


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _range(found: Record, digits: str) -> str:
    return f"{found['median']:{digits}} ({found['low']:{digits}}–{found['high']:{digits}})"


def _goal(row: Record, what: str) -> str:
    """A goal for a ratio, or for our own cost, with what came of it: the median counts."""
    if what == "cpu_us" and (most_us := row["goal"].get("own_us")) is not None:
        return f"ours ≤ {most_us:g} µs: {'met' if row['ours']['cpu_us']['median'] <= most_us else '**missed**'}"
    limit, ratio = row["goal"].get(what), row["ratio"][what]["median"]
    if limit is None:
        return "–"
    is_met = ratio <= limit if what == "cpu_us" else ratio >= limit
    return f"{'≤' if what == 'cpu_us' else '≥'} {limit:.2f}: {'met' if is_met else '**missed**'}"


def _case(row: Record) -> list[str]:
    return [row["server"], row["load"], row["way"], str(row["connections"]), row["peer"]]


def _pairs(found: Record) -> list[str]:
    both = ("ours", "peer_runs")
    costs = [
        [*_case(row), *(_range(row[side]["cpu_us"], ".2f") for side in both), _range(row["ratio"]["cpu_us"], ".2f"),
         *(f"{row[side]['user_us']['median']:.2f}" for side in both), _goal(row, "cpu_us")]
        for row in found["rows"]
    ]  # fmt: skip
    rates = [
        [*_case(row), *(_range(row[side]["rate"], ",.0f") for side in both), _range(row["ratio"]["rate"], ".2f"),
         _goal(row, "rate")]
        for row in found["rows"]
    ]  # fmt: skip
    case = ["server", "load", "over", "connections", "peer"]
    cost_head = [*case, "CPU µs/op: ours", "peer", "ratio", "of it user code: ours", "peer", "goal"]
    lines = [*_table(cost_head, costs), "", *_table([*case, "op/s: ours", "peer", "ratio", "goal"], rates)]
    absent = [f"Not taking part: {text}." for text in found["absent"]]
    return [*lines, *(["", *absent] if absent else [])]


def _ms(value_us: float) -> str:
    return f"{value_us / 1e3:.2f}"


def _plain(run: Record | None) -> str:
    """The run without real-time priority in a sentence."""
    if run is None:
        return ""
    return (
        f" Without the right to real-time priority: p99 of the lateness {_ms(run['lateness']['p99'])} ms, "
        f"{100 * run['lateness_share_of_p99']:.1f} % of the response time's p99; client CPU {run['client_cpu_us']:.1f} µs/op; "
        f"mean response {_ms(run['response']['mean'])} ms."
    )


_TIMES = {"wakeup": "woken late"}
"""What the page calls times that are not called so."""


def _open(found: Record) -> list[str]:
    steady, peer = found["steady"], found["pgbench"]
    lines = [
        f"{found['server']}, {found['users']} connections, Poisson arrivals, {steady['duration_s']:.0f} s: {steady['ok']:,} of "
        f"{steady['offered']:,} operations done, {steady['shed']} shed. p99 of the generator's lateness "
        f"{_ms(steady['lateness']['p99'])} ms, {100 * steady['lateness_share_of_p99']:.1f} % of the response time's p99. "
        f"Client CPU {steady['client_cpu_us']:.1f} µs/op; `pgbench -R` at the same rate {peer['client_cpu_us']:.1f} µs/op. "
        f"Mean response {_ms(steady['response']['mean'])} ms; pgbench {_ms(peer['response_mean_us'])} ms. The engine's buffers "
        f"and histograms held {steady['memory_bytes'] / 2**20:.1f} MiB at the end.{_plain(found['ordinary'])}",
        "",
        f"`stall`: all processes of the server stopped (SIGSTOP) for {found['stall_s']:.0f} s in a separate run of "
        f"{found['stalled'][0]['duration_s']:.0f} s. Milliseconds; `> 0.5 s` counts operations.",
        "",
    ]
    rows = []
    ordinary = [("steady, ordinary priority", found["ordinary"])] if found["ordinary"] else []
    idle = [("nothing asked, ordinary priority", found["idle"])] if "idle" in found else []
    for name, run in (
        ("steady", steady),
        *ordinary,
        *idle,
        *((f"stall {i}", run) for i, run in enumerate(found["stalled"], 1)),
    ):
        for what in ("response", "queue", "service", "lateness", "wakeup"):
            # Results that were made before have no wake-ups.
            if (times := run.get(what)) is None:
                continue
            rows.append(
                [
                    name,
                    _TIMES.get(what, what),
                    *(_ms(times[p]) for p in ("p50", "p99", "max")),
                    f"{times['long']:,}",
                    f"{times['n']:,}",
                ]
            )
    return [*lines, *_table(["run", "time", "p50", "p99", "max", "> 0.5 s", "operations"], rows)]


def _memory(found: Record) -> list[str]:
    rows = [
        [f"{row['connections']:,}", *(f"{row[what]['median'] / 2**20:.1f} ({row[what]['low'] / 2**20:.1f}–"
         f"{row[what]['high'] / 2**20:.1f})" for what in ("memory_bytes", "rss_growth_bytes")), _range(row["ok"], ",.0f")]
        for row in found["rows"]
    ]  # fmt: skip
    head = ["connections", "engine's buffers and histograms, MiB", "growth of its process (RSS), MiB", "operations"]
    return [f"Closed loop of {found['seconds']} s, {found['server']}.", "", *_table(head, rows)]


def _browsers(found: Record) -> list[str]:
    if "missing" in found:
        return [f"Not taking part: {found['missing']}."]
    p99_us, goal_us = found["lateness_p99_us"], found["goal_us"]
    judged = "met" if p99_us["median"] <= goal_us else "**missed**"
    rows = [
        [str(i), f"{run['rate']:,.0f}", *(_ms(run["lateness"][p]) for p in ("p50", "p99", "max")), _ms(run["wakeup"]["p99"]),
         *(_ms(run["response"][p]) for p in ("p50", "p99")), f"{run['client_cpu_us']:.1f}", f"{run['memory_bytes'] / 2**20:.1f}"]
        for i, run in enumerate(found["runs"], 1)
    ]  # fmt: skip
    head = [
        "run", "interactions/s", "lateness ms: p50", "p99", "max", "woken late ms: p99", "response ms: p50", "p99",
        "client CPU µs/interaction", "engine's memory, MiB",
    ]  # fmt: skip
    low, high = _ms(p99_us["low"]), _ms(p99_us["high"])
    return [
        f"{found['users']:,} browsers in one thread on {found['server']}, {found['run_s']} s, "
        f"all there after {found['start_s']:g} s; a page has two images. p99 of the lateness "
        f"{_ms(p99_us['median'])} ms ({low}–{high}); "
        f"goal ≤ {_ms(goal_us)} ms: {judged}.",
        "",
        *_table(head, rows),
    ]


def part(name: str, found: Record, made: stamp.Stamp) -> list[str]:
    """One part as lines of Markdown."""
    shown = {
        "select": _pairs,
        "drivers": _pairs,
        "ycsb": _pairs,
        "open": _open,
        "memory": _memory,
        "pages": _pairs,
        "browsers": _browsers,
        "cassandra": _pairs,
        "wiredtiger": _pairs,
        "mongodb": _pairs,
    }[name](found)
    before, after = found["busy_before_and_after"]
    how = f"Others took {100 * before:.0f} % of the machine's CPU just before and {100 * after:.0f} % just after"
    if "absent" in found:
        rows = "" if name == "pages" else f", {found['table_rows']:,} rows"
        how += f"; {found['pairs']} pairs of {found['seconds']} s{rows}"
    # Results that were made before do not say it.
    how += {"wheel": "; the engine as in a wheel", "source": "; the engine as compiled from source"}.get(
        found.get("build", ""), ""
    )
    return [f"### {_TITLES[name]}", "", stamp.line(made), f"{how}.", "", *shown, ""]


def tables(found: Record) -> str:
    """All of `results.json` as Markdown."""
    at = found["machine"]
    lines = [
        f"{at['cores']} cores of {at['cpu_model']}, {at['memory_bytes'] / 2**30:.1f} GiB, Linux {at['kernel']}; Trimtab "
        f"{at['trimtab']}, Python {at['python']}, sysbench {at['sysbench'] or '–'}.",
        "",
    ]
    for name in _TITLES:
        if name in found["parts"]:
            lines += part(name, found["parts"][name], found["made"][name])
    return "\n".join(lines)


def page(text: str, found: Record) -> str:
    """`text` with its tables replaced by those of `found`."""
    return between(text, BEGIN, END, tables(found))


def main() -> int:
    """Writes the page; exit code 0."""
    return rewrite(PAGE, HERE / "results.json", page)


if __name__ == "__main__":
    sys.exit(main())
