"""Catalog: a system as data: one TOML file with its knobs, where they are written, constraints, memory, advice and log words.

Schema 2. A person writes one for a system that Trimtab does not know, and needs no Python; docs/how-to/add-a-system.md shows how.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from trimtab.errors import SpaceError, UsageError
from trimtab.space import SafetyClass
from trimtab.space.condition import amount, constant_type, is_true
from trimtab.space.expression import check, names_in, parse
from trimtab.systems.codec import CODECS, Codec, Template, codec_of
from trimtab.systems.codec.scalar import SCALAR_ADDRESS
from trimtab.systems.command_settings import CommandSettings
from trimtab.systems.dump import PRINTS
from trimtab.systems.embedded_table import EmbeddedTables
from trimtab.systems.facets import with_facets
from trimtab.systems.gate import harm_of_address, harm_of_file
from trimtab.systems.lifecycle_table import LifecycleTable
from trimtab.systems.overlay import Overlay, OverlayKnob, Written
from trimtab.systems.plays import PlayEntry, play_faults
from trimtab.systems.settings import read_table
from trimtab.units import Dimension, parse_value

__all__ = ["BOUNDS", "Catalog", "CatalogKnob", "Channel", "catalog_faults", "parse_catalog", "read_catalog"]

BOUNDS = ("memory", "cores", "disk")
"""What a useful range may refer to; constraints, memory and advice may refer to `clients` besides."""

_EXAMPLE = {"memory": 1e9, "cores": 4.0, "disk": 1e11}
_UNKNOWN_FACTS = frozenset(("connections",))
"""What plays of a program that is described by a catalogue alone may not speak of: nobody reads how many it takes."""
_MAX_BYTES = 1 << 20
_NUMBERS = ("integer", "real")
_PLACE = "{address}"
_DURATIONS = ("s", "min", "h", "d")


class Channel(BaseModel):
    """One file of the system's configuration.

    Attributes:
        path: of the file; a study file may give another. With {address} in it each knob of the channel is a file of its own,
            and a channel of its own once the catalogue is read.
        codec: its syntax.
        template: of codec "template": the file's text with {{address}} for each value.
        in_place: whether it is written in place and not replaced, as files of the kernel must be.
        check: command that fails when the program would refuse the file; {file} is a copy with the change, {file.NAME} that of
            another channel.
        read: command that prints the values in use; with {pid} of the running process, asked once in its life.
        prints: how it prints them: one of `PRINTS`.
        tells_all: whether it names every setting that the program has; others are locked.
        tables: whether its values are options of Cassandra's tables: of those that a load makes, for which the file is Trimtab's
            own, or of a table that a study file names in its place, `cql:KEYSPACE.TABLE`. They count at once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = ""
    codec: str
    template: str = ""
    in_place: bool = False
    check: str = ""
    read: str = ""
    prints: str = ""
    tells_all: bool = False
    tables: bool = False

    @model_validator(mode="after")
    def _has_codec(self) -> Self:
        if self.codec not in CODECS:
            raise ValueError(f"unknown codec={self.codec!r}; use one of: {', '.join(sorted(CODECS))}")
        if (self.codec == "template") != bool(self.template):
            raise ValueError("codec = \"template\" and template = '...' go together")
        try:
            self.made()
        except UsageError as error:
            raise ValueError(f"{error.message}; {error.hint}") from error
        if bool(self.read) != bool(self.prints) or (self.tells_all and not self.read):
            raise ValueError("read and prints go together; tells_all needs them")
        if self.tables and (self.codec != "keyvalue" or self.read):
            raise ValueError('tables = true goes with codec = "keyvalue", and without read')
        if self.prints and self.prints not in PRINTS:
            raise ValueError(f"unknown prints={self.prints!r}; use one of: {', '.join(PRINTS)}")
        return self

    def made(self) -> Codec:
        """Its codec."""
        return codec_of(self.codec, template=self.template)


