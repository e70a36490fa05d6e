"""The report as one HTML file: complete without network and without JavaScript."""

from __future__ import annotations

import html
import os
import re
import resource
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.browser import Browser
from tests.report.conftest import BASELINE, Study, record, trial
from trimtab.errors import UsageError
from trimtab.records import Machine, QueryClass, Role
from trimtab.report import render_html, report_text, write_html
from trimtab.report.html import report_figures
from trimtab.report.summary import summarise


class Reader(HTMLParser):
    """Collects tags, attributes, the text outside scripts and styles, and the scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._is_in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._is_in_script = tag == "script"
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_in_script = False
        self.text += " "

    def handle_data(self, data: str) -> None:
        if self._is_in_script:
            self.scripts[-1] += data
        else:
            self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def figures_of(study: Study) -> dict[str, Any]:
    return report_figures(*study, summarise(*study))


def drawn(page: str) -> dict[str, str]:
    """The plots of a page by name: each an <svg>, well-formed."""
    found = dict(re.findall(r'id="plot-(\w+)">(<svg .*?</svg>)', page, re.DOTALL))
    for name, svg in found.items():
        ElementTree.fromstring(svg)
        assert "nan" not in re.sub(r"<title>.*?</title>", "", svg, flags=re.DOTALL), name
    return found


def test_the_text_needs_no_javascript(better: Study) -> None:
    text = re.sub(r"\s+", " ", read(render_html(*better)).text)
    for expected in (
        "This config is 1.82 times as fast as yours (95 % interval 1.61 to 2.05): 4 settings, proven in 6",
        "shared_buffers 128MB 512MB restart memory for pages shared by all connections",
        "trimtab apply tpch trimtab rollback tpch",
        "rule-based advice 14.7 1.31 1.24 to 1.38",
        "tuned 20.5 1.82 1.61 to 2.05 6 alternating pairs",
        "Memory: 90 % of the budget of 1GiB",
        "crashed · the server did not start",
        "FATAL: could not map anonymous shared memory",
        "11 baseline measurements span 4.2 %",
        "PostgreSQL 18.1",
        "measurement 4min48s, 72 %",
        "q13 563 ms 239 ms 809 ms 350 ms",
    ):
        assert expected in text
    assert len(re.findall(r"proof candidate ok", text)) == 6


def test_nothing_is_loaded_from_elsewhere(better: Study) -> None:
    reader = read(render_html(*better))
    assert not {"link", "img", "iframe", "object", "embed"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name in ("src", "href", "srcset", "action")]
    assert [value for name, value in reader.attributes if name == "content" and "default-src 'none'" in value]


def test_every_plot_has_its_data(better: Study) -> None:
    figures = figures_of(better)
    page = render_html(*better)
    assert set(drawn(page)) == set(figures)
    assert set(figures) == {"progress", "drift", "pairs", "latency"}
    names = {trace["name"]: trace for trace in figures["progress"]["data"]}
    assert list(names) == ["baseline", "advice", "search", "proof baseline", "proof candidate", "best so far", "failed"]
    assert names["failed"]["x"] == [6, 11, 16]
    best = names["best so far"]["y"]
    assert best == sorted(best)
    assert names["search"]["marker"]["symbol"].count("triangle-down-open") == 2
    assert [trace["y"] for trace in figures["pairs"]["data"]] == [list(pair) for pair in better[0].verdict.pairs]
    assert len(figures["drift"]["data"][0]["y"]) == 11


def test_latency_curves_rise_and_stop_where_the_data_ends(better: Study) -> None:
    yours, tuned = figures_of(better)["latency"]["data"]
    assert yours["name"] == "yours (1,440 operations)"
    for curve in (yours, tuned):
        assert curve["y"] == sorted(curve["y"])
        assert curve["x"] == sorted(curve["x"])
        # One operation in 1440 lies beyond the 99.9th percentile, none beyond the 99.95th.
        assert len(curve["y"]) == 20
    assert all(after < before for before, after in zip(yours["y"][2:], tuned["y"][2:], strict=True))


def test_without_histograms_the_latency_plot_is_left_out(better: Study) -> None:
    study, trials = better
    for each in trials:
        if each.measurement is not None:
            object.__setattr__(each.measurement, "histogram", b"")
    assert set(drawn(render_html(study, trials))) == {"progress", "drift", "pairs"}


@pytest.mark.parametrize("name", ["no_improvement", "running"])
def test_studies_without_a_winner_have_a_page(name: str, request: pytest.FixtureRequest) -> None:
    text = read(render_html(*request.getfixturevalue(name))).text
    assert "How to apply it" not in text
    assert "tuned" not in text


def test_an_empty_study_has_a_page() -> None:
    page = render_html(record({}, status="running"), [])
    assert "Not finished after 0 trials" in page
    assert "<p>No trial." in page
    assert drawn(page) == {}


def test_missing_intervals_make_valid_figures() -> None:
    trials = [trial(0, Role.BASELINE, BASELINE, 1.0), trial(1, Role.SEARCH, BASELINE, 1.4, loss_se=None)]
    search = figures_of((record({}), trials))["progress"]["data"][1]
    assert search["error_y"]["array"] == [0.0]


def test_gains_that_are_next_to_nothing_have_a_figure() -> None:
    trials = [trial(0, Role.SEARCH, BASELINE, 1.0, loss=800.0, loss_se=100.0)]
    assert "progress" in drawn(render_html(record({}), trials))


def test_an_opened_class_is_repeated(better: Study) -> None:
    study, trials = better
    opened = replace(study.verdict.knobs["jit"], safety="durability")
    verdict = replace(study.verdict, unlocked=("durability",), knobs={**study.verdict.knobs, "jit": opened})
    study = replace(study, verdict=verdict)
    text = re.sub(r"\s+", " ", read(render_html(study, trials)).text)
    assert (
        "The safety class durability was unlocked; a crash of the machine can lose committed transactions. "
        "This config uses it: jit ." in text
    )


def test_hostile_strings_stay_text(hostile: Study) -> None:
    page = render_html(*hostile)
    reader = read(page)
    assert "script" not in reader.tags
    assert html.escape("<script>alert(1)</script>") in page
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202e\ud800]", page)
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert "&lt;script&gt;alert(1)" in drawn(page)["progress"]
    page.encode()


def test_a_path_that_cannot_be_written_is_named(better: Study, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"cannot write the report: path='.*/no/x.html': No such file.*\nhint: give a path"
    ):
        write_html(*better, tmp_path / "no" / "x.html")


def test_a_full_disk_leaves_the_older_report_whole(better: Study, tmp_path: Path) -> None:
    place = tmp_path / "report.html"
    place.write_text("older")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(UsageError, match="cannot write the report: .*: File too large"):
            write_html(*better, place)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert place.read_text() == "older"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_report_takes_the_place_of_an_older_one(better: Study, tmp_path: Path) -> None:
    place, link = tmp_path / "report.html", tmp_path / "link.html"
    link.symlink_to(place)
    write_html(*better, link)
    plain = tmp_path / "plain"
    plain.touch()
    assert place.stat().st_mode == plain.stat().st_mode
    place.chmod(0o640)
    write_html(*better, link)
    assert link.is_symlink()
    assert "1.82 times" in place.read_text(encoding="utf-8")
    assert place.stat().st_mode & 0o777 == 0o640


def test_a_pipe_and_an_open_file_are_written_to(better: Study, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        page = pool.submit(pipe.read_text, encoding="utf-8")
        write_html(*better, pipe)
        assert page.result(timeout=10).endswith("</html>")
    with open(tmp_path / "open.html", "w+", encoding="utf-8") as file:
        write_html(*better, f"/dev/fd/{file.fileno()}")
        assert file.read().endswith("</html>")


def test_what_an_imported_study_does_not_tell_is_left_out(running: Study) -> None:
    study, trials = running
    study = replace(study, machine=Machine(cores=0, memory_bytes=0), context=replace(study.context, clients=0))
    page = render_html(study, trials)
    facts = page.partition("Where it was measured")[2].partition("</section>")[0]
    assert "<dt>time of all trials</dt>" in page, "clients of a session may have made some at once"
    assert "workload" in facts
    assert not re.search(r">(cores|memory|clients)<", facts)


def test_an_operation_is_red_where_the_headline_calls_it_slower(better: Study) -> None:
    study, trials = better
    for times, word in ((0.95, ""), (0.89, "bad"), (1.05, ""), (1.2, "good")):
        changed = [
            replace(
                each,
                measurement=replace(
                    each.measurement,
                    by_label={
                        "q": replace(
                            each.measurement.by_label["q6"],
                            latency_mean_ms=100.0 / (times if each.role is Role.PROOF_CANDIDATE else 1.0),
                        )
                    },
                ),
            )
            for each in trials
            if each.measurement is not None
        ]
        assert f'<td class="n {word}"><strong>{times:g}</strong>' in render_html(study, changed)
        assert ("Not everything gained" in report_text(study, changed)) == (word == "bad")


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_browser_draws_every_plot(better: Study, tmp_path: Path) -> None:
    write_html(*better, tmp_path / "report.html")
    with Browser(tmp_path) as page:
        plots = page.drawn(tmp_path / "report.html")
        assert list(plots) == [f"plot-{name}" for name in ("pairs", "drift", "progress", "latency")]
        assert all(width > 300 and height > 100 for width, height in plots.values())
        assert page.is_within_its_width
        assert page.value("document.scripts.length") == 0
        assert not page.errors


def test_classes_that_the_server_tunes_itself(better: Study) -> None:
    known = QueryClass(
        query_id="-77", database="app", role="me", phase="settled", left_alone="", calls=9, probes=2, own_ms=10.0, gain=2.0,
        gain_low=1.8, gain_high=2.2, total_ms=90.0, lost_ms=1000.0, gained_ms=3000.0, settings={"enable_hashjoin": "off"},
    )  # fmt: skip
    left = replace(known, query_id="78", settings={}, left_alone="it writes <now>")
    text = " ".join(read(render_html(*better, [known, left])).text.split())
    assert "Queries that the server tunes itself" in text
    assert "2 classes, 2s lost to probing, 6s gained" in text
    assert "-77 9 2 10 2.00 1.80 to 2.20 enable_hashjoin = off" in text
    assert "left alone: it writes <now>" in text
    assert "no statement has taken trimtab.min_duration often enough" in read(render_html(*better, [])).text
    assert "tunes itself" not in read(render_html(*better)).text
