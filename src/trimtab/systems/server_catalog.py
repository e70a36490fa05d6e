"""ServerCatalog: the catalogue of a kind of server that tells its knobs, their types and limits itself (catalog/KIND.toml).

It adds what such a server cannot know: useful ranges, what a knob endangers, and what Trimtab never sets.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trimtab.errors import InternalError, TargetError, UsageError
from trimtab.space import SafetyClass
from trimtab.space.expression import names_in, parse
from trimtab.systems.gate import harm_of
from trimtab.systems.overlay import Overlay, OverlayKnob
from trimtab.systems.session import StatementError

__all__ = ["Refusal", "ServerCatalog", "ServerKnob", "parse_server_catalog", "server_catalog"]

_LAST = 1 << 30


class ServerKnob(OverlayKnob):
    """What such a catalogue says about one knob; see the head of the file.

    Attributes:
        since, until: first and last major version that has it.
        restart_until: up to that version it needs a restart.
        only: the product that has it, or has it with this meaning; "" for all.
        needs: what a server must have for the knob to matter ("jit").
        per_session: whether a session takes its value when it begins, and keeps it.
    """

    since: int = Field(0, ge=0)
    until: int = Field(_LAST, ge=0)
    restart_until: int = 0
    only: Literal["", "mariadb", "mysql"] = ""
    needs: Literal["", "jit"] = ""
    per_session: bool = False

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


class Refusal(BaseModel):
    """Why a login fails, by what the server says: its words, or its codes (numbers, or SQLSTATEs).

    Attributes:
        words, codes: of the server.
        says: the same for people.
        hint: what to do.
        full: whether all connections are in use, so that another login may work soon.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    words: str = ""
    codes: tuple[int | str, ...] = ()
    says: str
    hint: str
    full: bool = False
    of_user: bool = False

    def fits(self, words: str, code: int | str = 0) -> bool:
        """Whether it is the one of an error with this text and code."""
        return code in self.codes or (self.words != "" and self.words in words)


class ChangeRefusal(BaseModel):
    """Why no change of a setting works, whatever its value: by words of the server (a regular expression), or by its code.

    Attributes:
        words, code: of the server.
        says: the same for people, with {what} in braces.
        hint: what to do, with {name} in braces.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    words: str = "(?!)"
    code: str = ""
    says: str
    hint: str


class GrantText(BaseModel):
    """Lines of the statements that make a role with the rights of a study; see `trimtab.systems.grants`.

    Attributes:
        when: condition over the server and what the workload does with data; "" for always.
        text: with {names} in braces.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    when: str = ""
    text: str


class LockTexts(BaseModel):
    """The lock inside a server: it lasts as long as the connection that took it; see `trimtab.systems.lock`.

    Attributes:
        first: a statement before the others; "" for none.
        take: has 1 or true when the lock is ours now.
        other: has the holder for people, when that is another connection.
        name: makes the connection show its parameter, who holds the lock; "" where none is shown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    first: str = ""
    take: str
    other: str
    name: str = ""


class Counts(BaseModel):
    """A statement that has (name, number) of what the server counts, on versions from `since` on."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    since: int = 0
    rows: str


class LagTexts(BaseModel):
    """How far the slowest standby is behind, in seconds (no number while there is none); `first`: a statement before that."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    first: str
    seconds: str


class Denial(BaseModel):
    """Why nothing, or not everything, may be changed.

    Attributes:
        reason: of the lock, beside each knob.
        says, hint: when nothing at all may be changed for it; "" for a reason that only ever concerns some knobs.
        always: whether it concerns every knob.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    reason: str
    says: str = ""
    hint: str = ""
    always: bool = False


class DiskNeed(BaseModel):
    """What settings may take of one folder; see `trimtab.systems.disk`.

    Attributes:
        folder: under the data directory; "" for that.
        bytes: what they take at most, over knobs and facts of the server.
        room: what they may take, over free, size (of the volume) and used (by what is in the folder already).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    folder: str = ""
    bytes: str
    room: str

    @cached_property
    def names(self) -> tuple[str, ...]:
        """That its bytes speak of."""
        return tuple(dict.fromkeys(name.name for name in names_in(parse(self.bytes))))


class OwnServer(BaseModel):
    """A server that Trimtab could run: the value of `embedded`, what it is, and a comment."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    which: str
    what: str
    says: str


class PlaceLines(BaseModel):
    """Lines of a [target.NAME] table for a server whose place fits `where`, on a machine that has the path `needs` ("": any); the
    groups of `where` stand in braces in the text."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    where: str
    needs: str = ""
    text: str


class Discovery(BaseModel):
    """How servers of this machine are found; see `trimtab.systems.discovery`.

    Attributes:
        name: of the products.
        folders, socket: where their sockets are, and a regular expression of the names; its group `port` is their order.
        url: with {folder}, {socket}, {port}, {user} in braces.
        password: the file that a password belongs in.
        place: statement that has the server's place; "" where the first of `places` that is here is meant.
        line: what follows from the place; the first that fits.
        own: servers that Trimtab could run, the best first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    folders: tuple[str, ...]
    socket: str
    url: str
    password: str
    place: str = ""
    places: tuple[str, ...] = ()
    line: tuple[PlaceLines, ...] = ()
    own: tuple[OwnServer, ...] = ()


