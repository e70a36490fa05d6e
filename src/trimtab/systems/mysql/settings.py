"""The [target.NAME] table of a MySQL or MariaDB target: keys, defaults and what may be combined."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from trimtab.errors import UsageError
from trimtab.records import Endpoint
from trimtab.redact import MASK
from trimtab.systems.settings import DatabaseSettings, full_path, read_table

__all__ = ["Settings", "read_settings"]

_PORT = 3306
_OPTIONS = ("socket", "sslmode", "sslrootcert", "defaults_file")
_PATH_OPTIONS = ("sslrootcert", "defaults_file")


class Settings(DatabaseSettings):
    """What the study file may say about a MySQL or MariaDB target."""

    WAYS: ClassVar[str] = 'embedded = "mariadb" (or "mysql") and url = "mysql://..."'
    ONLY_URL: ClassVar[tuple[str, ...]] = ("data_dir", "include_file", "restart", "log_file")
    PATHS: ClassVar[tuple[str, ...]] = ("data_dir", "include_file", "log_file")

    kind: Literal["mysql", "mariadb"] = "mysql"
    embedded: str | None = Field(
        None,
        description="a private server with its own data directory, run with the installed mariadbd or mysqld: "
        '"mariadb", "mysql", or the path of the program',
    )
    url: SecretStr | None = Field(
        None, description='a running server: "mysql://user@host:3306/db", or "mysql://user@localhost/db?socket=/run/…"'
    )
    include_file: str | None = Field(
        None,
        description="separate option file for Trimtab that the server reads last: /etc/mysql/mariadb.conf.d/zz-trimtab.cnf",
    )
    restart: str | None = Field(None, description='command that restarts it, such as "systemctl restart mariadb"')
    log_file: str | None = Field(None, description="the server's error log, for the log lines shown after a failure")
    immediate_stop: bool | None = Field(
        None,
        description="whether to kill a server that does not stop within a minute (it recovers at the next start); "
        "default: embedded servers only",
    )

    @field_validator("embedded")
    @classmethod
    def _is_program(cls, embedded: str | None) -> str | None:
        if embedded is not None and embedded not in ("mariadb", "mysql") and not embedded.startswith("/"):
            raise ValueError(f'{embedded!r} is neither "mariadb" nor "mysql" nor the path of a server program')
        return embedded

    @model_validator(mode="after")
    def _restart_needs_file(self) -> Settings:
        if self.restart is not None and self.include_file is None:
            raise ValueError("restart needs include_file too: without a file nothing would outlive the restart")
        return self

    def endpoint(self) -> Endpoint:
        """The server that `url` names, with its password.

        Raises:
            UsageError: it is no such URL.
        """
        try:
            return self._parsed()
        except ValueError:
            # The text is not repeated: it may hold a password.
            raise UsageError(
                "url is not a MySQL connection string",
                hint="write it as in: mysql://user@host:3306/database, or mysql://user@localhost/database?socket=/run/mysqld/mysqld.sock",
            ) from None

    def _parsed(self) -> Endpoint:
        parts = urlsplit(self.url.get_secret_value() if self.url is not None else "")
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        if parts.scheme not in ("mysql", "mariadb") or not parts.username or set(options) - set(_OPTIONS):
            raise ValueError
        socket = options.pop("socket", "")
        if socket and not socket.startswith("/"):
            raise ValueError
        return Endpoint(
            protocol="mysql",
            host=socket or parts.hostname or "localhost",
            port=parts.port or _PORT,
            user=unquote(parts.username),
            # What stands in a history for a password is none, and goes to no server.
            password=None if parts.password is None or unquote(parts.password) == MASK else unquote(parts.password),
            database=unquote(parts.path.removeprefix("/")) or "mysql",
            options=options,
        )

    def with_full_paths(self, directory: Path) -> Self:
        """See `DatabaseSettings`."""
        endpoint = self.endpoint() if self.url is not None else None
        options = endpoint.options if endpoint is not None else {}
        full = {key: full_path(options[key], directory) for key in _PATH_OPTIONS if key in options}
        if endpoint is None or all(options[key] == path for key, path in full.items()):
            return self
        url = _url(replace(endpoint, options={**options, **full}), endpoint.password)
        return self.model_copy(update={"url": SecretStr(url)})

    @property
    def safe_url(self) -> str | None:
        """The URL without its password."""
        return _url(self.endpoint(), None) if self.url is not None else None

    def check_url(self) -> None:
        """See `DatabaseSettings`."""
        if self.url is not None:
            self.endpoint()


def _url(endpoint: Endpoint, password: str | None) -> str:
    options, host = dict(endpoint.options), endpoint.host
    if host.startswith("/"):
        options, host = {"socket": endpoint.host, **options}, "localhost"
    query = "&".join(f"{name}={quote(value, safe='/')}" for name, value in options.items())
    user, database = quote(endpoint.user, safe=""), quote(endpoint.database, safe="")
    who = user if password is None else f"{user}:{quote(password, safe='')}"
    shown = f"[{host}]" if ":" in host else host
    return f"mysql://{who}@{shown}:{endpoint.port}/{database}" + (f"?{query}" if query else "")


read_settings = partial(read_table, Settings)
"""Checks a [target.NAME] table (see `read_table`)."""