class CatalogKnob(OverlayKnob):
    """What a catalogue says about one knob: a range as in the shipped overlays, and what a database server would tell live.

    Attributes:
        type: of its values.
        default: what the system uses when no file says anything; a number in `unit`, or a text as the file has it.
        default_of: another knob of the same file, whose value there it has when the file does not name it.
        hard: what the system accepts at all; the useful range and the special values when it is not given.
        address: where the value is in the file; the knob's name when it is not given.
        channel: in which file; the only one when it is not given.
        suffix: written after a number: "mb"; one of the catalogue's [units].
        words: what false and true are in the file.
        needs: what the `features` command must print, or the knob is locked.
        choices_need: choice -> what it must print, or the choice is left out.
    """

    type: Literal["integer", "real", "boolean", "choice", "ordinal"]
    default: Written
    default_of: str = ""
    hard: tuple[int | float, int | float] | None = None
    address: str = ""
    channel: str = ""
    suffix: str = ""
    words: tuple[str, str] = ("no", "yes")
    needs: str = ""
    choices_need: dict[str, str] = Field(default_factory=dict)
    sets: tuple[str, ...] = ("performance",)

    @model_validator(mode="after")
    def _check_choices_need(self) -> Self:
        if others := self.choices_need.keys() - set(self.choices):
            raise ValueError(f"choices_need names {min(others)!r}, which is none of the choices")
        return self

    @model_validator(mode="after")
    def _check_type(self) -> Self:
        if self.type in _NUMBERS:
            if self.low is None:
                raise ValueError(f"type={self.type!r} needs low and high, the useful range")
        elif self.low is not None or self.hard is not None or self.unit:
            raise ValueError(f"type={self.type!r} has no range and no unit; only integer and real have")
        if self.type in ("choice", "ordinal") and not self.choices:
            raise ValueError(f"type={self.type!r} needs choices = [...]")
        if self.type not in ("choice", "ordinal") and self.choices:
            raise ValueError(f"type={self.type!r} has no choices")
        if self.type == "boolean" and not isinstance(self.default, bool):
            raise ValueError(f"default={self.default!r} of a boolean is true or false")
        if self.hard is not None and not self.hard[0] < self.hard[1]:
            raise ValueError(f"hard={list(self.hard)} is empty")
        if len(set(self.words)) < 2:
            raise ValueError(f"words={list(self.words)}: false and true are the same")
        is_number = self.type in _NUMBERS
        if is_number and isinstance(self.default, bool):
            raise ValueError(f"default={self.default!r} is not a number")
        for text in (self.low, self.high, self.default if is_number else None):
            try:
                _ = amount(text, _EXAMPLE) if isinstance(text, str) else 0.0
            except UsageError as error:
                raise ValueError(f"{error.message}; {error.hint}") from error
        return self


