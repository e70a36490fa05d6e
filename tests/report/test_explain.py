"""Which knobs explain the gain: ranks, slices and pairs in the reports, and the ranking's own page."""

from __future__ import annotations

import io
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser import Browser
from tests.report.conftest import BASELINE, Study, changed, record, trial
from tests.report.test_html import drawn, read
from tests.report.test_lines import squeezed
from trimtab.errors import UsageError
from trimtab.history.codec import dumps, loads
from trimtab.history.space import space_to_json
from trimtab.importance import Consensus, Dependence, KnobRank, Pair, RankProblem, rank_knobs
from trimtab.records import Context, Role, Status, Trial
from trimtab.report import (
    print_rank,
    rank_text,
    rank_to_json,
    render_html,
    render_rank_html,
    report_text,
    to_json,
    write_rank_html,
)
from trimtab.report.explain import Explanation, consensus_text, explain, kept_ranks, with_plots
from trimtab.report.explain_charts import _ticks, explanation_figures
from trimtab.report.printing import plain_console
from trimtab.report.words import percent_text
from trimtab.space import Config, Knob, KnobKind, Space

pytestmark = pytest.mark.slow

SPACE = Space(
    [
        Knob(name="work_mem", kind=KnobKind.INTEGER, low=1024, high=262144, log=True, default=4096, unit="kB",
             doc="memory of one sort <b>"),
        Knob(name="jit", kind=KnobKind.BOOLEAN, default=True),
        Knob(name="workers", kind=KnobKind.INTEGER, low=1, high=8, default=2, special=(0,)),
        Knob(name="cost", kind=KnobKind.REAL, low=0.5, high=8.0, default=4.0),
        Knob(name="method", kind=KnobKind.CHOICE, choices=("sync", "worker"), default="worker"),
    ]
)  # fmt: skip


def _loss(config: Config) -> float:
    """Memory and compilation matter; without compilation few workers are better."""
    memory = math.log(float(config["work_mem"]) / 1024) / math.log(256)
    workers = 0.3 if not config["jit"] and float(config["workers"]) <= 2 else 0.0
    return -(0.6 * memory + (0.0 if config["jit"] else 0.4) + workers)