class Product(BaseModel):
    """One of several products of a kind.

    Attributes:
        name: for people.
        lowest, highest: version that is known, as major and minor.
        replica_since: the first that understands SHOW REPLICA STATUS.
        program, package: the server's program, and how it is installed.
        rights: that a user needs to tune.
        split_since, split: since when further rights are needed, and for which knobs each is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    lowest: tuple[int, int]
    highest: tuple[int, int]
    program: str
    package: str
    replica_since: tuple[int, int, int]
    rights: tuple[str, ...]
    split_since: tuple[int, int] = (_LAST, 0)
    split: dict[str, tuple[str, ...]] = Field(default_factory=dict)


class ServerCatalog(Overlay[ServerKnob]):
    """The whole file.

    Attributes:
        secret: knobs that may hold a password: never shown, never kept.
        standby: knobs of which a standby must not have fewer than its primary.
        never: reason -> knobs that Trimtab never sets; a name may end in "*".
        safety: class -> knobs that are not curated.
        pinned: where a value comes from -> why no file of ours would change it.
        refusal: why a login fails; the first that fits counts.
        change_refusal: why no change works; the first that fits counts.
        grant: the statements of `trimtab doctor --grant-sql`, part by part.
        adjusted: knobs that the server itself lowers at its start.
        at_start: variable that no option sets -> its value after a start.
        watched: knobs that change a measurement without being ours to set.
        restless: beginnings of the names of variables that change by themselves.
        counters: regular expression: the names of counts among what `counts` shows.
        counts: what the server counts of its own work.
        lag: of its standbys.
        denied: why knobs are locked for this user or this server.
        lock: of one tuner per server.
        disk: what settings may take of the disk; least_disk: free bytes below which nothing is applied.
        discover: for `trimtab init`.
        sql: statements that the kind's code asks, by name.
        own_files: what the configuration files of a server of our own hold, by name, with {folder} and {socket} in braces.
        sources: the server's word for where a value comes from -> ours; others stay as they are, in lower case.
        product: of a kind that has several, by their names here.
    """

    secret: frozenset[str] = frozenset()
    standby: frozenset[str] = frozenset()
    never: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    safety: dict[SafetyClass, frozenset[str]] = Field(default_factory=dict)
    pinned: dict[str, str] = Field(default_factory=dict)
    refusal: tuple[Refusal, ...] = ()
    change_refusal: tuple[ChangeRefusal, ...] = ()
    grant: tuple[GrantText, ...] = ()
    adjusted: frozenset[str] = frozenset()
    at_start: dict[str, str] = Field(default_factory=dict)
    watched: tuple[str, ...] = ()
    restless: tuple[str, ...] = ()
    counters: str = ""
    counts: tuple[Counts, ...] = ()
    lag: LagTexts | None = None
    denied: dict[str, Denial] = Field(default_factory=dict)
    lock: LockTexts | None = None
    disk: tuple[DiskNeed, ...] = ()
    least_disk: str = "0"
    discover: Discovery | None = None
    sql: dict[str, str] = Field(default_factory=dict)
    own_files: dict[str, str] = Field(default_factory=dict)
    sources: dict[str, str] = Field(default_factory=dict)
    product: dict[str, Product] = Field(default_factory=dict)

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

    def require_changeable(self, reasons: Collection[str]) -> None:
        """That anything may be changed here, by the lock reasons of the curated knobs ("" for one that is not locked).

        Raises:
            TargetError: nothing may.
        """
        denial = self.denial(reasons)
        if denial is not None:
            raise TargetError(denial.says, hint=denial.hint)

    def denial(self, reasons: Collection[str]) -> Denial | None:
        """Why nothing at all may be changed here, by the same lock reasons; None where something may."""
        found = (each for each in self.denied.values() if each.reason in reasons and self.is_denial(each.reason))
        return next((each for each in found if each.always or "" not in reasons), None)

    def is_denial(self, reason: str) -> bool:
        """Whether a knob with that lock reason could be changed here by another user, or by other means than ours."""
        return any(each.reason == reason and each.says for each in self.denied.values())

    def change_refused(self, error: StatementError) -> ChangeRefusal | None:
        """Why no change of a setting works; None where it is the value that the server refuses."""
        known = (
            each
            for each in self.change_refusal
            if re.search(each.words, error.message) or each.code == error.code != ""
        )
        return next(known, None)

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
