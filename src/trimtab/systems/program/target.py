"""ProgramTarget: any program with configuration files, described by a catalogue alone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from trimtab.errors import ApplyError, ForeignChangeError, UsageError
from trimtab.host import FileCopy, available_memory_bytes, oom_kills, process_use, swapped_bytes, volume_uses
from trimtab.records import Context, Endpoint
from trimtab.space import Config, Constraint, Knob, RestartClass, Value
from trimtab.systems.base import Applied, KnobState, Own, Restarts, Snapshot, Undone, Vitals
from trimtab.systems.catalog import Catalog, parse_catalog, read_catalog
from trimtab.systems.codec import Located
from trimtab.systems.doctor import disk_lines, knob_line, memory_lines, restart_line
from trimtab.systems.file_channel import FileChannel
from trimtab.systems.files import file_digest, file_from_json, file_to_json
from trimtab.systems.foreign import STOPPED
from trimtab.systems.gate import check_config
from trimtab.systems.literal import literal, parse_literal
from trimtab.systems.lock import ServerLock
from trimtab.systems.memory import MemoryModel
from trimtab.systems.overlay import Bounds
from trimtab.systems.program import knobs
from trimtab.systems.program.reach import Reach, make_reach
from trimtab.systems.program.sentry import Sentry
from trimtab.systems.program.settings import Settings, read_settings
from trimtab.systems.program.undo import Place, take_back
from trimtab.systems.selection import select
from trimtab.systems.server import ServerTarget
from trimtab.systems.settings import full_path

__all__ = ["ProgramTarget"]


class _FileLock(ServerLock[Any]):
    """A program has no lock inside: the locked file is all there is."""

    def _take(self, connection: Any, holder: str) -> str | None:
        return None

    def _answers(self, connection: Any) -> bool:
        return True


class ProgramTarget(ServerTarget[Settings, Reach]):
    """Any program with configuration files: run by Trimtab, started by commands, or always there. A `Target`.

    Args:
        name: of the table in the study file.
        settings: the table, checked.
        text: of the catalogue.

    Attributes:
        catalog: what the system is.
        SETTINGS: model of the table, for the reference page.
    """

    kind = "program"
    SETTINGS = Settings
    _sentry: Sentry

    def __init__(self, name: str, settings: Settings, text: str) -> None:
        self.catalog: Catalog = parse_catalog(text, name=settings.catalog)
        self._catalog_text = text
        self._paths = _paths(name, settings, self.catalog)
        super().__init__(name, settings, make_reach(name, settings, list(self._paths.values())))
        self._channels = [self._channel(channel, path) for channel, path in self._paths.items()]
        by_name = {channel.name: channel for channel in self._channels}
        self._places = {
            knob: Place(by_name[self.catalog.channel_of(knob)], self.catalog.address_of(knob))
            for knob in self.catalog.knob
        }
        self._sentry = Sentry(self._reach, self.catalog, self._channels, self._shown_values)
        self._lock = _FileLock(self._reach.owner, lambda: _Nothing())

    @classmethod
    def from_settings(
        cls, name: str, settings: Mapping[str, Any], *, state_dir: Path, directory: Path | None = None
    ) -> ProgramTarget:
        """A target from its [target.NAME] table, whose paths are relative to `directory`; touches nothing.

        Raises:
            UsageError: an unknown key, a wrong value, or a catalogue with a fault.
        """
        table = read_settings(name, settings, directory)
        return cls(name, table, read_catalog(Path(table.catalog)))

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, *, state_dir: Path) -> ProgramTarget:
        """The target that a journalled snapshot came from; it holds the catalogue of then."""
        return cls(
            snapshot.target, read_settings(snapshot.target, snapshot.reach["settings"]), snapshot.reach["catalog"]
        )

    def _channel(self, name: str, path: Path) -> FileChannel:
        defaults = {
            self.catalog.address_of(knob): self._literal(
                self._knob(knob, self._example), self._knob(knob, self._example).default
            )
            for knob in self.catalog.knob
            if self.catalog.channel_of(knob) == name
        }
        return FileChannel(name, self.catalog.channel[name], path, self._reach.host, defaults)

    @cached_property
    def _example(self) -> Bounds:
        return self._bounds_with(1.0)

    @property
    def _bounds(self) -> Bounds:
        return {**self._example, "memory": float(self.budget_bytes)}

    def _knob(self, name: str, bounds: Bounds) -> Knob:
        entry = self.catalog.knob[name]
        must_restart = self._reach.runs and self.settings.reload is None
        return knobs.knob_of(name, entry, bounds, must_restart=must_restart)

    def _literal(self, knob: Knob, value: Value) -> str:
        return literal(knob, self.catalog.knob[knob.name], self.catalog.units, value)

    def _parsed(self, knob: Knob, text: str) -> Value:
        return parse_literal(knob, self.catalog.knob[knob.name], self.catalog.units, text)

    def _look(self) -> Mapping[str, KnobState]:
        return self.states()

    def states(self) -> Mapping[str, KnobState]:
        """Every knob of the catalogue, with the value in use.

        Raises:
            TargetError: a file cannot be read or understood.
        """
        bounds, can_read = self._bounds, self.settings.read is not None and self._reach.is_up()
        no_restart = (
            self._reach.no_restart if self.settings.allow_restart else "needs a restart, and allow_restart = false"
        )
        states = {}
        for channel in self._channels:
            mine = {name: place.address for name, place in self._places.items() if place.channel is channel}
            found = channel.values(channel.read(), list(mine.values()))
            in_use = self._reach.values(list(mine.values())) if can_read else {}
            for name, address in mine.items():
                knob, located = self._knob(name, bounds), found.get(address)
                text = in_use.get(address, located.value if located is not None else None)
                running = self._parsed(knob, text) if text is not None else knob.default
                low, high = knobs.vendor_range(self.catalog.knob[name], knob, running)
                states[name] = KnobState(
                    knob=knob,
                    running=running,
                    source="configuration file" if located is not None else "default",
                    source_file=f"{channel.path}:{located.line}" if located is not None else "",
                    is_curated=True,
                    lock_reason=knobs.lock_reason(knob, self.settings.unlock, no_restart),
                    vendor_low=low,
                    vendor_high=high,
                )
        return {name: states[name] for name in self.catalog.knob}

    def _shown_values(self) -> Mapping[str, tuple[str, str]]:
        if self.settings.read is None:
            return {}
        return {name: (state.knob.format(state.running), "in use") for name, state in self.states().items()}

    def _version(self) -> str:
        return self.catalog.kind

    def selection(self, context: Context) -> tuple[str, ...]:
        """The knobs that the settings ask to tune.

        Raises:
            UsageError: an unknown name, or one that is named and locked.
        """
        reads_only = context.read_share == 1.0
        return select(self.settings.knobs, self.states(), self.catalog, reads_only=reads_only, skips_absent=False)

    def advise(self, context: Context) -> Config:
        """The catalogue's advice."""
        return knobs.advised(self.catalog, self.states(), self._bounds, context)

    def constraints(self, names: Sequence[str], context: Context) -> tuple[Constraint, ...]:
        """The catalogue's constraints and the memory budget over those of `names` that matter."""
        return knobs.constraints(self.catalog, names, self._states_as_found(), self._bounds, context)

    def memory(self, context: Context) -> MemoryModel:
        """The catalogue's [memory] over the values as found."""
        return knobs.model(self.catalog, self._states_as_found(), self._bounds, context)

    def preflight(self, config: Config) -> None:
        """Everything that can be known without changing anything: types, ranges, constraints, and that the files can hold it.

        Raises:
            ApplyError: the config cannot work, with the reason.
        """
        states = self._states_as_found()
        check_config(config, states)
        knobs.require_met(self.catalog, config, states, self._bounds)
        for channel in self._channels:
            channel.changed(channel.read(), self._texts_for(channel, config))

    def _texts_for(self, channel: FileChannel, config: Mapping[str, Value]) -> dict[str, str]:
        """Address -> text of the knobs that are written to this channel."""
        mine = {name: self._places[name] for name in config if self._places[name].channel is channel}
        return {
            place.address: self._literal(self._knob(name, self._example), config[name]) for name, place in mine.items()
        }

    def snapshot(self) -> Snapshot:
        """The files and values as they are; later applies count from here."""
        files = {str(channel.path): file_to_json(channel.read()) for channel in self._channels}
        values = {name: state.running for name, state in self.states().items()}
        reach = {"settings": self.settings.public(), "catalog": self._catalog_text}
        found = Snapshot(target=self.name, kind=self.kind, reach=reach, files=files, values=values)
        self._base = replace(found, picture=self._sentry.begin())
        return self._base

    def _texts(self, knob: Knob, value: Value) -> tuple[str, ...]:
        return (self._literal(knob, value),)

    def _set(self, config: Config, states: Mapping[str, KnobState], base: Snapshot, *, stays: bool) -> Applied:
        started, changed, written = time.monotonic(), set[str](), dict[FileChannel, str]()
        for channel in self._channels:
            now, found = channel.read(), file_from_json(base.files[str(channel.path)])
            left = self._sentry.left_files.get(str(channel.path), file_digest(found))
            self._require_ours(channel, file_digest(now), left, file_digest(found))
            goal = channel.changed(found, self._texts_for(channel, config))
            if goal == now:
                continue
            changed |= self._differing(channel, now, goal)
            channel.put(goal)
            written[channel] = file_digest(channel.read())
        restarted = self._into_effect(changed, states)
        for channel, digest in written.items():
            self._require_ours(channel, file_digest(channel.read()), digest, digest)
        self._reach.health()
        effective = {name: state.running for name, state in self.states().items() if name in config}
        for name, value in config.items():
            if effective[name] != value and effective[name] == base.values[name]:
                raise ApplyError(
                    f"the program still uses {name}={effective[name]!r}, not {value!r}",
                    hint='does a reload change it? if not, write restart = "restart" in the catalogue',
                )
        return Applied(effective=effective, restarted=restarted, duration_s=time.monotonic() - started)

    def _require_ours(self, channel: FileChannel, now: str, *known: str) -> None:
        """That nobody else has written the file: its digest is one of those that we have seen or left.

        Raises:
            ForeignChangeError: somebody has.
        """
        if now not in known:
            raise ForeignChangeError(
                f"file={str(channel.path)!r} was changed by somebody else while Trimtab changed it", hint=STOPPED
            )

    def _differing(self, channel: FileChannel, now: FileCopy | None, goal: FileCopy | None) -> set[str]:
        """The knobs that have another value in `goal` than `now`."""
        mine = {name: place.address for name, place in self._places.items() if place.channel is channel}
        before, after = (channel.values(copy, list(mine.values())) for copy in (now, goal))

        def value(name: str, values: Mapping[str, Located]) -> Value:
            knob, located = self._knob(name, self._example), values.get(mine[name])
            return self._parsed(knob, located.value) if located is not None else knob.default

        return {name for name in mine if value(name, before) != value(name, after)}

    def _into_effect(self, changed: set[str], states: Mapping[str, KnobState]) -> bool:
        """Makes the program use what its files say; whether it was restarted or started."""
        if not self._reach.is_up():
            self._reach.ensure_up()
            return True
        if any(states[name].knob.restart is not RestartClass.RELOAD for name in changed):
            self._reach.restart()
            return True
        if changed:
            self._reach.reload()
        return False

    def _require_lasting(self) -> None:
        kernel = [str(channel.path) for channel in self._channels if not channel.is_lasting]
        if kernel:
            raise ApplyError(
                f"the config cannot be made to stay: file={kernel[0]!r} is empty again after a restart of the machine",
                hint="put the printed settings into /etc/sysctl.d",
            )

    def _take_back(self, snapshot: Snapshot, own: Own, restarts: Restarts) -> Undone:
        reloads = [n for n in self._places if self._knob(n, self._example).restart is RestartClass.RELOAD]
        return take_back(self._reach, self._places, snapshot, own, restarts, reloads)

    @property
    def _own_files(self) -> Sequence[Path]:
        return list(self._paths.values())

    def where(self) -> Mapping[str, str]:
        """Which program, which files are changed, and what restarts it, for people."""
        s = self.settings
        by_two = f"{s.stop}; {s.start}" if s.stop is not None and s.start is not None else ""
        return {
            "server": f"{self.catalog.kind} (catalog={s.catalog!r})",
            "files": ", ".join(str(path) for path in self._own_files),
            "restart": s.restart
            or by_two
            or (f"Trimtab runs it: {s.run}" if s.run is not None else self._reach.no_restart),
        }

    def endpoint(self) -> Endpoint:
        """How a load reaches it: commands may use the values in use as {NAME}."""
        found = self._reach.endpoint()
        values = {f"value.{name}": self._literal(state.knob, state.running) for name, state in self.states().items()}
        return replace(found, options={**found.options, **values})

    def health(self) -> None:
        """That the program serves.

        Raises:
            TargetError: it does not.
        """
        self._reach.health()

    def notes(self) -> tuple[str, ...]:
        """What people should know before tuning starts."""
        if not self._reach.runs or self.settings.read is not None or self._reach.began_after(self._own_files):
            return ()
        return (
            "the configuration files were written after the program began: it may use other values than they say."
            " Restart it, or give a read command",
        )

    def fragment(self, config: Config) -> str:
        """`config` as text for the program's files."""
        parts = []
        for channel in self._channels:
            texts = self._texts_for(channel, config)
            if texts:
                names = {place.address: name for name, place in self._places.items() if place.channel is channel}
                lines = "".join(f"{names[address]}: {address} = {text}\n" for address, text in texts.items())
                parts.append(f"# {channel.path} ({channel.codec.name})\n{lines}")
        return "".join(parts)

    def vitals(self) -> Vitals:
        """What program and machine use now; see `Watchable`."""
        pid = self._reach.pid
        use = process_use(pid) if pid is not None else None
        return Vitals(
            memory_bytes=use.memory_bytes if use is not None else None,
            memory_limit_bytes=self.settings.memory,
            available_bytes=available_memory_bytes(),
            swap_bytes=use.swap_bytes if use is not None else None,
            swapped_bytes=swapped_bytes(),
            oom_kills=oom_kills(pid) if pid is not None else None,
            volumes=volume_uses([self._reach.folder]),
        )

    def data_bytes(self) -> int | None:
        """Not known."""
        return None

    def unwatch(self) -> None:
        """Nothing is kept open."""

    def doctor(self) -> Sequence[tuple[str, bool, str]]:
        """(check, is_fine, explanation) lines; changes nothing."""
        states = self.states()
        bounds = self._bounds

        def total_with(clients: int) -> float:
            return knobs.model(self.catalog, states, bounds, Context("", clients=clients)).total({})

        notes = self.notes()
        pid = self._reach.pid
        lines = [
            (
                "program",
                True,
                f"{self.catalog.kind}, pid={pid}" if pid is not None else f"{self.catalog.kind}, always there",
            ),
            *((f"file {channel.name}", True, f"{channel.path} ({channel.codec.name})") for channel in self._channels),
            ("values", not notes, notes[0] if notes else "as the program uses them"),
            restart_line(self._reach.no_restart),
        ]
        if self.catalog.memory:
            lines += memory_lines(total_with, self.budget_bytes, self.limits, is_limited=False)
        return (*lines, *disk_lines(self._reach.host, self._reach.folder), knob_line(states))


class _Nothing:
    """In place of a connection."""

    def close(self) -> None:
        """Nothing is open."""


def _paths(name: str, settings: Settings, catalog: Catalog) -> dict[str, Path]:
    """Channel -> absolute path: of the study file, else of the catalogue, relative to that."""
    for channel in settings.files:
        if channel not in catalog.channel:
            raise UsageError(
                f"[target.{name}] files names {channel!r}, which is not a channel of catalog={settings.catalog!r}",
                hint=f"its channels are: {', '.join(catalog.channel)}",
            )
    found = {}
    for channel, table in catalog.channel.items():
        text = settings.files.get(channel) or table.path
        if not text:
            raise UsageError(
                f"[target.{name}] lacks the path of channel={channel!r}", hint=f'add files = {{ {channel} = "/path" }}'
            )
        found[channel] = Path(full_path(text, Path(settings.catalog).parent))
    return found
