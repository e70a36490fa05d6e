"""Servers that `trimtab init` can propose: those behind a socket here, and those that Trimtab would run; reads only."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.systems.account import user_name
from trimtab.systems.capabilities import FoundServer
from trimtab.systems.server_catalog import Discovery

__all__ = ["found_servers", "own_server", "target_lines"]

_OWN_MEMORY = 'memory = "1GiB"                 # the budget that all memory knobs share'
_MEMORY = '# memory = "4GiB"              # the budget that all memory knobs share; default: RAM or the cgroup limit'

Ask = Callable[[str], tuple[str, str]]
"""A server's version and its place ("" when it does not tell it), by its url; raises `TargetError`."""


def own_server(kind: str, texts: Discovery, is_installed: Callable[[str], bool]) -> FoundServer | None:
    """The first that Trimtab could run here; None when no program is installed."""
    for own in texts.own:
        if is_installed(own.which):
            choice = f'embedded = "{own.which}"'
            return FoundServer(kind=kind, what=own.what, lines=(f"{choice:<32}# {own.says}", _OWN_MEMORY))
    return None


def found_servers(kind: str, texts: Discovery, ask: Ask) -> list[FoundServer]:
    """Every server with a socket in one of the folders that the catalogue names, in the order of its port."""
    found = []
    for _, url in sorted(_urls(texts), key=lambda pair: pair[0]):
        try:
            what, place = ask(url)
        except TargetError as error:
            problem, hint = error.message, error.hint or ""
            found.append(FoundServer(kind=kind, what=texts.name, url=url, problem=problem, hint=hint))
        else:
            found.append(target_lines(kind, texts, url, what, place))
    return found


def _urls(texts: Discovery) -> Iterator[tuple[int, str]]:
    """(port, url) of each socket."""
    for folder in map(Path, texts.folders):
        for path in _entries(folder):
            match = re.fullmatch(texts.socket, path.name)
            if match is not None and path.is_socket():
                port = match.groupdict().get("port") or "0"
                url = texts.url.format(folder=folder, socket=path, port=port, user=user_name())
                yield int(port), url


def _entries(folder: Path) -> list[Path]:
    """What is in a folder; nothing where there is none, or this user may not list it."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def target_lines(kind: str, texts: Discovery, url: str, what: str, place: str = "") -> FoundServer:
    """A server as the study file names it.

    Args:
        kind: of the target.
        texts: of its catalogue.
        url: of the server.
        what: product and version.
        place: where its data is, as it says; "" where it does not: then the first of `places` that is here.
    """
    place = place or next((each for each in texts.places if os.path.isdir(each)), "")
    lines = [f'url = "{url}"   # {what}; no password here: use {texts.password}']
    for each in texts.line:
        match = re.fullmatch(each.where, place)
        if match is not None and (not each.needs or os.path.exists(each.needs)):
            words = {"place": place, "product": what.partition(" ")[0].lower(), **match.groupdict()}
            lines += each.text.format(**words).splitlines()
            break
    return FoundServer(kind=kind, what=what, url=url, lines=(*lines, _MEMORY))
