"""Catalog: a system as data: one TOML file with its knobs, where they are written, constraints, memory, advice and log words.

Schema 2. A person writes one for a system that Trimtab does not know, and needs no Python; docs/how-to/add-a-system.md shows how.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from trimtab.errors import UsageError
from trimtab.space.condition import amount
from trimtab.systems.codec import CODECS, Codec, codec_of
from trimtab.systems.codec.scalar import SCALAR_ADDRESS
from trimtab.systems.dump import PRINTS
from trimtab.systems.embedded_table import EmbeddedTables
from trimtab.systems.lifecycle_table import LifecycleTable, Loss
from trimtab.systems.mount_options import MOUNT
from trimtab.systems.overlay import Overlay, OverlayKnob, Written
from trimtab.systems.plays import PlayEntry
from trimtab.units import unit_factor

__all__ = ["BOUNDS", "EXAMPLE", "NUMBERS", "Catalog", "CatalogKnob", "Channel"]

BOUNDS = ("memory", "cores", "disk")
"""What a useful range may refer to; constraints, memory and advice may refer to `clients` besides."""

EXAMPLE = {"memory": 1e9, "cores": 4.0, "disk": 1e11}
"""A machine on which texts are tried when a catalogue is read."""
NUMBERS = ("integer", "real")
"""The types of knobs with a range."""
_BEAN = re.compile(r"[^\s:]+:\S+ \w+(\([^()]*\{\w+\}[^()]*\))?")


def _of_a_bean(text: str) -> str:
    """A management bean (JMX), and its attribute or its operation with what is filled in; "" for none.

    Raises:
        ValueError: it is something else.
    """
    if text and not _BEAN.fullmatch(text):
        raise ValueError(
            'write "BEAN ATTRIBUTE", as in "java.lang:type=Memory Verbose", or "BEAN OPERATION(ARGUMENT, {value})", with one '
            "blank after the bean"
        )
    return text


OfBean = Annotated[str, AfterValidator(_of_a_bean)]


class Channel(BaseModel):
    """One file of the system's configuration.

    Attributes:
        path: of the file; a study file may give another. With {address} in it each knob of the channel is a file of its own,
            and a channel of its own once the catalogue is read. `mount:` and a folder: the options of the mounted file system
            that holds the folder (see `MountChannel`).
        codec: its syntax.
        template: of codec "template": the file's text with {{address}} for each value.
        in_place: whether it is written in place and not replaced, as files of the kernel must be.
        check: command that fails when the program would refuse the file; {file} is a copy with the change, {file.NAME} that of
            another channel.
        read: command that prints the values in use; with {pid} of the running process, asked once in its life.
        prints: how it prints them: one of `PRINTS`.
        tells_all: whether it names every setting that the program has; others are locked.
        shows_files: what it prints at the beginning of a line before the path of each file that it has read: the program itself
            may have read an older one.
        must_agree: addresses that are no knobs, and tell which program it is and which data its start loads. While the file gives
            one otherwise than the program has it, as it tells, nothing is restarted.
        refuses_twice: whether the program refuses a setting that two of its files have: one that `read` tells, and that this file
            does not have, is locked.
        must_exist: whether a file that is not there is not the program's: its knobs are locked, and it is not made.
        watched_if: a boolean knob further up. While it is true, the program watches the file and does what takes a moment when it
            has changed, as Tomcat deploys its applications again: no value in it is set live.
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
    shows_files: str = ""
    must_agree: tuple[str, ...] = ()
    refuses_twice: bool = False
    must_exist: bool = False
    watched_if: str = ""
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
        needs_read = self.tells_all or self.shows_files or self.refuses_twice
        if bool(self.read) != bool(self.prints) or (needs_read and not self.read):
            raise ValueError("read and prints go together; tells_all, shows_files and refuses_twice need them")
        if self.tables and (self.codec != "keyvalue" or self.read):
            raise ValueError('tables = true goes with codec = "keyvalue", and without read')
        if self.path.startswith(MOUNT) and (self.codec != "keyvalue" or self.read or self.tables):
            raise ValueError(f'path="{MOUNT}..." goes with codec = "keyvalue", and without read and tables')
        if self.prints and self.prints not in PRINTS:
            raise ValueError(f"unknown prints={self.prints!r}; use one of: {', '.join(PRINTS)}")
        return self

    @property
    def counts_at_once(self) -> bool:
        """Whether it is no file that the program reads: what is written counts at once, whatever runs."""
        return self.tables or self.path.startswith(MOUNT)

    def made(self) -> Codec:
        """Its codec."""
        return codec_of(self.codec, template=self.template)


