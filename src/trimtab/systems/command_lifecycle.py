"""AlwaysThere: a program that nobody starts or stops, and the commands by which it is asked; what runs is in `user_lifecycle` and
`own_lifecycle`."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trimtab.errors import ApplyError, TargetError
from trimtab.host import CommandResult, FileLock, LocalHost, is_this_machine, process_started_s
from trimtab.records import Endpoint, Fault
from trimtab.systems.account import Account, cache_root
from trimtab.systems.command_settings import CommandSettings
from trimtab.systems.cql import cql_counters, cql_endpoint, is_cql
from trimtab.systems.log import log_bytes, seen_text, tail
from trimtab.systems.overlay import LogWords
from trimtab.systems.passwords import URL, Passwords
from trimtab.systems.pid_file import run_of
from trimtab.systems.placeholder import filled
from trimtab.systems.progress import LogProgress
from trimtab.systems.session import LoginRefusedError
from trimtab.systems.start_limit import once_it_may
from trimtab.systems.store_probe import STORES, printed_beside, printed_counters, require_service, store_at
from trimtab.systems.written import written_s

__all__ = ["AlwaysThere"]

_POLL_S = 0.02
_POLL_MOST_S = 0.25
"""Of a start: it is asked for every twentieth of what it has taken so far, for a look may start a program."""
_READ_S = 10.0
_NO_COMMAND = (126, 127)
"""Exit codes of a shell that cannot run a command."""


class AlwaysThere:
    """A program that is always there: nothing of it is started or stopped. See `ServerReach`.

    Args:
        name: of the target.
        settings: its table.
        paths: its configuration files, for the lock.
        words: of its log.
    """

    data_dir: Path | None = None
    account: Account | None = None
    runs_as: Account | None = None
    exit_code: int | None = None
    n_oom_kills = 0
    later_s: Sequence[float] = ()
    start_s: float | None = None
    """From its last start by us to its first answer."""

    def __init__(self, name: str, settings: CommandSettings, paths: Sequence[Path], words: LogWords) -> None:
        self.host = LocalHost()
        self._words = words
        self.settings = settings
        self._passwords = Passwords(settings)
        self.folder = Path(settings.folder)
        # What is no path of a file, as cql:KEYSPACE.TABLE, is the same from every folder.
        places = sorted(os.path.realpath(path) if path.is_absolute() else str(path) for path in paths)
        digest = hashlib.sha256("\n".join(places).encode()).hexdigest()[:16]
        # One lock for a machine, not one for each state directory.
        self.owner = FileLock(cache_root() / "locks" / f"{settings.kind}-{digest}.lock")
        self._place = cache_root() / settings.kind / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)}-{digest}"
        self._output = ""
        self._log_start = 0
        self._told: set[str] = set()

    @property
    def pid(self) -> int | None:
        """Nothing runs."""
        return None

    @cached_property
    def is_here(self) -> bool:
        """By its address: there is no process to see."""
        return is_this_machine(self.endpoint().host)

    @property
    def runs(self) -> bool:
        """Whether there is something that runs at all."""
        return False

    @property
    def names(self) -> Mapping[str, str]:
        """What {NAME} means in its commands, beside the names of its table; of a private one also its folder and port."""
        pid, python = self.pid, {"python": sys.executable}
        return {**python, "pid": str(pid)} if pid is not None else python

    def words(self, command: str, more: Mapping[str, str] | None = None) -> list[str]:
        """A command as words, with each {NAME} that is known replaced; those of the table may be several words."""
        names = {**self.names, **(more or {})}
        return [filled(word, names) for word in shlex.split(filled(command, self.settings.names))]

    def filled(self, text: str) -> str:
        """A text with each {NAME} that is known replaced."""
        return filled(filled(filled(text, {"url": self.settings.url or ""}), self.settings.names), self.names)

    @property
    def no_restart(self) -> str:
        """Why it cannot be restarted; "" when it can."""
        return "needs a restart, and the study file gives no run or restart command"

    @property
    def log_file(self) -> Path | None:
        """The log that the study file names."""
        return Path(self.settings.log_file) if self.settings.log_file is not None else None

    @property
    def instance(self) -> str:
        """Tells this run of it from the next one; "" when nothing runs."""
        return run_of(self.pid)

    def know(self, run: str) -> None:
        """An `instance` of before, which a journal has: the process is this program's, whatever the clock says now."""

    def began_after(self, paths: Sequence[Path]) -> bool:
        """Whether the process that runs now began after these files were last written or removed, so that it has read them."""
        pid = self.pid
        age_s = process_started_s(pid) if pid is not None else None
        if age_s is None:
            return False
        # The kernel tells the start in whole ticks, rounded down: a file of the same tick was written before it.
        began = time.time() - age_s + 1.0 / os.sysconf("SC_CLK_TCK")
        return all(written_s(path) <= began for path in paths)

    def was_stopped(self) -> bool:
        """Whether it is down by somebody's will: a program that has died leaves its pid file behind."""
        return False

    def open(self) -> None:
        """Reaches it; changes nothing.

        Raises:
            TargetError: it does not serve.
        """
        self.health()

    def close(self) -> None:
        """Nothing is kept open."""

    def endpoint(self) -> Endpoint:
        """Its address, or a place to run commands in; the values in use come with it (see `CatalogSystem.endpoint`)."""
        options = {"folder": str(self.folder)}
        if self.settings.url is None:
            return Endpoint(protocol="program", host="localhost", port=0, user="", database="", options=options)
        url = self.filled(self.settings.url)
        if is_cql(url):
            return cql_endpoint(url, options)
        parts = urlsplit(url)
        if parts.scheme in STORES:
            found = store_at(parts, options)
            return replace(found, password=self._passwords.of(URL)) if found.user else found
        host, port = parts.hostname or "localhost", parts.port or (443 if parts.scheme == "https" else 80)
        options |= {"url": url, "scheme": parts.scheme}
        return Endpoint(protocol="http", host=host, port=port, user="", database="", options=options)

    def is_up(self) -> bool:
        """Whether it runs."""
        return True

    def ensure_up(self) -> None:
        """Starts it when it is down."""

    def restart(self) -> None:
        """Not possible.

        Raises:
            TargetError: always.
        """
        raise TargetError(f"the program cannot be restarted: {self.no_restart}", hint="give run or restart")

    @property
    def takes_back(self) -> bool:
        """Whether `reload` is told what goes back to the value that it had."""
        return "{back}" in (self.settings.reload or "")

    def reload(self, back: Mapping[str, str] | None = None, changed: Collection[str] = ()) -> None:
        """Makes it read its files again; returns once its log says so, where the catalogue knows the words.

        Args:
            back: address -> text of what has the value again that it had when we came: `{back}` in the command.
            changed: addresses of what the files say otherwise than the program has it: `{changed}` in the command.

        Raises:
            TargetError: the command fails, or it does not say so in time.
            ApplyError: the command cannot be run; the fault is the environment's.
        """
        if self.settings.reload is None:
            return
        mark = log_bytes(self.log_file)
        words = shlex.join(f"{address}={text}" for address, text in (back or {}).items())
        names = {"back": words, "changed": shlex.join(sorted({*changed} - {*(back or {})}))}
        self._reload_by(filled(self.settings.reload, names))
        if self._words.ready and self.log_file is not None:
            self._wait_for_ready(self.log_file, mark)

    def _reload_by(self, command: str) -> None:
        """Runs it, and once more when it fails or does not end: what the program refuses in its files, it refuses again."""
        try:
            result = self._run_or_late(command)
            if result is None or result.exit_code != 0:
                result = self._run(command)
        except TargetError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            raise ApplyError(error.message, hint=error.hint, fault=Fault.ENVIRONMENT) from error
        try:
            self._require_success("reload", command, result)
        except TargetError as error:
            if result.exit_code not in _NO_COMMAND:
                raise
            raise ApplyError(error.message, hint=error.hint, fault=Fault.ENVIRONMENT) from error

    def _run_or_late(self, command: str) -> CommandResult | None:
        """None where it does not end in time."""
        try:
            return self._run(command)
        except TargetError as error:
            if isinstance(error.__cause__, OSError):
                raise
            return None

    def _wait_for_ready(self, log: Path, mark: int) -> None:
        deadline = time.monotonic() + self.settings.restart_timeout_s
        while not re.search(self._words.ready, text := seen_text(log, mark)):
            if time.monotonic() > deadline or not self.is_up():
                said = f": {text.strip()[-500:]}" if text else ""
                raise TargetError(
                    f"log_file={str(log)!r} does not say that the program has read its files again after"
                    f" reload={self.filled(self.settings.reload or '')!r}{said}",
                    hint="is that its log? give log_file in the target's table",
                )
            time.sleep(_POLL_S)

    def health(self) -> None:
        """That it serves, by the health command; without one, that it runs.

        Raises:
            TargetError: it does not.
        """
        if not self.is_up():
            raise self._down()
        if self.settings.health is None:
            return
        if require_service(self.filled(self.settings.health)):
            return
        result = self._run(self.settings.health, timeout_s=_READ_S)
        if result.exit_code != 0:
            raise TargetError(
                f"the program is not healthy: health={self.settings.health!r} ended with exit_code={result.exit_code}:"
                f" {result.output[-500:]}",
                hint="run it by hand to see why",
            )

    def _down(self) -> TargetError:
        """That it does not run, as far as that can be seen."""
        return TargetError("the program is down", hint="see its log")

    def ask(self, command: str, more: Mapping[str, str] | None = None) -> CommandResult:
        """Runs a command of the catalogue, with further {NAME}s.

        Raises:
            TargetError: it cannot be run, or does not end in time.
        """
        return self._run(command, more=more)

    def values(self, addresses: Sequence[str]) -> dict[str, str]:
        """What the `read` command prints of each address: of {address} one by one, of {addresses} all at once; those that the
        program does not have are missing then.

        Raises:
            TargetError: the command fails, or does not show any of them, or one that it has shown before.
        """
        if not addresses:
            return {}
        command = self.settings.read or ""
        if "{addresses}" not in command:
            return {address: [line for line in self._read([address]) if line][-1] for address in addresses}
        lines = self._read(addresses)
        found = {at: value for at in addresses if (value := printed_beside(lines, at)) is not None}
        gone = next((at for at in addresses if at not in found and (at in self._told or not found)), None)
        if gone is not None:
            raise TargetError(
                f"read={command!r} shows no value of address={gone!r}",
                hint="run it by hand; it must print each address and its value, on one line or on two",
            )
        self._told |= found.keys()
        return found

    def shown(self, address: str) -> str | None:
        """What the `read` command prints of one address, "" for an empty value; None where it shows none."""
        try:
            value = self.values([address])[address]
        except TargetError:
            return None
        return "" if value == address else value  # a name, and an empty line

    def _read(self, addresses: Sequence[str]) -> list[str]:
        command, argv = self.settings.read or "", list[str]()
        for word in shlex.split(filled(command, self.settings.names)):
            more = {"address": addresses[0]}
            argv += addresses if word == "{addresses}" else [filled(word, {**self.names, **more})]
        result = self._ran(argv, timeout_s=_READ_S, env=self._passwords.environment(command))
        lines = [line.strip() for line in result.stdout.splitlines()]  # an empty one may be an empty value
        if result.exit_code != 0 or not any(lines):
            raise TargetError(
                f"read={command!r} shows no value of address={addresses[0]!r}: exit_code={result.exit_code}"
                f" {result.output[-300:]}",
                hint="run it by hand; its last line must be the value",
            )
        return lines

    def counters(self) -> dict[str, float]:
        """What the `counters` command prints, a number and a name a line, or what a Cassandra node at that address tells; nothing
        without one, or while it is down.

        Raises:
            TargetError: the command cannot be run, or the node does not answer.
        """
        command = self.settings.counters
        if command is None or not self.is_up():
            return {}
        if is_cql(url := self.filled(command)):
            return cql_counters(url)
        return printed_counters(self._run(command, timeout_s=_READ_S).stdout)

    def no_later_login(self) -> str:
        """See `ServerReach`."""
        return self._passwords.only_in()

    def log_excerpt(self, n_lines: int) -> str:
        """The last lines of its log since its last start, or what its last command said."""
        log = self.log_file
        lines = tail(log, n_lines, self._log_start) if log is not None else ""
        return lines or "\n".join(self._output.splitlines()[-n_lines:])

    def describe(self) -> Mapping[str, Any]:
        """Nothing that the settings do not say."""
        return {}

    def _run(
        self, command: str, *, timeout_s: float | None = None, more: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Runs a command; a private program's as the user that it runs as."""
        limit_s = self.settings.restart_timeout_s if timeout_s is None else timeout_s
        other = self.runs_as if self.runs_as is not None and not self.runs_as.is_me else None
        return self._ran(
            self.words(command, more),
            timeout_s=limit_s,
            env=self._passwords.environment(command),
            user=other.uid if other is not None else None,
            group=other.gid if other is not None else None,
        )

    def _ran(self, argv: Sequence[str], **how: Any) -> CommandResult:
        """What a command says that is run in its folder."""
        try:
            return self.host.run(argv, folder=self.folder, **how)
        except TargetError as error:
            if not isinstance(error.__cause__, OSError) or self.folder.is_dir():
                raise
            text = f"cannot run command={argv[0]!r}: there is no folder={str(self.folder)!r}"
            raise TargetError(text, hint="give `folder` in the target's table") from error.__cause__

    def _command(self, key: str, command: str) -> None:
        self._require_success(key, command, once_it_may(lambda: self._run(command)))

    def _require_success(self, key: str, command: str, result: CommandResult) -> None:
        self._output = result.output or self._output
        if result.exit_code != 0:
            said = result.output[-2000:].rstrip()
            raise TargetError(
                f"{key}={self.filled(command)!r} failed with exit_code={result.exit_code}{f': {said}' if said else ''}",
                hint="run it by hand to see why",
            )

    def _wait_healthy(self, deadline: float) -> None:
        """Waits until it serves, longer while its log shows in the catalogue's words (`recovers`) that it gets on.

        Raises:
            TargetError: it does not in time, or has ended.
        """
        recovery = LogProgress(self.log_file, self._log_start, self._words, self.settings.restart_timeout_s)
        began = time.monotonic()
        while True:
            try:
                self.health()
                return
            except TargetError as error:
                has_stalled, now = recovery.has_stalled(), time.monotonic()
                if self._has_ended() or (now > deadline and (has_stalled or not recovery.is_under_way())):
                    text = f"{error.message} (waited restart_timeout_s={self.settings.restart_timeout_s:g} at most)"
                    refused = isinstance(error, LoginRefusedError)
                    raise (LoginRefusedError if refused else TargetError)(text, hint=error.hint) from error
            time.sleep(min(_POLL_MOST_S, max(_POLL_S, (now - began) / 20)))

    def _has_ended(self) -> bool:
        """Whether it is certain that it will not serve any more."""
        return False
