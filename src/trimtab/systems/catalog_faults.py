"""What is wrong between the parts of a catalogue: names that mean nothing, files without a knob, units that nobody can read."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from trimtab.errors import SpaceError, UsageError
from trimtab.space import SafetyClass
from trimtab.space.condition import amount, constant_type, is_true, require_condition
from trimtab.space.expression import check, names_in, parse
from trimtab.systems.catalog import BOUNDS, EXAMPLE, NUMBERS, Catalog
from trimtab.systems.codec import Template
from trimtab.systems.command_settings import CommandSettings
from trimtab.systems.gate import harm_of_address, harm_of_file
from trimtab.systems.plays import play_faults
from trimtab.systems.settings import read_table
from trimtab.units import Dimension, parse_value

__all__ = ["faults_between"]

_UNKNOWN_FACTS = frozenset(("connections",))
"""What plays of a program that is described by a catalogue alone may not speak of: nobody reads how many it takes."""
_DURATIONS = ("s", "min", "h", "d")


def faults_between(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """What is wrong between its parts: (message, hint)."""
    yield from _address_faults(catalog)
    yield from _default_faults(catalog)
    yield from _reset_faults(catalog)
    yield from _dependence_faults(catalog)
    yield from _template_faults(catalog)
    yield from _unit_faults(catalog)
    yield from _lifecycle_faults(catalog)
    yield from _command_faults(catalog)
    yield from _live_faults(catalog)
    for each in catalog.constraint:
        yield from _text_faults(catalog, each.name or each.text, each.text, (*BOUNDS, "clients"), is_condition=True)
    for name, text in catalog.memory.items():
        yield from _text_faults(catalog, name, text, (*BOUNDS, "clients", *catalog.fact_names))
    others = {*catalog.knob, *BOUNDS, "clients"}
    for name in {name for name in catalog.fact_names if name in others or catalog.fact_names.count(name) > 1}:
        yield f"[facts] {name}: a knob or another fact has that name", "give it another name"
    yield from _only_when_faults(catalog)
    needed = {each for knob in catalog.knob.values() for each in (knob.needs, *knob.choices_need.values())}
    for words in catalog.came_with.keys() - needed:
        yield f"[came_with] {words!r}: no knob needs these words", "write them as in needs or choices_need"
    yield from _advice_faults(catalog)
    yield from _label_faults(catalog)
    locked = {name for name, knob in catalog.knob.items() if knob.safety is not SafetyClass.PERFORMANCE}
    yield from play_faults(catalog.play, catalog.knob.keys(), locked, _UNKNOWN_FACTS)


def _only_when_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    facts = dict.fromkeys(catalog.facts, 1.0)
    for name, knob in catalog.knob.items():
        if knob.only_when:
            holds = partial(is_true, knob.only_when, facts, dict.fromkeys(facts, Dimension.NUMBER))
            yield from _fault(f"[knob.{name}] only_when", holds)


def _advice_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    for where, name in catalog.named():
        if name not in catalog.knob:
            yield f"{where} names {name!r}: there is no such knob", "name a knob of this catalogue"
    facts = {**EXAMPLE, "clients": 4.0, "ssd": 1.0, "hdd": 0.0}
    for name, value in (each for table in catalog.advices() for each in table.items()):
        if name not in catalog.knob:
            yield f"[advice] {name}={value!r}: there is no such knob", "name a knob of this catalogue"
        elif isinstance(value, str) and catalog.knob[name].type in NUMBERS:
            yield from _fault(f"[advice] {name}", partial(amount, value, facts))
    yield from _fault("reserve", partial(amount, catalog.reserve, EXAMPLE))
    for more in catalog.advice_when:
        known = dict.fromkeys(facts, Dimension.NUMBER)
        yield from _fault("[[advice_when]] when", partial(is_true, more.when, facts, known))


def _label_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Values of advice and plays that their knob never has: they would be left out without a word."""
    tables = [("[advice]", table) for table in catalog.advices()]
    tables += [(f"play={name!r}", play.settings) for name, play in catalog.play.items()]
    for where, table in tables:
        for name, value in table.items():
            knob = catalog.knob.get(name)
            if knob is None:
                continue
            if knob.choices and value not in knob.choices:
                yield f"{where} {name}={value!r} is none of its choices", f"use one of: {', '.join(knob.choices)}"
            elif (knob.type == "boolean") != isinstance(value, bool):
                wanted = "true or false" if knob.type == "boolean" else "a value of its type"
                yield f"{where} {name}={value!r} is not of type={knob.type!r}", f"write {wanted}"


