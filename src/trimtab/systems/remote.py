"""A server that somebody else has started: RunningServer, got at by SQL alone, and CommandedServer, with a restart command."""

from __future__ import annotations

import math
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from trimtab.errors import TargetError
from trimtab.host import CommandResult, LocalHost, is_ending, is_running, machine_mark, process_mark
from trimtab.systems.account import Account, server_user_of
from trimtab.systems.left_alone import STILL_S, failed_alone, left_alone
from trimtab.systems.log import is_servers_log, log_bytes, tail
from trimtab.systems.progress import Progress
from trimtab.systems.seen import Found, command_of
from trimtab.systems.session import LoginRefusedError, Session, require_answer
from trimtab.systems.settings import DatabaseSettings
from trimtab.systems.start_limit import later_s, once_it_may
from trimtab.systems.unit_journal import UnitJournal
from trimtab.systems.visit import Visit

__all__ = ["CommandedServer", "RunningServer"]


_SAME_START_S = 0.5
"""An uptime counts whole seconds."""
_ABSENT_S = 30.0
"""A restart command may end before the server's process is there: a container prepares its start, and a service manager pauses
between two tries."""
_TIMES_AWAY = 3
"""A server may be away for so many times as long as ever before: its service may prepare each start for a minute."""
_LOOK_S = 0.5

S = TypeVar("S", bound=DatabaseSettings)
C = TypeVar("C", bound=Session)


class RunningServer(ABC, Generic[S, C]):
    """The part of a `Reach` by SQL alone that is the same for every kind of server.

    Args:
        settings: the table in the study file.

    Attributes:
        host: this machine.
        NEEDED: the keys of that table that a restart needs.
        exit_code: None: its process is not ours.
        n_oom_kills: 0: its limits are not ours to see.
    """

    NEEDED: ClassVar[str]
    exit_code: int | None = None
    n_oom_kills = 0

    def __init__(self, settings: S) -> None:
        self.host = LocalHost()
        self._settings = settings
        self._last_pid: int | None = None
        self._is_here: bool | None = None
        self._found = Found()
        self._visit = Visit[C]()

    def visit(self) -> AbstractContextManager[None]:
        """See `DatabaseReach`."""
        return self._visit.begun()

    @abstractmethod
    def connect(self) -> C:
        """A connection: a visit's, or a fresh one.

        Raises:
            LoginRefusedError: the server does not let this user in.
            TargetError: it does not answer.
        """

    @abstractmethod
    def _look_in(self) -> None:
        """Logs in, and notes what the server shows of itself and whether it runs here (`_is_here`).

        Raises:
            TargetError: nobody can log in.
        """

    def recall(self, found: Mapping[str, Any]) -> None:
        """What `describe` has kept of it: all that is known of a server that is down."""
        table = found.get("found", {})
        if "argv" in found:  # an older journal
            table = {"machine": machine_mark(), "argv": found["argv"]}
        self._found = Found.of(table, self._settings.data_dir, self._uuid_in)

    def _uuid_in(self, data_dir: Path) -> str:
        """The identifier that a data directory shows, in lower case; "" for none."""
        return ""

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine: by its own processes, whatever its address."""
        if self._is_here is None:
            self._look_in()
        return bool(self._is_here)

    @property
    def data_dir(self) -> Path | None:
        """Where its data is on this machine, as it was found; None when it is not known to be here."""
        return self._found.data_dir

    @property
    def argv(self) -> Sequence[str]:
        """Its command line, as it was last seen, with the program's path; empty when this user may not see it."""
        return command_of(self.pid) or self._found.argv

    @property
    def pid_file(self) -> Path | None:
        """The file that it leaves behind only when it dies; None when that is not known here."""
        return self._found.pid_file

    @property
    def account(self) -> Account | None:
        """The data directory's owner; None when unknown, or root, as which no program that a server names is ever run."""
        return server_user_of(self.data_dir) if self.data_dir is not None else None

    @property
    def log_file(self) -> Path | None:
        """Its log: the study file's, or as it was found, where this user may read it."""
        if self._settings.log_file is not None:
            return Path(self._settings.log_file)
        log = self._found.log
        return log if log is not None and is_servers_log(log, self.account) else None

    def _find_pid(self) -> int | None:
        """The server's process, which shows that it works on this server's data; None when none does, or none can be seen."""
        return None

    @property
    def pid(self) -> int | None:
        """The server's process on this machine, as `_find_pid` tells; None when unknown.

        One that is ending shows no more what it worked on: it counts until it has ended.
        """
        found = self._find_pid()
        if found is not None:
            self._last_pid = found
        elif self._last_pid is not None and not is_ending(self._last_pid):
            self._last_pid = None
        return self._last_pid

    @property
    def no_restart(self) -> str:
        """Why the server cannot be restarted; "" when it can."""
        return f"needs a restart, and the study file gives no {self.NEEDED} command"

    @property
    def later_s(self) -> Sequence[float]:
        """See `Lifecycle`."""
        return later_s(self._settings.restart or "")

    def is_up(self) -> bool:
        """Whether a login works."""
        try:
            self.connect().close()
        except TargetError:
            return False
        return True

    def health(self) -> None:
        """A fresh login and a query."""
        self._visit.end()
        require_answer(self.connect)

    def restart(self) -> None:
        """Not possible."""
        raise TargetError(f"the server cannot be restarted: {self.no_restart}", hint=f"give {self.NEEDED}")

    def ensure_up(self) -> None:
        """Raises when a login does not work: nothing else can be done here."""
        self.connect().close()

    def start_with(self, options: Any) -> None:
        """Not possible."""
        raise TargetError(
            f"the server cannot be started: {self.no_restart}", hint=f"give {self.NEEDED}, or start it by hand"
        )

    def log_excerpt(self, n_lines: int) -> str:
        """The last lines of its log; "" when that cannot be read."""
        return tail(self.log_file, n_lines) if self.log_file is not None else ""

    def describe(self) -> Mapping[str, Any]:
        """Where it is, without the password, and what a later look at one that is down must know."""
        return {"way": "connection", "url": self._settings.safe_url, "found": self._found.to_json()}


