"""CommandWorkload: a command of the user's as a load, on any target."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from trimtab.errors import LoadError
from trimtab.host import kill_group
from trimtab.records import Context, Endpoint
from trimtab.workload.base import LoadRun, Preparation, StartState
from trimtab.workload.command.run import CommandRun, tail
from trimtab.workload.command.settings import CommandSettings, filled, parse_settings, places_in
from trimtab.workload.server import ANY_TARGET

__all__ = ["CommandWorkload"]

_VALUE = "value."
"""Of an endpoint's options: the settings in use of a target that is a program."""


class CommandWorkload:
    """Runs a command against the config again and again: what it takes, or says, is what is measured. A `Workload`.

    Args:
        settings: the table, checked.
    """

    kind: ClassVar[str] = "command"
    protocols: ClassVar[tuple[str, ...]] = ANY_TARGET

    def __init__(self, settings: CommandSettings) -> None:
        self.settings = settings

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, directory: Path | None = None) -> CommandWorkload:
        """A workload from its [workload] table; commands run in `directory`.

        Raises:
            UsageError: an unknown key or a wrong value.
        """
        return cls(parse_settings(settings, directory or Path()))

    @property
    def context(self) -> Context:
        """Its program, and a digest of everything that decides what is measured."""
        s = self.settings
        text = repr((s.command, s.before, s.figure.kind, s.figure.line, s.figure.path, s.env))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return Context(
            workload=f"command {Path(s.command[0]).name} {digest}",
            clients=s.clients,
            read_share=1.0 if s.only_reads else 0.5,
        )

    def prepare(self, endpoint: Endpoint, report: Callable[[str], None]) -> Preparation:
        """Checks that the commands can be run.

        Raises:
            LoadError: a program is missing, or a {name} has no value.
        """
        for key, words in (("command", self.settings.command), ("before", self.settings.before)):
            if not words:
                continue
            argv = self._argv(key, words, endpoint, seed=0)
            if shutil.which(argv[0], path=self._environment.get("PATH")) is None and not self._is_file(argv[0]):
                raise LoadError(
                    f"[workload] {key}={shlex.join(words)!r}: there is no program {argv[0]!r}",
                    hint="install it, or give its path",
                )
        return Preparation(0.0, 0, True, "the command brings its own data")

    def reset(self, endpoint: Endpoint, report: Callable[[str], None]) -> StartState | None:
        """Runs `before`; None when there is none.

        Raises:
            LoadError: it fails.
        """
        if not self.settings.before:
            return None
        argv, started = self._argv("before", self.settings.before, endpoint, seed=0), time.monotonic()
        shown = shlex.join(argv)
        try:
            code, printed = self._ended(argv)
        except OSError as error:
            raise LoadError(f"[workload] before={shown!r} failed: {error}", hint="run it by hand") from error
        if code != 0:
            raise LoadError(
                f"[workload] before={shown!r} failed with exit_code={code}: {printed.strip()[-500:]}",
                hint="run it by hand to see why",
            )
        return StartState(f"the command {argv[0]!r}", time.monotonic() - started)

    def _ended(self, argv: Sequence[str]) -> tuple[int, str]:
        """Exit code and what was printed of a command; when its time is over, or this is interrupted, all that it has started is
        killed with it.

        It prints into files: the end of a pipe would be that of a server which the command may have started.

        Raises:
            LoadError: it takes too long.
            OSError: it cannot be started.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                argv, cwd=self.settings.folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(self.settings.timeout_s)
            except subprocess.TimeoutExpired as error:
                end = "was killed" if _killed(process) else f"cannot be killed: pid={process.pid} is another user's"
                raise LoadError(
                    f"[workload] before={shlex.join(argv)!r} did not end within timeout={self.settings.timeout_s:g}s, and {end}",
                    hint="raise [workload] timeout, which holds for it as well",
                ) from error
            except BaseException:
                _killed(process)
                raise
            return process.returncode, tail(err) or tail(out)

    def clean_up(self, endpoint: Endpoint) -> None:
        """Nothing of ours is left behind."""

    def start(self, endpoint: Endpoint, *, seed: int, duration_s: float) -> LoadRun:
        """Starts the first run.

        Raises:
            LoadError: a {name} has no value.
        """
        s = self.settings
        return CommandRun(
            self._argv("command", s.command, endpoint, seed=seed),
            self._environment,
            s.folder,
            s.figure,
            timeout_s=s.timeout_s,
            duration_s=duration_s,
        )

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **dict(self.settings.env)}

    def _is_file(self, program: str) -> bool:
        return "/" in program and os.access(self.settings.folder / program, os.X_OK)

    def _argv(self, key: str, words: tuple[str, ...], endpoint: Endpoint, *, seed: int) -> list[str]:
        own = {
            "host": endpoint.host,
            "port": str(endpoint.port),
            "user": endpoint.user,
            "database": endpoint.database,
            "seed": str(seed),
        }
        known = own | {
            name.removeprefix(_VALUE): value for name, value in endpoint.options.items() if name.startswith(_VALUE)
        }
        for name in places_in(words):
            if name not in known:
                raise LoadError(
                    f"[workload] {key}={shlex.join(words)!r} names {{{name}}}, which has no value",
                    hint=f"use one of: {', '.join(known)}; {{{{ and }}}} are braces",
                )
        return filled(words, known)


def _killed(process: subprocess.Popen[bytes]) -> bool:
    """Ends a command that is no run; False when it goes on, for it is another user's."""
    is_killed = kill_group(process)
    if is_killed:
        process.wait()
    return is_killed