class CatalogKnob(OverlayKnob):
    """What a catalogue says about one knob: a range as in the shipped overlays, and what a database server would tell live.

    Attributes:
        type: of its values.
        default: what the system uses when no file says anything; a number in `unit`, or a text as the file has it.
        default_of: another knob of the same file, whose value there it has when the file does not name it; default_times: so many
            times, rounded down.
        hard: what the system accepts at all; the useful range and the special values when it is not given.
        address: where the value is in the file; the knob's name when it is not given.
        channel: in which file; the only one when it is not given.
        formerly: its address in files of earlier versions, which the program still reads, and not beside the other one: while the
            file has that, the knob is locked.
        also: further names that the program takes for it. While its file has one of them, and not the address, that is its place
            there; and a program that tells its values may tell it so.
        suffix: written after a number: "mb"; one of the catalogue's [units].
        words: what false and true are in the file.
        spelled: word of the file -> the special value that it means: "auto", "off".
        needs: what the `features` command must print, or the knob is locked.
        needs_beside: the address that its file must have besides, or the knob is locked.
        ruled_by: addresses that leave it without effect: while its file has one of them, the knob is locked.
        choices_need: choice -> what it must print, or the choice is left out.
        shown_by: choice -> what the `features` command prints while it is in use, for a value that files may give which are none
            of ours. Where neither its file names it nor the program shows it, it is locked, and so is what depends on it.
        under: condition over such knobs -> default, low and high of this one where it held when we came.
        together: knobs of the same file which it must name whenever it names this one: the program refuses one without the other.
        resets: knobs further down that the system sets to a value of its own when this one changes: they are written again.
        live: of a Java program, what changes it at once, without a restart: a management bean (MBean) and its attribute,
            "java.lang:type=Memory Verbose", or its operation, "BEAN setSize(name, {value})". The file is written too.
        shapes_files: whether files of data that were written under another value stay as they are: where such a knob is tuned, a
            copy of data is written anew, and no file is linked (see `FileCopies`).
        must_stand: whether a program whose file has no place for it has no such thing, as the threads of an executor that is not
            there.
        only_when: condition over [facts]; while it is false, the knob cannot be felt, and sets leave it out.
    """

    type: Literal["integer", "real", "boolean", "choice", "ordinal"]
    default: Written
    default_of: str = ""
    default_times: float = Field(1.0, gt=0)
    hard: tuple[int | float, int | float] | None = None
    address: str = ""
    channel: str = ""
    formerly: str = ""
    also: tuple[str, ...] = ()
    suffix: str = ""
    words: tuple[str, str] = ("no", "yes")
    spelled: dict[str, int | float] = Field(default_factory=dict)
    needs: str = ""
    needs_beside: str = ""
    ruled_by: tuple[str, ...] = ()
    choices_need: dict[str, str] = Field(default_factory=dict)
    shown_by: dict[str, str] = Field(default_factory=dict)
    under: dict[str, dict[Literal["default", "low", "high"], Written]] = Field(default_factory=dict)
    together: tuple[str, ...] = ()
    resets: tuple[str, ...] = ()
    live: OfBean = ""
    shapes_files: bool = False
    must_stand: bool = False
    only_when: str = ""
    sets: tuple[str, ...] = ("performance",)

    @model_validator(mode="after")
    def _check_choices_need(self) -> Self:
        for key, table in (("choices_need", self.choices_need), ("shown_by", self.shown_by)):
            if others := table.keys() - set(self.choices):
                raise ValueError(f"{key} names {min(others)!r}, which is none of the choices")
        return self

    @model_validator(mode="after")
    def _check_spelled(self) -> Self:
        for word, value in self.spelled.items():
            if value not in self.special:
                raise ValueError(f"spelled {word!r} means {value}, which is not special")
        return self

    @model_validator(mode="after")
    def _check_under(self) -> Self:
        for condition in self.under:
            try:
                self.where(condition)
            except ValidationError as error:
                fault = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
                raise ValueError(f"under {condition!r}: {fault}") from error
        return self

    @model_validator(mode="after")
    def _check_type(self) -> Self:
        if self.type in NUMBERS:
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
        is_number = self.type in NUMBERS
        if is_number and isinstance(self.default, bool):
            raise ValueError(f"default={self.default!r} is not a number")
        for text, names in ((self.low, EXAMPLE), (self.high, EXAMPLE), (self.default if is_number else None, {})):
            try:
                _ = amount(text, names) if isinstance(text, str) else 0.0
            except UsageError as error:
                raise ValueError(f"{error.message}; {error.hint}") from error
        return self

    @property
    def default_number(self) -> int | float:
        """The default of an integer or a real, in its unit.

        Raises:
            SpaceError: it is a text and no number.
        """
        if isinstance(self.default, str):
            return amount(self.default, {}) / unit_factor(self.unit)[0]
        return self.default

    def fault_of_default(self) -> str:
        """Why the default is no value of the knob; "" when it is one. What depends on the machine says nothing yet."""
        if self.choices and self.default not in self.choices:
            return f"default={self.default!r} is none of the choices: {', '.join(self.choices)}"
        if self.type not in NUMBERS:
            return ""
        if self.type == "integer" and isinstance(self.default, float) and self.default % 1:
            return f"default={self.default!r} is not a whole number"
        default, (low, high) = self.default_number, self.hard or (self.low, self.high)
        is_below = not isinstance(low, str | None) and default < low
        is_above = not isinstance(high, str | None) and default > high
        if (is_below or is_above) and default not in self.special:
            return f"default={self.default!r} is not between {low} and {high}, and not special"
        return ""

    def where(self, condition: str) -> CatalogKnob:
        """What it is where that condition of `under` holds.

        Raises:
            ValueError: that contradicts itself.
        """
        return type(self).model_validate({**self.model_dump(exclude={"under"}), **self.under[condition]})


