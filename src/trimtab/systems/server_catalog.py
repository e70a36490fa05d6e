"""ServerCatalog: the catalogue of a kind of server that tells its knobs, their types and limits itself (catalog/KIND.toml).

It adds what such a server cannot know: useful ranges, what a knob endangers, and what Trimtab never sets.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trimtab.errors import InternalError, UsageError
from trimtab.space import SafetyClass
from trimtab.systems.gate import harm_of
from trimtab.systems.overlay import Overlay, OverlayKnob

__all__ = ["ServerCatalog", "ServerKnob", "parse_server_catalog", "server_catalog"]

_LAST = 1 << 30


class ServerKnob(OverlayKnob):
    """What such a catalogue says about one knob; see the head of the file.

    Attributes:
        since, until: first and last major version that has it.
        restart_until: up to that version it needs a restart.
        only: the product that has it, or has it with this meaning; "" for all.
        needs: what a server must have for the knob to matter ("jit").
    """

    since: int = Field(0, ge=0)
    until: int = Field(_LAST, ge=0)
    restart_until: int = 0
    only: Literal["", "mariadb", "mysql"] = ""
    needs: Literal["", "jit"] = ""

    @model_validator(mode="after")
    def _check_versions(self) -> ServerKnob:
        if self.since > self.until:
            raise ValueError("since > until")
        return self

    def is_known_in(self, major: int) -> bool:
        """Whether servers of that major version have it."""
        return self.since <= major <= self.until

    def is_of(self, product: str) -> bool:
        """Whether servers of that product have it, with this meaning."""
        return self.only in ("", product)

    def restart_in(self, major: int) -> Literal["reload", "restart"]:
        """Its restart class in that major version."""
        return "restart" if self.restart == "restart" or major <= self.restart_until else "reload"


class Refusal(BaseModel):
    """Why a login fails, by what the server says: its words, or its error numbers.

    Attributes:
        words, codes: of the server.
        says: the same for people.
        hint: what to do.
        full: whether all connections are in use, so that another login may work soon.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    words: str = ""
    codes: tuple[int, ...] = ()
    says: str
    hint: str
    full: bool = False


class GrantText(BaseModel):
    """Lines of the statements that make a role with the rights of a study; see `trimtab.systems.grants`.

    Attributes:
        when: condition over the server and what the workload does with data; "" for always.
        text: with {names} in braces.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    when: str = ""
    text: str


class ServerCatalog(Overlay[ServerKnob]):
    """The whole file.

    Attributes:
        secret: knobs that may hold a password: never shown, never kept.
        standby: knobs of which a standby must not have fewer than its primary.
        never: reason -> knobs that Trimtab never sets; a name may end in "*".
        safety: class -> knobs that are not curated.
        pinned: where a value comes from -> why no file of ours would change it.
        refusal: why a login fails; the first that fits counts.
        grant: the statements of `trimtab doctor --grant-sql`, part by part.
        adjusted: knobs that the server itself lowers at its start.
        at_start: variable that no option sets -> its value after a start.
        restless: beginnings of the names of variables that change by themselves.
        counters: regular expression: the names of counts among what the server shows of its state.
    """

    secret: frozenset[str] = frozenset()
    standby: frozenset[str] = frozenset()
    never: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    safety: dict[SafetyClass, frozenset[str]] = Field(default_factory=dict)
    pinned: dict[str, str] = Field(default_factory=dict)
    refusal: tuple[Refusal, ...] = ()
    grant: tuple[GrantText, ...] = ()
    adjusted: frozenset[str] = frozenset()
    at_start: dict[str, str] = Field(default_factory=dict)
    restless: tuple[str, ...] = ()
    counters: str = "(?!)"

    @model_validator(mode="after")
    def _check_names(self) -> ServerCatalog:
        bad = sorted(name for name in self.knob if harm_of(name) or self.forbidden_reason(name))
        if bad:
            raise ValueError(f"forbidden knobs may not be curated: {', '.join(bad)}")
        advised = [("[advice]", name) for table in self.advices() for name in table]
        for where, name in (*self.named(), *advised):
            if name not in self.knob and not (where == "orders" and self.forbidden_reason(name)):
                raise ValueError(f"{where} names {name!r}, which is not a knob")
        return self

    @cached_property
    def forbidden(self) -> frozenset[str]:
        """The names that Trimtab never sets; see `forbidden_reason` for those that are known by their beginning."""
        return frozenset(name for names in self.never.values() for name in names if not name.endswith("*"))

    def forbidden_reason(self, name: str) -> str:
        """Why Trimtab never sets `name`; "" when it may."""
        exact = self._reasons.get(name, "")
        return exact or next((why for start, why in self._beginnings if name.startswith(start)), "")

    @cached_property
    def _reasons(self) -> Mapping[str, str]:
        return {name: f"forbidden: {why}" for why, names in reversed(self.never.items()) for name in names}

    @cached_property
    def _beginnings(self) -> Sequence[tuple[str, str]]:
        return [(name[:-1], why) for name, why in self._reasons.items() if name.endswith("*")]

    def safety_of(self, name: str) -> SafetyClass:
        """The class of a knob that is not curated."""
        if self.forbidden_reason(name):
            return SafetyClass.FORBIDDEN
        return next((kind for kind, names in self.safety.items() if name in names), SafetyClass.PERFORMANCE)

    def known(self, *, major: int = 0, product: str = "") -> Mapping[str, ServerKnob]:
        """The curated knobs that such a server has."""
        return {
            name: knob
            for name, knob in self.knob.items()
            if (not major or knob.is_known_in(major)) and (not product or knob.is_of(product))
        }


def parse_server_catalog(text: str) -> ServerCatalog:
    """Reads and checks a catalogue.

    Raises:
        UsageError: it is no TOML, or breaks the schema; the message names the first fault.
    """
    try:
        return ServerCatalog.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the catalogue is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"the catalogue is wrong at {where}: {first['msg']}") from error


@cache
def server_catalog(kind: str) -> ServerCatalog:
    """The catalogue that Trimtab ships for `kind`.

    Raises:
        InternalError: the shipped file is broken.
    """
    try:
        return parse_server_catalog((files("trimtab.catalog") / f"{kind}.toml").read_text(encoding="utf-8"))
    except UsageError as error:
        raise InternalError(error.message) from error
