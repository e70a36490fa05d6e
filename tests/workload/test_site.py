"""Emulated browsers as a workload: the site file, and runs against a small site."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.servers import apache
from tests.servers.web import Site, site
from tests.workload.runs import counts, quiet, to_the_end
from trimtab.errors import LoadError, UsageError
from trimtab.measure import SecondLog
from trimtab.measure.second_log import Buckets
from trimtab.records import Endpoint
from trimtab.trial import MeasurePlan
from trimtab.workload.base import PausingWorkload, RatedWorkload, Workload
from trimtab.workload.site import SITE_KEYS, SiteLoad, SiteWorkload, builtin_site, interactions
from trimtab.workload.site.interactions import interactions_per_s, within_band
from trimtab.workload.table import Table

PROGRAM = Endpoint(protocol="program", host="localhost", port=0, user="", database="")

SHOP = Path(__file__).with_name("shop.toml").read_text(encoding="utf-8")


@pytest.fixture
def web() -> Iterator[Site]:
    with site() as mine:
        yield mine


def made(folder: Path, text: str = SHOP, **table: Any) -> SiteWorkload:
    (folder / "shop.toml").write_text(text, encoding="utf-8")
    settings = {"kind": "site", "site": "shop.toml", "think_scale": 0.001, "load": {"users": 4}, **table}
    return SiteWorkload.from_settings(settings, directory=folder)


def at(web: Site) -> Endpoint:
    return Endpoint(protocol="http", host="127.0.0.1", port=web.port, user="", database="")


def run(workload: SiteWorkload, web: Site, duration_s: float = 1.0) -> SecondLog:
    return to_the_end(workload.start(at(web), seed=1, duration_s=duration_s))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[numbers]", "[numbrs]"), "unknown key in the site file: numbrs="),
        (("[numbers]", "[numbers"), "shop.toml: "),
        (('"GET /"', '"FETCH /"'), "[states.home] request='FETCH /' is not a request"),
        (('"GET /"', '"GET home"'), "request='GET home' is not a request"),
        (('"GET /"', '"GET /#home"'), "request='GET /#home' is not a request"),
        (('form = { user = "me" }', 'query = { user = "me" }'), "request='POST /login' cannot have a query"),
        (('request = "GET /"', 'form = { a = "b" }'), "[states.home] needs either request or requests"),
        (("{item}", "{itm}"), "[states.view] names value='itm'"),
        (('pick = ["item"]', 'pick = ["itm"]'), "[states.view] names value='itm', which [values] does not have"),
        (('find = "/item/", ', ""), "[states.view] pick='item' has no find"),
        (
            ('[1, "items"]', '[1, "users"]'),
            "[values.item] names 'users', which is neither a number nor a value before it",
        ),
        (('[1, "items"]', '[99, "items"]'), "[values.item] number=[99, 'items'] is 99 to 50"),
        (
            ('[1, "items"]', f'[1, "items * {10**18}"]'),
            f"[values.item] 'items * {10**18}' is {50 * 10**18}, beyond the range",
        ),
        (('number = [1, "items"]', 'letters = [99, "items"]'), "[values.item] letters=[99, 'items'] is 99 to 50"),
        (('number = [1, "items"]', 'letters = [1, "users"]'), "[values.item] names 'users', which is neither"),
        (('number = [1, "items"]', 'number = [1, "items"], text = "a"'), "[values.item] has number and text"),
        (('find = "/item/", number = [1, "items"]', "width = 3"), "says nothing about where it comes from"),
        (
            ('number = [1, "items"]', "letters = [2, 3], width = 5"),
            "[values.item] width=5 has no meaning without number or spell",
        ),
        (('number = [1, "items"]', 'letters = [2, 3], skew = "items"'), "skew='items' has no meaning without number"),
        (('number = [1, "items"]', 'one_of = ["1"], plus = "item"'), "plus='item' has no meaning without number"),
        (('number = [1, "items"]', 'text = "a", digits = []'), "digits=[] has no meaning without spell"),
        (('find = "/item/", ', 'none = "0", '), "none='0' has no meaning without find"),
        (('number = [1, "items"]', 'number = [1, 9], plus = "item", width = 2'), "[values.item] has plus and width"),
        (('find = "/item/"', 'find = { after = "a", until = "bc" }'), "until='bc' is not a character"),
        (("item = {", "Item = {"), "[values.Item] is not a name"),
        (("login = { home", "logn = { home"), "unknown key in [mixes.all]: logn="),
        (("view = { view = 1, Back = 1 }\n", ""), "[mixes.all] lacks what follows state='view'"),
        (("view = 1, Back", "viw = 1, Back"), "unknown key in [mixes.all] view: viw=1"),
        (("view = 1, Back = 1", "view = 0"), "[mixes.all] view={'view': 0} has no weight above 0"),
        (('start = "home"', 'start = "hom"'), "[site] start='hom' is not known"),
        (('start = "home"', "images = 5"), "[site] images=5 is not a list of texts"),
        (("[states.login]", "[states.Back]"), "[states.Back] names a step, not a state"),
        (
            ('"POST /login"', '"POST /login"\nrequests = [{ after = "hom" }]'),
            "[states.login] needs either request or requests",
        ),
        (
            ('request = "POST /login"', 'requests = [{ request = "POST /login", after = "hom" }]'),
            "[states.login] after='hom' is not a state",
        ),
        (('limit = "3s"', 'limit = "soon"'), "duration='soon' is not"),
    ],
)
def test_a_wrong_site_file_is_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in SHOP
    with pytest.raises(UsageError) as refused:
        made(tmp_path, SHOP.replace(*change))
    assert message in str(refused.value)
    assert refused.value.hint


def test_a_site_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert made(tmp_path, f"\ufeff{SHOP}").browsers.source() == made(tmp_path).browsers.source()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"site": "none.toml"}, "none.toml cannot be read: No such file or directory"),
        ({"mix": "bidding"}, "mix='bidding' is not known"),
        ({"numbers": {"itms": 3}}, "unknown key in [workload.numbers]: itms=3"),
        ({"numbers": 5}, "[workload] numbers=5 is not a table"),
        ({"load": {"think": "1s"}}, "[workload.load] think=1s cannot be set: browsers think as their site says"),
        ({"rate_of": "sessions"}, 'rate_of="sessions" has no meaning in a closed loop'),
        ({"think_scale": -1}, "think_scale=-1 is out of range"),
        ({"think_law": "fixed"}, "[workload] think_law='fixed' cannot be set: no state of site=shop has a wait"),
        (
            {"url": "http://shop", "tls": "require"},
            "[workload] tls='require' has no meaning with url=\"http://shop:80\"",
        ),
        ({"url": "shop"}, "url='shop' is not the address of a web server"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        made(tmp_path, **table)
    assert message in str(refused.value)
    assert refused.value.hint


def test_what_a_searcher_is_told(tmp_path: Path) -> None:
    workload = made(tmp_path)
    assert isinstance(workload, Workload)
    assert isinstance(workload, RatedWorkload)
    context = workload.context
    assert context.workload.startswith("site shop ")
    assert context.workload.endswith(" all")
    assert context.clients == 4
    assert context.read_share == pytest.approx(1 - context.features["share_login"])
    assert context.features["think_scale"] == 0.001
    other = made(tmp_path, numbers={"items": 51}).context
    assert other.workload != context.workload
    # A digest tells what browsers do: names of users' own sites need no words for it.
    bare = made(tmp_path, images=False).context
    assert bare.workload.endswith(" all")
    assert bare.workload != context.workload
    assert made(tmp_path).protocols == ("http",)
    assert "postgresql" in made(tmp_path, url="http://localhost:8080").protocols
    with pytest.raises(LoadError, match="site=shop cannot be asked of protocol=program"):
        made(tmp_path).start(PROGRAM, seed=1, duration_s=1.0)


def test_a_text_has_as_many_letters_as_a_number_says(tmp_path: Path) -> None:
    named = made(tmp_path, SHOP.replace('number = [1, "items"]', 'letters = [1, "items"]')).browsers.source()
    assert [1, 50] in [value["letters"] for value in named["values"]]


def test_numbers_of_a_study_count_before_the_file_is_judged(tmp_path: Path) -> None:
    text = SHOP.replace("items = 50", "items = 0  # the study says how many")
    with pytest.raises(UsageError, match=r"number=\[1, 'items'\] is 1 to 0"):
        made(tmp_path, text)
    item = made(tmp_path, text, numbers={"items": 7}).browsers.source()["values"][0]
    assert item["number"]["high"] == 7


def test_images_of_the_site_are_read_with_each_page_that_names_none(tmp_path: Path) -> None:
    states = made(tmp_path, SHOP.replace("[site]", '[site]\nimages = ["/all.png"]')).browsers.source()["states"]
    assert [state["images"] for state in states] == [["/logo.png"], ["/all.png"], ["/all.png"]]
    assert all(state["reads_images"] for state in states)


def test_how_long_browsers_think_is_a_law_of_the_site_or_of_the_study() -> None:
    def thinking(**table: Any) -> Any:
        return SiteLoad.from_table(Table(table, "[workload]", SITE_KEYS), builtin_site("rubis"), Path()).source()

    assert thinking()["think"] == [7.0, 70.0]
    fixed = thinking(think_law="fixed")
    assert fixed["think"] is None
    assert {state["label"]: state["wait_s"] for state in fixed["states"]}["SellItemForm"] == 7.0


def test_a_warm_run_waits_until_the_mix_is_right(tmp_path: Path) -> None:
    """As after a restart: two pauses of 7 s after the last browser has come, which `warmup_floor` asks for."""
    plan = MeasurePlan(window_s=30.0, window_max_s=30.0, warmup_floor_s=34.0, warmup_cap_s=60.0)
    closed = made(tmp_path, think_scale=1.0, load={"users": 4, "start": "20s"})
    assert closed.arrivals_s == pytest.approx(20.0 + 2 * closed.browsers.site.think.mean_s)
    rubis = SiteWorkload(replace(closed.browsers, site=builtin_site("rubis")))
    assert plan.warm(rubis.arrivals_s).warmup_floor_s == 34.0


def test_an_open_loop_is_warm_when_each_browser_has_asked_for_some_pages(tmp_path: Path) -> None:
    """They take turns, and all begin with the first page."""
    browsers = made(tmp_path, think_scale=1.0, load={"rate": 50, "users": 500})
    assert browsers.browsers.think_s == 0.0
    assert browsers.arrivals_s == 80.0
    assert browsers.with_rate(4000).arrivals_s == 1.0
    ramp = {"kind": "ramp", "to": 4000, "over": "60s"}
    assert made(tmp_path, load={"rate": 1, "users": 500, "profile": ramp}).arrivals_s == 0.0


@pytest.mark.parametrize(
    ("site", "mix", "session_s"),
    [
        ("rubis", "bidding", 7.0 * 11.3),
        ("rubis", "browsing", 7.0 * 8.6),
        ("tpcw", "ordering", 15 * 60 * (1 - np.exp(-4))),
    ],
)
def test_an_open_loop_of_sessions_is_warm_when_as_many_end_as_begin(site: str, mix: str, session_s: float) -> None:
    table = {"mix": mix, "rate_of": "sessions", "think_scale": 0.1, "load": {"rate": 5, "users": 500}}
    browsers = SiteLoad.from_table(Table(table, "[workload]", SITE_KEYS), builtin_site(site), Path())
    assert browsers.think_s == pytest.approx(0.7)
    assert browsers.arrivals_s == pytest.approx(3 * 0.1 * session_s, rel=0.02)


@pytest.mark.parametrize(
    ("table", "users"),
    [
        ({"think_scale": 1.0, "load": {"users": 300}}, 16),
        ({"think_scale": 0.0, "load": {"users": 4, "start": "20s"}}, 4),
        ({"think_scale": 1.0, "load": {"rate": 5, "users": 40}, "rate_of": "sessions"}, 16),
    ],
)
def test_browsers_at_full_speed_neither_pause_nor_come_late(tmp_path: Path, table: dict[str, Any], users: int) -> None:
    workload = made(tmp_path, **table)
    assert isinstance(workload, PausingWorkload)
    eager = workload.at_full_speed().browsers
    assert (eager.think_s, eager.arrivals_s, eager.load.users) == (0.0, 0.0, users)
    assert not eager.load.is_open
    eager.check()
    assert eager.source()["states"] == workload.browsers.source()["states"]
    without = made(tmp_path, think_scale=0.0, load={"users": 300})
    assert without.at_full_speed() is without


@pytest.mark.slow
def test_browsers_walk_through_a_site(tmp_path: Path, web: Site) -> None:
    workload = made(tmp_path)
    assert workload.prepare(at(web), quiet).note == "the pages are the server's own"
    assert web.asked == {"GET /": 1, "GET /logo.png": 1}
    web.asked.clear()
    log = run(workload, web)
    assert (log.errors, log.error_classes) == ((), {})
    n = counts(log)
    assert set(n) == {"home", "view", "login"}
    # At the end of the run some were on their way.
    assert 0 <= web.asked["GET /logo.png"] - n["home"] <= 4
    assert 0 <= web.asked["POST /login"] - n["login"] <= 4
    items = {path for path in web.asked if path.startswith("GET /item/")}
    assert items <= {f"GET /item/{number}" for number in range(1, 51)}
    found = interactions(log, workload.browsers.site, 0, len(log.credited))
    assert [row.state for row in found] == ["home", "view", "login"]
    assert sum(row.n for row in found) == sum(n.values())
    assert all(row.mean_s > 0 for row in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words", "kind"),
    [
        (('"GET /"', '"GET /broken"'), "500 for GET /broken", "http_5xx"),
        (('["Welcome"]', '["Goodbye"]'), "is not in the page", "validation"),
        (('start = "home"', 'start = "home"\nerror = ["<p>"]'), "200 Welcome for GET /", "error_page Welcome"),
        (('"/logo.png"', '"/missing"'), "404 for GET /missing", "http_4xx"),
    ],
)
def test_failures_are_counted_by_kind(
    tmp_path: Path, web: Site, change: tuple[str, str], words: str, kind: str
) -> None:
    # Each browser asks once, and then thinks.
    workload = made(tmp_path, SHOP.replace(*change), think_scale=1000)
    log = run(workload, web)
    assert log.error_classes.get(kind, 0) > 0, log.error_classes
    assert any(words in text for text in log.errors), log.errors
    with pytest.raises(LoadError, match=r"state=home of site=shop at http://127.0.0.1:\d+ cannot be used: ") as refused:
        workload.prepare(at(web), quiet)
    assert words in str(refused.value)


@pytest.mark.slow
def test_browsers_connect_when_they_come(tmp_path: Path, web: Site) -> None:
    log = run(made(tmp_path, load={"users": 60, "start": "60s"}), web)
    assert log.users == 60
    assert log.error_classes == {}
    assert web.n_connections < 30


@pytest.mark.slow
def test_sessions_can_come_by_a_schedule(tmp_path: Path, web: Site) -> None:
    """The schedule brings sessions; what belongs to one comes after its user's thinking and is not shed."""
    load = {"users": 16, "rate": 20}
    by_session = run(made(tmp_path, rate_of="sessions", load=load), web)
    by_interaction = run(made(tmp_path, load=load), web)
    assert by_session.is_open
    n_sessions = counts(by_session)["home"]
    assert by_session.offered.sum() > by_interaction.offered.sum() > 0
    assert by_session.offered.sum() >= sum(counts(by_session).values()) > n_sessions


