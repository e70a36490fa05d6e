"""A site file: the states of a web application, what browsers ask for in each, and its transition tables, checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.errors import UsageError
from trimtab.workload.site.values import VALUE_KEYS, Value, parse_value
from trimtab.workload.table import Table

__all__ = ["BACK", "END", "Lasting", "Request", "SiteFile", "State", "Think", "builtin_site", "load_site"]

BACK, END = "Back", "End"
"""In a transition table: to the page before, and the end of the session."""

_KEYS = ("site", "think", "numbers", "values", "states", "mixes")
_SITE_KEYS = ("root", "start", "steps_max", "lasts", "error", "contains", "nothing", "images", "always")
_THINK_KEYS = ("law", "mean", "cap")
_STATE_KEYS = (
    "requests",
    "contains",
    "nothing",
    "pick",
    "images",
    "wait",
    "writes",
    "limit",
    "form",
    "query",
    "hidden",
    "needs",
    "request",
)
_REQUEST_KEYS = ("request", "share", "when", "unless", "after", "form", "query", "hidden", "needs")
_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD")
_MAX_STATES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One way to ask for a state's page; texts may have `{value}` in them.

    Attributes:
        method, path: `path` with its query.
        share: how often, relative to the others that can be asked.
        when, unless: only if this value is there, or is not; "" for always.
        after: states; only behind one of their pages, and there instead of those that name none.
        pairs: fields of its form, or further pairs of its query.
        sends_hidden: the hidden fields of the page before are sent, and must be there.
        needs: values that must be there.
    """

    method: str
    path: str
    share: float = 1.0
    when: str = ""
    unless: str = ""
    after: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    sends_hidden: bool = False
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state: what is asked for, and what its page must be.

    Attributes:
        requests: at least one.
        contains: texts that must be in the page.
        nothing: texts of a page that has nothing to show: the browser goes back.
        pick: values to look for in the page.
        reads_images: whether the images in the page are read; `images`: further ones.
        wait_s: before it, if the law of thinking is "fixed".
        writes: whether it changes the site's data.
        limit_s: what 90 % of its response times should not exceed; 0: no limit.
    """

    name: str
    requests: tuple[Request, ...]
    contains: tuple[str, ...] = ()
    nothing: tuple[str, ...] = ()
    pick: tuple[str, ...] = ()
    reads_images: bool = True
    images: tuple[str, ...] = ()
    wait_s: float = 0.0
    writes: bool = False
    limit_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """Sessions end at the first visit of `at` after a time: exponential with `mean_s`, at most `cap_s`."""

    mean_s: float
    cap_s: float
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Think:
    """Pauses between interactions: exponential with `mean_s` and at most `cap_s`, or fixed for each state."""

    is_exponential: bool = True
    mean_s: float = 7.0
    cap_s: float = 70.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFile:
    """A whole site.

    Attributes:
        name: of the file.
        root: before every path.
        start: the first state of a session.
        steps_max: interactions of the longest session.
        lasts: None: sessions end by their table.
        error: texts of a page that has failed; the word behind one is its code.
        always: pairs of every query, and fields of every form.
        numbers: what ranges may name.
        values: name -> how it is made, each after those that it is made of.
        states: in their order.
        mixes: name -> from -> to -> weight.
    """

    name: str
    root: str
    start: str
    steps_max: int
    lasts: Lasting | None
    error: tuple[str, ...]
    always: tuple[tuple[str, str], ...]
    think: Think
    numbers: Mapping[str, int]
    values: Mapping[str, Value]
    states: tuple[State, ...]
    mixes: Mapping[str, Mapping[str, Mapping[str, float]]]

    def mix(self, name: str) -> Mapping[str, Mapping[str, float]]:
        """The transition table of a mix.

        Raises:
            UsageError: there is none of that name.
        """
        if name not in self.mixes:
            raise UsageError(f"[workload] mix={name!r} is not known", hint=f"use one of: {', '.join(self.mixes)}")
        return self.mixes[name]


def builtin_site(name: str) -> SiteFile:
    """A site that comes with Trimtab: "rubis" or "tpcw"."""
    return load_site(Path(__file__).with_name(f"{name}.toml"))


def load_site(path: Path) -> SiteFile:
    """Reads a site file.

    Raises:
        UsageError: it cannot be read, or something in it is wrong; the message names the file.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"site={path} cannot be read: {error.strerror}", hint="see docs/reference/site.md") from error
    except (ValueError, RecursionError) as error:  # also Python's own, of an integer of thousands of digits
        raise UsageError(f"site={path}: {error}", hint="see docs/reference/site.md") from error
    try:
        return _parse(path.stem, values)
    except UsageError as error:
        raise UsageError(f"site={path}: {error.message}", hint=error.hint) from error


