"""The figures of ycsb.py as Markdown."""

from __future__ import annotations

from typing import Any


def _text(interval: dict[str, Any], digits: str = ".2f") -> str:
    low, high = (format(interval[end], digits) if interval[end] is not None else "∞" for end in ("low", "high"))
    return f"{interval['estimate']:{digits}} ({low} to {high})"


def _trials(count: int | None) -> str:
    return "not reached" if count is None else str(count)


def lines(found: dict[str, Any]) -> list[str]:
    """Ranks and tunings of both workloads."""
    out = [
        f"{found['runs']} runs of a Latin hypercube rank the knobs; each tuning has {found['trials']} trials of "
        f"{found['window']}, its winner is measured in pairs with the baseline. Durability is locked. Trials are counted in "
        "the search's own, noisy measurements until they reach the share of the all-knob gain; those of the ranking are not "
        "among them.",
        "",
        "| workload | knobs tuned | times the baseline | times the all-knob best | trials to 90 % of its gain | to 95 % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in found["rows"]:
        for arm, result in row["arms"].items():
            name = f"all {row['n_knobs']}" if arm == "all" else arm
            to = result["trials_to"]
            gain = result["gain"]
            if gain["low"] == gain["high"]:  # nothing was left to prove, so that no pair was measured
                out.append(f"| {row['workload']} | {name} | no config looked better | | | |")
                continue
            out.append(
                f"| {row['workload']} | {name} | {_text(gain)} | {_text(result['of_best'])} | "
                f"{_trials(to['90%'])} | {_trials(to['95%'])} |"
            )
    out += [
        "",
        "| workload | first eight knobs (90 % interval of the rank) | R² | verdict |",
        "| --- | --- | --- | --- |",
    ]
    for row in found["rows"]:
        ranks = row["ranks"]
        knobs = ", ".join(f"`{k['knob']}` ({k['rank_low']:.0f} to {k['rank_high']:.0f})" for k in ranks["knobs"][:8])
        r2 = "–" if ranks["r2"] is None else f"{ranks['r2']:.2f}"
        out.append(f"| {row['workload']} | {knobs} | {r2} | {ranks['verdict'] or 'ranked'} |")
    overlap = found["overlap"]
    shared = ", ".join(f"{_text(overlap[f'top{top}'], '.0f')} of the first {top}" for top in (5, 8))
    return [*out, "", f"A and B share {shared}; rank correlation {_text(overlap['correlation'])}."]