class Catalog(Overlay[CatalogKnob]):
    """The whole file; see `Overlay`.

    Attributes:
        channel: name -> file.
        knob: name -> knob.
        units: suffix in the files -> what it means ("mb" -> "1MB").
        lifecycle: how such a system is usually run.
        embedded: version -> how a private one is made.
        facets: catalogues of what it runs in, such as its Java machine: their knobs are its own.
        facts: name -> command that prints a number which the memory terms may speak of, such as the size of the data.
        play: what an expert would try, and when (see `trimtab.systems.plays`).
    """

    channel: dict[str, Channel] = Field(min_length=1)
    knob: dict[str, CatalogKnob] = Field(min_length=1)
    units: dict[str, str] = Field(default_factory=dict)
    lifecycle: LifecycleTable = LifecycleTable()
    embedded: EmbeddedTables = Field(default_factory=dict)
    facets: tuple[str, ...] = ()
    facts: dict[str, str] = Field(default_factory=dict)
    play: dict[str, PlayEntry] = Field(default_factory=dict)

    def channel_of(self, name: str) -> str:
        """The name of the channel that a knob is written to."""
        return self.knob[name].channel or next(iter(self.channel))

    def address_of(self, name: str) -> str:
        """Where a knob is in its file."""
        channel = self.channel.get(self.channel_of(name))
        is_scalar = channel is not None and channel.codec == "scalar"
        return self.knob[name].address or (SCALAR_ADDRESS if is_scalar else name)

    def fallback_of(self, name: str) -> str:
        """The address whose value counts while the file does not name the knob; "" where it is the default."""
        other = self.knob[name].default_of
        return self.address_of(other) if other else ""

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is wrong between its parts: (message, hint)."""
        yield from self._address_faults()
        yield from self._default_faults()
        yield from self._template_faults()
        yield from self._unit_faults()
        yield from self._lifecycle_faults()
        for each in self.constraint:
            yield from self._text_faults(each.name or each.text, each.text, (*BOUNDS, "clients"))
        for name, text in self.memory.items():
            yield from self._text_faults(name, text, (*BOUNDS, "clients", *self.facts))
        for name in self.facts.keys() & {*self.knob, *BOUNDS, "clients"}:
            yield f"[facts] {name}: a knob or another fact has that name", "give it another name"
        yield from self._advice_faults()
        locked = {name for name, knob in self.knob.items() if knob.safety is not SafetyClass.PERFORMANCE}
        yield from play_faults(self.play, self.knob.keys(), locked, _UNKNOWN_FACTS)

    def _advice_faults(self) -> Iterator[tuple[str, str]]:
        for where, name in self.named():
            if name not in self.knob:
                yield f"{where} names {name!r}: there is no such knob", "name a knob of this catalogue"
        facts = {**_EXAMPLE, "clients": 4.0, "ssd": 1.0, "hdd": 0.0}
        for name, value in (each for table in self.advices() for each in table.items()):
            if name not in self.knob:
                yield f"[advice] {name}={value!r}: there is no such knob", "name a knob of this catalogue"
            elif isinstance(value, str) and self.knob[name].type in _NUMBERS:
                yield from _fault(f"[advice] {name}", partial(amount, value, facts))
        yield from _fault("reserve", partial(amount, self.reserve, _EXAMPLE))
        for more in self.advice_when:
            known = dict.fromkeys(facts, Dimension.NUMBER)
            yield from _fault("[[advice_when]] when", partial(is_true, more.when, facts, known))

    def _lifecycle_faults(self) -> Iterator[tuple[str, str]]:
        tables = {"lifecycle": self.lifecycle} | {
            f"embedded.{version}.lifecycle": table.lifecycle for version, table in self.embedded.items()
        }
        for where, table in tables.items():
            try:
                read_table(CommandSettings, "NAME", table.under({"kind": self.kind}))
            except UsageError as error:
                yield error.message.replace("[target.NAME]", f"[{where}]"), "its keys are those of a target's table"
        for version, own in self.embedded.items():
            for name in {*self.channel, *own.paths}:
                if name not in own.paths or name not in self.channel:
                    yield (
                        f"[embedded.{version}] paths and the channels differ in {name!r}",
                        "each channel needs a file in its folder",
                    )

    def _address_faults(self) -> Iterator[tuple[str, str]]:
        taken: dict[tuple[str, str], str] = {}
        for name, knob in self.knob.items():
            channel, address = self.channel_of(name), self.address_of(name)
            if knob.channel and knob.channel not in self.channel:
                yield (
                    f"[knob.{name}] channel={knob.channel!r}: there is no such channel",
                    f"the channels are: {', '.join(self.channel)}",
                )
                continue
            if not knob.channel and len(self.channel) > 1:
                yield f"[knob.{name}] names no channel", f"add channel = one of: {', '.join(self.channel)}"
            harm = harm_of_address(name) or harm_of_address(address) or harm_of_file(self.channel[channel].path)
            if harm:
                yield (
                    f"[knob.{name}] address={address!r} may not be changed: {harm}",
                    "remove the knob: no option opens it",
                )
            key = (channel, self.channel[channel].made().key(address))
            if key in taken:
                yield (
                    f"[knob.{name}] address={address!r} is that of knob={taken[key]!r} too",
                    "one knob for each address",
                )
            taken[key] = name

    def _default_faults(self) -> Iterator[tuple[str, str]]:
        for name, knob in self.knob.items():
            if not knob.default_of:
                continue
            other, where = self.knob.get(knob.default_of), f"[knob.{name}] default_of={knob.default_of!r}"
            if other is None:
                yield f"{where}: there is no such knob", "name a knob of this catalogue"
            elif other.default_of or self.channel_of(knob.default_of) != self.channel_of(name):
                yield (
                    f"{where} has a default_of itself, or is in another file",
                    "name a knob of the same file with a default",
                )
            elif (other.type, other.unit, other.suffix) != (knob.type, knob.unit, knob.suffix):
                yield f"{where} is written otherwise", "both need the same type, unit and suffix"

    def _template_faults(self) -> Iterator[tuple[str, str]]:
        for channel, table in self.channel.items():
            codec = table.made()
            if not isinstance(codec, Template):
                continue
            mine = {self.address_of(name): name for name in self.knob if self.channel_of(name) == channel}
            for place in codec.names:
                if place not in mine:
                    yield (
                        f"[channel.{channel}] template has {{{{{place}}}}}, which is not a knob",
                        f"add [knob.{place}]",
                    )
            for address, name in mine.items():
                if address not in codec.names:
                    yield (
                        f"[knob.{name}] address={address!r} is not in the template",
                        f"its places are: {', '.join(codec.names)}",
                    )

    def _unit_faults(self) -> Iterator[tuple[str, str]]:
        for suffix, size in self.units.items():
            fault = _unit_fault(size)
            if fault:
                yield f"[units] {suffix}={size!r}: {fault}", 'write it as in: mb = "1MB"'
        for name, knob in self.knob.items():
            if knob.suffix and knob.suffix not in self.units:
                yield (
                    f"[knob.{name}] suffix={knob.suffix!r} is not in [units]",
                    f'add {knob.suffix} = "1MB" or so to [units]',
                )

    def _text_faults(self, name: str, text: str, facts: Sequence[str]) -> Iterator[tuple[str, str]]:
        try:
            tree = parse(text)
            types = {each: constant_type(0.0) for each in facts}
            types |= {each: constant_type("" if self.knob[each].choices else 0.0) for each in self.knob}
            unknown = [each.name for each in names_in(tree) if each.name not in types]
            if unknown:
                yield (
                    f"{name!r} names {unknown[0]!r}, which is not a knob",
                    f"use knobs, or one of: {', '.join(facts)}",
                )
                return
            check(tree, types, text)
        except SpaceError as error:
            yield f"{name!r}: {error.message}", error.hint or "docs/reference/space.md has the language"


def _unit_fault(amount: str) -> str:
    """Why a text is neither a size nor a duration; "" when it is one."""
    try:
        parse_value(amount, "s" if amount.rstrip().endswith(_DURATIONS) else "B")
    except UsageError as error:
        return error.message
    return ""


def _with_files_apart(table: dict[str, Any]) -> dict[str, Any]:
    """The catalogue with a channel for each knob of a channel whose path has {address} in it; faults are left to find."""
    channels, knobs = table.get("channel"), table.get("knob")
    if not isinstance(channels, dict) or not isinstance(knobs, dict):
        return table
    apart = {name: c for name, c in channels.items() if isinstance(c, dict) and _PLACE in str(c.get("path", ""))}
    only = next(iter(channels)) if len(channels) == 1 else ""
    made, moved = dict(channels), dict(knobs)
    for name, knob in knobs.items():
        channel = knob.get("channel", only) if isinstance(knob, dict) else None
        if channel in apart and isinstance(address := knob.get("address", name), str):
            path = apart[channel]["path"].replace(_PLACE, address)
            made[name] = {**apart[channel], "path": path}
            moved[name] = {key: value for key, value in knob.items() if key != "address"} | {"channel": name}
    for name in apart:
        if not any(isinstance(knob, dict) and knob.get("channel") == name for knob in moved.values()):
            made.pop(name)
    return {**table, "channel": made, "knob": moved}


def _fault(where: str, evaluate: Callable[[], object]) -> Iterator[tuple[str, str]]:
    try:
        evaluate()
    except SpaceError as error:
        yield f"{where}: {error.message}", error.hint or ""


def _first_words(error: Mapping[str, Any]) -> tuple[str, str]:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"unknown key {where!r}", "docs/reference/catalog.md lists the keys"
    if error["type"] == "missing":
        return f"{where!r} is missing", f"add {error['loc'][-1]} = ..."
    shown = error["input"] if not isinstance(error["input"], dict) else ""
    what = f"{where}={shown!r}" if shown != "" else f"[{where}]"
    return f"{what}: {error['msg'].removeprefix('Value error, ')}", "docs/reference/catalog.md lists the keys"


def _numbers(value: Any, where: str) -> Iterator[tuple[str, float]]:
    """Every real number in a table, with the keys that lead to it."""
    if isinstance(value, float):
        yield where, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _numbers(each, f"{where}.{key}".lstrip("."))
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each, where)


def catalog_faults(text: str) -> tuple[Catalog | None, list[tuple[str, str]]]:
    """The catalogue, and everything that is wrong with it: (message, hint); the catalogue is None when it cannot be read."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return None, [(f"it is not TOML: {error}", "see the line and column")]
    endless = [f"{where}={value}" for where, value in _numbers(table, "") if not math.isfinite(value)]
    if endless:
        return None, [(f"{each} is not a finite number", "write a number") for each in endless]
    try:
        catalog = Catalog.model_validate(_with_files_apart(with_facets(table)))
    except UsageError as error:
        return None, [(error.message, error.hint or "")]
    except ValidationError as error:
        return None, [_first_words(dict(each)) for each in error.errors(include_url=False)]
    return catalog, list(catalog.faults())


@lru_cache(maxsize=16)
def _checked(text: str) -> tuple[Catalog | None, list[tuple[str, str]]]:
    """`catalog_faults`, once for a text: it takes a while, nobody changes a catalogue, and a study reads its own often."""
    return catalog_faults(text)


def parse_catalog(text: str, *, name: str) -> Catalog:
    """A catalogue without faults; `name` is what messages call it.

    Raises:
        UsageError: it has one; the message names the first, and how many there are.
    """
    catalog, faults = _checked(text)
    if catalog is None or faults:
        message, hint = faults[0]
        more = f" (and {len(faults) - 1} more: `trimtab catalog check` lists them)" if len(faults) > 1 else ""
        raise UsageError(f"catalog={name!r}: {message}{more}", hint=hint)
    return catalog


def read_catalog(path: Path) -> str:
    """The text of a catalogue.

    Raises:
        UsageError: it cannot be read, or is too large to be one.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UsageError(f"catalog={str(path)!r} is larger than 1 MiB", hint="a catalogue has some hundred lines")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"catalog={str(path)!r} cannot be read: {why}", hint="check its path; it is relative to the study file"
        ) from error
