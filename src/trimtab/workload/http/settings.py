"""The [workload] table of a web server's pages, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trimtab.errors import LoadError, UsageError
from trimtab.records import Endpoint
from trimtab.workload.load_model import LoadModel
from trimtab.workload.table import Table

__all__ = ["HttpSettings", "Page", "Site", "endpoint_of", "parse_settings", "refuse_tls_of_plain", "site_of"]

_KEYS = (
    "kind", "url", "pages", "headers", "follow", "cookies", "connection", "tls", "root_certificates", "operation_timeout",
    "load",
)  # fmt: skip
_PAGE_KEYS = ("name", "path", "share", "method", "body", "resources", "headers", "status", "text")
_TLS = ("verify-full", "verify-ca", "require")
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
_READING = ("GET", "HEAD")
_NAME = re.compile(r"[\w/.?&=%{}~+*'(),;:@!$ -]{1,120}")
_MAX_PAGES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where the pages are.

    Attributes:
        host, port: of its server.
        is_encrypted: https.
    """

    host: str
    port: int
    is_encrypted: bool = False

    @classmethod
    def at(cls, endpoint: Endpoint) -> Site:
        """That of an endpoint of protocol "http"."""
        return cls(host=endpoint.host, port=endpoint.port, is_encrypted=endpoint.options.get("scheme") == "https")

    def access(self, tls: str, root_certificates: str, headers: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """How it is entered, as a `LoadPlan` holds it."""
        return {
            "host": self.host,
            "port": self.port,
            "headers": [list(header) for header in headers],
            "tls": tls if self.is_encrypted else "disable",
            "root_certificates": root_certificates or None,
        }

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_encrypted else 'http'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What users ask for.

    Attributes:
        name: in results.
        path: with its query; `{1-1000}` stands for a random number.
        share: how often it is asked for, relative to the others.
        method, body, headers: of the request.
        resources: paths that are read after it, as a part of it.
        status: the only one that is a success; 0: from 200 to 399.
        text: what must stand in the page; "" for nothing.
    """

    name: str
    path: str
    share: float = 1.0
    method: str = "GET"
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    resources: tuple[str, ...] = ()
    status: int = 0
    text: str = ""

    @property
    def is_reading(self) -> bool:
        """Whether it changes nothing."""
        return self.method in _READING

    def plain(self) -> dict[str, Any]:
        """As a `LoadPlan` holds it."""
        return {
            "label": self.name,
            "path": self.path,
            "weight": self.share,
            "method": self.method,
            "body": self.body,
            "headers": [list(header) for header in self.headers],
            "resources": list(self.resources),
            "status": self.status or None,
            "text": self.text or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """What is asked of which server.

    Attributes:
        site: None: the target's own address.
        pages: at least one.
        headers: of every request; one may be a password, so they are not printed.
        follows: whether users go where a redirect leads.
        keeps_cookies: whether they keep cookies.
        is_fresh: whether every page has a connection of its own.
        tls: how an https server's certificate is checked.
        root_certificates: file of the authorities to trust; "" for the system's.
        operation_timeout_s: a page with its resources that takes longer is cut off.
        load: users and load model.
    """

    site: Site | None
    pages: tuple[Page, ...]
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    follows: bool = True
    keeps_cookies: bool = True
    is_fresh: bool = False
    tls: str = "verify-full"
    root_certificates: str = ""
    operation_timeout_s: float = 10.0
    load: LoadModel


def parse_settings(settings: Mapping[str, Any], directory: Path) -> HttpSettings:
    """The checked settings; files are relative to `directory`.

    Raises:
        UsageError: an unknown key or a wrong value.
    """
    table = Table(settings, "[workload]", _KEYS)
    site = site_of(table.text("url")) if "url" in table else None
    refuse_tls_of_plain(table, site)
    roots = table.text("root_certificates", "") if "root_certificates" in table else ""
    return HttpSettings(
        site=site,
        pages=_pages(table),
        headers=_headers(table),
        follows=table.flag("follow", True),
        keeps_cookies=table.flag("cookies", True),
        is_fresh=table.choice("connection", ("keep-alive", "new"), "keep-alive") == "new",
        tls=table.choice("tls", _TLS, "verify-full"),
        root_certificates=str(directory / roots) if roots else "",
        operation_timeout_s=table.seconds("operation_timeout", "10s"),
        load=LoadModel.from_settings(settings.get("load", {})),
    )


def site_of(url: str) -> Site:
    """The server of a url without a path.

    Raises:
        UsageError: it is none.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
        parts = urlsplit("")
    is_bare = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in ("http", "https") or not host or not is_bare:
        raise UsageError(
            f"[workload] url={url!r} is not the address of a web server",
            hint='write url = "http://HOST:PORT", and the paths in pages',
        )
    is_encrypted = parts.scheme == "https"
    return Site(host=host, port=port or (443 if is_encrypted else 80), is_encrypted=is_encrypted)


def endpoint_of(site: Site | None, target: Endpoint, refusal: str) -> Endpoint:
    """Where the pages are: as the study file says, or the target itself; with the database behind them.

    Args:
        refusal: what cannot be done with a target that serves no pages.

    Raises:
        LoadError: it serves none.
    """
    if site is not None:
        options = {"scheme": "https" if site.is_encrypted else "http"}
        return Endpoint(
            protocol="http", host=site.host, port=site.port, user="", database="", options=options, data=target.data
        )
    if target.protocol != "http":
        raise LoadError(
            f"{refusal} protocol={target.protocol}",
            hint='give the address of the site: [workload] url = "http://HOST:PORT"',
        )
    return target


def refuse_tls_of_plain(table: Table, site: Site | None) -> None:
    """Raises UsageError for keys of https where the address says http."""
    for key in ("tls", "root_certificates"):
        if key in table and site is not None and not site.is_encrypted:
            raise UsageError(
                f'[workload] {key}={table.values[key]!r} has no meaning with url="{site}"',
                hint='remove it, or ask by https: url = "https://HOST:PORT"',
            )


def _pages(table: Table) -> tuple[Page, ...]:
    given = table.values.get("pages")
    if not isinstance(given, list) or not 1 <= len(given) <= _MAX_PAGES:
        raise UsageError(
            f"[workload] pages={given!r} is not a list of pages",
            hint='for example: pages = [{ path = "/", share = 3 }, { path = "/item/{1-1000}" }]',
        )
    pages = tuple(_page(entry) for entry in given)
    names = [page.name for page in pages]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"[workload] pages: two have name={name!r}", hint="give each another name")
    if not any(page.share > 0 for page in pages):
        raise UsageError("[workload] pages: no page has a share above 0", hint="give one of them share = 1")
    return pages


