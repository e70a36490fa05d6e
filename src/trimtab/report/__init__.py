"""SHOW: what was tried, found and proven; on a terminal, as one HTML file, and as JSON. Reads the history only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred

if TYPE_CHECKING:
    from trimtab.report.bench import bench_to_json, measurement_to_json, print_bench
    from trimtab.report.bench_live import BenchProgress
    from trimtab.report.html import render_html, render_rank_html, require_html_place, write_html, write_rank_html
    from trimtab.report.in_engine import advice_toml, engine_text, kept_classes
    from trimtab.report.json import to_json
    from trimtab.report.live import Progress
    from trimtab.report.ranking import print_rank, rank_text, rank_to_json
    from trimtab.report.summary import Summary, summarise
    from trimtab.report.text import print_report, report_text
else:
    __getattr__ = deferred(
        __name__,
        {
            "bench": "bench_to_json measurement_to_json print_bench",
            "bench_live": "BenchProgress",
            "html": "render_html render_rank_html require_html_place write_html write_rank_html",
            "in_engine": "advice_toml engine_text kept_classes",
            "json": "to_json",
            "live": "Progress",
            "ranking": "print_rank rank_text rank_to_json",
            "summary": "Summary summarise",
            "text": "print_report report_text",
        },
    )

__all__ = [
    "BenchProgress",
    "Progress",
    "Summary",
    "advice_toml",
    "bench_to_json",
    "engine_text",
    "kept_classes",
    "measurement_to_json",
    "print_bench",
    "print_rank",
    "print_report",
    "rank_text",
    "rank_to_json",
    "render_html",
    "render_rank_html",
    "report_text",
    "require_html_place",
    "summarise",
    "to_json",
    "write_html",
    "write_rank_html",
]
