"""LocalHost: the machine this process runs on."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from trimtab.errors import TargetError
from trimtab.host.base import CommandResult, Facts, FileCopy
from trimtab.host.disk import disk_kind
from trimtab.host.folder import Folder, open_regular, sync_handle
from trimtab.host.limits import read_limits
from trimtab.host.process import kill_group

__all__ = ["LocalHost", "sync_folder"]

_KILL_S = 10.0
"""How long a killed process may take to end; one that waits for a disk or a network that does not answer never does."""

_UNWRITTEN: Mapping[int | None, str] = {
    errno.EBUSY: "it is mounted by itself, and can only be written to: mount its folder instead",
    errno.EPERM: "a new file of the same owner and group takes its place: run as a user who may give it these; if it is"
    " immutable (lsattr), nothing can take its place",
}
"""Why a file could not be replaced -> what to do."""


class LocalHost:
    """Commands and files of this machine; see `Host`."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        user: int | None = None,
        group: int | None = None,
        env: Mapping[str, str] | None = None,
        folder: Path = Path("/"),
    ) -> CommandResult:
        """Runs `argv` in `folder` without a shell, as `user` when given, and waits.

        Raises:
            TargetError: it cannot be started, or did not end within `timeout_s` (its process group is then killed).
        """
        started = time.monotonic()
        switch = user is not None and user != os.geteuid()
        # Files instead of pipes: a daemon that the command leaves behind would keep a pipe open for ever.
        with _output() as out, _output() as err:
            try:
                process = subprocess.Popen(
                    list(argv),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=dict(env) if env is not None else None,
                    cwd=folder,
                    start_new_session=True,
                    user=user if switch else None,
                    group=group if switch else None,
                    extra_groups=[] if switch else None,
                )
            except OSError as error:
                raise TargetError(
                    f"cannot run command={argv[0]!r}: {error.strerror}", hint="check the path and its permissions"
                ) from error
            exit_code = _wait(process, argv, timeout_s)
            out.seek(0)
            err.seek(0)
            return CommandResult(
                argv=tuple(argv),
                exit_code=exit_code,
                stdout=out.read().decode(errors="replace"),
                stderr=err.read().decode(errors="replace"),
                duration_s=time.monotonic() - started,
            )

    def read_file(self, path: Path) -> FileCopy | None:
        """The whole file with mode and owner; None when it does not exist.

        Raises:
            TargetError: it exists and cannot be read.
        """
        try:
            with Folder.open(path.parent) as folder:
                return folder.read(path.name)
        except FileNotFoundError:
            return None
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            raise TargetError(
                f"cannot read file={str(path)!r}: {error.strerror}",
                hint="name the file that it leads to" if is_link else "run as a user that may read it",
            ) from error

    def link_target(self, path: Path) -> str | None:
        """What the symbolic link at `path` points to; None when it is no link."""
        return os.readlink(path) if path.is_symlink() else None

    def write_file(self, path: Path, copy: FileCopy) -> None:
        """Replaces the file at once: a crash leaves the old or the new content, never a mixture.

        A crash may leave a file beside it, which `remove_leftover` removes.

        Raises:
            TargetError: the folder or the file cannot be written; the file is then as it was.
        """
        try:
            with Folder.open(path.parent) as folder:
                folder.write(path.name, copy, beside=_beside(path.name))
        except OSError as error:
            usual = "check that the folder is writable for this user, and that the disk is not full"
            raise TargetError(
                f"cannot write file={str(path)!r}: {error.strerror}", hint=_UNWRITTEN.get(error.errno, usual)
            ) from error

    def write_in_place(self, path: Path, content: bytes) -> None:
        """Writes into the file as it is, at one go; durable. For what cannot be replaced, as files of the kernel.

        Raises:
            TargetError: it is missing, or what is written is refused.
        """
        try:
            handle = open_regular(path, os.O_WRONLY | os.O_TRUNC)
            try:
                os.write(handle, content)
                sync_handle(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise TargetError(
                f"cannot write file={str(path)!r}: {error.strerror}",
                hint="run as a user that may write it; the kernel refuses values that it does not know",
            ) from error

    def remove_file(self, path: Path) -> None:
        """Removes the file; it is no error when there is none.

        Raises:
            TargetError: it cannot be removed.
        """
        try:
            with Folder.open(path.parent) as folder:
                if folder.remove(path.name):
                    folder.sync()
        except FileNotFoundError:
            return
        except OSError as error:
            raise TargetError(
                f"cannot remove file={str(path)!r}: {error.strerror}", hint="check the folder's permissions"
            ) from error

    def remove_leftover(self, path: Path) -> None:
        """Removes what a `write_file` of `path` that was killed has left beside it.

        Raises:
            TargetError: it is there and cannot be removed.
        """
        self.remove_file(path.with_name(_beside(path.name)))

    def disk_free_bytes(self, path: Path) -> int:
        """Bytes free for this user on the file system of `path`."""
        return shutil.disk_usage(path).free

    def disk_size_bytes(self, path: Path) -> int:
        """Size of the file system of `path`, bytes."""
        return shutil.disk_usage(path).total

    def facts(self, path: Path) -> Facts:
        """What this machine is; `disk` is the kind of the disk under `path`."""
        return Facts(
            hostname=platform.node(),
            kernel=f"{platform.system()} {platform.release()}",
            cpu_model=_cpu_model(),
            disk=disk_kind(path),
            limits=read_limits(),
        )


def _output() -> IO[bytes]:
    """A file for what a command prints; in memory where the disk takes none: a way back must not fail for that.

    Not always in memory: a daemon that the command leaves behind may write into it for months.
    """
    try:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the caller closes it
    except OSError:
        return _in_memory()
    try:
        file.write(b"?")  # a full disk lets files be made that take no byte
        file.seek(0)
        file.truncate()
    except OSError:
        file.close()
        return _in_memory()
    return file


def _in_memory() -> IO[bytes]:
    return os.fdopen(os.memfd_create("output"), "w+b")


def _beside(name: str) -> str:
    """Where the new content of a file is written; always the same name, so that what a kill leaves is found again."""
    return f".{name}.trimtab"


def _wait(process: subprocess.Popen[bytes], argv: Sequence[str], timeout_s: float) -> int:
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired as error:
        still = "" if _killed(process) else f", and cannot be killed: pid={process.pid}"
        raise TargetError(
            f"command={' '.join(argv)!r} did not end within timeout_s={timeout_s:g}{still}",
            hint="run it by hand to see what it waits for",
        ) from error
    except BaseException:
        _killed(process)
        raise


def _killed(process: subprocess.Popen[bytes]) -> bool:
    """Kills a command with its process group; False for one of another user's, as sudo's are, or that hangs in the kernel."""
    if not kill_group(process):
        return False
    try:
        process.wait(_KILL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Makes the folder's entries durable: a rename or a new file is lost with the power otherwise."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        sync_handle(handle)
    finally:
        os.close(handle)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