class CommandedServer(RunningServer[S, C]):
    """One on this machine, with files at hand; `restart` runs the command of the study file, without a shell."""

    LOGIN_POLL_S: ClassVar[float] = 0.02

    def __init__(self, settings: S) -> None:
        super().__init__(settings)
        self._restart_argv = shlex.split(settings.restart) if settings.restart is not None else []
        self._has_restarted = False
        self._is_seen = False
        self._away_s = 0.0
        self._log_before: Path | None = None
        self._log_start = 0
        self._command_output = ""
        self._journal = UnitJournal(self.host, self._restart_argv)

    @abstractmethod
    def _began_at(self, session: C) -> float:
        """When the server says that it started, in seconds; two tellings of one start differ by less than `_SAME_START_S`."""

    @abstractmethod
    def _recovery(self) -> Progress | None:
        """Of the server's present start; None when there is nothing to be seen of it."""

    @abstractmethod
    def _shows_itself(self) -> bool:
        """Whether the server's process is seen without a login: so would be that of its next start."""

    def _instance(self) -> tuple[str, float | None]:
        """What tells the server that runs now from the one after a restart: its process, and its start, as far as they show."""
        pid, began = self.pid, None
        with suppress(TargetError), self.connect() as session:
            began = self._began_at(session)
        return f"{pid} {process_mark(pid)}" if pid is not None else "", began

    def _is_another(self, before: tuple[str, float | None]) -> bool:
        """Whether the server was restarted since `_instance` said `before`; True where that cannot be told."""
        (process, began), (process_now, began_now) = before, self._instance()
        if process and process_now:
            return process != process_now
        return began is None or began_now is None or began_now > began + _SAME_START_S

    @property
    def no_restart(self) -> str:
        """Why the server cannot be restarted; "" when it can."""
        return "" if self._restart_argv else "needs a restart, and the study file gives no restart command"

    def is_up(self) -> bool:
        """Whether its process runs, whatever it says to a login; by a login where the process cannot be seen."""
        pid = self.pid
        return is_running(pid) if pid is not None else super().is_up()

    def ensure_up(self) -> None:
        """Starts the server by its restart command when it is down.

        Raises:
            TargetError: there is no command, or it fails.
        """
        if self.is_up():
            return
        if self.no_restart:
            raise TargetError(
                "the server is down, and the study file gives no restart command to start it with",
                hint="start it by hand, then run `trimtab recover`",
            )
        self.restart()

    def restart(self) -> None:
        """Runs the restart command and waits for a login.

        Raises:
            TargetError: there is no command, it fails or takes too long, or nobody can log in.
            ApplyError: it has left the server as it was; the fault is the environment's.
            NoRestartError: the same, and it has never restarted it.
        """
        if self.no_restart:
            super().restart()
            return
        before = self._instance()
        self._is_seen = self._is_seen or self._shows_itself()
        self._log_before = log = self.log_file
        self._log_start = log_bytes(log)
        self._journal.mark()
        deadline = time.monotonic() + self._settings.restart_timeout_s
        try:
            result = self._run_command()
        except TargetError as error:
            raise self._failed(before, error) from error
        self._command_output = result.output
        command = " ".join(self._restart_argv)
        if result.exit_code != 0 and not self._is_recovering():
            text = f"the restart command={command!r} failed with exit_code={result.exit_code}: {result.output}"
            raise self._failed(before, TargetError(text, hint="run it by hand to see why"))
        still_s = time.monotonic() + STILL_S
        self._wait_login(self._patience(deadline))
        while not self._is_another(before):
            if time.monotonic() > still_s:
                text = f"the restart command={command!r} ended well, but the server was not restarted"
                raise left_alone(text, hint="does it restart another server?", has_restarted=self._has_restarted)
            time.sleep(_LOOK_S)
            self._wait_login(self._patience(deadline))
        self._has_restarted = True

    def _failed(self, before: tuple[str, float | None], error: TargetError) -> TargetError:
        """What became of a restart command that failed: where it has left the server alone, no config is to blame."""
        if not self.is_up() or self._is_another(before):
            return error
        return failed_alone(error, "server", has_restarted=self._has_restarted)

    def _run_command(self) -> CommandResult:
        """Runs the restart command; one that is given up while the server recovers has only failed in part.

        Raises:
            TargetError: it cannot be run, or takes too long.
        """
        began = time.monotonic()
        try:
            return once_it_may(lambda: self.host.run(self._restart_argv, timeout_s=self._settings.restart_timeout_s))
        except TargetError as error:
            if not self._is_recovering():
                raise
            argv, taken_s = tuple(self._restart_argv), time.monotonic() - began
            return CommandResult(argv=argv, exit_code=1, stdout="", stderr=error.message, duration_s=taken_s)

    def _is_recovering(self) -> bool:
        """Whether the server is on its way up, so that a command which gave up on it did not fail."""
        recovery = self._recovery()
        return recovery is not None and recovery.is_under_way()

    def _patience(self, deadline: float) -> Callable[[], bool]:
        """Tells whether to wait on for a login; `deadline` is that of a server without a sign of life.

        One that recovers is waited for as long as it gets on.
        """
        recovery = self._recovery()

        def may_wait() -> bool:
            is_stalled = recovery is None or recovery.has_stalled()
            return time.monotonic() <= deadline or (not is_stalled and self._is_recovering())

        return may_wait

    def _wait_login(self, may_wait: Callable[[], bool]) -> None:
        """One of which no process comes is not waited for, once it is known how long that takes: Debian's service `postgresql`,
        which only stands for those of its clusters, is restarted well whatever becomes of them."""
        look_at = seen_at = time.monotonic()
        away_s, most_s = 0.0, max(_ABSENT_S, _TIMES_AWAY * self._away_s) if self._has_restarted else math.inf
        while True:
            try:
                self.connect().close()
                self._away_s = max(self._away_s, away_s)
                return
            except LoginRefusedError:
                raise
            except TargetError as error:
                now = time.monotonic()
                if now >= look_at:
                    look_at = now + _LOOK_S
                    seen_at = now if not self._is_seen or self.pid is not None else seen_at
                away_s = max(away_s, now - seen_at)
                if away_s > most_s:
                    raise self._absent(error) from error
                if not may_wait():
                    raise
            time.sleep(self.LOGIN_POLL_S)

    def _absent(self, error: TargetError) -> TargetError:
        command = " ".join(self._restart_argv)
        text = f"the server does not run after the restart command={command!r}: {error.message}"
        return TargetError(text, hint="see the server's log for the reason")

    def log_excerpt(self, n_lines: int) -> str:
        """The last lines of the server's log since the last restart, and of its unit's journal where it is down; or what the
        restart command said."""
        log = self.log_file
        start = self._log_start if log == self._log_before else 0
        lines = tail(log, n_lines, start) if log is not None else ""
        return "\n".join(filter(None, (lines, self.said_at_start(n_lines)))) or self._command_output

    def said_at_start(self, n_lines: int) -> str:
        """See `JournalledReach`."""
        return self._journal.said(n_lines) if self._journal.is_marked and not self.is_up() else ""
