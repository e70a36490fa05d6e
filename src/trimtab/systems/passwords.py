"""Passwords: those of a system that a catalogue describes. No command line has them: commands find them in their environment.

A password comes from the address in the study file (`url`, or a URL among `names`), from a file of `password_files`, or from the
environment variable that `passwords` names. Addresses are separated from it when the table is read, so that nothing that is
filled in, shown or journalled has it; the dead-man gets it from the tuner (see `trimtab.systems.credentials`).
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from trimtab.errors import TargetError, UsageError
from trimtab.redact import MASK, remember, without_password
from trimtab.systems.credentials import keep, received
from trimtab.systems.http_probe import is_http
from trimtab.systems.placeholder import places

if TYPE_CHECKING:
    from trimtab.systems.catalog import Catalog
    from trimtab.systems.command_settings import CommandSettings

__all__ = ["URL", "Passwords", "public_url", "require_hidden", "separated"]

URL = "url"
"""The address for loads, beside the names of `names`."""

_WHOLE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_NO_PORT = re.compile(r":[^\d\[{]")
_PORT = re.compile(r":(?!\{\w[\w.]*\}$)([^:\]]+)$")
_LAST_PORT = 65535
_ASKED = ("cql://", "unix:")
_MOST_BYTES = 4096


def separated(text: str, where: str) -> tuple[str, str]:
    """An address without the password of its user, and that or "". Other texts are as they are; a history has no password.

    Raises:
        UsageError: the address cannot be read; it is not repeated, for it may hold a password.
    """
    if _WHOLE.fullmatch(text) is None:
        return text, ""
    try:
        place = urlsplit(text).netloc
    except ValueError:
        place = ":?"
    user, at, host = place.rpartition("@")
    if not at and _NO_PORT.search(re.sub(r"\[[^\]]*\]", "", place)) and "@" in text:
        raise UsageError(
            f"{where} is an address that cannot be read",
            hint="write / ? # and @ in its password as %2F %3F %23 and %40",
        )
    if (port := _PORT.search(host)) is not None and not (port[1].isdecimal() and int(port[1]) <= _LAST_PORT):
        raise UsageError(f"{where} is an address with port={port[1]!r}", hint="write it as in: SCHEME://HOST:PORT/")
    name, colon, password = user.partition(":")
    if not colon:
        return text, ""
    bare = text.replace(place, f"{name}@{host}" if name else host, 1)
    return bare, "" if password == MASK else unquote(password)


def public_url(text: str) -> str:
    """An address without any password, one behind its question mark too; other texts as they are."""
    if _WHOLE.fullmatch(text) is None:
        return text
    try:
        bare, _ = separated(text, "")
    except UsageError:
        return without_password(text)
    place, sign, query = bare.partition("?")
    return f"{place}{without_password(sign + query)}" if sign else bare


def _has_password(command: str) -> bool:
    """Whether an address among the words of a command has one."""
    for word in command.split():
        with suppress(ValueError):  # no address
            if urlsplit(word.strip("'\"")).password:
                return True
    return False


class Passwords:
    """See the module.

    Args:
        settings: the table.
    """

    def __init__(self, settings: CommandSettings) -> None:
        self._settings = settings
        self._used: dict[str, str] = {}

    def of(self, name: str) -> str | None:
        """The password of an address of the table; None where nobody has one. The dead-man gets it.

        Raises:
            TargetError: its file cannot be read, or others may read it.
        """
        s = self._settings
        found = s.given.get(name) or received(s.server).get(name) or self._in_file(name) or self._in_environment(name)
        if found:
            remember(found)
            self._used[name] = found
            keep(s.server, self._used)
        return found or None

    def environment(self, command: str) -> Mapping[str, str] | None:
        """Of a command that names an address with a password; None: this process's own."""
        s, more = self._settings, dict[str, str]()
        for name in places(command):
            if name in s.passwords and (password := self.of(name)) is not None:
                more[s.passwords[name]] = password
        return {**os.environ, **more} if more else None

    def only_in(self) -> str:
        """Where the only password of an address stands that a later process would lack: "url", a variable, or "" for none."""
        found = {self._only_in(name) for name in self._settings.passwords} - {""}
        return URL if URL in found else min(found, default="")

    def _only_in(self, name: str) -> str:
        given, variable = self._settings.given.get(name), self._in_environment(name)
        if self._in_file(name) or not (given or variable):
            return ""
        return URL if given and given != variable else self._settings.passwords[name]

    def _in_environment(self, name: str) -> str:
        return os.environ.get(self._settings.passwords.get(name, ""), "")

    def _in_file(self, name: str) -> str:
        path = self._settings.password_files.get(name)
        return _first_line(name, Path(path)) if path is not None else ""


def _first_line(name: str, path: Path) -> str:
    where = f"password_files of {name!r}: file={str(path)!r}"
    try:
        with path.open("rb") as file:
            seen = os.fstat(file.fileno())
            if not stat.S_ISREG(seen.st_mode) or stat.S_IMODE(seen.st_mode) & 0o077:
                raise TargetError(f"{where} may be read by others", hint=f"chmod 600 {shlex.quote(str(path))}")
            return file.read(_MOST_BYTES).decode(errors="replace").partition("\n")[0].rstrip("\r")
    except OSError as error:
        raise TargetError(f"{where} cannot be read: {error.strerror}", hint="its first line is the password") from error


def require_hidden(name: str, settings: CommandSettings, catalog: Catalog) -> CommandSettings:
    """The table of a target called `name`, no command of which has a password in its words.

    Raises:
        UsageError: one has.
    """
    for each, text in settings.names.items():
        if settings.embedded is not None and public_url(text) != text:
            raise UsageError(
                f"[target.{name}] names: the address {each!r} has a password, and may go into files of a private server",
                hint="leave the password out",
            )
    for where, command in _commands(settings, catalog):
        if command.startswith(_ASKED) or is_http(command):
            continue  # an address to ask, and no program
        if _has_password(command):
            raise UsageError(
                f"[target.{name}] {where} has a password in it, which everyone could read in the list of processes",
                hint='give the address a name: names = { NAME = "..." }, passwords = { NAME = "VARIABLE" }, and write {NAME}',
            )
        for each in places(command):
            if (why := _shown(each, where, settings)) is not None:
                raise UsageError(f"[target.{name}] {where} names {{{each}}}: {why[0]}", hint=why[1])
    return settings


def _commands(settings: CommandSettings, catalog: Catalog) -> Iterator[tuple[str, str]]:
    yield from settings.commands().items()
    for channel, table in catalog.channel.items():
        yield from (
            (f"[channel.{channel}] {key}", text) for key, text in (("read", table.read), ("check", table.check))
        )
    yield from ((f"[facts] {fact}", text) for fact, text in catalog.facts.items())


def _shown(name: str, where: str, settings: CommandSettings) -> tuple[str, str] | None:
    """Why a command that names an address would show a password or lack it, and what to do; None where neither is so."""
    value = settings.names.get(name, "")
    if public_url(value) != value and name in settings.passwords:
        return "a password behind its question mark would be in the list of processes", "leave it out"
    if public_url(value) != value:
        return (
            "its password would be in the list of processes",
            f'add passwords = {{ {name} = "VARIABLE" }}: the command then finds it in that environment variable',
        )
    if where == "run" and name in settings.given:
        return "what Trimtab runs itself gets no password in its environment", "leave the password out"
    return None
