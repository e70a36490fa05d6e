"""What needs no server: rows that are the same in any order, what a Tomcat is told, how pages are read, and each message."""

from __future__ import annotations

import http.server
import os
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import trimtab
from tests.servers.certificates import Authority
from tests.servers.web import site as web_site
from trimtab import plugins
from trimtab.errors import LoadError, TargetError, UnavailableError, UsageError
from trimtab.measure import Buckets, SecondLog
from trimtab.records import Endpoint
from trimtab.study.deploy import with_application
from trimtab.systems import Tier
from trimtab.systems.command_lifecycle import AlwaysThere
from trimtab.systems.http_probe import http_get
from trimtab.systems.store_probe import require_service
from trimtab.workload.base import CopyingWorkload, Deployment, Preparation, RemarkingWorkload
from trimtab.workload.rubis.settings import RubisData
from trimtab.workload.rubis.settings import read_data as read_rubis
from trimtab.workload.rubis.tables import tables as rubis_tables
from trimtab.workload.site import builtin_site
from trimtab.workload.site.plan import plain_site
from trimtab.workload.table import Table
from trimtab.workload.tpcw.settings import TpcwData
from trimtab.workload.tpcw.settings import read_data as read_tpcw
from trimtab.workload.tpcw.tables import tables as tpcw_tables
from trimtab.workload.tpcw.workload import TpcwWorkload
from trimtab.workload.webapp import Answer, Application, ask, build, require_page
from trimtab.workload.webapp.deploy import deployment

SMALL = RubisData(scale=0.002, description_length=50)
SHOP = TpcwData(customers=1100)


