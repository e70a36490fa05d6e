"""Lifecycles of a program that Trimtab runs itself: by the user's command, or a private one in a folder of its own."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from trimtab.errors import TargetError
from trimtab.systems.account import Account, server_account
from trimtab.systems.command_lifecycle import AlwaysThere
from trimtab.systems.command_settings import CommandSettings
from trimtab.systems.embedded_table import EmbeddedTable
from trimtab.systems.log import log_bytes
from trimtab.systems.overlay import LogWords
from trimtab.systems.own_process import OwnProcess
from trimtab.systems.private_files import forget_files
from trimtab.systems.private_place import PrivatePlace
from trimtab.systems.user_lifecycle import CommandLifecycle

__all__ = ["OwnLifecycle", "PrivateLifecycle", "make_lifecycle"]


class OwnLifecycle(AlwaysThere):
    """One that Trimtab runs itself: started by `open`, stopped by `close`."""

    no_restart = ""

    def __init__(self, name: str, settings: CommandSettings, paths: Sequence[Path], words: LogWords) -> None:
        super().__init__(name, settings, paths, words)
        me, stop_s = Account(str(os.geteuid()), os.geteuid(), os.getegid()), min(60.0, settings.restart_timeout_s)
        self._process = OwnProcess(self._argv, self.folder, self._place, self._user(me), stop_s=stop_s)

    def _argv(self) -> Sequence[str]:
        return self.words(self.settings.run or "")

    def _user(self, me: Account) -> Account:
        """Who runs it."""
        return me

    @cached_property
    def is_here(self) -> bool:
        """Its process is."""
        return True

    @property
    def runs(self) -> bool:
        return True

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:  # type: ignore[override]
        return self._process.exit_code

    @property
    def log_file(self) -> Path | None:
        return super().log_file or self._process.log

    def open(self) -> None:
        """Starts it, or finds the one that an earlier Trimtab left.

        Raises:
            TargetError: another tuner has it, or it does not serve in time.
        """
        if not self._take() and self.pid is None:
            raise TargetError(
                f"another tuner is starting or stopping the program: {self.owner.holder()}", hint="wait for it"
            )
        self.ensure_up()
        self._wait_healthy(time.monotonic() + self.settings.restart_timeout_s)

    def _take(self) -> bool:
        """Makes the program ours to stop, when it is no other tuner's."""
        return self.owner.acquire(f"pid={os.getpid()} host={platform.node()}")

    def close(self) -> None:
        if self.owner.is_held:
            self._process.stop(immediate=True)
            self.owner.release()

    def is_up(self) -> bool:
        return self.pid is not None

    def ensure_up(self) -> None:
        if self.pid is None:
            self._take()
            self._log_start = log_bytes(self.log_file)
            began = time.monotonic()
            self._process.start()
            self._wait_healthy(began + self.settings.restart_timeout_s)
            self.start_s = time.monotonic() - began

    def _wait_healthy(self, deadline: float) -> None:
        """As any; one whose command has ended well is told to stay in the foreground."""
        try:
            super()._wait_healthy(deadline)
        except TargetError as error:
            if self.exit_code != 0 or self.settings.embedded is not None:
                raise
            raise TargetError(
                f"run={self.settings.run!r}: the command ended with exit_code=0, and left no program that Trimtab can stop",
                hint="keep the program in the foreground, as `redis-server redis.conf --daemonize no` does; and stop the one that"
                " may run in the background now",
            ) from error

    def restart(self) -> None:
        self._process.stop(immediate=True)
        self.ensure_up()

    def _has_ended(self) -> bool:
        return self.pid is None

    def log_excerpt(self, n_lines: int) -> str:
        return super().log_excerpt(n_lines) or self._process.excerpt(n_lines)


class PrivateLifecycle(OwnLifecycle):
    """One in a folder of its own, made by a table of the catalogue; for root it runs as the user of embedded servers.

    Args:
        label: of the system and its version.
        table: how it is made.
    """

    def __init__(
        self,
        name: str,
        settings: CommandSettings,
        paths: Sequence[Path],
        words: LogWords,
        label: str,
        table: EmbeddedTable,
    ) -> None:
        self._label = label
        self._is_module = bool(table.module)
        self._home = PrivatePlace(label, table, Path(settings.folder), settings.port, settings.names)
        super().__init__(name, settings, paths, words)

    @cached_property
    def _owner(self) -> Account:
        # Another user may not reach the modules of this one's interpreter.
        return Account(str(os.geteuid()), os.geteuid(), os.getegid()) if self._is_module else server_account()

    @property
    def account(self) -> Account | None:  # type: ignore[override]
        return self._owner

    @property
    def runs_as(self) -> Account | None:  # type: ignore[override]
        return self._owner

    def _user(self, me: Account) -> Account:
        return self._owner

    @property
    def names(self) -> Mapping[str, str]:
        return {**self._home.names(), **super().names}

    def describe(self) -> Mapping[str, Any]:
        return {"folder": str(self.folder)}

    def open(self) -> None:
        """As any; one that a killed tuner left is started anew where it was made by other `names` or for another port.

        Raises:
            TargetError: another tuner runs it so, or it does not serve in time.
        """
        if self.pid is not None and not self._home.is_as_made():
            if not self._take():
                raise TargetError(
                    f"another tuner runs the private {self._label} in folder={str(self.folder)!r} with other `names` or"
                    f" another port: {self.owner.holder()}",
                    hint="a private server is known by its version and its target's name: wait, or name the target differently",
                )
            self._process.stop(immediate=True)
        super().open()

    def close(self) -> None:
        is_ours = self.owner.is_held
        super().close()
        if is_ours:
            forget_files(self.settings.names.values())

    def ensure_up(self) -> None:
        if self.pid is None:
            self._process.end_orphans()
            self._home.make(self._owner)
        super().ensure_up()


def make_lifecycle(
    name: str,
    settings: CommandSettings,
    paths: Sequence[Path],
    words: LogWords,
    table: EmbeddedTable | None = None,
) -> AlwaysThere:
    """The way to a program that its table describes; `words` of its log, `table` of a private one."""
    if table is not None:
        return PrivateLifecycle(name, settings, paths, words, f"{settings.kind}-{settings.embedded}", table)
    by_commands = CommandLifecycle if settings.pid_file is not None else AlwaysThere
    made = OwnLifecycle if settings.run is not None else by_commands
    return made(name, settings, paths, words)
