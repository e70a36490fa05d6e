"""Host: what every place a target lives on promises; plain values, so that no room above is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from trimtab.host.limits import Limits

__all__ = ["CommandResult", "Facts", "FileCopy", "Host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended.

    Attributes:
        argv: what was run.
        exit_code: 0 is success; negative is the signal that ended it.
        stdout, stderr: its output, undecodable bytes replaced.
        duration_s: wall-clock seconds.
    """

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    duration_s: float

    @property
    def output(self) -> str:
        """Both streams, stripped, for a message."""
        return "\n".join(part for part in (self.stdout.strip(), self.stderr.strip()) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCopy:
    """The whole of a file: its bytes, permission bits and owner."""

    content: bytes
    mode: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a machine is, as its own files name it; "" when unknown. `disk` is "ssd", "hdd" or ""."""

    hostname: str
    kernel: str
    cpu_model: str
    disk: str
    limits: Limits


@runtime_checkable
class Host(Protocol):
    """A machine on which commands run and files are read and written.

    Every method may raise `TargetError` with the path or the command in its message. `user` is a user id; None is the
    caller's own. Commands run without a shell.
    """

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        user: int | None = None,
        group: int | None = None,
        env: Mapping[str, str] | None = None,
        folder: Path = Path("/"),
    ) -> CommandResult: ...
    def read_file(self, path: Path) -> FileCopy | None: ...
    def link_target(self, path: Path) -> str | None: ...
    def write_file(self, path: Path, copy: FileCopy) -> None: ...
    def remove_file(self, path: Path) -> None: ...
    def remove_leftover(self, path: Path) -> None: ...
    def disk_free_bytes(self, path: Path) -> int: ...
    def disk_size_bytes(self, path: Path) -> int: ...
    def facts(self, path: Path) -> Facts: ...
