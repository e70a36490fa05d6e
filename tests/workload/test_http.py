"""Pages of a web server as a workload: the table, and runs against a small site."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import apache
from tests.servers.certificates import NEW_KEY, Authority
from tests.servers.web import Site, site
from tests.workload.runs import counts, quiet, to_the_end
from trimtab.errors import LoadError, UsageError
from trimtab.measure import SecondLog
from trimtab.records import Endpoint
from trimtab.workload.base import RatedWorkload, Workload, arrivals_s
from trimtab.workload.http import HttpWorkload

PROGRAM = Endpoint(protocol="program", host="localhost", port=0, user="", database="")


@pytest.fixture
def web() -> Iterator[Site]:
    with site() as mine:
        yield mine


def made(**table: Any) -> HttpWorkload:
    load = {"users": 2, "think": "5ms"}
    return HttpWorkload.from_settings({"kind": "http", "pages": ["/"], "load": load, **table})


def at(web: Site) -> Endpoint:
    return Endpoint(protocol="http", host="127.0.0.1", port=web.port, user="", database="")


def run(workload: HttpWorkload, endpoint: Endpoint, duration_s: float = 1.0) -> SecondLog:
    return to_the_end(workload.start(endpoint, seed=1, duration_s=duration_s))


PAGES = r"\[\[workload.pages\]\]"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"pages": []}, r"pages=\[\] is not a list of pages"),
        ({"page": "/"}, "unknown key in .workload.: page='/'"),
        ({"pages": [3]}, "pages: 3 is not a page"),
        ({"pages": ["shop"]}, "page shop: path=\"shop\" does not begin with /"),
        ({"pages": ["/{a}"]}, "which is no range: write {1-1000}"),
        ({"pages": [{"share": 1}]}, f"{PAGES} lacks path"),
        ({"pages": [{"path": "/", "share": -1}]}, f"{PAGES} share=-1 is out of range"),
        ({"pages": [{"path": "/", "share": 0}]}, "no page has a share above 0"),
        ({"pages": ["/", "/"]}, "two have name='/'"),
        ({"pages": [{"path": "/", "name": "a\nb"}]}, f"{PAGES} name='a.nb' is out of range"),
        ({"pages": [f"/find?{'x' * 120}"]}, f"{PAGES} path='/find.x+' cannot stand as its name"),
        ({"pages": [{"path": "/", "body": "a=b"}]}, "method='GET' sends no body"),
        ({"pages": [{"path": "/", "method": "BREW"}]}, "method='BREW' is not known"),
        ({"pages": [{"path": "/", "status": 99}]}, "status=99 is out of range"),
        ({"pages": [{"path": "/", "resources": "/a"}]}, "resources='/a' is not a list of paths"),
        ({"pages": [{"path": "/", "headers": {"A": 1}}]}, "is not a table of texts"),
        ({"headers": {"Content-Length": "1"}}, "Content-Length is set by the load itself"),
        ({"headers": {"A": "b\r\nc"}}, "the value of A holds a control character"),
        ({"url": "ftp://a"}, "url='ftp://a' is not the address of a web server"),
        ({"url": "http://a/b"}, "url='http://a/b' is not the address"),
        ({"url": "http://a:99999"}, "is not the address"),
        ({"url": "https://a", "tls": "none"}, "tls='none' is not known"),
        ({"url": "https://a", "root_certificates": "/nonexistent/ca.pem"}, "tls: /nonexistent/ca.pem: "),
        ({"url": "http://a", "tls": "require"}, r"tls='require' has no meaning with url=\"http://a:80\""),
        ({"url": "http://a:81", "root_certificates": "ca.pem"}, r"root_certificates='ca.pem' has no meaning with url="),
        ({"connection": "often"}, "connection='often' is not known"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        made(**table)


def test_what_a_searcher_is_told() -> None:
    form = {"name": "order", "path": "/order", "method": "POST", "body": "a=b", "share": 1}
    workload = made(pages=[{"path": "/", "share": 3}, form], load={"users": 7, "think": "1s", "start": "5s"})
    assert isinstance(workload, Workload)
    assert isinstance(workload, RatedWorkload)
    context = workload.context
    assert context.workload.startswith("http 2 pages ")
    assert (context.clients, context.read_share) == (7, 0.75)
    assert context.features == {"share_/": 0.75, "share_order": 0.25, "think_s": 1.0}
    assert made(pages=["/other"]).context.workload != made().context.workload


def test_no_window_begins_before_all_users_have_come() -> None:
    slow = made(load={"users": 7, "think": "1s", "start": "20s"})
    assert (arrivals_s(slow), arrivals_s(slow.at_full_speed()), arrivals_s(made())) == (20.0, 0.0, 0.0)


def test_which_targets_it_drives() -> None:
    assert made().protocols == ("http",)
    assert "postgresql" in made(url="http://localhost:8080").protocols
    with pytest.raises(LoadError, match="workload=http cannot drive protocol=program") as refused:
        made().start(PROGRAM, seed=1, duration_s=1.0)
    assert refused.value.hint == 'give the address of the site: [workload] url = "http://HOST:PORT"'


@pytest.mark.slow
def test_pages_come_by_their_shares(web: Site) -> None:
    pages = [
        {"path": "/item/{1-3}?a=b", "share": 3, "resources": ["/style.css"]},
        {"name": "login", "path": "/login", "method": "POST", "body": "user=me", "text": "Welcome to /home"},
        "/old",
    ]
    workload = made(pages=pages, url=f"http://127.0.0.1:{web.port}", load={"users": 4, "think": "2ms"})
    assert workload.prepare(PROGRAM, quiet).note == "the pages are the server's own"
    # Each page that only reads was asked for once.
    assert web.asked["GET /style.css"] == web.asked["GET /old"] == 1
    assert web.asked["POST /login"] == 0
    web.asked.clear()
    log = run(workload, PROGRAM)
    assert (log.errors, log.error_classes) == ((), {})
    n = counts(log)
    assert set(n) == {"/item/{1-3}?a=b", "login", "/old"}
    assert n["/item/{1-3}?a=b"] > n["login"] + n["/old"]
    # At the end of the run some were on their way.
    items = [web.asked[f"GET /item/{number}"] for number in (1, 2, 3)]
    assert all(items)
    assert 0 <= sum(items) - n["/item/{1-3}?a=b"] <= 4
    assert 0 <= web.asked["GET /home"] - n["login"] <= 4
    # The connections stayed: one a user.
    assert web.n_connections <= 4 + 2
    assert log.wait_s is None or log.wait_s.shape[1] == log.n_threads


@pytest.mark.slow
def test_an_open_loop_keeps_its_rate(web: Site) -> None:
    workload = made(load={"users": 8}).with_rate(100)
    log = run(workload, at(web), duration_s=2.0)
    assert log.is_open
    assert 120 <= int(log.offered.sum()) <= 290
    assert sum(counts(log).values()) + int(log.shed.sum()) <= int(log.offered.sum())


@pytest.mark.slow
def test_connections_that_end_in_good_order_cost_no_errors(web: Site) -> None:
    log = run(made(pages=["/last"]), at(web))
    assert (log.errors, counts(log)["/last"] > 9) == ((), True)
    assert web.n_connections >= web.asked["GET /last"]
    web.n_connections = 0
    web.asked.clear()
    log = run(made(connection="new"), at(web))
    assert log.errors == ()
    assert web.n_connections >= web.asked["GET /"] > 9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "words", "kind"),
    [
        ("/missing", "404 for GET /missing", "http_4xx"),
        ("/broken", "500 for GET /broken", "http_5xx"),
        ({"path": "/", "text": "Goodbye"}, '"Goodbye" is not in the page', "validation"),
        ({"path": "/", "status": 304}, "200 for GET /", "validation"),
        ("/away", 'status 302 leads to "http://other.example/", which is not this site', "validation"),
        ("/slow", "it took longer than operation_timeout=0.5s", ""),
    ],
)
def test_a_page_that_is_not_as_it_must_be(web: Site, page: Any, words: str, kind: str) -> None:
    patience = "20s" if kind else "500ms"
    workload = made(pages=[page], operation_timeout=patience, load={"users": 1, "think": "300ms"})
    name = page if isinstance(page, str) else page["path"]
    with pytest.raises(LoadError) as refused:
        workload.prepare(at(web), quiet)
    assert refused.value.message.startswith(f"page={name!r} of http://127.0.0.1:{web.port} cannot be used: {words}")
    assert refused.value.hint == "open it by hand; status and text in the study file say what it must be"
    log = run(workload, at(web))
    assert counts(log) == {}
    assert set(log.error_classes) == ({kind} if kind else set())
    assert bool(kind) == (int(log.timed_out.sum()) == 0)


def test_a_server_that_is_not_there(web: Site) -> None:
    web.shutdown()
    web.server_close()
    with pytest.raises(LoadError, match="cannot connect to 127.0.0.1") as refused:
        made().start(at(web), seed=1, duration_s=1.0)
    assert refused.value.hint == "check that the server runs and serves so many connections at once"
    with pytest.raises(LoadError, match="the load cannot connect: endpoint=http://"):
        made().prepare(at(web), quiet)


@pytest.mark.slow
def test_a_server_that_goes_away_is_asked_again_with_pauses() -> None:
    with site() as web:
        started = made(pages=["/last"]).start(at(web), seed=1, duration_s=3.0)
        started.frame(5.0)
        web.shutdown()
        web.server_close()
        log = to_the_end(started)
    assert counts(log)["/last"] > 0
    assert set(log.error_classes) == {"connect"}
    assert 0 < log.error_classes["connect"] < 60


@pytest.mark.slow
def test_https_with_a_certificate_that_is_checked(tmp_path: Path) -> None:
    authority = Authority.made(tmp_path / "ca")
    certificate, key = authority.sign("web", "/CN=web", names="IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with site(context) as web:
        url = f"https://127.0.0.1:{web.port}"
        log = run(made(url=url, root_certificates=str(authority.root)), PROGRAM)
        assert (log.errors, counts(log)["/"] > 0) == ((), True)
        log = run(made(url=url, tls="require", connection="new"), PROGRAM)
        assert (log.errors, counts(log)["/"] > 0) == ((), True)
        with pytest.raises(LoadError, match="invalid peer certificate"):
            made(url=url).start(PROGRAM, seed=1, duration_s=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("key", [NEW_KEY, "-newkey rsa:2048 -nodes"])
def test_a_certificate_of_the_first_version_is_taken_where_none_is_checked(
    tmp_path: Path, version: ssl.TLSVersion, key: str
) -> None:
    authority = Authority.made(tmp_path / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, private = authority.sign_plainly("web", "/CN=web", key=key)
    context.load_cert_chain(certificate, private)
    context.minimum_version = context.maximum_version = version
    with site(context) as web:
        url = f"https://127.0.0.1:{web.port}"
        log = run(made(url=url, tls="require"), PROGRAM)
        assert (log.errors, counts(log)["/"] > 0) == ((), True)
        with pytest.raises(LoadError, match=r"it is of X.509 version 1 and cannot be verified; .* with -extfile"):
            made(url=url, root_certificates=str(authority.root)).start(PROGRAM, seed=1, duration_s=1.0)


@pytest.mark.slow
def test_the_generator_may_be_a_process_of_its_own(web: Site) -> None:
    table = {"headers": {"Accept-Language": "de"}, "load": {"users": 3, "from": ["local", "local"], "think": "10ms"}}
    log = run(made(**table), at(web))
    assert (log.errors, log.users, len(log.generators)) == ((), 3, 2)
    assert counts(log)["/"] > 0


@pytest.mark.service
@pytest.mark.needs("apache2")
def test_a_real_apache_that_ends_connections_as_it_likes() -> None:
    """After ten requests, and after a second without one; compressed pages come in chunks."""
    with apache.started("MaxKeepAliveRequests 10\nKeepAliveTimeout 1\n") as port:
        there = Endpoint(protocol="http", host="127.0.0.1", port=port, user="", database="")
        pages = [{"path": "/index.html", "text": "Welcome"}, "/large.bin", "/old.html"]
        busy = made(pages=pages, load={"users": 4, "think": "2ms"})
        busy.prepare(there, quiet)
        log = run(busy, there)
        assert (log.errors, len(counts(log))) == ((), 3)
        compressed = made(
            pages=["/index.html"], headers={"Accept-Encoding": "gzip"}, load={"users": 4, "think": "1500ms"}
        )
        log = run(compressed, there, duration_s=3.5)
        assert (log.errors, counts(log)["/index.html"]) == ((), 12)
        with pytest.raises(LoadError, match="page='/missing' of .* cannot be used: 404 for GET /missing"):
            made(pages=["/missing"]).prepare(there, quiet)