@pytest.mark.slow
def test_an_open_loop_begins_with_the_first_page_of_each_browser(tmp_path: Path, web: Site) -> None:
    log = run(made(tmp_path, load={"users": 200, "rate": 100}), web)
    assert set(counts(log)) == {"home"}


@pytest.mark.service
@pytest.mark.full
@pytest.mark.needs("apache2")
def test_thousands_of_browsers_come_from_one_process(tmp_path: Path) -> None:
    """The quick form has a few."""
    site = """
    [site]
    contains = ["Welcome"]
    [states.home]
    request = "GET /index.html"
    [mixes.all]
    home = { home = 1 }
    """
    # So that each of them may keep its connection.
    settings = "ServerLimit 4\nThreadsPerChild 25\nMaxRequestWorkers 100\nAsyncRequestWorkerFactor 40"
    with apache.started(settings) as port:
        browsers = made(tmp_path, site, think_scale=0.5, load={"users": 3000, "start": "5s"})
        there = Endpoint(protocol="http", host="127.0.0.1", port=port, user="", database="")
        log = to_the_end(browsers.start(there, seed=1, duration_s=15.0))
    assert (log.errors, log.error_classes) == ((), {})
    assert log.users == 3000
    assert log.offered.sum() >= 3000


def test_interactions_are_judged_by_their_limits() -> None:
    shop = builtin_site("tpcw")
    assert {state.name: state.limit_s for state in shop.states}["SearchResults"] == 10.0
    labels = tuple(state.name for state in shop.states)
    # Home: nine of 1 s and one of 4 s; NewProducts: nine of 1 s and two of 6 s.
    seconds, values = np.array([0, 0, 0, 0, 9]), np.array([1e6, 4e6, 1e6, 6e6, 9e6])
    response = Buckets(seconds, np.array([0, 0, 1, 1, 0]), values, np.array([9, 1, 9, 2, 5]))
    none, zero = np.zeros(2), np.zeros(2, dtype=np.int64)
    log = SecondLog(
        labels=labels, duration_s=2.0, credited=none, response=response, offered=zero, shed=zero, timed_out=zero,
        client_cpu_s=none, steal_s=none,
    )  # fmt: skip
    home, new, *others = interactions(log, shop, 0, 2)
    assert (home.n, home.p90_s, home.is_within) == (10, 1.0, True)
    assert home.mean_s == pytest.approx(1.3)
    assert (new.n, new.p90_s, new.is_within) == (11, 6.0, False)
    assert all(row.n == 0 and row.is_within for row in others)
    assert interactions_per_s(log, 0, 2) == 10.5
    browsers = SiteLoad.from_table(Table({"load": {"users": 100}}, "[workload]", SITE_KEYS), shop, Path())
    assert browsers.remarks(replace(log, users=100), (0.0, 2.0)) == (
        "WIPS=10.5, within TPC-W's band of 7.143 to 14.29 for users=100 that think for 7 s",
        "p90 above its limit: NewProducts 6 s > 5 s",
    )
    hurried = replace(browsers, think_scale=0.1).remarks(replace(log, users=10), (0.0, 1.0))
    assert hurried[0] == "WIPS=21, outside TPC-W's band of 7.143 to 14.29 for users=10 that think for 0.7 s"
    assert browsers.with_rate(10).remarks(replace(log, response=response.within(9, 10)), (0.0, 2.0)) == (
        "p90 of each interaction is within its limit",
    )
    late = Buckets.of([(0, labels.index("AdminConfirm"), 30_000_000, 3), (0, 0, 1_000, 5)])
    home, *_, confirmed = interactions(timed_out := replace(log, error=late, users=100), shop, 0, 2)
    assert (confirmed.state, confirmed.n, confirmed.p90_s, confirmed.is_within) == ("AdminConfirm", 0, 30.0, False)
    assert (home.n, home.p90_s) == (10, 1.0), "a quick error says nothing of the limit"
    assert browsers.remarks(timed_out, (0.0, 2.0))[1].endswith("NewProducts 6 s > 5 s, AdminConfirm 30 s > 20 s")
    assert within_band(10.5, 100, 7.0)
    assert not within_band(15.0, 100, 7.0)
    assert not within_band(7.0, 100, 7.0)