def _trials(n: int) -> list[Trial]:
    rng = np.random.default_rng(3)
    default = SPACE.default()
    configs = [default, default, default, *SPACE.sample(n, rng)]
    return [
        Trial(number=i, role=Role.SEARCH if i > 2 else Role.BASELINE, config=config, context=Context("x", 1),
              status=Status.OK, loss=_loss(config) - _loss(default) + float(rng.normal(0, 0.02)), loss_se=0.02)
        for i, config in enumerate(configs)
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown of ranks does not depend on how fine their intervals are."""
    monkeypatch.setattr("trimtab.report.explain._RESAMPLES", 5)


@pytest.fixture(scope="module")
def ranked() -> tuple[Study, Consensus]:
    trials = _trials(70)
    study = record({}, status="running", space=space_to_json(SPACE), baseline=SPACE.default())
    problem = RankProblem(space=SPACE, baseline=SPACE.default(), trials=trials, n_bootstrap=6)
    return (study, trials), rank_knobs(problem)


def test_configs_that_miss_a_constraint_count_as_measured() -> None:
    """What they show of the knobs is as good as what others show: where none meets it, the ranking speaks of all."""
    trials = [replace(t, excess=0.3) for t in _trials(60)]
    found = explain(record({}, space=space_to_json(SPACE), baseline=SPACE.default()), trials)
    assert found.consensus is not None
    few = explain(record({}, space=space_to_json(SPACE), baseline=SPACE.default()), trials[:5])
    assert few.text == "Not enough data to rank the knobs: 3 configs measured, at least 8 are needed."
    some = explain(record({}, space=space_to_json(SPACE), baseline=SPACE.default()), trials[:12])
    assert (
        some.text
        == "The knobs are not ranked here, with 10 configs measured: `trimtab rank tpch` says what these tell."
    )
    some = explain(record({}, name="my shop", space=space_to_json(SPACE), baseline=SPACE.default()), trials[:12])
    assert "`trimtab rank 'my shop'`" in some.text


def test_the_knobs_that_matter_are_named_in_the_text(ranked: tuple[Study, Consensus]) -> None:
    text = squeezed(report_text(*ranked[0]))
    assert "Which knobs explain the result By 73 measured trials," in text
    assert text.index("1 jit") < text.index("The trials") or text.index("1 work_mem") < text.index("The trials")


def test_few_trials_do_not_tell(running: Study) -> None:
    n = len({t.config for t in running[1] if t.is_feasible})
    expected = f"Not enough data to rank the knobs: {n} configs measured, at least 8 are needed."
    assert expected in squeezed(report_text(*running))
    assert expected in squeezed(read(render_html(*running)).text)
    assert to_json(*running)["importance"] == {"text": expected, "ranks": None}


def test_a_stored_space_that_cannot_be_read_is_said() -> None:
    trials = [trial(i, Role.SEARCH, {**BASELINE, "work_mem": 1000 + i}, 1 + 0.01 * i) for i in range(25)]
    explanation = explain(record({}), trials)
    assert explanation.consensus is None
    assert explanation.text.startswith("The knobs cannot be ranked: a stored space cannot be read")


def test_noise_alone_is_not_explained() -> None:
    rng = np.random.default_rng(5)
    trials = [
        Trial(number=i, role=Role.SEARCH, config=config, context=Context("x", 1), status=Status.OK,
              loss=float(rng.normal(0, 0.03)), loss_se=0.03)
        for i, config in enumerate(SPACE.sample(30, rng))
    ]  # fmt: skip
    explanation = explain(record({}, space=space_to_json(SPACE), baseline=SPACE.default()), trials)
    assert explanation.consensus is None
    assert "ot enough data to tell" in explanation.text


def test_ranks_that_the_study_kept_are_not_made_again(
    ranked: tuple[Study, Consensus], monkeypatch: pytest.MonkeyPatch
) -> None:
    (study, trials), _ = ranked
    known = explain(study, trials)
    kept = loads(dumps(asdict(kept_ranks(known, len(trials)))))
    monkeypatch.setattr("trimtab.importance.rank_knobs", lambda problem: pytest.fail("ranked again"))
    again = explain(changed(study, importance=kept), trials)
    assert again.text == known.text
    assert again.consensus is not None
    assert known.consensus is not None
    assert again.consensus.knobs == known.consensus.knobs
    assert again.consensus.rankings == known.consensus.rankings


def test_ranks_of_fewer_trials_are_made_again(ranked: tuple[Study, Consensus]) -> None:
    (study, trials), _ = ranked
    old = {"n_trials": len(trials) - 1, "text": "old", "consensus": None}
    assert explain(changed(study, importance=old), trials).text != "old"


def test_json_has_the_ranks(ranked: tuple[Study, Consensus]) -> None:
    values = json.loads(json.dumps(to_json(*ranked[0]), allow_nan=False))["importance"]
    assert {row["knob"] for row in values["ranks"]["knobs"][:2]} == {"jit", "work_mem"}
    assert values["ranks"]["knee"] >= 2


def test_the_page_draws_bars_slices_and_pairs(ranked: tuple[Study, Consensus]) -> None:
    page = render_rank_html(ranked[0][0], ranked[1], ranked[0][1])
    figures = explanation_figures(with_plots(*ranked[0], ranked[1]), "times as fast")
    assert set(drawn(page)) == set(figures)
    assert "share of the effect seen" in drawn(page)["importance"]
    bars = figures["importance"]["data"][0]
    assert set(bars["y"][-2:]) == {"jit", "work_mem"}
    assert bars["error_x"]["array"][-1] > 0
    assert "%" in figures["importance"]["layout"]["xaxis"]["title"]["text"]
    slices = {figure["layout"]["xaxis"]["title"]["text"]: figure for name, figure in figures.items() if "slice" in name}
    memory = slices["work_mem"]
    assert memory["layout"]["xaxis"]["ticktext"][:2] == ["1MB", "4MB"]
    band, raw, curve = memory["data"]
    assert len(raw["x"]) == len(raw["y"]) == 71
    assert curve["y"][-1] > curve["y"][0]
    assert min(band["y"]) <= min(curve["y"])
    pair = figures["pair0"]["data"][0]
    assert {figures["pair0"]["layout"][f"{axis}axis"]["title"]["text"] for axis in "xy"} == {"jit", "workers"}
    assert np.array(pair["z"]).shape == (len(pair["y"]), len(pair["x"]))


def test_the_page_reads_without_javascript(ranked: tuple[Study, Consensus]) -> None:
    page = render_rank_html(ranked[0][0], ranked[1], ranked[0][1])
    text = squeezed(read(page).text)
    assert f"Tune the first {ranked[1].knee} of 5 knobs" in text
    assert "memory of one sort <b>" in text
    assert "73 rankers" in text
    assert not {"link", "img", "iframe"} & set(read(page).tags)


def test_the_page_names_every_study_behind_the_ranks(ranked: tuple[Study, Consensus]) -> None:
    (study, trials), consensus = ranked
    alone = read(render_rank_html(study, consensus, trials)).text
    assert f" study {study.name} measured trials 73 " in squeezed(alone)
    both = read(render_rank_html(study, consensus, trials, sources=("mine", "<b>theirs"))).text
    assert " studies mine, <b>theirs measured trials 73 " in squeezed(both)


def test_the_ranks_do_not_deny_what_the_proof_has_shown(ranked: tuple[Study, Consensus]) -> None:
    """Of a knob that matters: that no better value is shown, unless a proven winner changes it."""
    (study, trials), consensus = ranked
    first, second = consensus.names[:2]
    doubted = replace(consensus, not_worth={first: "its best value is the one it has", second: "none is shown"})
    proven = changed(study, result="better", knobs={first: {"old": 1, "new": 2}})
    page = squeezed(read(render_rank_html(study, doubted, trials)).text)
    assert f"{first} matters, but its best value is the one it has. " in page
    assert f"{second} matters, but none is shown. " in page
    page = squeezed(read(render_rank_html(proven, doubted, trials)).text)
    assert "the one it has" not in page
    assert f"{second} matters, but none is shown. " in page
    for known, is_said in ((study, True), (proven, False)):
        assert ("the one it has" in rank_text(known, doubted)) == is_said
        assert bool(rank_to_json(known, doubted)["knobs"][0]["not_worth"]) == is_said
        assert rank_to_json(known, doubted)["knobs"][1]["not_worth"] == "none is shown"


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_figure_of_the_ranks_is_cut_off(ranked: tuple[Study, Consensus], width: int) -> None:
    """Whatever else a terminal has room for."""
    (study, _), consensus = ranked
    name = "db.max_parallel_maintenance_workers"
    long = replace(consensus.knobs[0], knob=name, rank_low=10.0, rank_high=17.0, score=0.00001)
    other = replace(consensus, knobs=(long, *consensus.knobs[1:]), not_worth={name: "its best value is the one it has"})
    out = io.StringIO()
    print_rank(study, other, console=plain_console(out, width))
    shown = name if width > 60 else name[:20]  # what does not matter as much is broken
    (row,) = (line for line in out.getvalue().splitlines() if f" {shown}" in line and "10 to 17" in line)
    assert "< 0.01 %" in row
    assert f"- {name} matters, but its best value is the one it has" in squeezed(out.getvalue())
    assert max(map(len, out.getvalue().splitlines())) <= width


def test_a_ranking_without_enough_data_has_a_page_that_says_so(ranked: tuple[Study, Consensus]) -> None:
    (study, trials), consensus = ranked
    doubtful = Consensus(
        knobs=consensus.knobs, rankings=consensus.rankings, knee=0, verdict="not enough data to tell: <i>", n_trials=5,
        r2=math.nan,
    )  # fmt: skip
    page = render_rank_html(study, doubtful, trials)
    assert "not enough data to tell: <i>" in read(page).text
    assert drawn(page) == {}


@pytest.mark.parametrize(
    ("verdict", "says"),
    [("not enough data to tell: noise", "not enough data to tell: noise"), ("", "The only knob has an effect.")],
)
def test_the_share_of_the_only_knob_says_nothing(ranked: tuple[Study, Consensus], verdict: str, says: str) -> None:
    """It is all of the effect, be that nothing but noise."""
    (study, trials), consensus = ranked
    only = KnobRank(knob="jit", score=1.0, score_low=1.0, score_high=1.0, rank=1.0, rank_low=1.0, rank_high=1.0)
    alone = replace(consensus, knobs=(only,), rankings=(), knee=1, verdict=verdict)
    text = squeezed(rank_text(study, alone))
    assert says in text
    assert "1 1 to 1 jit –" in text
    assert "100" not in text
    if not verdict:
        text = f"By {consensus.n_trials} measured trials, the only knob has an effect."
        assert consensus_text(alone) == text
        kept = kept_ranks(Explanation(consensus=alone, text=text), len(trials))
        shown = squeezed(report_text(changed(study, importance=loads(dumps(asdict(kept)))), trials))
        assert f"Which knobs explain the result {text}" in shown
        assert "100 %" not in shown
    page = render_rank_html(study, alone, trials)
    assert "jit–" in read(page).text.replace(" ", "").replace("\n", "")
    assert "100 %" not in page
    assert "plot-importance" not in page
    assert ("<h1>The only knob has an effect</h1>" in page) == (not verdict)


def test_a_path_that_cannot_be_written_is_named(ranked: tuple[Study, Consensus], tmp_path: Path) -> None:
    (study, trials), consensus = ranked
    with pytest.raises(UsageError, match=r"cannot write the report: path='.*/no/x.html'"):
        write_rank_html(study, consensus, trials, tmp_path / "no" / "x.html")


@pytest.mark.needs("chromium")
def test_a_browser_draws_the_ranking(ranked: tuple[Study, Consensus], tmp_path: Path) -> None:
    (study, trials), consensus = ranked
    write_rank_html(study, consensus, trials, tmp_path / "rank.html")
    n_plots = len(drawn((tmp_path / "rank.html").read_text(encoding="utf-8")))
    assert n_plots >= 4
    with Browser(tmp_path) as page:
        plots = page.drawn(tmp_path / "rank.html")
        assert len(plots) == n_plots
        assert all(width > 200 and height > 100 for width, height in plots.values())
        assert page.is_within_its_width
        assert not page.errors


@pytest.mark.parametrize(
    ("low", "high", "is_log"), [(0.1, 4.0, True), (0.0005, 0.05, True), (0.3, 0.95, False), (0.01, 0.5, True)]
)
def test_ticks_are_values_that_the_setting_may_have(low: float, high: float, is_log: bool) -> None:
    """An eighth is none where values are those that a person would write; the page was lost for it."""
    knob = Knob(name="seq_page_cost", kind=KnobKind.REAL, low=low, high=high, log=is_log, is_round=True, default=high)
    ticks = _ticks(Space([knob]), knob.name)
    assert 2 <= len(ticks["tickvals"]) == len(ticks["ticktext"]) <= 8
    assert ticks["tickvals"] == sorted(set(ticks["tickvals"]))


def test_each_knob_and_each_value_has_a_place_of_its_own() -> None:
    """Also where names are too long to be shown whole, and values differ in late digits only."""
    first, last = "a_long_name_of_a_group", "of_the_largest_buffer"
    names = [f"{first}_that_many_knobs_have_{end}" for end in ("size", "long_size")]
    names += [f"{first}_{middle}_{last}" for middle in ("min", "max")]
    ranks = tuple(
        KnobRank(knob=name, score=0.25, score_low=0.2, score_high=0.3, rank=2.5, rank_low=1, rank_high=4)
        for name in names
    )
    consensus = Consensus(knobs=ranks, rankings=(), knee=1, n_trials=30, r2=0.9)
    space = Space([Knob(name=name, kind=KnobKind.REAL, low=1000.2, high=1000.8, default=1000.2) for name in names[:2]])
    values = (1000.2, 1000.4, 1000.6, 1000.8)
    pair = Pair(
        first=names[0], second=names[1], share=0.5, share_low=0.4, share_high=0.6, first_values=values, second_values=values,
        loss=tuple(tuple(float(i + j) for j in range(4)) for i in range(4)),
    )  # fmt: skip
    figures = explanation_figures(
        Explanation(consensus=consensus, text="", space=space, pairs=(pair,)), "times as fast"
    )
    assert len(set(figures["importance"]["data"][0]["y"])) == len(names)
    cells = figures["pair0"]["data"][0]
    assert cells["x"] == cells["y"] == ["1,000.2", "1,000.4", "1,000.6", "1,000.8"]
    assert len(set(_ticks(space, names[0])["ticktext"])) > 2


def test_plots_are_made_of_one_set_of_models(ranked: tuple[Study, Consensus], monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(Dependence):
        def __init__(self, *arguments: Any) -> None:
            made.append(self)
            super().__init__(*arguments)

    for place in ("slices", "interactions"):
        monkeypatch.setattr(f"trimtab.importance.{place}.Dependence", Counted)
    monkeypatch.setattr("trimtab.importance.Dependence", Counted, raising=False)
    assert len(with_plots(*ranked[0], ranked[1]).slices) >= 2
    assert len(made) == 1


def test_a_single_knob_that_matters_is_not_several(ranked: tuple[Study, Consensus]) -> None:
    (study, _), consensus = ranked
    text = squeezed(rank_text(study, replace(consensus, knee=1)))
    assert f"Tune the first knob of 5: {percent_text(consensus.knobs[0].score)} of the effect seen is its own." in text
