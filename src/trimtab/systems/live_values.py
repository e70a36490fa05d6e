"""LiveValues: settings of a Java program that change while it runs, by its management beans (JMX)."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.space import Knob, RestartClass, Value
from trimtab.systems.account import cache_root
from trimtab.systems.base import KnobState
from trimtab.systems.catalog import Catalog
from trimtab.systems.command_lifecycle import AlwaysThere
from trimtab.systems.java import require_java
from trimtab.systems.placeholder import filled
from trimtab.units import counted

__all__ = ["LiveValues"]

_CLASS = "SetLive"
_COMPILE_S = 60.0
_SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx64m")
"""Options for a Java that is to start fast and ends at once."""


class LiveValues:
    """The settings of the catalogue with `live`. A Java program of ours attaches to the process, as jcmd does, and sets them.

    It is compiled at its first use and kept in the cache. A process that lets nobody attach, or a Java without a compiler, has no
    such settings: they change by a restart.

    Args:
        catalog: what changes each.
        reach: the way to the program.
    """

    def __init__(self, catalog: Catalog, reach: AlwaysThere) -> None:
        self._changes = {name: knob.live for name, knob in catalog.knob.items() if knob.live}
        self._watchers = {name: catalog.channel[catalog.channel_of(name)].watched_if for name in catalog.knob}
        self._reach = reach
        self._can_attach: bool | None = None
        self._why_not = ""

    @property
    def known(self) -> Collection[str]:
        """All that the catalogue knows, whatever the program that runs now lets us do."""
        return self._changes.keys()

    @property
    def knobs(self) -> frozenset[str]:
        """Those that can be set live."""
        return frozenset(self._changes) if self._changes and self.can_attach else frozenset()

    @property
    def can_attach(self) -> bool:
        """Whether the program lets us in, as far as that is known: the first process that runs is tried. A program of which no
        process is known does not."""
        if self._can_attach is None and self._reach.pid is not None:
            try:
                self._run([])
                self._can_attach = True
            except TargetError as error:
                self._can_attach, self._why_not = False, error.message
        return self._reach.runs and self._can_attach is not False

    def watcher(self, name: str, values: Mapping[str, Value]) -> str:
        """The knob because of which a program with these values in use watches the file of `name`; "" if it does not."""
        watcher = self._watchers.get(name, "")
        return watcher if values.get(watcher) is True else ""

    def doctor_lines(self, states: Mapping[str, KnobState]) -> Sequence[tuple[str, bool, str]]:
        """For doctor: how many change live, or why none does; nothing where the catalogue has none, or nothing runs."""
        if not self._changes or self._reach.pid is None:
            return ()
        if not self.can_attach:
            return (("live", True, f"every change takes a restart: {self._why_not}"),)
        values = _running(states)
        watchers = [watcher for name in self._changes if (watcher := self.watcher(name, values))]
        count = counted(len(self._changes) - len(watchers), "setting")
        more = f", {len(watchers)} more with {watchers[0]}={states[watchers[0]].knob.format(False)}" if watchers else ""
        return (("live", True, f"{count} may change while the program runs{more}"),)

    def why_not(self, name: str, no_restart: str, states: Mapping[str, KnobState]) -> str:
        """`no_restart`, why a knob cannot be changed by a restart, with why it cannot be changed live where it might be."""
        if no_restart and name in self._changes and (watcher := self.watcher(name, _running(states))):
            return f"{no_restart}, as long as the program watches its file ({watcher})"
        return f"{no_restart}; {self._why_not}" if self._why_not and name in self._changes else no_restart

    def fitting(self, knob: Knob, states: Mapping[str, KnobState]) -> Knob:
        """The knob, which takes no restart where it can be set live; `states` are those of the channels further up."""
        is_live = knob.name in self.knobs and not self.watcher(knob.name, _running(states))
        return replace(knob, restart=RestartClass.RELOAD) if is_live else knob

    def set(self, values: Mapping[str, Value]) -> None:
        """Sets them in the process that runs, numbers in their knob's unit.

        Raises:
            TargetError: one is refused, or the process cannot be reached; those before it are set.
        """
        if not values:
            return
        words = []
        for name, value in values.items():
            bean, _, change = self._changes[name].partition(" ")
            text = str(value).lower() if isinstance(value, bool) else str(value)
            words += [bean, filled(change, {"value": text}) if "(" in change else f"{change}={text}"]
        self._run(words)

    def command(self, change: str) -> str:
        """What calls an operation of a bean in the process that runs, as one text; {NAME}s in it are left for others to fill.

        Raises:
            TargetError: there is no process, or no compiler.
        """
        return shlex.join(self._reach.words(self._call(list(change.partition(" ")[::2]))))

    def _call(self, words: list[str]) -> str:
        pid = self._reach.pid
        if pid is None:
            raise TargetError("the program is down: nothing can be set in it", hint="see its log")
        return f"{{java}} {shlex.join([*_SMALL, '-cp', str(self._compiled()), _CLASS, str(pid), *words])}"

    def _run(self, words: list[str]) -> None:
        pid = self._reach.pid
        if pid is not None:
            require_java(pid)
        result = self._reach.ask(self._call(words))
        if result.exit_code != 0:
            raise TargetError(
                f"nothing can be set in the running program pid={pid}: {result.output.strip()[-500:]}",
                hint="does it run with -XX:+DisableAttachMechanism, or as another user?",
            )

    def _compiled(self) -> Path:
        """The folder with the class.

        Raises:
            TargetError: this Java has no compiler, or the cache cannot be written.
        """
        source = (files("trimtab.catalog") / "java" / f"{_CLASS}.java").read_bytes()
        home = cache_root() / "programs" / f"live-{hashlib.sha256(source).hexdigest()[:16]}"
        if (home / f"{_CLASS}.class").exists():
            return home
        try:
            home.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="live.", dir=home.parent) as scratch:
                fresh = self._made(source, Path(scratch))
                fresh.rename(home)
        except OSError as error:
            if not home.exists():  # another Trimtab may have made it meanwhile
                raise TargetError(
                    f"cannot write folder={str(home)!r}: {error.strerror}", hint="set TRIMTAB_CACHE"
                ) from error
        return home

    def _made(self, source: bytes, scratch: Path) -> Path:
        """A folder with the class, compiled in `scratch`; others may read it, for the program's user runs it."""
        fresh, path = scratch / "classes", scratch / f"{_CLASS}.java"
        fresh.mkdir()
        path.write_bytes(source)
        compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", "11", "-d", str(fresh), str(path)]
        result = self._reach.host.run(self._reach.words(f"{{java}} {shlex.join(compiler)}"), timeout_s=_COMPILE_S)
        if result.exit_code != 0:
            raise TargetError(f"this Java compiles nothing: {result.output[-500:]}", hint="install a JDK")
        fresh.chmod(0o755)
        (fresh / f"{_CLASS}.class").chmod(0o644)
        return fresh


def _running(states: Mapping[str, KnobState]) -> Mapping[str, Value]:
    return {name: state.running for name, state in states.items()}
