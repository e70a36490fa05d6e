"""Starts: `trimtab tune` on files of one folder, each in a process of its own; stopped as Ctrl-C stops it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from trimtab.errors import HistoryError, UsageError
from trimtab.history import fixed_place, secrets_apart
from trimtab.session.refusal import ConflictError, UnknownError
from trimtab.study import ask_to_stop, load_study_file, running_now

__all__ = ["Starts"]

_MOST = 20


class Starts:
    """What this server has started.

    Args:
        folder: of study files; None: nothing may be started.
        state_dir: of the studies.
        history: file or URL that the studies are kept in; None: as their files say.
    """

    def __init__(self, folder: Path | None, state_dir: Path, history: str | None = None) -> None:
        self._folder, self._state_dir = folder, state_dir
        shown, secrets = secrets_apart(fixed_place(history)) if history is not None else ("", {})
        self._history = ["--history", shown] if shown else []
        # Whoever is on this machine reads the command lines of others, and only the owner of a process its environment.
        self._environment = {**os.environ, **secrets} if secrets else None
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def files(self) -> list[str]:
        """Names of the study files that may be started."""
        if self._folder is None:
            return []
        return sorted(path.name for path in self._folder.glob("*.toml") if path.is_file())

    def start(self, name: str) -> str:
        """Starts the study of that file; the study's name.

        Raises:
            UnknownError: there is no such file in the folder. What a client sends is compared with the folder's own list, and
                never made a path.
            UsageError: the file is no study file, or no folder was given.
            ConflictError: it runs already.
            HistoryError: no log can be written, or no process begun.
        """
        if self._folder is None:
            raise UsageError("this server may not start studies", hint="start it with --studies DIR")
        known = next((each for each in self.files() if each == name), None)
        if known is None:
            raise UnknownError(f"there is no study file={name[:80]!r}", hint="`GET /api/v1/study-files` lists them")
        path = self._folder / known
        study = load_study_file(path).study.name
        with self._lock:
            self._running = {each: process for each, process in self._running.items() if process.poll() is None}
            if study in self._running:
                raise ConflictError(f"study={study!r} runs already", hint="stop it first")
            if len(self._running) >= _MOST:
                raise ConflictError(f"n_running={len(self._running)} studies run already", hint="stop one first")
            try:
                self._running[study] = self._process(study, path)
            except OSError as error:
                raise HistoryError(
                    f"cannot start study={study!r}: {error.filename or sys.executable}: {error.strerror}",
                    hint="is the state directory of the server writable, and has this machine space and memory left?",
                ) from error
        return study

    def _process(self, study: str, path: Path) -> subprocess.Popen[bytes]:
        logs = self._state_dir / "logs"
        logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (logs / f"{study}.tune.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "trimtab", "tune", str(path.absolute()), "--state", str(self._state_dir.absolute()),
                 *self._history],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, env=self._environment,
                start_new_session=True,
            )  # fmt: skip

    def stop(self, study: str, study_id: int, created_at: float | None = None) -> None:
        """As Ctrl-C does, whoever has started it: the trial under way is undone and everything is kept.

        Args:
            study, study_id, created_at: as the history has them.

        Raises:
            ConflictError: it does not run on this machine from this state directory.
        """
        if ask_to_stop(self._state_dir, study_id, study, created_at) or self._interrupt(study):
            return
        raise ConflictError(
            f"study={study!r} does not run here: its process has ended, or has another state directory",
            hint=f"press Ctrl-C where it runs, or make the file {self._state_dir / 'stop'}: it stops every study",
        )

    def _interrupt(self, study: str) -> bool:
        """Ends a process of this server's that has no study to show yet; one that shows another study of the name goes on."""
        with self._lock:
            process = self._running.get(study)
            if process is None or process.poll() is not None:
                return False
            if any(said["name"] == study for said in running_now(self._state_dir).values()):
                return False
            process.send_signal(signal.SIGINT)
        return True

    def close(self) -> None:
        """Stops what runs and waits until targets are restored."""
        with self._lock:
            for process in self._running.values():
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
            for process in self._running.values():
                process.wait()