def rows_of(table: Any) -> list[list[str]]:
    return [line.split("|") for chunk in table.rows() for line in chunk.decode().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("made", [rubis_tables(SMALL), tpcw_tables(SHOP)], ids=["rubis", "tpcw"])
def test_rows_are_as_many_as_said_and_the_same_each_time(made: tuple[Any, ...]) -> None:
    for table in made:
        rows = rows_of(table)
        assert len(rows) == table.n_rows, table.name
        assert all(len(row) == len(table.columns.split(",")) for row in rows), table.name
        assert len({tuple(row[: len(table.key)]) for row in rows}) == len(rows), table.name
        assert rows_of(table) == rows


def test_what_items_know_of_their_bids_is_true() -> None:
    by_name = {table.name: table for table in rubis_tables(SMALL)}
    bids = rows_of(by_name["bids"])
    n_bids = Counter(bid[2] for bid in bids)
    highest: dict[str, int] = {}
    for bid in bids:
        highest[bid[2]] = max(highest.get(bid[2], 0), int(bid[4]))
    items = rows_of(by_name["items"]) + rows_of(by_name["old_items"])
    assert {item[0]: (int(item[7]), int(item[8])) for item in items} == {
        item[0]: (n_bids[item[0]], highest.get(item[0], 0)) for item in items
    }
    assert Counter(item[12] for item in rows_of(by_name["items"])) == {
        str(category): n for category, n in enumerate(SMALL.sizes.by_category, 1)
    }


def test_browsers_without_an_item_ask_for_one_that_is_for_sale() -> None:
    by_name = {table.name: table for table in rubis_tables(SMALL)}
    ids = [int(item[0]) for item in rows_of(by_name["items"])]
    site = builtin_site("rubis")
    values = dict(zip(site.values, plain_site(site, "bidding", numbers=SMALL.numbers)["values"], strict=True))
    assert (values["item"]["number"]["low"], values["item"]["number"]["high"]) == (min(ids), max(ids))
    original = RubisData(scale=1.0).numbers
    assert {name: site.numbers[name] for name in original} == original


def test_sizes_at_the_original_scale() -> None:
    sizes = RubisData(scale=1.0).sizes
    assert (sizes.users, sizes.old_items, sizes.items) == (1_000_000, 500_000, 32_667)
    usual, stocked = RubisData(scale=0.01), read_rubis(Table({"active_scale": 0.2}, "[workload]", ("active_scale",)))
    assert (usual.sizes.items, stocked.sizes.items) == (328, 6533), "the items for sale alone"
    assert (
        (usual.sizes.old_items, usual.sizes.users) == (stocked.sizes.old_items, stocked.sizes.users) == (5000, 10_000)
    )
    assert usual.database != stocked.database
    assert (usual.scale_text, stocked.scale_text) == ("scale 0.01", "scale 0.01 (for sale 0.2)")
    assert TpcwData(customers=28_800, items=10_000).numbers == {
        "customers": 28_800, "customers_skew": 4095, "items": 10_000, "search_skew": 511,
    }  # fmt: skip


def test_no_table_of_carts_is_planned_as_an_empty_one() -> None:
    by_name = {table.name: table for table in tpcw_tables(SHOP)}
    carts, lines = (by_name[name] for name in ("shopping_cart", "shopping_cart_line"))
    assert carts.n_rows == SHOP.customers // 2
    assert carts.n_rows < lines.n_rows < 3 * carts.n_rows
    books = [int(line[1]) for line in rows_of(lines)]
    assert (min(books) >= 1, max(books) <= SHOP.items) == (True, True)
    assert {int(line[0]) for line in rows_of(lines)} == set(range(1, carts.n_rows + 1))
    keys = [(int(line[0]), int(line[1])) for line in rows_of(lines)]
    assert keys == sorted(keys), "as a table is filled"


def test_wrong_settings_of_the_data() -> None:
    with pytest.raises(UsageError, match=r"\[workload\] items=5000 is not a size of the bookshop") as caught:
        read_tpcw(Table({"items": 5000}, "[workload]", ("items",)))
    assert caught.value.hint == "use one of: 1000, 10000, 100000, 1000000, 10000000"
    with pytest.raises(UsageError, match=r"scale=20"):
        read_rubis(Table({"scale": 20.0}, "[workload]", ("scale",)))
    assert read_tpcw(Table({"best_sellers": "2m"}, "[workload]", ("best_sellers",))).best_sellers_s == 120
    for kept in ("500ms", 1.5, -0.5, "25h"):
        with pytest.raises(UsageError, match="best_sellers=.* is out of range"):
            read_tpcw(Table({"best_sellers": kept}, "[workload]", ("best_sellers",)))


APPLICATION = Application("rubis", Path("/apps/rubis"), Path("/apps/lib"))


def database_at(host: str, protocol: str = "postgresql", **options: str) -> Endpoint:
    return Endpoint(protocol=protocol, host=host, port=5433, user="u", password="p", database="d", options=options)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        (database_at("10.0.0.1"), "jdbc:postgresql://10.0.0.1:5433/rubis?sslmode=prefer"),
        (database_at("10.0.0.1", sslmode="disable"), "jdbc:postgresql://10.0.0.1:5433/rubis?sslmode=disable"),
        (database_at("::1"), "jdbc:postgresql://[::1]:5433/rubis?sslmode=disable"),
        (database_at("::1", sslmode="require"), "jdbc:postgresql://[::1]:5433/rubis?sslmode=require"),
        (
            database_at("db", sslmode="verify-full", sslrootcert="/my ca.pem"),
            "jdbc:postgresql://db:5433/rubis?sslmode=verify-full&sslrootcert=/my%20ca.pem",
        ),
        (
            database_at("db", sslmode="require", sslrootcert="/ca.pem"),
            "jdbc:postgresql://db:5433/rubis?sslmode=verify-ca&sslrootcert=/ca.pem",
        ),
        (
            database_at("/run/pg"),
            "jdbc:postgresql://localhost:5433/rubis?sslmode=disable&socketFactory=org.trimtab.socket.UnixSocketFactory",
        ),
        (
            database_at("::1", options="-c search_path=a,\\ b"),
            "jdbc:postgresql://[::1]:5433/rubis?sslmode=disable&options=-c%20search_path%3Da%2C%5C%20b",
        ),
        (
            database_at("localhost", "mysql"),
            "jdbc:mariadb://localhost:5433/rubis?sslMode=disable&allowPublicKeyRetrieval=true",
        ),
        (database_at("db", "mysql"), "jdbc:mariadb://db:5433/rubis?sslMode=trust"),
        (database_at("db", "mysql", sslmode="disable"), "jdbc:mariadb://db:5433/rubis?sslMode=disable"),
        (
            database_at("db", "mysql", sslmode="verify-full", sslrootcert="/ca.pem"),
            "jdbc:mariadb://db:5433/rubis?sslMode=verify-full&serverSslCert=/ca.pem",
        ),
        (
            database_at("/run/my.sock", "mysql", sslmode="verify-full"),
            "jdbc:mariadb://localhost:5433/rubis?sslMode=disable&allowPublicKeyRetrieval=true"
            "&socketFactory=org.trimtab.socket.UnixSocketFactory",
        ),
    ],
)
def test_what_the_pool_connects_to(endpoint: Endpoint, url: str) -> None:
    made = deployment(APPLICATION, endpoint, "rubis", {"rubis.option": "1"})
    lines = dict(line.split("=", 1) for line in made.config.splitlines())
    assert lines["trimtab.url"] == url
    sockets = {"/run/pg": "/run/pg/.s.PGSQL.5433", "/run/my.sock": "/run/my.sock"}
    assert lines["trimtab.socket"] == sockets.get(endpoint.host, "")
    assert (lines["trimtab.user"], lines["trimtab.password"], lines["rubis.option"]) == ("u", "p", "1")
    assert made.names["applications"] == "/apps/rubis"


