"""Option files as the server's own program reads them: which they are, and what it would start with now."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

from trimtab.errors import TargetError
from trimtab.host import CommandResult, open_regular
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.own_program import program_says
from trimtab.systems.seen import environment_of, start_folder

__all__ = ["given_options", "option_files", "program_answer", "start_values"]

_USUAL = ("/etc/my.cnf", "/etc/mysql/my.cnf")
"""What every build reads: where its program cannot be asked for the whole list."""
_LIST = "Default options are read from the following files in the given order:\n"
_PLACES = ("HOME", "MYSQL_HOME", "MARIADB_HOME", "MYSQL_GROUP_SUFFIX", "MARIADB_GROUP_SUFFIX", "PWD")
"""Variables of its environment that say where more of them are, which groups of them count, and where it was started."""
_INCLUDE = re.compile(rb"^[ \t]*![ \t]*include(dir)?[ \t]+(.*\S)", re.MULTILINE)
_SWITCH = re.compile("(skip|enable|disable)_")
"""What a server takes before the name of a variable, in place of a value: skip-innodb-adaptive-hash-index."""
_ROW = re.compile(r"^([a-z][a-z0-9-]*) +(.*)$")
_DEPTH = 10
"""As deep as the server itself follows inclusions."""
_MOST_BYTES = 1 << 20
"""Of one option file, where others are named."""
_asked: WeakKeyDictionary[Reach, tuple[object, Sequence[str]]] = WeakKeyDictionary()
"""Server -> program and environment, and what that program reads by itself: each look at the server wants to know."""


def option_files(reach: Reach) -> list[Path]:
    """The files that the server reads at its start, as far as this machine shows them, ours among them even if missing.

    They are those of its command line and those that its program reads by itself, what these include, and the folder of our own
    file.
    """
    found: dict[Path, None] = {}
    if reach.include_file is not None:
        found[reach.include_file] = None
        found.update(dict.fromkeys(_of_folder(reach.include_file.parent)))
    if reach.pid is not None or reach.data_dir is not None:
        folder = start_folder(_environment(reach))
        for text in _read_at_start(reach):
            _follow(folder / text, folder, found, 0)
    return sorted(found)


def _read_at_start(reach: Reach) -> Sequence[str]:
    """The files that may include others: the one that the command line puts in the place of all; else the program's own, and
    what the command line adds."""
    named = {option: path for option, sign, path in (word.partition("=") for word in reach.argv) if sign}
    if "--no-defaults" in reach.argv:
        return ()
    if "--defaults-file" in named:
        return (named["--defaults-file"],)
    more = named.get("--defaults-extra-file")
    return (*_own(reach), *((more,) if more is not None else ()))


def _own(reach: Reach) -> Sequence[str]:
    """Those of its program, by its own word: builds differ, and so does what stands in the environment of the server."""
    if not any(reach.argv):
        return _USUAL
    environment = _environment(reach)
    asked = (reach.argv[0], environment)
    if reach not in _asked or _asked[reach][0] != asked:
        text = _run(reach, [reach.argv[0], "--no-defaults", "--help", "--verbose"]) or ""
        words = text.partition(_LIST)[2].partition("\n")[0].split()
        home = environment.get("HOME", "~")
        paths = (f"{home}{word[1:]}" if word.startswith("~/") else word for word in words)
        _asked[reach] = (asked, tuple(path for path in paths if path.startswith("/")) or _USUAL)
    return _asked[reach][1]


def _environment(reach: Reach) -> Mapping[str, str]:
    """What of the server's environment says what it reads; {} while it is down, or where this user may not see it."""
    return environment_of(reach.pid, _PLACES)


def _of_folder(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.suffix == ".cnf" and not path.name.startswith(".")]
    except OSError:
        return []


def _follow(path: Path, folder: Path, found: dict[Path, None], depth: int) -> None:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError:
        return
    found[path] = None
    if path.is_symlink():  # as Debian's /etc/mysql/my.cnf: what changes is the file that it leads to
        found[Path(os.path.realpath(path))] = None
    if depth >= _DEPTH:
        return
    for is_folder, name in _INCLUDE.findall(content):
        inner = folder / os.fsdecode(name)
        for each in _of_folder(inner) if is_folder else [inner]:
            if each not in found:
                _follow(each, folder, found, depth + 1)


def given_options(reach: Reach) -> dict[str, str] | None:
    """Variables that option files and command line set, with their text; the last of two counts. None: it cannot be known.

    `--print-defaults` and `--help` read the files and stop; they open no data.
    """
    first, rest = _split(reach.argv)
    text = _run(reach, [*first, "--print-defaults", *rest])
    if text is None:
        return None
    given: dict[str, str] = {}
    for word in text.partition("arguments:")[2].split():
        name, _, value = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            variable = name.replace("-", "_").lower().removeprefix("loose_")
            switched = _SWITCH.match(variable)
            given |= dict.fromkeys((variable, variable[switched.end() :] if switched is not None else variable), value)
    return given


def start_values(reach: Reach) -> dict[str, str]:
    """Variable -> value as text that the server's program would start with now; {} when it cannot be asked."""
    text = _run(reach, [*reach.argv, "--help", "--verbose"])
    _, _, table = (text or "").partition("\nVariables (--variable-name=value)")
    rows = (match for line in table.splitlines() if (match := _ROW.match(line)) is not None)
    return {match[1].replace("-", "_"): match[2].strip() for match in rows}


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Program with options about files, which must stand first, and the others."""
    about = [word for word in argv[1:] if word.startswith(("--defaults", "--no-defaults"))]
    return [*argv[:1], *about], [word for word in argv[1:] if word not in about]


def program_answer(reach: Reach, argv: Sequence[str]) -> CommandResult | None:
    """What the server's program says where the server was started; None where it is unknown, or cannot be run."""
    environment = _environment(reach)
    try:
        return program_says(reach, argv, environment, folder=start_folder(environment))
    except TargetError:
        return None


def _run(reach: Reach, argv: Sequence[str]) -> str | None:
    result = program_answer(reach, argv)
    return result.stdout if result is not None and result.exit_code == 0 else None