def _parse(name: str, values: Mapping[str, Any]) -> SiteFile:
    whole = Table(values, "the site file", _KEYS)
    site = Table(_table(whole, "site"), "[site]", _SITE_KEYS)
    states = tuple(_state(key, entry, site) for key, entry in _table(whole, "states").items())
    names = [state.name for state in states]
    if not 1 <= len(states) <= _MAX_STATES:
        raise UsageError(f"there are {len(states)} states", hint='add tables like [states.Home] with request = "GET /"')
    made = {key: parse_value(key, entry) for key, entry in _table(whole, "values").items()}
    start = site.choice("start", names, names[0])
    parsed = SiteFile(
        name=name,
        root=site.text("root") if "root" in site else "",
        start=start,
        steps_max=site.integer("steps_max", 1000, 1, 1_000_000),
        lasts=_lasting(site, names),
        error=texts(site, "error"),
        always=_pairs(site, "always"),
        think=_think(Table(_table(whole, "think"), "[think]", _THINK_KEYS)),
        numbers=_numbers(_table(whole, "numbers")),
        values=made,
        states=states,
        mixes=_mixes(_table(whole, "mixes"), names),
    )
    _check_names(parsed)
    return parsed


def _table(whole: Table, key: str) -> Mapping[str, Any]:
    value = whole.values.get(key, {})
    if not isinstance(value, Mapping):
        raise UsageError(f"{whole.name} {key}={value!r} is not a table", hint=f"write it as [{key}]")
    return value


def texts(table: Table, key: str) -> tuple[str, ...]:
    """A text, or a list of texts.

    Raises:
        UsageError: something else, or an empty text.
    """
    value = table.values.get(key, [])
    many = [value] if isinstance(value, str) else value
    if not isinstance(many, list) or not all(isinstance(text, str) and text for text in many):
        raise UsageError(f"{table.name} {key}={value!r} is not a list of texts", hint=f'for example: {key} = ["..."]')
    return tuple(many)


def _numbers(values: Mapping[str, Any]) -> Mapping[str, int]:
    table = Table(values, "[numbers]", tuple(values))
    return {name: table.integer(name, 0, -(10**18), 10**18) for name in values}


def _think(table: Table) -> Think:
    law = table.choice("law", ("exponential", "fixed"), "exponential")
    mean_s = table.seconds("mean", "7s")
    return Think(
        is_exponential=law == "exponential",
        mean_s=mean_s,
        cap_s=table.seconds("cap", "70s") if "cap" in table else 10 * mean_s,
    )


def _lasting(site: Table, names: list[str]) -> Lasting | None:
    if "lasts" not in site:
        return None
    table = Table(_table(site, "lasts"), "[site] lasts", ("mean", "cap", "at"))
    return Lasting(
        mean_s=table.seconds("mean", "15m"), cap_s=table.seconds("cap", "60m"), at=table.choice("at", names, names[0])
    )


def _pairs(table: Table, key: str) -> tuple[tuple[str, str], ...]:
    value = table.values.get(key, {})
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
        raise UsageError(
            f"{table.name} {key}={value!r} is not a table of texts", hint=f'{key} = {{ name = "{{value}}" }}'
        )
    return tuple(value.items())


