"""The settings of a config as text ready for configuration files: one text for each target."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimtab.records import Verdict
    from trimtab.systems import Stack

__all__ = ["as_one_text", "with_files", "write_fragments"]


def as_one_text(fragments: Mapping[str, str], *, is_one: bool) -> str:
    """All fragments for people: that of a single target as it is, those of several under their names."""
    if is_one:
        return next(iter(fragments.values()), "")
    return "\n".join(f"{_mark(name)}{text}" for name, text in fragments.items())


def _mark(target: str) -> str:
    """The line by which `trimtab bench --config` knows whose settings follow."""
    return f"# [target.{target}]\n"


def with_files(verdict: Verdict, stack: Stack, state_dir: Path, study: str, say: Callable[[str], None]) -> Verdict:
    """`verdict` with where the settings of its winner were written; without, and `say` is told, where they cannot be.

    Only a proven config is written: a server may include the files, which hold an earlier winner of the study until then. For
    the same reason none is removed: `say` is told of those that are not of this verdict's winner.
    """
    if not (verdict.is_better and verdict.fragment):
        _tell_of_earlier(stack, state_dir, study, (), say)
        return verdict
    try:
        paths = write_fragments(state_dir, study, stack.fragments(verdict.config), is_one=stack.is_one)
    except OSError as error:
        folder = state_dir / "results"
        say(f"the settings cannot be written to folder={str(folder)!r}: {error.strerror}; the report has them")
        return verdict
    _tell_of_earlier(stack, state_dir, study, paths, say)
    return replace(verdict, fragment_path=", ".join(map(str, paths)))


def _tell_of_earlier(
    stack: Stack, state_dir: Path, study: str, written: Sequence[Path], say: Callable[[str], None]
) -> None:
    for tier in stack.tiers:
        path = _file_of(state_dir, study, tier.name, is_one=stack.is_one)
        if path not in written and path.exists():
            say(
                f"note: file={str(path)!r} still has the settings of an earlier winner of this study, not of this result"
            )


def _file_of(state_dir: Path, study: str, target: str, *, is_one: bool) -> Path:
    return state_dir / "results" / f"{study}.{'conf' if is_one else f'{target}.conf'}"


def write_fragments(state_dir: Path, study: str, fragments: Mapping[str, str], *, is_one: bool) -> list[Path]:
    """Writes results/STUDY.conf, or results/STUDY.TARGET.conf for each target where there are several; their paths.

    Each is there as a whole or as it was.
    """
    paths = []
    for name, text in fragments.items():
        path = _file_of(state_dir, study, name, is_one=is_one)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            partial.write_text(text if is_one else _mark(name) + text, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        paths.append(path)
    return paths
