"""CatalogSystem: any system with configuration files, described by a catalogue alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from trimtab.host import FileCopy, ThreadClock, machine_mark
from trimtab.records import Context, Endpoint, Play
from trimtab.redact import redact
from trimtab.space import Config, Knob, RestartClass, SafetyClass, Value
from trimtab.systems import doctor
from trimtab.systems.base import Applied, KnobState, Own
from trimtab.systems.catalog import Catalog
from trimtab.systems.catalog_file import kept_catalog, parse_catalog
from trimtab.systems.channel_kinds import make_channel
from trimtab.systems.channel_paths import channel_paths, names_of_folders, needs_disk, needs_mount, paths_of_lock
from trimtab.systems.command_lifecycle import AlwaysThere
from trimtab.systems.command_settings import CommandSettings, of_right_shape
from trimtab.systems.copies import copy_options
from trimtab.systems.file_change import Files, Words
from trimtab.systems.file_channel import FileChannel, FileFaultError, file_lines, named_disk_lines
from trimtab.systems.file_knobs import inactive, knob_of, lock_reason, unknown_choice, unknown_value, vendor_range
from trimtab.systems.file_undo import Place
from trimtab.systems.files import file_digest, file_from_json
from trimtab.systems.literal import literal, parse_literal, stand_in_reason
from trimtab.systems.live_values import LiveValues
from trimtab.systems.lock import ServerLock
from trimtab.systems.overlay import Bounds
from trimtab.systems.own_lifecycle import make_lifecycle
from trimtab.systems.own_words import OwnWords
from trimtab.systems.parts import Parts
from trimtab.systems.passwords import require_hidden
from trimtab.systems.picture import Picture
from trimtab.systems.placeholder import filled
from trimtab.systems.plays import fitting_plays, play_facts
from trimtab.systems.settled import Settled
from trimtab.systems.shown import ShownValues
from trimtab.systems.system import System
from trimtab.systems.table_channel import OwnTables
from trimtab.systems.table_options import option_of, table_of, with_clause
from trimtab.systems.usual import with_usual

__all__ = ["CatalogSystem"]


class CatalogSystem(System[CommandSettings, AlwaysThere]):
    """Any system with configuration files: run by Trimtab, started by commands, or always there. A `Target`.

    Args:
        name: of the table in the study file.
        settings: the table, checked.
        text: of the catalogue.
        where: of the catalogue; relative paths in it start from its folder.
        is_kept: whether the text is that of a snapshot, which is obeyed whatever is wrong with it.

    Attributes:
        catalog: what the system is.
        KIND: `kind` of its table.
    """

    catalog: Catalog
    KIND: ClassVar[str]

    def __init__(self, name: str, settings: CommandSettings, text: str, where: str, *, is_kept: bool = False) -> None:
        self.kind = settings.kind
        self.catalog = (kept_catalog if is_kept else parse_catalog)(text, name=where)
        self._text, self._where = text, where
        own = self.catalog.embedded.get(settings.embedded) if settings.embedded is not None else None
        self._paths = channel_paths(name, settings, self.catalog, where, own)
        reach = make_lifecycle(name, settings, paths_of_lock(self._paths, self.catalog), self.catalog.log, own)
        self._says = OwnWords(self.catalog, settings, reach)
        self._shown = ShownValues(self.catalog, self._says)
        self._live = LiveValues(self.catalog, reach)
        self._compilers = ThreadClock(self.catalog.compilers)
        super().__init__(name, settings, reach, Path())

    @classmethod
    @abstractmethod
    def catalogue_file(cls, name: str, settings: Mapping[str, Any], directory: Path | None) -> str:
        """The file of the catalogue that a table means; relative paths in it start from its folder.

        Raises:
            UsageError: the table names none.
        """

    @classmethod
    @abstractmethod
    def catalogue_text(cls, where: str) -> str:
        """What that file holds.

        Raises:
            UsageError: it cannot be read.
        """

    @classmethod
    def _table(cls, name: str, settings: Mapping[str, Any], directory: Path | None) -> Any:
        where = cls.catalogue_file(name, settings, directory)
        catalog = parse_catalog(cls.catalogue_text(where), name=where)
        whole = with_usual(name, catalog, {"kind": cls.KIND, **of_right_shape(name, settings)}, directory)
        return require_hidden(name, super()._table(name, whole, directory), catalog)

    @classmethod
    def _made(cls, name: str, table: Any, state_dir: Path, kept: Mapping[str, Any]) -> Self:
        """A journalled target has the catalogue of then."""
        where = cls.catalogue_file(name, table.public(), None)
        text = kept.get("catalog")
        return cls(name, table, text or cls.catalogue_text(where), where, is_kept=bool(text))

    def _parts(self, state_dir: Path) -> Parts:
        self._channels = [self._channel_at(channel, path) for channel, path in self._paths.items()]
        by_name = {channel.name: channel for channel in self._channels}
        self._places = {
            knob: Place(
                by_name[self.catalog.channel_of(knob)], self.catalog.address_of(knob), self.catalog.fallbacks_of(knob)
            )
            for knob in self.catalog.knob
        }
        told, partners = self._told_values, self.catalog.partners_of
        self._pending = Settled(self.catalog, self._reach, self._places, self._parsed, self._says, self._live)
        require = self._pending.require
        words = Words(self._example_knob, self._literal, self._parsed, self.states, told, partners, require)
        reloads = [n for n in self._places if self._example_knob(n).restart is RestartClass.RELOAD]
        left = lambda: self._sentry.left_files  # noqa: E731 - asked for at each change
        resets = {name: knob.resets for name, knob in self.catalog.knob.items() if knob.resets}
        self._files = Files(self._reach, self._places, words, reloads, self._live, resets, left, self._text)
        return Parts(
            channel=self._files,
            identity=self._picture,
            lock=ServerLock(self._reach.owner),
            log=self.catalog.log,
            noun="program",
        )

    @property
    def needs_disk(self) -> bool:
        """See `DiskTarget`."""
        return any(needs_disk(channel.path) or needs_mount(channel.path) for channel in self._channels)

    def use_disk(self, folders: Sequence[Path]) -> None:
        """See `DiskTarget`; what is known stays."""
        if not self.needs_disk:
            return
        names = {**names_of_folders(folders), **self.settings.names}
        self.settings = self.settings.model_copy(update={"names": names})
        for channel in self._channels:
            channel.path = Path(filled(str(channel.path), names))

    def _channel_at(self, name: str, path: Path) -> FileChannel:
        defaults = {
            self.catalog.address_of(knob): self._literal(example := self._example_knob(knob), example.default)
            for knob in self.catalog.knob
            if self.catalog.channel_of(knob) == name
        }
        url = lambda: self._reach.filled("{url}")  # noqa: E731 - asked for when it runs
        return make_channel(name, self.catalog, path, self._reach.host, defaults, url)

    @cached_property
    def _example(self) -> Bounds:
        return self._some_bounds()

    def _bounds(self, states: Mapping[str, KnobState] | None = None) -> Bounds:
        cores = self._example["cores"] if self._reach.is_here else float(self.limits.cores)
        return {**self._example, "memory": float(self.budget_bytes), "cores": cores}

    @cached_property
    def _knobs(self) -> dict[tuple[object, ...], Knob]:
        """Those that were made so far, by what they are made of, which hardly ever differs."""
        return {}

    def _knob(self, name: str, bounds: Bounds) -> Knob:
        key = name, self._shown.key, *bounds.values()
        if key not in self._knobs:
            entry, table = self._shown.entry(name), self.catalog.channel[self.catalog.channel_of(name)]
            must_restart = self._reach.runs and self.settings.reload is None and not table.counts_at_once
            knob = knob_of(name, entry, bounds, must_restart=must_restart)
            if table.tables and self._is_users_table(name) and knob.safety is SafetyClass.PERFORMANCE:
                knob = replace(knob, safety=SafetyClass.SEMANTICS)
            self._knobs[key] = knob
        return self._knobs[key]

    def _is_users_table(self, name: str) -> bool:
        """Whether a knob is an option of a table of the user's, whose schema is not ours."""
        return table_of(str(self._paths[self.catalog.channel_of(name)])) is not None

    def _example_knob(self, name: str) -> Knob:
        return self._knob(name, self._example)

    def _literal(self, knob: Knob, value: Value) -> str:
        return literal(knob, self.catalog.knob[knob.name], self.catalog.units, value)

    def _parsed(self, knob: Knob, text: str) -> Value:
        knows_case = self._places[knob.name].channel.codec.KNOWS_CASE
        entry, units, must_mean = self.catalog.knob[knob.name], self.catalog.units, self.settings.read is not None
        return parse_literal(knob, entry, units, text, knows_case=knows_case, must_mean=must_mean)

    def _look(self) -> Mapping[str, KnobState]:
        return self.states()

    def states(self) -> Mapping[str, KnobState]:
        """Every knob of the catalogue, with the value in use.

        A value as found that the catalogue does not know locks its knob. What runs during a study may be ours: under another
        collector, say, Java shows other defaults.

        Raises:
            TargetError: a file cannot be read or understood.
        """
        bounds = self._bounds()
        may = self.settings.allow_restart
        no_restart = self._reach.no_restart if may else "needs a restart, and allow_restart = false"
        self._shown.look(self._files.named, self._base.values if self._base is not None else {})
        states: dict[str, KnobState] = {}
        for channel in self._channels:
            mine = {name: place.address for name, place in self._places.items() if place.channel is channel}
            copy = channel.read()
            kept = self._base.files if self._base is not None else {}
            place = file_from_json(kept[str(channel.path)]) if str(channel.path) in kept else copy
            found, missing = channel.values(copy, list(mine.values())), channel.missing(copy)
            in_use = self._says.values(channel, list(mine.values()))
            for name, address in mine.items():
                knob = self._live.fitting(channel.fitting(self._says.fitting(self._knob(name, bounds)), copy), states)
                located = found.get(address)
                there = self._places[name].located(found)
                in_file = there.value if there is not None else None
                text = self._says.text(channel, in_use, self._places[name], in_file)
                text = self._shown.text(name) if text is None else text
                running = self._parsed(knob, text) if text is not None else knob.default
                was = running if self._base is None else self._base.values.get(name, running)
                low, high = vendor_range(self.catalog.knob[name], knob, running)
                states[name] = KnobState(
                    knob=knob,
                    running=running,
                    source=channel.keeps if located is not None else "default",
                    source_file=channel.place(located.line) if located is not None else "",
                    is_curated=True,
                    lock_reason=missing
                    or self._says.lacks(name, in_use)
                    or self._says.beside(name, channel, place)
                    or self._shown.why_not(name)
                    or (self._no_place(channel, place, knob, address) if located is None else located.fixed)
                    or (unknown_choice(knob, was) if self._knows_all(channel, knob) else "")
                    or unknown_value(self.catalog.knob[name], knob, was)
                    or (stand_in_reason(knob, self.catalog.knob[name], self.catalog.units, text) if text else "")
                    or lock_reason(
                        knob, self.settings.unlock, no_restart and self._live.why_not(name, no_restart, states)
                    ),
                    vendor_low=low,
                    vendor_high=high,
                )
        return {name: states[name] for name in self.catalog.knob}

    def _told_values(self) -> Mapping[str, Value]:
        """The values in use, of the knobs of those channels whose values the program itself tells."""
        told = {each for each, table in self.catalog.channel.items() if table.read or self.settings.read is not None}
        states = self.states() if told else {}
        return {name: state.running for name, state in states.items() if self.catalog.channel_of(name) in told}

    def _knows_all(self, channel: FileChannel, knob: Knob) -> bool:
        """Whether a choice that the catalogue does not have was made on purpose: what it means for users is not known."""
        return channel.is_live or not channel.is_lasting or knob.safety is not SafetyClass.PERFORMANCE

    def _no_place(self, channel: FileChannel, copy: FileCopy | None, knob: Knob, address: str) -> str:
        """Why an address that the file does not have cannot be added; "" when it can."""
        if (former := self.catalog.knob[knob.name].formerly) and (why := self._says.why_renamed(channel, copy, former)):
            return why
        can_lack = channel.is_lasting or channel.is_live
        return channel.no_place(copy, address, self._literal(knob, knob.default)) if can_lack else ""

    def _picture(self) -> Picture:
        files = {str(channel.path): file_digest(channel.read()) for channel in self._channels}
        instance = self._reach.instance
        return Picture(
            who={"machine": machine_mark(), "instance": instance},
            noun="program",
            instance=instance,
            files=files,
            ours=frozenset(files),
            settings=self._shown_values(),
        )

    def _shown_values(self) -> Mapping[str, tuple[str, str]]:
        is_told = self.settings.read is not None or any(table.read for table in self.catalog.channel.values())
        if not is_told or (self._reach.runs and self._reach.pid is None):
            return {}  # one that has died uses none: what its files leave open is not known
        try:
            states = self.states()
        except FileFaultError:
            return {}  # somebody has written what cannot be understood: that the file is another one says enough
        return {name: (state.knob.format(state.running), "in use") for name, state in states.items()}

    def _version(self) -> str:
        return self.catalog.kind

    def announce(self, config: Config) -> Own:
        """As `System.announce`, with what a file must name beside."""
        return super().announce(self._files.whole(config, self._base))

    def apply(self, config: Config, *, stays: bool = False) -> Applied:
        """As `System.apply`, with what a file must name beside."""
        base = self._base if self._base is not None else self.snapshot()
        done = super().apply(self._files.whole(config, base), stays=stays)
        return replace(done, effective={name: done.effective[name] for name in config})

    def _check(self, config: Config, states: Mapping[str, KnobState]) -> None:
        # A change is written over the files as found: what an earlier trial has left in them does not count.
        base, config = self._base, self._files.whole(config, self._base)
        found = {name: state.running for name, state in states.items()} if base is None else base.values
        kept = {} if base is None else base.files
        files = {c: file_from_json(kept[at]) if (at := str(c.path)) in kept else c.read() for c in self._channels}
        off = self._files.left_out(config, found, files)
        self._says.check(
            files, {c: c.changed(copy, self._files.texts_for(c, config, off)) for c, copy in files.items()}
        )

    def where(self) -> Mapping[str, str]:
        """Which program, which files are changed, and what restarts it, for people."""
        s = self.settings
        by_two = f"{s.stop}; {s.start}" if s.stop is not None and s.start is not None else ""
        return {
            "server": f"{self.catalog.kind} (catalog={self._where!r})",
            "files": ", ".join(str(path) for path in self._files.files),
            "restart": redact(
                s.restart or by_two or (f"Trimtab runs it: {s.run}" if s.run is not None else self._reach.no_restart)
            ),
        }

    def endpoint(self) -> Endpoint:
        """How a load reaches it: commands may use the values in use as {NAME}."""
        found = self._reach.endpoint()
        states = self.states()
        values = {f"value.{name}": self._literal(state.knob, state.running) for name, state in states.items()}
        tables = self._table_options(states)
        can_copy = not tables.get("tables.changed") and self._reach.pid is not None
        copies = copy_options(self.catalog, self.settings.knobs, states, self._live) if can_copy else {}
        return replace(found, options={**found.options, **values, **tables, **copies})

    def _table_options(self, states: Mapping[str, KnobState]) -> Mapping[str, str]:
        """How a load is to make its own tables, and the knobs that make them unlike others; {} where it need not ask."""
        own = next((channel for channel in self._channels if isinstance(channel, OwnTables)), None)
        if own is None:
            return {}
        values = {name: state.running for name, state in states.items()}
        texts = self._whole_options(own, values)
        plain = self._whole_options(own, {**values, **{n: states[n].knob.default for n in self._knobs_of(own)}})
        is_plain = {n: texts.get(at := self._places[n].address) == plain.get(at) for n in self._knobs_of(own)}
        changed = [f"{name}={values[name]}" for name, is_same in is_plain.items() if not is_same]
        return {"tables": with_clause(texts), "tables.changed": ", ".join(changed)}

    def _knobs_of(self, channel: FileChannel) -> list[str]:
        return [name for name, place in self._places.items() if place.channel is channel]

    def _whole_options(self, channel: FileChannel, values: Mapping[str, Value]) -> dict[str, str]:
        """Address -> text of all options of the channel that have an effect with these values of all knobs."""
        mine = {name: values.get(name, self._example_knob(name).default) for name in self._knobs_of(channel)}
        return self._files.texts_for(channel, mine, inactive(mine, values, self._example_knob))

    def _memory_facts(self) -> Mapping[str, float]:
        return {**self._says.facts(), **self._pending.facts()}

    def _absent(self) -> Collection[str]:
        return self._says.absent(self._places) if self.catalog.memory else ()

    def _unfelt(self, context: Context) -> Collection[str]:
        return self._says.unfelt()

    def counters(self) -> Mapping[str, float]:
        """What it counts of its own work, where a command tells."""
        return self._reach.counters()

    @property
    def warmup_floor_s(self) -> float:
        """See `WarmingTarget`; what it compiles shows better than any time that is right for another machine."""
        is_shown = self.settings.warmup_floor is None and self.compile_s() is not None
        return 0.0 if is_shown else super().warmup_floor_s

    @property
    def compiles(self) -> bool:
        """See `CompilingTarget`."""
        return bool(self.catalog.compilers)

    def compile_s(self) -> float | None:
        """See `CompilingTarget`."""
        pid = self._reach.pid
        return self._compilers.seconds(pid) if self.compiles and pid is not None else None

    def notes(self) -> tuple[str, ...]:
        """What people should know before tuning starts."""
        where, losses = self._reach.no_later_login(), self._pending.losses(self.states(), can_restart=self._can_restart)
        later = doctor.later_login_notes(where, doctor.PASSWORD_FILES)
        return (*self._pending.unread(), *self._says.unread(), *losses, *later)

    def plays(self, context: Context, latency_s: float) -> tuple[Play, ...] | None:
        """What the catalogue says that an expert would try here; None when it says nothing of the kind."""
        if not self.catalog.play:
            return None
        states = self.states()
        facts = play_facts(context, self.machine(), self._bounds(states), latency_s=latency_s)
        return fitting_plays(self.catalog.play, states, facts)

    def fragment(self, config: Config) -> str:
        """`config` in the syntax of the program's files, one part for each file."""
        parts, config = [], self._files.whole(config, self._base)
        found = self._base.values if self._base is not None else {}
        off = inactive(config, found, self._example_knob)
        for channel in self._channels:
            if texts := self._files.texts_for(channel, config, off):
                names = {place.address: name for name, place in self._places.items() if place.channel is channel}
                parts.append(channel.fragment(texts, names))
                if isinstance(channel, OwnTables):
                    whole, options = self._whole_options(channel, {**found, **config}), {*map(option_of, texts)}
                    parts.append(channel.statement({at: t for at, t in whole.items() if option_of(at) in options}))
        return "".join(parts)

    def _folders(self) -> Iterator[Path]:
        yield from [self._reach.folder] if self._reach.is_here else []

    def data_bytes(self) -> int | None:
        """Not known."""
        return None

    def doctor(self) -> Sequence[tuple[str, bool, str]]:
        """(check, is_fine, explanation) lines; changes nothing."""
        states = self.states()
        unread = self._pending.unread() or self._says.unread()
        notes = unread or self._pending.differing(states, can_restart=self._can_restart)
        pid = self._reach.pid
        lines = [
            ("program", True, f"{self.catalog.kind}, {f'pid={pid}' if pid is not None else 'always there'}"),
            *file_lines(self._channels, self._files.files),
            *named_disk_lines(self.settings.names.get("disk", ""), self.catalog.channel.values()),
            ("values", not notes, "; ".join(notes) or "as the program uses them"),
        ]
        if any(state.knob.restart is not RestartClass.RELOAD for state in states.values()):
            lines.append(doctor.restart_line(self._reach.no_restart, self.settings.restart))
        lines += doctor.loss_lines(self._pending.losses(states, can_restart=self._can_restart))
        lines += self._live.doctor_lines(states)
        if self._reach.start_s is not None:
            lines.append(("start", True, f"{self._reach.start_s:.1f} s from its start to its first answer"))
        if self.warmup_floor_s or self.compiles:
            lines.append(doctor.warmup_line(self.warmup_floor_s, is_compiled=self.compile_s() is not None))
        if self.settings.passwords:
            lines.append(doctor.recover_line(self._reach.no_later_login(), doctor.PASSWORD_FILES))
        if self.catalog.memory:
            lines += self._memory_lines(states)
        return (*lines, *doctor.disk_lines(self._reach.host, self._reach.folder), doctor.knob_line(states))