def _page(entry: object) -> Page:
    values = {"path": entry} if isinstance(entry, str) else entry
    if not isinstance(values, Mapping):
        raise UsageError(
            f"[workload] pages: {entry!r} is not a page", hint='write "/path" or { path = "/path", share = 3 }'
        )
    table = Table(values, "[[workload.pages]]", _PAGE_KEYS)
    path, method = table.text("path"), table.choice("method", _METHODS, "GET")
    name = table.text("name", path if method == "GET" else f"{method} {path}")
    if not _NAME.fullmatch(name):
        what = f"name={name!r} is out of range" if "name" in table else f"path={path!r} cannot stand as its name"
        raise UsageError(f"{table.name} {what}", hint='add name = "..." of at most 120 letters, digits and usual signs')
    resources = values.get("resources", [])
    if not isinstance(resources, list) or not all(isinstance(resource, str) for resource in resources):
        raise UsageError(
            f"[[workload.pages]] resources={resources!r} is not a list of paths", hint='resources = ["/style.css"]'
        )
    if "body" in table and method not in ("POST", "PUT"):
        raise UsageError(
            f"[[workload.pages]] method={method!r} sends no body", hint='add method = "POST", or remove body'
        )
    return Page(
        name=name,
        path=path,
        share=table.number("share", 1.0, 0.0, 1e9),
        method=method,
        body=table.text("body") if "body" in table else "",
        headers=_headers(table),
        resources=tuple(resources),
        status=table.integer("status", 0, 200, 599) if "status" in table else 0,
        text=table.text("text") if "text" in table else "",
    )


def _headers(table: Table) -> tuple[tuple[str, str], ...]:
    headers = table.values.get("headers", {})
    if not isinstance(headers, Mapping) or not all(isinstance(value, str) for value in headers.values()):
        raise UsageError(
            f"{table.name} headers={headers!r} is not a table of texts", hint='headers = { Accept-Language = "de" }'
        )
    return tuple(headers.items())
