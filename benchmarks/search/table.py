"""The tables of docs/measurements/search.md, written from results.json; a test holds the two equal.

python benchmarks/search/table.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp
from tables import between, markdown, rewrite
from tasks import CHOSEN_ON

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "measurements" / "search.md"
BEGIN, END = "<!-- tables: written by benchmarks/search/table.py -->", "<!-- end of tables -->"
_AT = ("10", "25", "30", "50", "100")

Record = dict[str, Any]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [*markdown(head, rows), ""]


def _shares(rows: Record) -> list[str]:
    """Median and quartiles of the share of the gain, the best after the most trials first."""
    last = max((n for row in rows.values() for n in row["share"]), key=int)
    ordered = sorted(rows.items(), key=lambda item: -item[1]["share"][last][1])
    shown = []
    for name, row in ordered:
        cells = [
            f"{m:.2f} ({low:.2f}–{high:.2f})" for low, m, high in (row["share"][n] for n in _AT if n in row["share"])
        ]
        rates = [f"{100 * row[rate]:.1f} %" for rate in ("failed", "worse", "restarts")]
        shown.append([f"`{name}`" if name.islower() else name, str(row["runs"]), *cells, *rates])
    return _table(["", "runs", *(n for n in _AT if int(n) <= int(last)), "failed", "worse", "restarts"], shown)


def _paired(rows: Record) -> list[str]:
    """How much more the default has than each other on the same tasks and seeds, with 95 % intervals."""
    at = [n for n in _AT if any(n in row for row in rows.values())]
    shown = [
        [
            f"`{name}`" if name.islower() else name,
            str(row["runs"]),
            *(f"{row[n][0]:+.2f} ± {row[n][1]:.2f}" for n in at),
        ]
        for name, row in rows.items()
    ]
    return _table(["`auto` less", "pairs", *at], shown)


def _best(rows: Record) -> list[str]:
    """How much more the default has than the best peer of each task."""
    at = [n for n in _AT if any(n in row for row in rows.values())]
    shown = []
    for task, row in sorted(rows.items()):
        cells = [f"{mean:+.2f} ± {half:.2f} ({peer}, {runs})" for peer, runs, mean, half in (row[n] for n in at)]
        shown.append([f"{task}{_mark(task)}", *cells])
    return _table(["task", *at], shown)


def _ranks(rows: Record) -> list[str]:
    at = [n for n in _AT if any(n in row for row in rows.values())]
    ordered = sorted(rows.items(), key=lambda item: item[1][at[-1]])
    return _table(
        ["", *at], [[f"`{name}`" if name.islower() else name, *(f"{row[n]:.1f}" for n in at)] for name, row in ordered]
    )


def _mark(task: str) -> str:
    return " (constants were chosen on it)" if task in CHOSEN_ON else ""


def _context(rows: Record) -> list[str]:
    names = list(next(iter(rows.values())))
    shown = [
        [context, *(f"{m:.3f} ({low:.3f}–{high:.3f})" for low, m, high in (by[name]["settled"] for name in names))]
        for context, by in rows.items()
    ]
    return _table(["workload", *(f"`{name}`" for name in names)], shown)


def _ask(rows: Record) -> list[str]:
    sizes = sorted({row["trials"] for own in rows.values() for row in own})
    shown = []
    for name, own in rows.items():
        by = {row["trials"]: row["seconds"] for row in own}
        cells = ["" if n not in by else "–" if by[n] is None else f"{by[n]:.3f}" for n in sizes]
        shown.append([f"`{name}`" if name.islower() else name, *cells])
    return _table(["", *(f"{n:,}" for n in sizes)], shown)


def tables(found: Record) -> str:
    """All tables of `results.json` as Markdown."""
    seeds = found["seeds"]
    runs = ", ".join(f"{part} {n}" for part, n in seeds.items()) if isinstance(seeds, dict) else seeds
    lines = [f"{runs} seeds, {found['trials']} trials each."]
    if found["absent"]:
        lines += [
            "Not taking part: " + "; ".join(f"{name} ({why})" for name, why in sorted(found["absent"].items())) + "."
        ]
    lines += ["", stamp.lines(found["made"]), ""]
    titles = {"replay": "Recorded trials", "surfaces": "Synthetic surfaces", "rugged": "Rugged surfaces"}
    for part, title in titles.items():
        if found.get(f"{part} paired"):
            lines += [f"### {title}: `auto` in pairs with each other", "", *_paired(found[f"{part} paired"])]
        if found.get(f"{part} ranks"):
            lines += [f"### {title}: mean rank over the tasks, 1 the best", "", *_ranks(found[f"{part} ranks"])]
        if found.get(f"{part} best"):
            lines += [
                f"### {title}: `auto` less the best peer of each task (and pairs)",
                "",
                *_best(found[f"{part} best"]),
            ]
        if found.get(part):
            if found[f"{part} overall"]:
                lines += [f"### {title}, all together", "", *_shares(found[f"{part} overall"])]
            for task, rows in sorted(found[part].items()):
                lines += [f"### {title}: {task}{_mark(task)}", "", *_shares(rows)]
    if found["context"]:
        lines += ["### Changing workloads: latency relative to the baseline from the fourth cycle on", ""]
        lines += _context(found["context"])
    for knobs, rows in sorted(found["ask"].items(), key=lambda item: int(item[0].split()[0])):
        lines += [f"### CPU seconds of one ask and its tell, {knobs}, by number of known trials", "", *_ask(rows)]
    return "\n".join(lines)


def page(text: str, found: Record) -> str:
    """`text` with its tables replaced by those of `found`."""
    return between(text, BEGIN, END, tables(found))


def main() -> int:
    """Writes the page; exit code 0."""
    return rewrite(PAGE, HERE / "results.json", page)


if __name__ == "__main__":
    sys.exit(main())