def _state(name: str, entry: object, site: Table) -> State:
    where = f"[states.{name}]"
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where} {entry!r} is not a table", hint='write [states.NAME] with request = "GET /path"')
    if name in (BACK, END):
        raise UsageError(f"{where} names a step, not a state", hint="use another name")
    table = Table(entry, where, _STATE_KEYS)
    given = entry.get("requests", [])
    if not isinstance(given, list) or not all(isinstance(request, Mapping) for request in given):
        raise UsageError(
            f"{where} requests={given!r} is not a list of tables", hint='requests = [{ request = "GET /" }]'
        )
    own = {key: entry[key] for key in ("request", "form", "query", "hidden", "needs") if key in entry}
    if bool(given) == ("request" in table):
        raise UsageError(f"{where} needs either request or requests", hint='for example: request = "GET /path"')
    contains, nothing, images = (table if key in table else site for key in ("contains", "nothing", "images"))
    given_images = images.values.get("images", True)
    return State(
        name=name,
        requests=tuple(_request(Table({**own, **request}, where, _REQUEST_KEYS)) for request in given or [{}]),
        contains=tuple(text.replace("{state}", name) for text in texts(contains, "contains")),
        nothing=tuple(text.replace("{state}", name) for text in texts(nothing, "nothing")),
        pick=texts(table, "pick"),
        reads_images=given_images is not False,
        images=() if isinstance(given_images, bool) else texts(images, "images"),
        wait_s=table.seconds("wait", "0s", -1e-9),
        writes=table.flag("writes", False),
        limit_s=table.seconds("limit", "3s") if "limit" in table else 0.0,
    )


def _request(table: Table) -> Request:
    text = table.text("request")
    method, _, path = text.partition(" ")
    # What stands behind "#" stays in the browser.
    if method not in _METHODS or not path.startswith("/") or not path.isascii() or " " in path or "#" in path:
        raise UsageError(
            f"{table.name} request={text!r} is not a request", hint='for example: request = "GET /item/{item}"'
        )
    form, query = _pairs(table, "form"), _pairs(table, "query")
    has_body = method in ("POST", "PUT")
    if (form and not has_body) or (query and has_body):
        raise UsageError(
            f"{table.name} request={text!r} cannot have a {'form' if form else 'query'}",
            hint="GET has a query, POST and PUT have a form",
        )
    return Request(
        method=method,
        path=path,
        share=table.number("share", 1.0, 1e-9, 1e9),
        when=table.text("when", "") if "when" in table else "",
        unless=table.text("unless", "") if "unless" in table else "",
        after=texts(table, "after"),
        pairs=form or query,
        sends_hidden=table.flag("hidden", False),
        needs=texts(table, "needs"),
    )


def _mixes(values: Mapping[str, Any], names: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    if not values:
        raise UsageError(
            "the site file lacks mixes", hint="add a table [mixes.NAME]: STATE = { NEXT = 0.5, Back = 0.5 }"
        )
    mixes = {}
    for mix, rows in values.items():
        where = f"[mixes.{mix}]"
        rows = Table(_table(Table(values, "[mixes]", tuple(values)), mix), where, names)
        for name in names:
            if name not in rows:
                raise UsageError(
                    f"{where} lacks what follows state={name!r}", hint=f"add {name} = {{ {names[0]} = 1 }}"
                )
        mixes[mix] = {name: _row(_table(rows, name), f"{where} {name}", names) for name in names}
    return mixes


def _row(values: Mapping[str, Any], where: str, names: list[str]) -> dict[str, float]:
    row = Table(values, where, (*names, BACK, END))
    weights = {to: row.number(to, 0.0, 0.0, 1e12) for to in values}
    if not sum(weights.values()) > 0:
        raise UsageError(f"{where}={dict(values)!r} has no weight above 0", hint=f"write {{ {names[0]} = 1 }}")
    return weights


def _check_names(site: SiteFile) -> None:
    """Every value that is named is there; `VALUE_KEYS` are no names."""
    known = site.values
    for state in site.states:
        named = [*state.pick]
        for request in state.requests:
            named += [name for name in (request.when, request.unless, *request.needs) if name]
        for name in named:
            if name not in known:
                raise UsageError(
                    f"[states.{state.name}] names value={name!r}, which [values] does not have",
                    hint=f"the values are: {', '.join(known)}"
                    if known
                    else f"add it to [values]: keys are {', '.join(VALUE_KEYS)}",
                )
        for name in (name for request in state.requests for name in request.after):
            if name not in {other.name for other in site.states}:
                raise UsageError(
                    f"[states.{state.name}] after={name!r} is not a state",
                    hint=f"the states are: {', '.join(other.name for other in site.states)}",
                )
        for name in state.pick:
            if not known[name].finds:
                raise UsageError(
                    f"[states.{state.name}] pick={name!r} has no find",
                    hint=f"[values] {name} = {{ find = 'href=\"/item/' }}",
                )
