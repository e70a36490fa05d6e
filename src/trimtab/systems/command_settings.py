"""CommandSettings: the table of a system that a catalogue describes: its files, and the commands that start, stop and ask it."""

from __future__ import annotations

import re
import shlex
from abc import ABC
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from trimtab.errors import UsageError
from trimtab.redact import remember
from trimtab.systems.mount_options import MOUNT
from trimtab.systems.passwords import URL, public_url, separated
from trimtab.systems.settings import ServerSettings, full_path
from trimtab.systems.table_options import TABLE

__all__ = ["CommandSettings", "of_right_shape"]

_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_COMMANDS = ("run", "start", "stop", "reload", "restart", "health", "read", "features", "counters")


class CommandSettings(ServerSettings, ABC):
    """What the study file may say about such a system. Commands run without a shell, in the folder of the study file."""

    PATHS: ClassVar[tuple[str, ...]] = ("pid_file", "log_file", "folder")

    embedded: str | None = Field(
        None, description="version of a private one that Trimtab makes and runs, where the catalogue has such a one"
    )
    port: int | None = Field(None, gt=0, lt=65536, description="its port, with `embedded`; default: a free one")
    files: dict[str, str] = Field(
        default_factory=dict,
        description="channel of the catalogue -> the file to use instead of the one named there; for options of Cassandra's "
        'tables also a table, "cql:KEYSPACE.TABLE"; for those of a mounted file system a folder on it, "mount:/FOLDER"',
    )
    run: str | None = Field(
        None,
        description="command that runs it in the foreground: Trimtab starts it for the study, and stops it afterwards",
    )
    start: str | None = Field(None, description="command that starts it; with `stop` instead of `restart`")
    stop: str | None = Field(None, description="command that stops it")
    reload: str | None = Field(
        None,
        description="command after which it has read its files again, without a restart; for a program that keeps a value which "
        "its files name no longer: {back} stands for ADDRESS=VALUE of each setting that is to have its found value again, and "
        "{changed} for the ADDRESS of each that is to be read from the files; others must stay as the program has them",
    )
    health: str | None = Field(
        None,
        description="command with exit code 0 once it serves, http://HOST:PORT/PATH or unix:SOCKET to ask; without one it "
        "must only run",
    )
    read: str | None = Field(
        None,
        description="command that prints the value in use of {address} as its last line, to read back what was set",
    )
    features: str | None = Field(
        None,
        description="command that prints what the program was built and started with, for settings that need some of it",
    )
    counters: str | None = Field(
        None, description="command that prints what the program counts of its work: a number and its name a line"
    )
    url: str | None = Field(None, description="where a load reaches it: http://127.0.0.1:8080/")
    names: dict[str, str] = Field(
        default_factory=dict, description="what {NAME} means in the commands of the catalogue"
    )
    passwords: dict[str, str] = Field(
        default_factory=dict,
        description="of an address in `names`, or of `url`: the environment variable with its password, if the address has none; "
        "commands that name the address find the password there, and never in their words",
    )
    password_files: dict[str, str] = Field(
        default_factory=dict,
        description="of the same: a file whose first line is the password, and that only you may read",
    )
    pid_file: str | None = Field(
        None, description="the file with its process number; needed by start, stop and restart"
    )
    process: str | None = Field(
        None, description='name of its process ("redis-server"), so that no other one is taken for it'
    )
    folder: str = Field(".", description="the folder in which commands run")
    _given: dict[str, str] = PrivateAttr(default_factory=dict)

    @field_validator(*(name for name in _COMMANDS if name != "restart"))
    @classmethod
    def _is_command(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                words = shlex.split(value)
            except ValueError as error:
                raise ValueError(f"cannot be split into words: {error}") from error
            if not words:
                raise ValueError("is empty; leave it out")
        return value

    @model_validator(mode="after")
    def _passwords_of_addresses(self) -> Self:
        for name, variable in self.passwords.items():
            if name != URL and name not in self.names:
                raise ValueError(f"passwords names {name!r}, which is neither url nor one of names")
            if not _VARIABLE.fullmatch(variable):
                raise ValueError(f"passwords of {name!r} is not the name of an environment variable")
        if others := self.password_files.keys() - self.passwords.keys():
            raise ValueError(f"password_files names {min(others)!r}, which passwords does not")
        return self

    @model_validator(mode="after")
    def _one_lifecycle(self) -> Self:
        by_command = [name for name in ("start", "stop", "restart") if getattr(self, name) is not None]
        if self.run is not None and (by_command or self.pid_file is not None):
            raise ValueError(
                f"run goes without {(by_command or ['pid_file'])[0]}: Trimtab itself starts and stops the program"
            )
        if self.restart is None and len(by_command) == 1:
            raise ValueError(
                f"{by_command[0]} needs {'stop' if by_command == ['start'] else 'start'} too, or give restart"
            )
        if by_command and self.pid_file is None:
            raise ValueError(f"{by_command[0]} needs pid_file too: otherwise no one can see whether it was restarted")
        if self.port is not None and self.embedded is None:
            raise ValueError("port goes with embedded; the port of a running program is in its own files")
        if self.embedded is not None and (by_command or self.pid_file is not None or self.files):
            raise ValueError(
                f"embedded goes without {(*by_command, *(('pid_file',) if self.pid_file else ('files',)))[0]}"
            )
        if self.read is not None and not any(word in self.read for word in ("{address}", "{addresses}")):
            raise ValueError("read needs {address} or {addresses} where the names of settings go")
        return self

    @property
    def safe_url(self) -> str | None:
        """Its folder, for want of an address."""
        return f"{self.kind}:{self.folder}"

    @property
    def server(self) -> str:
        """Its folder may be that of several."""
        addresses = {URL: self.url or "", **self.names}
        return " ".join([super().server, *(public_url(addresses.get(name, "")) for name in sorted(self.passwords))])

    @property
    def given(self) -> dict[str, str]:
        """The passwords that stood in the addresses: by their names, or "url"."""
        return self._given

    def commands(self) -> dict[str, str]:
        """Those that are given, by their keys."""
        return {key: command for key in _COMMANDS if (command := getattr(self, key)) is not None}

    def check_url(self) -> None:
        """See `ServerSettings`."""
        self._bare()

    def with_full_paths(self, directory: Path) -> Self:
        """See `ServerSettings`; `url` and the addresses of `passwords` are without their passwords from here on."""
        bare, given = self._bare()
        files = {name: _full(text, directory) for name, text in self.files.items()}
        secrets = {name: full_path(text, directory) for name, text in self.password_files.items()}
        found = self.model_copy(update={**bare, "files": files, "password_files": secrets})
        found._given = {**self._given, **given}
        return found

    def _bare(self) -> tuple[dict[str, Any], dict[str, str]]:
        """`names` and `url` without those passwords, and the passwords."""
        names, given = dict(self.names), dict[str, str]()
        for name in self.passwords.keys() & names.keys():
            names[name], given[name] = separated(names[name], name)
        url, given[URL] = separated(self.url or "", URL)
        for password in given.values():
            remember(password or None)
        return {"names": names, "url": url or None}, {name: text for name, text in given.items() if text}

    def public(self) -> dict[str, Any]:
        """The table without passwords, such that it can be read again; texts that are no addresses are kept as they are."""
        table = super().public()
        bare = {key: public_url(text) for key, text in table.items() if key in (URL, *_COMMANDS)}
        return {**table, **bare, "names": {name: public_url(text) for name, text in self.names.items()}}


def _full(text: str, directory: Path) -> str:
    """A path from the study file's folder; the name of a table stays as it is, and so does a mounted file system."""
    return text if text.startswith((TABLE, MOUNT)) else full_path(text, directory)


def of_right_shape(name: str, table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table of a target called `name`, which can be joined with that of a catalogue: all other faults are found afterwards.

    Raises:
        UsageError: it cannot.
    """
    for key in ("names", "passwords"):
        if not isinstance(table.get(key, {}), Mapping):  # what it is instead may be a password
            raise UsageError(
                f"[target.{name}] {key} is not a table", hint=f'write it as in: {key} = {{ NAME = "..." }}'
            )
    if not isinstance(version := table.get("embedded", ""), str | None):
        raise UsageError(
            f"[target.{name}] embedded={version!r} is not a text", hint='write a version as in: embedded = "2.4"'
        )
    return table
