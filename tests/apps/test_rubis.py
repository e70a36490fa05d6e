"""Every page of the auction site on a real Tomcat and database: its mark, its links, what it writes, and how it fails."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apps.sites import Site, site
from tests.workload.runs import counts
from trimtab.space import Config
from trimtab.workload.rubis.settings import RubisData
from trimtab.workload.rubis.tables import dataset, tables
from trimtab.workload.site import builtin_site, stationary_shares
from trimtab.workload.webapp import Answer

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.needs("tomcat", "java", "applications")]

DATA = RubisData(scale=0.002, description_length=200)
OLD, USERS = DATA.sizes.old_items, DATA.sizes.users
ITEM = OLD + 1


# Quick on PostgreSQL; the quick form of test_tpcw.py shows MariaDB.
@pytest.fixture(
    scope="module",
    params=["postgresql", pytest.param("mariadb", marks=(pytest.mark.needs("mariadb"), pytest.mark.full))],
)
def rubis(request: pytest.FixtureRequest, state_dir: Path) -> Iterator[Site]:
    version = {"postgresql": "18", "mariadb": "mariadb"}[request.param]
    with site("rubis", request.param, version, dataset(DATA), state_dir) as running:
        yield running


def links(page: Answer, pattern: str) -> list[str]:
    return re.findall(f'href="/rubis/({pattern})"', page.text)


def hidden(page: Answer) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="([a-z_0-9]+)" value="([A-Za-z0-9._-]*)">', page.text))


def action(page: Answer) -> str:
    (found,) = re.findall(r'<form action="/rubis/([a-z-]+)" method="post">', page.text)
    return str(found)


def ok(page: Answer, state: str, /, **facts: object) -> Answer:
    assert (page.status, page.outcome, page.state) == (200, "ok", state), page.text[-400:]
    assert page.facts.items() >= {name: str(value) for name, value in facts.items()}.items()
    return page


ME = {"nickname": "user7", "password": "password7"}


def test_what_everybody_sees(rubis: Site) -> None:
    static = {
        "index.html": "Home",
        "browse.html": "Browse",
        "register.html": "Register",
        "sell.html": "Sell",
        "about_me.html": "AboutMeAuth",
    }
    for path, state in static.items():
        page = ok(rubis.get(path), state)
        assert len(re.findall('<img src="/rubis/images/', page.text)) == 2
    assert rubis.get("images/logo.png").status == 200
    page = ok(rubis.get("categories"), "BrowseCategories", n=20)
    assert len(links(page, r"search/category/\d+/0")) == 20
    regions = links(ok(rubis.get("regions"), "BrowseRegions", n=62), 'region/[^"]+')
    assert len(regions) == 62
    page = ok(rubis.get(regions[3]), "BrowseCategoriesInRegion", region=4, n=20)
    assert links(page, r"search/region/4/\d+/0")[5] == "search/region/4/6/0"


def test_searching(rubis: Site) -> None:
    first = ok(rubis.get("search/category/6/0"), "SearchItemsInCategory", category=6, page=0)
    n = DATA.sizes.by_category[5]
    assert n < 20
    assert first.facts["n"] == str(n)
    assert len(links(first, r"item/\d+")) == len(links(first, r"bid-login/\d+")) == n
    last = rubis.get("search/category/6/1")
    assert (last.status, last.outcome, last.facts["reason"]) == (200, "sorry", "empty")
    found = [rubis.get(f"search/region/{region}/6/0") for region in range(1, 63)]
    assert sum(int(page.facts["n"]) for page in found if page.outcome == "ok") == n
    assert all(page.outcome == "ok" or page.facts["reason"] == "empty" for page in found)


def test_items_and_people(rubis: Site) -> None:
    page = ok(rubis.get(f"item/{ITEM}"), "ViewItem", item=ITEM)
    seller = page.facts["seller"]
    assert links(page, r"user/\d+") == [f"user/{seller}"]
    assert links(page, f"bids/{ITEM}")
    assert links(page, f"comment-login/{seller}/{ITEM}")
    ok(rubis.get("item/1"), "ViewItem", item=1)
    page = ok(rubis.get(f"user/{seller}"), "ViewUserInfo", user=seller)
    assert int(page.facts["n"]) == len(links(page, r"user/\d+")) >= 1
    page = ok(rubis.get(f"bids/{ITEM}"), "ViewBidHistory", item=ITEM)
    assert int(page.facts["n"]) == len(links(page, r"user/\d+"))


def test_bidding(rubis: Site) -> None:
    form = ok(rubis.get(f"bid-login/{ITEM}"), "PutBidAuth", item=ITEM)
    assert (action(form), hidden(form)) == ("bid", {"item": str(ITEM)})
    form = ok(rubis.post(action(form), **hidden(form), **ME), "PutBid", item=ITEM, user=7)
    assert links(form, r"comment-login/\d+/\d+")
    fields = hidden(form)
    bid = float(fields["min_bid"])
    before = int(rubis.get(f"bids/{ITEM}").facts["n"])
    ok(rubis.post(action(form), **fields, bid=bid, max_bid=bid + 5, qty=1), "StoreBid", item=ITEM, user=7)
    assert rubis.get(f"bids/{ITEM}").facts["n"] == str(before + 1)
    late = rubis.post("store-bid", **{**fields, "item": "1"}, bid=bid, max_bid=bid, qty=1)
    assert (late.outcome, late.facts["reason"]) == ("sorry", "ended")
    with rubis.data.connect() as session:
        wrong = session.execute(
            "SELECT COUNT(*) FROM items WHERE nb_of_bids <> (SELECT COUNT(*) FROM bids WHERE item_id = items.id) OR"
            " max_bid <> (SELECT COALESCE(MAX(bid), 0) FROM bids WHERE item_id = items.id)"
        )
    assert wrong == [(0,)]
    page = ok(rubis.post("about-me", **ME), "AboutMe", user=7)
    assert f"item/{ITEM}" in links(page, r"item/\d+")
    assert links(page, r"bid-login/\d+")


def test_buying(rubis: Site) -> None:
    form = ok(rubis.get(f"buy-login/{ITEM + 1}"), "BuyNowAuth", item=ITEM + 1)
    form = ok(rubis.post(action(form), **hidden(form), **ME), "BuyNow", user=7)
    fields, n = hidden(form), int(hidden(form)["max_qty"])
    ok(rubis.post(action(form), **fields, qty=n), "StoreBuyNow", item=ITEM + 1, user=7)
    again = rubis.post(action(form), **fields, qty=n)
    assert (again.outcome, again.facts["reason"]) == ("sorry", "sold") or again.facts["reason"] == "ended"
    assert rubis.post("buy", item=ITEM + 1, **ME).facts["reason"] == "sold"
    assert rubis.post("bid", item=ITEM + 1, **ME).facts["reason"] == "sold"
    assert f"item/{ITEM + 1}" in links(rubis.post("about-me", **ME), r"item/\d+")


def test_comments(rubis: Site) -> None:
    form = ok(rubis.get(f"comment-login/3/{ITEM}"), "PutCommentAuth", to=3, item=ITEM)
    form = ok(rubis.post(action(form), **hidden(form), **ME), "PutComment", to=3)
    before = int(rubis.get("user/3").facts["n"])
    ok(rubis.post(action(form), **hidden(form), rating=-3, comment="<late> & dear"), "StoreComment", to=3)
    page = rubis.get("user/3")
    assert int(page.facts["n"]) == before + 1
    assert "&lt;late&gt; &amp; dear" in page.text
    assert "rating -3" in page.text


def test_new_people_sell(rubis: Site) -> None:
    new = {"nickname": "newcomer", "password": "secret"}
    form = {**new, "firstname": "A", "lastname": "B", "email": "a@b.example", "region": 5}
    page = ok(rubis.post("register", **form), "RegisterUser")
    user = int(page.facts["user"])
    assert user > USERS
    assert rubis.post("register", **form).facts["reason"] == "taken"
    page = ok(rubis.post("sell", **new), "SelectCategoryToSellItem", user=user, n=20)
    form = ok(rubis.get(links(page, r"sell-item/\d+/\d+")[2]), "SellItemForm", category=3, user=user)
    item = {"name": "a clock", "description": "it stands", "initial_price": "10.50", "reserve_price": 0, "buy_now": 20}
    page = ok(rubis.post(action(form), **hidden(form), **item, duration=3, quantity=1), "RegisterItem")
    assert int(page.facts["item"]) > OLD + DATA.sizes.items
    ok(rubis.get(f"item/{page.facts['item']}"), "ViewItem", seller=user)


def test_each_failure_has_its_kind(rubis: Site) -> None:
    cases = {
        ("item/abc", 400): "request",
        ("item/", 400): "request",
        ("item/99999999", 404): "missing",
        ("user/99999999", 404): "missing",
        ("region/Nowhere", 404): "missing",
    }
    for (path, status), kind in cases.items():
        page = rubis.get(path)
        assert (page.status, page.outcome) == (status, kind)
    page = rubis.post("bid", item=ITEM, nickname="user7", password="password8")
    assert (page.status, page.outcome) == (403, "login")
    assert (
        rubis.post("store-bid", item=ITEM, user=7, qty=1, bid=1, max_bid=1, min_bid=5, max_qty=1).outcome == "request"
    )
    assert rubis.get("no-such-page").outcome == "http_404"


def test_the_next_run_finds_what_was_prepared(rubis: Site) -> None:
    nickname = "only-for-one-run"
    form = {"nickname": nickname, "password": "p", "firstname": "A", "lastname": "B", "email": "e", "region": 1}
    ok(rubis.post("register", **form), "RegisterUser")
    rubis.renew()
    with rubis.data.connect() as session:
        counts = {table.name: session.execute(f"SELECT COUNT(*) FROM {table.name}")[0][0] for table in tables(DATA)}
        assert session.execute("SELECT COUNT(*) FROM users WHERE nickname = %s", (nickname,)) == [(0,)]
    assert counts == {table.name: table.n_rows for table in tables(DATA)}
    assert int(ok(rubis.post("register", **form), "RegisterUser").facts["user"]) == USERS + 1


def test_one_pool_connects_to_the_database(rubis: Site) -> None:
    """Not one for each application that the server runs."""
    postgresql = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = 'rubis' AND pid <> pg_backend_pid()"
    mariadb = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'rubis' AND id <> CONNECTION_ID()"
    found = rubis.app.snapshot()
    assert rubis.app.apply(Config({"initialSize": 10, "maxIdle": 20, "maxTotal": 20})).restarted
    try:
        with rubis.data.connect() as session:
            n = session.execute(postgresql if rubis.database.kind == "postgresql" else mariadb)
        assert n == [(10,)]
    finally:
        rubis.app.restore(found)


def test_the_pool_can_still_be_changed_while_it_runs(rubis: Site) -> None:
    """After its connections were closed, for which its bean goes and comes."""
    found = rubis.app.snapshot()
    for size in (12, 13):
        rubis.renew()
        assert not rubis.app.apply(Config({"maxTotal": size})).restarted
    rubis.app.restore(found)


def test_new_items_stand_among_those_of_the_data(rubis: Site) -> None:
    """As long described, and ending within an hour as they do: lists and pages stay as they were made."""
    rubis.renew()
    ends: list[tuple[Any, ...]] = []
    for _ in range(30):  # a busy machine shows few pages a second
        rubis.browse(DATA.numbers, "bidding", 1.0)
        with rubis.data.connect() as session:
            ends = session.execute(
                f"SELECT start_date, end_date, description FROM items WHERE id > {OLD + DATA.sizes.items}"
            )
        if len(ends) >= 5:
            break
    late_s = [(end - start).total_seconds() % 86_400 for start, end, _ in ends]
    assert len(late_s) >= 5
    assert max(late_s) > 600
    assert all(0 <= late <= 3600 for late in late_s)
    assert max(len(text) for _, _, text in ends) > DATA.description_length / 2


# The other mixes show the same.
@pytest.mark.parametrize("mix", ["bidding", pytest.param("browsing", marks=pytest.mark.full)])
def test_browsers_meet_no_error(rubis: Site, mix: str) -> None:
    rubis.renew()
    log = rubis.browse(DATA.numbers, mix, 1.5)
    # Transactions may meet; nothing else goes wrong.
    assert set(log.error_classes) <= {"http_5xx conflict"}, log.errors
    shares, n = stationary_shares(builtin_site("rubis").mix(mix), "Home"), counts(log)
    total = sum(n.values())
    # Hellinger distance of what was asked from the table; browsers that find nothing go where they can.
    alike = sum(math.sqrt(share * n.get(state, 0) / total) for state, share in shares.items())
    assert math.sqrt(max(0.0, 1.0 - alike)) < 0.1 + math.sqrt(len(n) / total), n
