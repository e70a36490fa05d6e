"""The tables of docs/measurements/in-engine.md, written from results.json and sard.json; a test holds them equal.

python benchmarks/karcher/table.py
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from tables import between, rewrite

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "measurements" / "in-engine.md"
BEGIN, END = "<!-- tables: written by benchmarks/karcher/table.py -->", "<!-- end of tables -->"
RANKS_BEGIN, RANKS_END = "<!-- ranks: written by benchmarks/karcher/table.py -->", "<!-- end of ranks -->"
_CLEAR = 5.0
"""Percent of a query's time from which on a setting's effect is counted."""
PUBLISHED = {
    1: 0.997, 3: 3.905, 5: 1.012, 7: 0.995, 8: 0.968, 9: 0.977, 10: 0.902, 11: 0.908, 13: 0.636, 14: 1.057, 15: 1.012, 17: 1.086,
    18: 1.095, 20: 1.018, 21: 1.004, 22: 0.935,
}  # fmt: skip
"""Query -> the seed's speed-up; the others gave it no useful result."""
_HEAD = (
    "query", "executions", "default, s", "seed's sections", "our sections, over all executions", "in pairs (95 % interval)",
    "probes of sections", "by query class, over all executions", "in pairs (95 % interval)", "at the end (95 % interval)",
    "pays from", "settings found", "probes",
)  # fmt: skip

Rows = Mapping[str, Mapping[str, Any]]


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _with_interval(value: float, interval: tuple[float, float]) -> str:
    return f"{_ratio(value)} ({_ratio(interval[0])} to {_ratio(interval[1])})"


def _settings(found: str) -> str:
    return ", ".join(f"`{each.strip().replace('=', ' = ')}`" for each in found.split(",")) if found else "none"


def _row(query: int, row: Mapping[str, Any]) -> list[str]:
    ours, sections = row["classes"], row["sections"]
    return [
        f"Q{query}",
        str(ours["n"]),
        f"{ours['default_ms'] / 1e3:.2f}",
        f"{PUBLISHED[query]:.3f}" if query in PUBLISHED else "–",
        _ratio(sections["ratio"]),
        _with_interval(sections["pair_ratio"], sections["interval"]),
        f"{sections['probes']} of {sections['sections']}" if "sections" in sections else "–",
        _ratio(ours["ratio"]),
        _with_interval(ours["pair_ratio"], ours["interval"]),
        _with_interval(ours["settled_ratio"], ours["settled_interval"]),
        str(ours["amortised_at"] or "–"),
        _settings(ours.get("settings", "")),
        str(ours.get("probes", "")),
    ]


def _stream(found: Mapping[str, Any]) -> str:
    return (
        f"A stream of all queries, {found['n']} rounds: {_ratio(found['ratio'])} times as fast over all rounds, in pairs "
        f"{_with_interval(found['pair_ratio'], found['interval'])}, in the last third "
        f"{_with_interval(found['settled_ratio'], found['settled_interval'])}."
    )


def table(scale: str, rows: Rows) -> str:
    """The queries of a scale and their stream, in Markdown."""
    queries = sorted((int(name[1:]), row) for name, row in rows.items() if name != "stream" and "classes" in row)
    cells = [list(_HEAD), ["---"] * len(_HEAD), *(_row(query, row) for query, row in queries)]
    lines = [f"Scale {scale}:", "", *(f"| {' | '.join(row)} |" for row in cells)]
    if "stream" in rows:
        lines += ["", _stream(rows["stream"])]
    return "\n".join(lines)


def page(text: str, found: Mapping[str, Any]) -> str:
    """The page with its tables written anew; `found` is all of results.json."""
    parts = [
        f"{table(scale, rows)}\n\n{stamp.line(found['made'][f'scale {scale}'])}\n"
        for scale, rows in found["scales"].items()
    ]
    return between(text, BEGIN, END, "\n".join(parts))


def ranks_table(found: Mapping[str, Any]) -> str:
    """What each setting of execution does to the queries, in Markdown; the most important first."""
    rows = found["queries"].values()
    ranks = {name: sum(row[name]["rank"] for row in rows) / len(rows) for name in next(iter(rows))}
    lines = ["| setting | in the seed's top four | mean rank | queries it changes by 5 % or more | largest effect |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for name in sorted(ranks, key=lambda name: ranks[name]):
        effects = {query: row[name]["effect_percent"] for query, row in found["queries"].items()}
        most = max(effects, key=lambda query: abs(effects[query]))
        n_clear = sum(abs(effect) >= _CLEAR for effect in effects.values())
        yes = "yes" if name in found["seed"] else ""
        lines.append(f"| `{name}` | {yes} | {ranks[name]:.1f} | {n_clear} | {effects[most]:+.0f} % ({most.upper()}) |")
    return "\n".join(lines)


def ranks_page(text: str, found: Mapping[str, Any]) -> str:
    """The page with the table of ranks written anew; `found` is all of sard.json."""
    return between(text, RANKS_BEGIN, RANKS_END, f"{ranks_table(found)}\n\n{stamp.line(found['made']['ranks'])}\n")


if __name__ == "__main__":
    rewrite(PAGE, HERE / "results.json", page)
    if (HERE / "sard.json").exists():
        rewrite(PAGE, HERE / "sard.json", ranks_page)
