"""A profile as files: one SQL script a statement, and the [workload] tables that run them."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trimtab.errors import UsageError
from trimtab.units import counted, format_figure, format_percent
from trimtab.workload.sql.profile import Profile, Proposal

__all__ = ["new_folder", "study_text", "write_files"]

_WORKLOAD_HEADER = re.compile(r"^\s*\[\[?\s*workload\s*(?:\.[^\]]*)?\]\]?", re.IGNORECASE)
_HEADER = re.compile(r"^\s*\[")
_SCRIPTS = "queries"


def study_text(profile: Profile, source: str, target: str = "") -> str:
    """The study file `source` with the profile's workload in place of its own; `target` is what it drives, of several."""
    kept, is_workload = [], False
    # Not splitlines(): a text may hold what Unicode takes for the end of a line, and TOML does not.
    lines = source.split("\n")
    for number, line in enumerate(lines):
        if _HEADER.match(line) and _is_whole(lines[:number]):
            is_workload = bool(_WORKLOAD_HEADER.match(line))
        if not is_workload:
            kept.append(line)
    return "\n".join(kept).rstrip() + "\n\n" + "\n".join(_workload(profile, target)) + "\n"


def _is_whole(lines: Sequence[str]) -> bool:
    """Whether no array or text of these lines goes on after them: what begins with [ there is a value, and no header."""
    try:
        tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _workload(profile: Profile, target: str) -> list[str]:
    has_writes = any(proposal.writes for proposal in profile.proposals)
    lines = [
        f"# From pg_stat_statements of {profile.database}: {format_percent(profile.share_of_calls, 1)} of the calls, "
        f"{format_percent(profile.share_of_time, 1)} of the execution time.",
        "[workload]",
        'kind = "sql"',
        *([f"target = {_quoted(target)}"] if target else []),
        f"database = {_quoted(profile.database)}",
        f'folder = "{_SCRIPTS}"',
    ]
    if has_writes:
        lines += ['start_state = "rollback"        # every transaction is rolled back: nothing stays written']
    else:
        lines += ["read_only = true"]
    lines += ["", "[workload.load]", *_load(profile), "", "[workload.weights]          # calls"]
    lines += [f"{proposal.label} = {proposal.calls}" for proposal in profile.proposals]
    generators = {name: g for p in profile.proposals for name, g in p.generators.items()}
    if generators:
        lines += ["", "[workload.parameters]"]
        lines += [f"{name} = {_inline(options)}{_remark(options)}" for name, options in generators.items()]
    return lines


def _load(profile: Profile) -> list[str]:
    if not profile.window_s:
        return ["users = 8                      # how many of these run at the same time is not known: say so here"]
    users = max(4, math.ceil(4 * profile.mean_active))
    return [
        f"users = {users:<23}# {format_figure(profile.mean_active, 2)} statements ran at the same time on average",
        'model = "open"',
        f"rate = {_plain(profile.rate_per_s)}{'':<18}# per second, as it was seen",
    ]


def _plain(figure: float) -> str:
    """As TOML has it: without an exponent and without commas."""
    return format_figure(figure).replace(",", "")


def _inline(options: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {_quoted(value)}" for key, value in options.items()) + " }"


def _quoted(value: Any) -> str:
    """A text or a number as TOML has it, which knows no halves of characters (as JSON has them in ASCII)."""
    return json.dumps(value, ensure_ascii=False)


def _remark(options: Mapping[str, Any]) -> str:
    return "   # not known: choose a generator" if options["type"] == "?" else ""


def _script(proposal: Proposal) -> str:
    kind, calls = "writes" if proposal.writes else "reads", counted(proposal.calls, "call")
    return (
        f"-- {calls}, {format_figure(proposal.time_ms / proposal.calls)} ms each on average; {kind}\n{proposal.text};\n"
    )


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Makes `folder`; where nothing comes into it before an error, it is removed again.

    Raises:
        UsageError: it exists already, or cannot be made.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise UsageError(f"folder={str(folder)!r} exists already", hint="name a new one with --output") from error
    except OSError as error:
        raise UsageError(
            f"cannot make folder={str(folder)!r}: {error.strerror}", hint="choose another place"
        ) from error
    try:
        yield
    except BaseException:
        with suppress(OSError):
            folder.rmdir()
        raise


def write_files(profile: Profile, source: str, folder: Path, *, mode: int, target: str = "") -> Path:
    """Writes study.toml and the scripts into `folder`, which has none; returns the study file's path.

    Args:
        profile: what was seen.
        source: text of the study file.
        folder: made where it is not there.
        mode: of the study file, whose text may hold a password.
        target: that the workload drives, where the study has several.
    """
    (folder / _SCRIPTS).mkdir(parents=True)
    for proposal in profile.proposals:
        (folder / _SCRIPTS / f"{proposal.label}.sql").write_text(_script(proposal), encoding="utf-8")
    study = folder / "study.toml"
    study.touch(mode)
    study.write_text(study_text(profile, source, target), encoding="utf-8")
    return study