def test_a_password_is_told_as_a_file_of_java_properties_has_it() -> None:
    """Which takes a blank before a value for indentation, and letters of 16 bits."""
    secret = " a\\b\r=é😀\t"
    config = deployment(APPLICATION, replace(database_at("db"), password=secret), "rubis").config
    lines = dict(line.split("=", 1) for line in config.splitlines())
    assert lines["trimtab.password"] == r"\ a\\b\r=\u00e9\ud83d\ude00\t"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sslmode": "verify-full", "sslcert": "/me.pem"}, "cannot show sslcert='/me.pem'"),
        ({"sslkey": "/me.key"}, "cannot show sslkey='/me.key'"),
        ({"sslmode": "verify-full", "sslrootcert": "system"}, 'do not know the target\'s sslrootcert="system"'),
    ],
)
def test_what_the_pool_cannot_do_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        deployment(APPLICATION, database_at("db", **options), "rubis")
    assert caught.value.hint


def test_runs_are_judged_by_the_rules_of_the_benchmark() -> None:
    log = SecondLog(
        labels=("Home",), duration_s=2.0, credited=np.full(2, 5.0), response=Buckets.of([(0, 0, 9_000_000, 10)]),
        offered=np.zeros(2, dtype=np.int64), shed=np.zeros(2, dtype=np.int64), timed_out=np.zeros(2, dtype=np.int64),
        client_cpu_s=np.zeros(2), steal_s=np.zeros(2), users=50,
    )  # fmt: skip
    workload = TpcwWorkload.from_settings({"mix": "shopping"})
    assert isinstance(workload, RemarkingWorkload)
    remarks = workload.remarks(log, (0.0, 2.0))
    assert any("WIPS" in remark for remark in remarks)
    assert any("Home" in remark for remark in remarks), remarks


def test_a_site_that_cannot_be_used_leaves_no_copy_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[str] = []

    def refuse(self: TpcwWorkload, endpoint: Endpoint, report: Any) -> None:
        raise LoadError("404 for GET /tpcw/search")

    monkeypatch.setattr("trimtab.workload.webapp.workload.ensure", lambda *_: Preparation(0.0, 1, was_cached=True))
    monkeypatch.setattr("trimtab.workload.run_database.drop_clone", lambda endpoint, name: dropped.append(name))
    monkeypatch.setattr(TpcwWorkload, "reset", refuse)
    workload = TpcwWorkload.from_settings({"mix": "shopping"})
    assert isinstance(workload, CopyingWorkload)
    with pytest.raises(LoadError, match="404"):
        workload.prepare(database_at("db"), lambda line: None)
    assert tuple(dropped) == workload.copies == ("tpcw",)


