"""ServerSettings: what every [target.NAME] table of a database server may say, and how such a table is read."""

from __future__ import annotations

import difflib
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from trimtab.errors import UsageError
from trimtab.space import SafetyClass
from trimtab.units import parse_size

__all__ = ["ServerSettings", "read_table"]

_LOCKABLE = tuple(kind.value for kind in SafetyClass if kind not in (SafetyClass.PERFORMANCE, SafetyClass.FORBIDDEN))


class ServerSettings(BaseModel, ABC):
    """The keys that all kinds of database server share; a kind adds its own and says what may be combined.

    Attributes:
        WAYS: the two ways to a server as a user writes them, for the message that asks for one of them.
        ONLY_URL: keys that describe a server which runs already.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    WAYS: ClassVar[str]
    ONLY_URL: ClassVar[tuple[str, ...]] = ("data_dir", "restart", "log_file")

    kind: str
    embedded: str | None = None
    url: SecretStr | None = None
    data_dir: str | None = Field(None, description="the running server's data directory, when it is on this machine")
    restart: str | None = Field(None, description="command that restarts it")
    restart_timeout_s: float = Field(120.0, gt=0, description="seconds that the command and the start may take")
    log_file: str | None = Field(None, description="the server's log file, for the lines shown after a failure")
    memory: int | None = Field(None, description='budget that all memory knobs share, such as "1GiB"')
    memory_limit: bool | int = Field(
        False, description="put the embedded server under a memory limit (cgroup): a size, or true for that of `memory`"
    )
    knobs: str | tuple[str, ...] = Field(
        "performance",
        description="a set, or a list of names and sets; where the workload only reads, a set other than 'all' leaves "
        "out what only writes feel",
    )
    unlock: tuple[str, ...] = Field((), description="safety classes to open")
    immediate_stop: bool | None = None
    allow_restart: bool = Field(True, description="whether knobs that need a restart may be tuned")

    @field_validator("memory", "memory_limit", mode="before")
    @classmethod
    def _memory(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parse_size(value)
        except UsageError as error:
            raise ValueError(error.message) from error

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

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.embedded is None) == (self.url is None):
            raise ValueError(f"needs exactly one of {self.WAYS}")
        only_url = [key for key in self.ONLY_URL if getattr(self, key) is not None]
        if self.embedded is not None and only_url:
            raise ValueError(f"{only_url[0]} goes with url, not with embedded")
        if self.memory_limit and self.embedded is None:
            raise ValueError("memory_limit goes with embedded; set the limit of your own server where it is started")
        return self

    @property
    def memory_limit_bytes(self) -> int | None:
        """The limit to put an embedded server under; None for none."""
        return self.memory if self.memory_limit is True else self.memory_limit or None

    @property
    @abstractmethod
    def safe_url(self) -> str | None:
        """The connection string without its password; None for an embedded server."""

    @abstractmethod
    def check_url(self) -> None:
        """That the connection string, where there is one, can be read.

        Raises:
            UsageError: it cannot; the text is not repeated, for it may hold a password.
        """

    def public(self) -> dict[str, Any]:
        """The table without secrets, such that it can be read again."""
        table = self.model_dump(mode="json", exclude={"url"}, exclude_none=True)
        return table | ({"url": self.safe_url} if self.url is not None else {})


S = TypeVar("S", bound=ServerSettings)


def read_table(model: type[S], name: str, table: Mapping[str, Any]) -> S:
    """Checks a [target.NAME] table.

    Raises:
        UsageError: an unknown key (with the closest name), a wrong value or combination.
    """
    for key in table:
        if key not in model.model_fields:
            close = difflib.get_close_matches(key, model.model_fields, n=1)
            known = ", ".join(model.model_fields)
            raise UsageError(
                f"unknown key {key!r} in [target.{name}]",
                hint=f"did you mean {close[0]!r}?" if close else f"the keys are: {known}",
            )
    try:
        settings = model.model_validate(dict(table))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"][:1])
        where = f"[target.{name}] {key}".rstrip()
        raise UsageError(f"{where}: {first['msg'].removeprefix('Value error, ')}", hint="see `trimtab init`") from None
    settings.check_url()
    return settings
