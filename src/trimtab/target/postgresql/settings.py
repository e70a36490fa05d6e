"""The [target.NAME] table of a PostgreSQL target: keys, defaults and what may be combined."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping
from typing import Any, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from trimtab.errors import UsageError
from trimtab.space import SafetyClass
from trimtab.units import parse_size

__all__ = ["Settings", "read_settings"]

_LOCKABLE = tuple(kind.value for kind in SafetyClass if kind not in (SafetyClass.PERFORMANCE, SafetyClass.FORBIDDEN))


class Settings(BaseModel):
    """What the study file may say about a PostgreSQL target."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["postgresql"] = "postgresql"
    embedded: Literal["16", "18"] | None = Field(None, description='a server from a wheel: "18" or "16"')
    url: SecretStr | None = Field(None, description='a running server: "postgresql://user@host:port/db" or "host=... "')
    data_dir: str | None = Field(None, description="the running server's data directory, when it is on this machine")
    restart: str | None = Field(None, description='command that restarts it, such as "systemctl restart postgresql"')
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
    def _combination(self) -> Settings:
        if (self.embedded is None) == (self.url is None):
            raise ValueError('needs exactly one of embedded = "18" and url = "postgresql://..."')
        only_url = [key for key in ("data_dir", "restart", "log_file") if getattr(self, key) is not None]
        if self.embedded is not None and only_url:
            raise ValueError(f"{only_url[0]} goes with url, not with embedded")
        if self.restart is not None and self.data_dir is None:
            raise ValueError("restart needs data_dir too: without the files a failed start could not be undone")
        if self.memory_limit and self.embedded is None:
            raise ValueError("memory_limit goes with embedded; set the limit of your own server where it is started")
        return self

    @property
    def safe_url(self) -> str | None:
        """The connection string without its password."""
        if self.url is None:
            return None
        fields = {k: v for k, v in self.connection_fields().items() if k not in ("password", "sslpassword")}
        return make_conninfo("", **fields)

    @property
    def password(self) -> str | None:
        """The password in the connection string; None lets libpq look into PGPASSWORD and .pgpass."""
        value = self.connection_fields().get("password") if self.url is not None else None
        return None if value is None else str(value)

    def connection_fields(self) -> dict[str, Any]:
        """The connection string as libpq keywords.

        Raises:
            UsageError: libpq cannot read it.
        """
        text = self.url.get_secret_value() if self.url is not None else ""
        try:
            return dict(conninfo_to_dict(text))
        except psycopg.ProgrammingError:
            # libpq's own words may repeat parts of the text, and with them a password.
            raise UsageError(
                "url is no PostgreSQL connection string",
                hint="write it as in: postgresql://user@host:5432/database, or host=... user=...",
            ) from None

    def public(self) -> dict[str, Any]:
        """The table without secrets, such that `read_settings` accepts it again."""
        table = self.model_dump(mode="json", exclude={"url"}, exclude_none=True)
        return table | ({"url": self.safe_url} if self.url is not None else {})


def read_settings(name: str, table: Mapping[str, Any]) -> Settings:
    """Checks a [target.NAME] table.

    Raises:
        UsageError: an unknown key (with the closest name), a wrong value or combination.
    """
    for key in table:
        if key not in Settings.model_fields:
            close = difflib.get_close_matches(key, Settings.model_fields, n=1)
            known = ", ".join(Settings.model_fields)
            raise UsageError(
                f"unknown key {key!r} in [target.{name}]",
                hint=f"did you mean {close[0]!r}?" if close else f"the keys are: {known}",
            )
    try:
        settings = Settings.model_validate(dict(table))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"][:1])
        where = f"[target.{name}] {key}".rstrip()
        raise UsageError(f"{where}: {first['msg'].removeprefix('Value error, ')}", hint="see `trimtab init`") from None
    settings.connection_fields()
    return settings