def test_a_database_that_the_applications_do_not_know() -> None:
    with pytest.raises(UsageError, match="application=rubis does not run on a database of protocol=cql") as caught:
        deployment(APPLICATION, database_at("db", "cql"), "rubis")
    assert caught.value.hint == "use a target that speaks one of: postgresql, mysql"


TOMCAT = {"kind": "tomcat", "embedded": "10.1"}


def test_the_user_is_told_of_a_build_and_the_server_gets_files_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Brings:
        kind = "rubis"
        protocols = ("http",)
        context = ""

        def deployment(self, data: Endpoint, report: Any) -> Deployment:
            report("building with Maven")
            return Deployment(names={"resource": "<Resource/>"}, config=data.options["sslrootcert"])

        from_settings = prepare = start = deployment

    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "ca.pem").write_text("roots")
    database = plugins.load("targets", "mariadb").from_settings(
        "db", {"url": f"mysql://u:p@db/x?sslmode=verify-ca&sslrootcert={tmp_path}/ca.pem"}, state_dir=tmp_path
    )
    made = with_application("app", TOMCAT, lambda: Brings(), [Tier(name="db", target=database)], "")  # type: ignore[arg-type, return-value]
    assert capsys.readouterr() == ("", "building with Maven\n")
    config = Path(made["names"]["config"])
    roots = Path(config.read_text())
    assert made["names"]["resource"] == "<Resource/>"
    assert (roots.read_text(), roots.parent) == ("roots", config.parent)
    assert config.parent == tmp_path / "cache" / "apps" / "sites" / "tomcat-10.1-app"
    assert config.stat().st_mode & 0o777 == 0o600


def test_an_application_without_a_database() -> None:
    class Brings:
        kind = "rubis"
        protocols = ("http",)
        context = ""

        def deployment(self, *what: object) -> None:
            raise AssertionError

        from_settings = prepare = start = deployment

    def find(tiers: list[Tier]) -> None:
        with_application("app", TOMCAT, lambda: Brings(), tiers, "")  # type: ignore[arg-type, return-value]

    with pytest.raises(UsageError, match="needs one database among the targets below its server") as caught:
        find([])
    assert caught.value.hint == (
        'add [target.db] kind = "postgresql" behind it, or name the one to use: [workload] data = "db"'
    )


def test_no_application_for_what_is_not_an_application_server_of_ours() -> None:
    def none() -> Any:
        raise AssertionError

    for table in (
        {"kind": "postgresql", "embedded": "18"},
        {"kind": "httpd", "embedded": "2.4"},
        {"kind": "tomcat"},
        {"kind": "tomcat", "embedded": "10.1", "names": {"applications": "/mine"}},
    ):
        assert with_application("app", table, none, [], "") == table


@contextmanager
def site_that_says(status: int, text: str) -> Iterator[Endpoint]:
    class Says(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *words: object) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Says)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Endpoint(protocol="http", host="127.0.0.1", port=server.server_port, user="", database="")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.slow
def test_pages_that_are_not_as_they_should_be() -> None:
    refused = "<h2>Error</h2>\n<p>refused: FATAL: too many connections</p>\n<!-- error kind=refused app=rubis state=Home -->\n"
    with site_that_says(503, refused) as there:
        with pytest.raises(
            LoadError, match=r"page=/rubis/categories of application=rubis failed: kind=refused"
        ) as caught:
            require_page(there, "rubis", "/rubis/categories")
        assert "too many connections" in caught.value.message
        assert caught.value.hint == (
            "the database must be up, let in as many connections as the pool of the application server has, and encrypt"
            " them where the target's url asks for it (sslmode)"
        )
    with site_that_says(404, "Not Found") as there:
        with pytest.raises(LoadError, match="application=rubis is not deployed at 127.0.0.1:") as caught:
            require_page(there, "rubis", "/rubis/categories")
        assert "/rubis/categories has status=404" in caught.value.message
        assert caught.value.hint is not None
        assert "the log of the application server says why" in caught.value.hint
    with pytest.raises(LoadError, match="the site of endpoint=127.0.0.1:.* cannot be reached") as caught:
        ask(there, "/rubis/categories")
    assert caught.value.hint == "check that it runs, and that it passes requests on to the application"


