"""ServerSettings: what every [target.NAME] table may say, DatabaseSettings: what that of a database server may say as well, and
how such a table is read."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from trimtab.errors import UsageError, as_value_errors
from trimtab.redact import MASK
from trimtab.space import SafetyClass
from trimtab.units import parse_duration, parse_size

__all__ = ["DatabaseSettings", "ServerSettings", "full_path", "read_table"]

_VARIABLE = re.compile(r"\$(\w+|\{\w+\})")

_KEPT = "kept"
"""Said of a table that a journal keeps."""

_LEAST_MEMORY = 1 << 20
"""Bytes; less is a number whose unit was forgotten."""

_LOCKABLE = tuple(kind.value for kind in SafetyClass if kind not in (SafetyClass.PERFORMANCE, SafetyClass.FORBIDDEN))


class ServerSettings(BaseModel, ABC):
    """The keys that all kinds of target share; a kind adds its own and says what may be combined.

    Attributes:
        PATHS: keys that name a file or folder; see `full_path`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    PATHS: ClassVar[tuple[str, ...]] = ("log_file",)

    kind: str
    restart: str | None = Field(None, description="command that restarts it")
    restart_timeout_s: float = Field(120.0, gt=0, description="seconds that the restart command and the start may take")
    log_file: str | None = Field(None, description="the server's log file, for the log lines shown after a failure")
    memory: int | None = Field(
        None,
        description='memory budget that all settings share, such as "1GiB"; default: the memory of the machine, or the cgroup '
        "limit",
    )
    cores: int | None = Field(
        None,
        ge=1,
        description="cores that the server may use; default: those of the machine, or the cgroup limit. For a server on another "
        "machine `memory` and `cores` must be given",
    )
    knobs: str | tuple[str, ...] = Field(
        "performance",
        description="a set, or a list of names and sets; if the workload only reads, every set but 'all' leaves out "
        "settings that affect writes only",
    )
    unlock: tuple[str, ...] = Field((), description="safety classes to unlock")
    allow_restart: bool = Field(True, description="whether to tune settings that need a restart")
    warmup_floor: float | None = Field(
        None,
        ge=0,
        description="shortest warm-up after a restart of it, up to `[measure] warmup_cap`; default: what its catalogue says "
        'where what it compiles cannot be seen ("30s" for Tomcat, "60s" for Cassandra), and else none',
    )

    @field_validator("warmup_floor", mode="before")
    @classmethod
    def _warmup_floor(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        with as_value_errors():
            return parse_duration(value)

    @field_validator("memory", "memory_limit", mode="before", check_fields=False)
    @classmethod
    def _memory(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            with as_value_errors():
                value = parse_size(value)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        # What a study began with must stay readable: the way back is in its journal.
        if is_number and value < _LEAST_MEMORY and not (info.context or {}).get(_KEPT):
            raise ValueError(f'{value} bytes are too few for a server; write a size with its unit, such as "4GiB"')
        return value

    @field_validator("unlock")
    @classmethod
    def _unlock(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in _LOCKABLE:
                raise ValueError(f"unknown safety class {name!r}; use some of: {', '.join(_LOCKABLE)}")
        return value

    @field_validator("restart")
    @classmethod
    def _restart(cls, value: str | None) -> str | None:
        if value is not None and not shlex.split(value):
            raise ValueError("is empty; leave it out when the server cannot be restarted")
        return value

    @property
    @abstractmethod
    def safe_url(self) -> str | None:
        """Where the target is, without a password; None for a server of our own."""

    @abstractmethod
    def check_url(self) -> None:
        """That the connection string, where there is one, can be read.

        Raises:
            UsageError: it cannot; the text is not repeated, for it may hold a password.
        """

    @abstractmethod
    def with_full_paths(self, directory: Path) -> Self:
        """The same, with every path that is not a key of `PATHS` as `full_path` has it."""

    @property
    def server(self) -> str:
        """The server's name for `credentials`."""
        return f"{self.kind} {self.safe_url}"

    def public(self) -> dict[str, Any]:
        """The table without secrets, such that it can be read again."""
        return self.model_dump(mode="json", exclude_none=True)


class _Place(BaseModel):
    """Where a database server is; a base of its own, so that these keys come first in pages and messages."""

    kind: str
    embedded: str | None = None
    url: SecretStr | None = None
    data_dir: str | None = Field(None, description="the running server's data directory, if it is on this machine")


class DatabaseSettings(ServerSettings, _Place, ABC):
    """The keys that all kinds of database server share.

    Attributes:
        WAYS: the two ways to a server as a user writes them, for the message that asks for one of them.
        ONLY_URL: keys that describe a server which runs already.
        URL: what a connection string is called, and how it is written.
        URL_SECRETS, URL_PATHS: parts of it that are secret, or name a file.
    """

    WAYS: ClassVar[str]
    URL: ClassVar[tuple[str, str]]
    URL_SECRETS: ClassVar[tuple[str, ...]] = ("password",)
    URL_PATHS: ClassVar[tuple[str, ...]] = ()
    ONLY_URL: ClassVar[tuple[str, ...]] = ("data_dir", "restart", "log_file")
    PATHS: ClassVar[tuple[str, ...]] = ("data_dir", "log_file")

    memory_limit: bool | int = Field(
        False,
        description="run the embedded server under a memory limit (cgroup): a size, or true for the value of `memory`",
    )
    immediate_stop: bool | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.embedded is None) == (self.url is None):
            raise ValueError(f"needs exactly one of {self.WAYS}")
        only_url = [key for key in self.ONLY_URL if getattr(self, key) is not None]
        if self.embedded is not None and only_url:
            raise ValueError(f"{only_url[0]} goes with url, not with embedded")
        if self.memory_limit and self.embedded is None:
            raise ValueError("memory_limit needs embedded; set the limit of a running server where you start it")
        return self

    @abstractmethod
    def _parts(self, url: str) -> dict[str, Any]:
        """A connection string, part by part.

        Raises:
            ValueError: it is none.
        """

    @abstractmethod
    def _joined(self, parts: Mapping[str, Any]) -> str:
        """The inverse."""

    def url_parts(self) -> dict[str, Any]:
        """The connection string, part by part; {} without one. What stands in a history for a password is left out.

        Raises:
            UsageError: it cannot be read; the text is not repeated, for it may hold a password.
        """
        name, example = self.URL
        try:
            parts = self._parts(self.url.get_secret_value()) if self.url is not None else {}
        except ValueError:
            raise UsageError(f"url is not a {name} connection string", hint=f"write it as in: {example}") from None
        return {key: value for key, value in parts.items() if not (key in self.URL_SECRETS and value == MASK)}

    @property
    def safe_url(self) -> str | None:
        """The connection string without its password."""
        if self.url is None:
            return None
        return self._joined({key: value for key, value in self.url_parts().items() if key not in self.URL_SECRETS})

    @property
    def password(self) -> str | None:
        """The password in the connection string; None lets files and environment have it."""
        value = self.url_parts().get("password")
        return None if value is None else str(value)

    def check_url(self) -> None:
        """See `ServerSettings`."""
        self.url_parts()

    def with_full_paths(self, directory: Path) -> Self:
        """See `ServerSettings`."""
        parts = self.url_parts()
        full = {key: full_path(parts[key], directory) for key in self.URL_PATHS if self._is_path(parts.get(key))}
        if all(parts[key] == path for key, path in full.items()):
            return self
        return self.model_copy(update={"url": SecretStr(self._joined({**parts, **full}))})

    def _is_path(self, value: object) -> bool:
        """Whether what stands in the place of a path is one."""
        return isinstance(value, str) and value != ""

    @property
    def memory_limit_bytes(self) -> int | None:
        """The limit to put an embedded server under; None for none."""
        return self.memory if self.memory_limit is True else self.memory_limit or None

    def public(self) -> dict[str, Any]:
        """The table without secrets, such that it can be read again."""
        table = self.model_dump(mode="json", exclude={"url"}, exclude_none=True)
        return table | ({"url": self.safe_url} if self.url is not None else {})


S = TypeVar("S", bound=ServerSettings)


def full_path(text: str, directory: Path) -> str:
    """A path as it means the same in every process: `~`, `$HOME` and other variables replaced, and absolute.

    Args:
        text: of the study file.
        directory: what a relative one starts from.

    Raises:
        UsageError: a variable is not set.
    """
    path = os.path.expanduser(os.path.expandvars(text))
    missing = _VARIABLE.search(path)
    if missing is not None:
        raise UsageError(
            f"path={text!r} names a variable that is not set: {missing[0]}", hint="set it, or write the path"
        )
    return os.path.abspath(directory / path)


def _hint(model: type[ServerSettings], key: str, error: BaseException | None) -> str:
    """Of a wrong value: that of the error behind it (see `as_value_errors`), or what the key means."""
    behind = error.__cause__ if error is not None else None
    if isinstance(behind, UsageError) and behind.hint:
        return behind.hint
    field = model.model_fields.get(key)
    return f"{key}: {field.description}" if field is not None and field.description else "see `trimtab init`"


def read_table(
    model: type[S], name: str, table: Mapping[str, Any], directory: Path | None = None, *, is_kept: bool = False
) -> S:
    """Checks a [target.NAME] table; its paths are relative to `directory`, the study file's (None: the current folder).
    `is_kept`: a journal has it, of a study that has begun with it, so it is not asked whether its sizes make sense.

    Raises:
        UsageError: an unknown key (with the closest name), a wrong value or combination.
    """
    directory = (directory or Path()).absolute()
    for key in table:
        if key not in model.model_fields:
            close = difflib.get_close_matches(key, model.model_fields, n=1)
            known = ", ".join(model.model_fields)
            raise UsageError(
                f"unknown key {key!r} in [target.{name}]",
                hint=f"did you mean {close[0]!r}?" if close else f"the keys are: {known}",
            )
    try:
        settings = model.model_validate(dict(table), context={_KEPT: is_kept})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"][:1])
        where = f"[target.{name}] {key}".rstrip()
        message = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{where}: {message}", hint=_hint(model, key, first.get("ctx", {}).get("error"))) from None
    settings.check_url()
    paths = {key: full_path(text, directory) for key in model.PATHS if (text := getattr(settings, key)) is not None}
    return settings.model_copy(update=paths).with_full_paths(directory)
