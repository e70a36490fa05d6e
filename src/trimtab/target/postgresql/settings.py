"""The [target.NAME] table of a PostgreSQL target: keys, defaults and what may be combined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import Field, SecretStr, model_validator

from trimtab.errors import UsageError
from trimtab.target.settings import ServerSettings, read_table

__all__ = ["Settings", "read_settings"]


class Settings(ServerSettings):
    """What the study file may say about a PostgreSQL target."""

    WAYS: ClassVar[str] = 'embedded = "18" and url = "postgresql://..."'

    kind: Literal["postgresql"] = "postgresql"
    embedded: Literal["16", "18"] | None = Field(None, description='a server from a wheel: "18" or "16"')
    url: SecretStr | None = Field(None, description='a running server: "postgresql://user@host:port/db" or "host=... "')
    restart: str | None = Field(None, description='command that restarts it, such as "systemctl restart postgresql"')
    immediate_stop: bool | None = Field(
        None,
        description="whether a server that does not stop within a minute may be stopped at once (SIGQUIT; it replays its "
        "log at the next start); default: only an embedded one",
    )

    @model_validator(mode="after")
    def _restart_needs_files(self) -> Settings:
        if self.restart is not None and self.data_dir is None:
            raise ValueError("restart needs data_dir too: without the files a failed start could not be undone")
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

    def check_url(self) -> None:
        """See `ServerSettings`."""
        self.connection_fields()


def read_settings(name: str, table: Mapping[str, Any]) -> Settings:
    """Checks a [target.NAME] table.

    Raises:
        UsageError: an unknown key (with the closest name), a wrong value or combination.
    """
    return read_table(Settings, name, table)