@pytest.mark.slow
@pytest.mark.parametrize(("status", "waits"), [(503, True), (500, False)])
def test_a_proxy_that_waits_for_its_server_is_told_from_one_that_fails(status: int, waits: bool) -> None:
    with site_that_says(status, "sorry") as there, pytest.raises(TargetError) as caught:
        require_service(f"http://127.0.0.1:{there.port}/")
    assert isinstance(caught.value, UnavailableError) is waits
    assert f"answers status={status}" in caught.value.message


def test_a_page_over_https_is_asked_for_over_https(tmp_path: Path) -> None:
    """Of a site whose certificate the machine does not know: that is for the load to check."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority.made(tmp_path).sign("web", "/CN=web", names="IP:127.0.0.1"))
    with web_site(context) as web:
        there = Endpoint(
            protocol="http", host="127.0.0.1", port=web.port, user="", database="", options={"scheme": "https"}
        )
        assert ask(there, "/welcome").status == 200
        assert http_get(f"https://127.0.0.1:{web.port}/welcome", timeout_s=10.0)[0] == 200
        assert require_service(f"https://127.0.0.1:{web.port}/welcome")


@pytest.mark.parametrize(
    ("url", "port", "scheme"),
    [("http://shop/", 80, "http"), ("https://shop/", 443, "https"), ("https://shop:8443/", 8443, "https")],
)
def test_the_load_goes_to_the_port_and_the_protocol_of_the_url(
    tmp_path: Path, url: str, port: int, scheme: str
) -> None:
    settings: Any = SimpleNamespace(kind="httpd", folder=str(tmp_path), url=url, names={})
    words: Any = None
    endpoint = AlwaysThere("web", settings, [], words).endpoint()
    assert (endpoint.host, endpoint.port, endpoint.options["scheme"]) == ("shop", port, scheme)


def test_marks() -> None:
    page = Answer(200, "<html>\n<!-- rubis ViewItem ok item=7 seller=3 -->\n")
    assert (page.outcome, page.state, page.facts) == ("ok", "ViewItem", {"item": "7", "seller": "3"})
    assert Answer(200, "<html>\n<!-- rubis ViewItem ok item=7").outcome == "cut"
    assert Answer(502, "Bad Gateway").outcome == "http_502"
    assert Answer(404, "<!-- error kind=missing app=rubis state=ViewItem -->\n").outcome == "missing"


def command(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_applications_that_cannot_be_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    system = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(LoadError, match="cannot be built: program=mvn is not installed") as caught:
        build.built("rubis", lambda line: None)
    assert caught.value.hint == "apt-get install maven"
    command(tmp_path / "bin", "mvn", "echo '[ERROR] BuyNow.java:[3,7] no such class'; exit 1")
    command(tmp_path / "bin", "javac", "")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{system}")
    with pytest.raises(LoadError, match=r"mvn ended with exit_code=1:\n.*BuyNow.java") as caught:
        build.built("rubis", lambda line: None)
    assert caught.value.hint == "Maven needs its repository once; after that, it builds without a network"
    assert not [path for path in (tmp_path / "cache" / "apps").iterdir() if path.is_dir()]


def test_an_installation_without_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trimtab, "__file__", str(tmp_path / "a" / "b" / "c" / "__init__.py"))
    with pytest.raises(
        LoadError, match="the sources of the web applications are not part of this installation"
    ) as caught:
        build.sources()
    assert caught.value.hint is not None
    assert "pip install --editable" in caught.value.hint
    assert caught.value.hint.endswith("deploy them by hand (docs/reference/web-applications.md)")
