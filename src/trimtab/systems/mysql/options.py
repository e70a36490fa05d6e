"""Option files as the server's own program reads them: which they are, and what it would start with now."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from trimtab.errors import TargetError
from trimtab.systems.mysql.reach import Reach
from trimtab.systems.own_program import program_says

__all__ = ["given_options", "option_files", "start_values"]

_DEFAULTS = ("--defaults-file=", "--defaults-extra-file=")
_USUAL = ("/etc/my.cnf", "/etc/mysql/my.cnf")
_INCLUDE = re.compile(rb"^\s*!include(dir)?\s+(\S+)", re.MULTILINE)
_ROW = re.compile(r"^([a-z][a-z0-9-]*) +(.*)$")
_DEPTH = 10
"""As deep as the server itself follows inclusions."""


def option_files(reach: Reach) -> list[Path]:
    """The files that the server reads at its start, as far as this machine shows them, ours among them even if missing.

    They are those of its command line (else the usual two), what these include, and the folder of our own file.
    """
    named = [word.partition("=")[2] for word in reach.argv if word.startswith(_DEFAULTS)]
    found: dict[Path, None] = {}
    if reach.include_file is not None:
        found[reach.include_file] = None
        found.update(dict.fromkeys(_of_folder(reach.include_file.parent)))
    if reach.pid is not None or reach.data_dir is not None:
        for text in named or _USUAL:
            _follow(Path(text), found, 0)
    return sorted(found)


def _of_folder(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.suffix == ".cnf" and not path.name.startswith(".")]
    except OSError:
        return []


def _follow(path: Path, found: dict[Path, None], depth: int) -> None:
    try:
        content = path.read_bytes()
    except OSError:
        return
    found[path] = None
    if depth >= _DEPTH:
        return
    for is_folder, name in _INCLUDE.findall(content):
        inner = Path(os.fsdecode(name))
        for each in _of_folder(inner) if is_folder else [inner]:
            if each not in found:
                _follow(each, found, depth + 1)


def given_options(reach: Reach) -> dict[str, str] | None:
    """Variables that option files and command line set, with their text; the last of two counts. None: it cannot be known.

    `--print-defaults` and `--help` read the files and stop; they open no data.
    """
    first, rest = _split(reach.argv)
    text = _run(reach, [*first, "--print-defaults", *rest])
    if text is None:
        return None
    given = {}
    for word in text.partition("arguments:")[2].split():
        name, _, value = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            given[_variable(name)] = value
    return given


def start_values(reach: Reach) -> dict[str, str]:
    """Variable -> value as text that the server's program would start with now; {} when it cannot be asked."""
    text = _run(reach, [*reach.argv, "--help", "--verbose"])
    _, _, table = (text or "").partition("\nVariables (--variable-name=value)")
    rows = (match for line in table.splitlines() if (match := _ROW.match(line)) is not None)
    return {match[1].replace("-", "_"): match[2].strip() for match in rows}


def _variable(option: str) -> str:
    return option.removeprefix("loose-").replace("-", "_").lower()


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Program with options about files, which must stand first, and the others."""
    about = [word for word in argv[1:] if word.startswith(("--defaults", "--no-defaults"))]
    return [*argv[:1], *about], [word for word in argv[1:] if word not in about]


def _run(reach: Reach, argv: Sequence[str]) -> str | None:
    try:
        result = program_says(reach, argv)
    except TargetError:
        return None
    return result.stdout if result is not None and result.exit_code == 0 else None