def _lifecycle_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    tables = {"lifecycle": catalog.lifecycle} | {
        f"embedded.{version}.lifecycle": table.lifecycle for version, table in catalog.embedded.items()
    }
    for where, table in tables.items():
        try:
            read_table(CommandSettings, "NAME", table.under({"kind": catalog.kind}))
        except UsageError as error:
            yield error.message.replace("[target.NAME]", f"[{where}]"), "its keys are those of a target's table"
    for version, own in catalog.embedded.items():
        for name in {*catalog.channel, *own.paths}:
            if name not in own.paths or name not in catalog.channel:
                yield (
                    f"[embedded.{version}] paths and the channels differ in {name!r}",
                    "each channel needs a file in its folder",
                )


def _command_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Commands that cannot be run; those of [lifecycle] are looked at with its other keys."""
    texts = {f"[facts] {name}": text for name, text in catalog.facts.items()}
    for name, channel in catalog.channel.items():
        asked = {"read": channel.read, "check": channel.check}
        texts |= {f"[channel.{name}] {key}": text for key, text in asked.items() if text}
    for where, text in texts.items():
        try:
            words = shlex.split(text)
        except ValueError as error:
            yield f"{where}={text!r} cannot be split into words: {str(error).lower()}", "close the quotes in it"
            continue
        if not words:
            yield f"{where}={text!r} is empty", "write a command, or leave the key out"


def _live_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """A value is set in a Java program by Java."""
    has_java = "java" in (catalog.lifecycle.names or {})
    for name, knob in catalog.knob.items():
        if knob.live and not has_java:
            yield (
                f"[knob.{name}] live={knob.live!r}: it is not known which Java sets it",
                'add names = { java = "java" } to [lifecycle]',
            )
    for name, channel in catalog.channel.items():
        if channel.watched_if and not _is_read_before(catalog, channel.watched_if, name):
            yield (
                f"[channel.{name}] watched_if={channel.watched_if!r} is not a boolean knob of a channel further up",
                "name one, and put its channel first",
            )


def _is_read_before(catalog: Catalog, watcher: str, channel: str) -> bool:
    """Whether that boolean knob is in a channel above this one."""
    knob, channels = catalog.knob.get(watcher), list(catalog.channel)
    if knob is None or knob.type != "boolean" or catalog.channel_of(watcher) not in channels:
        return False
    return channels.index(catalog.channel_of(watcher)) < channels.index(channel)


def _address_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    taken: dict[tuple[str, str], str] = {}
    for name, knob in catalog.knob.items():
        channel, address = catalog.channel_of(name), catalog.address_of(name)
        if knob.channel and knob.channel not in catalog.channel:
            yield (
                f"[knob.{name}] channel={knob.channel!r}: there is no such channel",
                f"the channels are: {', '.join(catalog.channel)}",
            )
            continue
        if not knob.channel and len(catalog.channel) > 1:
            yield f"[knob.{name}] names no channel", f"add channel = one of: {', '.join(catalog.channel)}"
        harm = harm_of_address(name) or harm_of_address(address) or harm_of_file(catalog.channel[channel].path)
        if harm:
            yield (
                f"[knob.{name}] address={address!r} may not be changed: {harm}",
                "remove the knob: no option opens it",
            )
        key = (channel, catalog.channel[channel].made().key(address))
        if key in taken:
            yield (
                f"[knob.{name}] address={address!r} is that of knob={taken[key]!r} too",
                "one knob for each address",
            )
        taken[key] = name


def _default_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    for name, knob in catalog.knob.items():
        hint = "if the program takes it, add it to choices or special, or say what it takes: hard = [low, high]"
        for where, each in (
            ("", knob),
            *((f"under {c!r}: ", knob.where(c)) for c in knob.under),
        ):
            if fault := each.fault_of_default():
                yield f"[knob.{name}] {where}{fault}", hint
        for value in knob.special:
            if knob.hard is not None and not knob.hard[0] <= value <= knob.hard[1]:
                yield (
                    f"[knob.{name}] special={value} lies outside hard={list(knob.hard)}: it would be refused at each try",
                    "widen hard, which is all that the program accepts",
                )
        if not knob.default_of:
            continue
        other, where = catalog.knob.get(knob.default_of), f"[knob.{name}] default_of={knob.default_of!r}"
        if other is None:
            yield f"{where}: there is no such knob", "name a knob of this catalogue"
        elif _comes_back(catalog, name) or catalog.channel_of(knob.default_of) != catalog.channel_of(name):
            yield (
                f"{where} has a default_of itself that leads back to it, or is in another file",
                "name a knob of the same file with a default",
            )
        elif (other.type, other.unit, other.suffix) != (knob.type, knob.unit, knob.suffix):
            yield f"{where} is written otherwise", "both need the same type, unit and suffix"


def _comes_back(catalog: Catalog, name: str) -> bool:
    """Whether a knob's default is that of itself at last."""
    seen = {name}
    while (name := catalog.knob[name].default_of) in catalog.knob:
        if name in seen:
            return True
        seen.add(name)
    return False


