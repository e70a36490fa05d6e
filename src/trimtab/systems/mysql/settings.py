"""The [target.NAME] table of a MySQL or MariaDB target: keys, defaults and what may be combined."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from trimtab.records import Endpoint
from trimtab.systems.settings import DatabaseSettings, read_table

__all__ = ["Settings", "read_settings"]

_PORT = 3306
_OPTIONS = ("socket", "sslmode", "sslrootcert", "sslcert", "sslkey", "defaults_file")


class Settings(DatabaseSettings):
    """What the study file may say about a MySQL or MariaDB target."""

    WAYS: ClassVar[str] = 'embedded = "mariadb" (or "mysql") and url = "mysql://..."'
    URL: ClassVar[tuple[str, str]] = (
        "MySQL",
        "mysql://user@host:3306/database, or mysql://user@localhost/database?socket=/run/mysqld/mysqld.sock",
    )
    URL_PATHS: ClassVar[tuple[str, ...]] = ("sslrootcert", "sslcert", "sslkey", "defaults_file")
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
    restart_timeout_s: float = Field(
        120.0,
        gt=0,
        description="seconds that the restart command and the start may take, and a resize of buffer pool or redo log",
    )
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

    def _parts(self, url: str) -> dict[str, Any]:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        if parts.scheme not in ("mysql", "mariadb") or not parts.username or set(options) - set(_OPTIONS):
            raise ValueError
        socket = options.pop("socket", "")
        if socket and not socket.startswith("/"):
            raise ValueError
        return {
            "user": unquote(parts.username),
            "password": None if parts.password is None else unquote(parts.password),
            "host": socket or parts.hostname or "localhost",
            "port": parts.port or _PORT,
            "database": unquote(parts.path.removeprefix("/")) or "mysql",
            **options,
        }

    def _joined(self, parts: Mapping[str, Any]) -> str:
        host, options = str(parts["host"]), {key: parts[key] for key in _OPTIONS if key in parts}
        if host.startswith("/"):
            options, host = {"socket": host, **options}, "localhost"
        query = "&".join(f"{name}={quote(value, safe='/')}" for name, value in options.items())
        who, database = quote(parts["user"], safe=""), quote(parts["database"], safe="")
        if parts.get("password") is not None:
            who += f":{quote(parts['password'], safe='')}"
        shown = f"[{host}]" if ":" in host else host
        return f"mysql://{who}@{shown}:{parts['port']}/{database}" + (f"?{query}" if query else "")

    def endpoint(self) -> Endpoint:
        """The server that `url` names, with its password.

        Raises:
            UsageError: it is no such URL.
        """
        parts = self.url_parts()
        options = {key: parts.pop(key) for key in _OPTIONS if key in parts}
        return Endpoint(protocol="mysql", options=options, **parts)


read_settings = partial(read_table, Settings)
"""Checks a [target.NAME] table (see `read_table`)."""
