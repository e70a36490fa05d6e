"""Every interaction of the bookshop on a real Tomcat and database: its mark, its links, and what it writes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.sites import Site, site
from tests.workload.runs import counts
from trimtab.workload.site import builtin_site, stationary_shares
from trimtab.workload.tpcw.names import SUBJECTS, spelled
from trimtab.workload.tpcw.settings import TpcwData
from trimtab.workload.tpcw.tables import dataset
from trimtab.workload.webapp import Answer

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.needs("tomcat", "java", "applications")]

DATA = TpcwData(customers=500, items=1000)


# Quick on MariaDB; the quick form of test_rubis.py shows PostgreSQL.
@pytest.fixture(
    scope="module",
    params=[
        pytest.param("postgresql", marks=pytest.mark.full),
        pytest.param("mariadb", marks=pytest.mark.needs("mariadb")),
    ],
)
def tpcw(request: pytest.FixtureRequest, state_dir: Path) -> Iterator[Site]:
    version = {"postgresql": "18", "mariadb": "mariadb"}[request.param]
    with site("tpcw", request.param, version, dataset(DATA), state_dir) as running:
        yield running


def ok(page: Answer, state: str, /, **facts: object) -> Answer:
    assert (page.status, page.outcome, page.state) == (200, "ok", state), page.text[-400:]
    assert page.facts.items() >= {name: str(value) for name, value in facts.items()}.items()
    return page


def books(page: Answer) -> list[int]:
    return [int(book) for book in re.findall(r'href="/tpcw/product/(\d+)"', page.text)]


def images(page: Answer) -> list[str]:
    return re.findall(r'<img src="/tpcw/(images/[a-z0-9-]+\.png)">', page.text)


def test_looking_around(tpcw: Site) -> None:
    home = ok(tpcw.get("home?customer=42"), "Home", customer=42, cart=0)
    assert "Hello, " in home.text
    assert len(books(home)) == 5
    assert len(images(home)) == 6
    assert all(tpcw.get(image).status == 200 for image in images(home))
    for subject in SUBJECTS:
        assert f'href="/tpcw/new/{subject}"' in home.text
        assert f'href="/tpcw/best/{subject}"' in home.text
    page = ok(tpcw.get("new/SELF-HELP"), "NewProducts", customer=0)
    assert len(books(page)) - 5 == int(page.facts["n"]) > 10
    page = ok(tpcw.get("best/ARTS"), "BestSellers")
    assert len(books(page)) - 5 == int(page.facts["n"]) > 10
    page = ok(tpcw.get("product/17"), "ProductDetail", item=17)
    assert len(images(page)) == 2
    assert '<input type="hidden" name="item" value="17">' in page.text
    assert 'href="/tpcw/admin/17"' in page.text
    ok(tpcw.get("search"), "SearchRequest")
    assert int(ok(tpcw.get(f"results/title/{spelled(3, 7)}"), "SearchResults").facts["n"]) == 5
    assert int(ok(tpcw.get(f"results/author/{spelled(3, 7)}"), "SearchResults").facts["n"]) > 1
    assert int(ok(tpcw.get("results/subject/TRAVEL"), "SearchResults").facts["n"]) > 10
    assert tpcw.get("results/colour/RED").outcome == "request"


def test_a_customer_buys(tpcw: Site) -> None:
    page = ok(tpcw.get("cart"), "ShoppingCart", n=1, customer=0)
    cart = page.facts["cart"]
    (line,) = re.findall(r'name="qty_(\d+)"', page.text)
    other = 5 if line != "5" else 6
    page = ok(tpcw.post("cart", item=other, cart=cart), "ShoppingCart", n=2, cart=cart)
    assert len(images(page)) == 1 + 5 + 2
    ok(tpcw.post("cart", **{f"qty_{line}": 0, f"qty_{other}": 4}, cart=cart), "ShoppingCart", n=1)
    ok(tpcw.get(f"register?customer=42&cart={cart}"), "CustomerRegistration", customer=42)
    who = {"uname": spelled(42), "passwd": spelled(42).lower()}
    ok(tpcw.post("buy", **who, cart=cart), "BuyRequest", n=1, customer=42, cart=cart)
    card = {"cc_type": "VISA", "cc_number": "1" * 16, "cc_name": "A B", "cc_expiry": "2030-01-31", "shipping": "AIR"}
    page = ok(tpcw.post("confirm", **card, customer=42, cart=cart), "BuyConfirm", customer=42)
    order = int(page.facts["order"])
    assert order > 450
    shown = ok(tpcw.post("order", **who), "OrderDisplay", order=order, n=1)
    assert "AIR" in shown.text
    assert tpcw.post("confirm", **card, customer=42, cart=cart).facts["reason"] == "empty"
    assert tpcw.post("buy", **who, cart=cart).facts["reason"] == "empty"
    with tpcw.data.connect() as session:
        lines = session.execute("SELECT ol_i_id, ol_qty FROM order_line WHERE ol_o_id = %s", (order,))
        unpaid = session.execute("SELECT COUNT(*) FROM orders WHERE o_id NOT IN (SELECT cx_o_id FROM cc_xacts)")
    assert lines == [(other, 4)]
    assert unpaid == [(0,)]


def test_a_new_customer_buys_for_somebody_else(tpcw: Site) -> None:
    cart = ok(tpcw.post("cart", item=9), "ShoppingCart").facts["cart"]
    home = {"street1": "One", "street2": "x", "city": "Town", "state": "S", "zip": "12345", "country": "Canada"}
    new = {"fname": "A", "lname": "B", "phone": "1", "email": "e", "birthdate": "1980-02-03", "data": "d" * 100}
    page = ok(tpcw.post("buy", **home, **new, cart=cart), "BuyRequest", cart=cart)
    customer = int(page.facts["customer"])
    assert customer > 500
    card = {"cc_type": "AMEX", "cc_number": "2" * 16, "cc_name": "A B", "cc_expiry": "2031-01-31", "shipping": "UPS"}
    away = {**home, "city": "Elsewhere", "country": "France"}
    ok(tpcw.post("confirm", **card, **away, customer=customer, cart=cart), "BuyConfirm")
    who = {"uname": spelled(customer), "passwd": spelled(customer).lower()}
    shown = ok(tpcw.post("order", **who), "OrderDisplay", customer=customer)
    assert "Town" in shown.text
    assert "Elsewhere" in shown.text


def test_the_shop_is_kept(tpcw: Site) -> None:
    page = ok(tpcw.get("admin/7"), "AdminRequest", item=7)
    assert len(images(page)) == 3
    page = ok(tpcw.post("admin", item=7, cost="12.50", image=3, thumbnail=4), "AdminConfirm", item=7)
    assert images(page)[1:] == ["images/thumbnail-4.png", "images/image-3.png"]
    assert "only 12.50" in tpcw.get("product/7").text


def test_each_failure_has_its_kind(tpcw: Site) -> None:
    assert ok(tpcw.get("inquiry"), "OrderInquiry")
    assert (tpcw.get("product/99999").outcome, tpcw.get("cart?cart=99999").outcome) == ("missing", "missing")
    assert tpcw.post("order", uname="BA", passwd="no").outcome == "login"
    assert tpcw.post("confirm", cart=1).outcome == "request"
    cart = ok(tpcw.get("cart"), "ShoppingCart").facts["cart"]
    for field in ("qty_x", "qty_", "qty_-1"):
        assert tpcw.post("cart", cart=cart, **{field: 1}).outcome == "request"


# The other mixes show the same.
@pytest.mark.parametrize(
    "mix",
    ["ordering", pytest.param("browsing", marks=pytest.mark.full), pytest.param("shopping", marks=pytest.mark.full)],
)
def test_browsers_meet_no_error(tpcw: Site, mix: str) -> None:
    tpcw.renew()
    log = tpcw.browse(DATA.numbers, mix, 1.5)
    # Transactions may meet; nothing else goes wrong.
    assert set(log.error_classes) <= {"http_5xx conflict"}, log.errors
    shares, n = stationary_shares(builtin_site("tpcw").mix(mix), "Home"), counts(log)
    total = sum(n.values())
    # Hellinger distance of what was asked from the table; browsers that find nothing go where they can.
    alike = sum(math.sqrt(share * n.get(state, 0) / total) for state, share in shares.items())
    assert math.sqrt(max(0.0, 1.0 - alike)) < 0.1 + math.sqrt(len(n) / total), n