def _reset_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    order = list(catalog.knob)
    for name, knob in catalog.knob.items():
        for other in knob.resets:
            where = f"[knob.{name}] resets names {other!r}"
            if other not in catalog.knob:
                yield f"{where}: there is no such knob", "name a knob of this catalogue"
            elif order.index(other) <= order.index(name) or catalog.channel_of(other) == catalog.channel_of(name):
                yield f"{where}, which is not written after it", "write it further down, in a file that is another one"


def _dependence_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """What is wrong with `together` and `under`."""
    shown = {name: constant_type("") for name, knob in catalog.knob.items() if knob.shown_by}
    for name, knob in catalog.knob.items():
        for other in knob.together:
            if other not in catalog.knob or catalog.channel_of(other) != catalog.channel_of(name):
                yield f"[knob.{name}] together names {other!r}: its file has no such knob", "name one of the same file"
        for condition in knob.under:
            yield from _fault(f"[knob.{name}] under", partial(_require_known, condition, shown))


def _require_known(text: str, types: Mapping[str, Any]) -> None:
    tree = parse(text)
    if unknown := [each.name for each in names_in(tree) if each.name not in types]:
        raise SpaceError(f"{text!r} speaks of {unknown[0]!r}", hint="only of knobs with shown_by")
    check(tree, types, text)
    require_condition(text)


def _template_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    for channel, table in catalog.channel.items():
        codec = table.made()
        if not isinstance(codec, Template):
            continue
        mine = {catalog.address_of(name): name for name in catalog.knob if catalog.channel_of(name) == channel}
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


def _unit_faults(catalog: Catalog) -> Iterator[tuple[str, str]]:
    for suffix, size in catalog.units.items():
        fault = _unit_fault(size)
        if fault:
            yield f"[units] {suffix}={size!r}: {fault}", 'write it as in: mb = "1MB"'
    for name, knob in catalog.knob.items():
        if knob.suffix and knob.suffix not in catalog.units:
            yield (
                f"[knob.{name}] suffix={knob.suffix!r} is not in [units]",
                f'add {knob.suffix} = "1MB" or so to [units]',
            )


def _text_faults(
    catalog: Catalog, name: str, text: str, facts: Sequence[str], *, is_condition: bool = False
) -> Iterator[tuple[str, str]]:
    try:
        tree = parse(text)
        types = {each: constant_type(0.0) for each in facts}
        types |= {each: constant_type("" if catalog.knob[each].choices else 0.0) for each in catalog.knob}
        unknown = [each.name for each in names_in(tree) if each.name not in types]
        if unknown:
            yield (
                f"{name!r} names {unknown[0]!r}, which is not a knob",
                f"use knobs, or one of: {', '.join(facts)}",
            )
            return
        check(tree, types, text)
        if is_condition:
            require_condition(text)
    except SpaceError as error:
        yield f"{name!r}: {error.message}", error.hint or "docs/reference/space.md has the language"


def _unit_fault(amount: str) -> str:
    """Why a text is neither a size nor a duration; "" when it is one."""
    try:
        parse_value(amount, "s" if amount.rstrip().endswith(_DURATIONS) else "B")
    except UsageError as error:
        return error.message
    return ""


def _fault(where: str, evaluate: Callable[[], object]) -> Iterator[tuple[str, str]]:
    try:
        evaluate()
    except SpaceError as error:
        yield f"{where}: {error.message}", error.hint or ""