class FileCopies(BaseModel):
    """How a Java program takes files of data that were linked into its folders, so that a load need not write each row.

    Attributes:
        flush: the operation of a bean that writes the {keyspace} to its files.
        load: the one that takes new files of {table} in {keyspace}.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    flush: OfBean = Field(min_length=1)
    load: OfBean = Field(min_length=1)


class Catalog(Overlay[CatalogKnob]):
    """The whole file; see `Overlay`.

    Attributes:
        channel: name -> file.
        knob: name -> knob.
        units: suffix in the files -> what it means ("mb" -> "1MB").
        lifecycle: how such a system is usually run.
        loses: what a restart takes from one that shows so.
        embedded: version -> how a private one is made.
        facets: catalogues of what it runs in, such as its Java machine: their knobs are its own, with what [facet_knob.NAME] says
            of them otherwise.
        copies: how a copy of data is made of linked files.
        facts: name -> command that prints a number which the memory terms may speak of, such as the size of the data.
        came_with: words that `needs` waits for -> the version that brought them, as messages say it.
        play: what an expert would try, and when (see `trimtab.systems.plays`).
    """

    channel: dict[str, Channel] = Field(min_length=1)
    knob: dict[str, CatalogKnob] = Field(min_length=1)
    units: dict[str, str] = Field(default_factory=dict)
    lifecycle: LifecycleTable = LifecycleTable()
    loses: tuple[Loss, ...] = ()
    embedded: EmbeddedTables = Field(default_factory=dict)
    facets: tuple[str, ...] = ()
    copies: FileCopies | None = None
    facts: dict[str, str] = Field(default_factory=dict)
    came_with: dict[str, str] = Field(default_factory=dict)
    play: dict[str, PlayEntry] = Field(default_factory=dict)

    @property
    def fact_names(self) -> tuple[str, ...]:
        """What memory terms may speak of beside knobs, bounds and clients."""
        return (*self.facts, *(loss.fact for loss in self.loses if loss.fact))

    def channel_of(self, name: str) -> str:
        """The name of the channel that a knob is written to."""
        return self.knob[name].channel or next(iter(self.channel))

    def address_of(self, name: str) -> str:
        """Where a knob is in its file."""
        channel = self.channel.get(self.channel_of(name))
        is_scalar = channel is not None and channel.codec == "scalar"
        return self.knob[name].address or (SCALAR_ADDRESS if is_scalar else name)

    def further_names(self, channel: str) -> dict[str, tuple[str, ...]]:
        """Address -> its further names, of the knobs of a channel that have some."""
        named = {name: knob.also for name, knob in self.knob.items() if knob.also and self.channel_of(name) == channel}
        return {self.address_of(name): also for name, also in named.items()}

    def partners_of(self, name: str) -> tuple[str, ...]:
        """The knobs that its file must name whenever it names this one; none for a name that is no knob's."""
        return self.knob[name].together if name in self.knob else ()

    def fallbacks_of(self, name: str) -> tuple[tuple[str, float], ...]:
        """The addresses whose values count, so many times, while the file does not name the knob; () where it is the default."""
        found, times = [], 1.0
        while other := self.knob[name].default_of:
            times *= self.knob[name].default_times
            found.append((self.address_of(other), times))
            name = other
        return tuple(found)
