"""The figures of tpch_sard.py as Markdown."""

from __future__ import annotations

from typing import Any

_NO_EFFECT = 15
"""What the published table writes for a knob without an effect."""


def lines(found: dict[str, Any]) -> list[str]:
    """One row a knob: published rank, then ours with its 90 % interval, for each query."""
    rows = found["rows"]
    ours = [{entry["knob"]: entry for entry in row["ranks"]["knobs"]} for row in rows]
    out = [
        f"Each query alone at scale {found['scale']:g}, a Plackett-Burman design with fold-over ({rows[0]['ranks']['n_trials']} "
        "measured trials a query). *Published*: Zhou 2013, table 5.1, after SARD (– stands for its 15, no effect), on another "
        "version, size and machine. *Ours*: rank with its 90 % interval.",
        "",
        "| knob | " + " | ".join(f"{row['query'].upper()} published | ours" for row in rows) + " |",
        "| --- |" + " --- | --- |" * len(rows),
    ]
    for knob in rows[0]["published"]:
        cells = []
        for row, entries in zip(rows, ours, strict=True):
            place, entry = row["published"][knob], entries[knob]
            cells += ["–" if place == _NO_EFFECT else str(place),
                      f"{entry['rank']:g} ({entry['rank_low']:.0f} to {entry['rank_high']:.0f})"]  # fmt: skip
        out.append(f"| `{knob}` | {' | '.join(cells)} |")
    agreed = [
        f"{row['query'].upper()} {row['tau']:.2f} (p = {row['tau_p']:.2f})" for row in rows if row["tau"] is not None
    ]
    return [*out, "", f"Kendall's tau between the two: {', '.join(agreed) or 'not defined'}."]
