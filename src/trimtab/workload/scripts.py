"""Script files that a study names: read once, with their weights and labels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import UsageError

__all__ = ["ScriptText", "digest", "read_scripts", "with_weights"]

_MAX_BYTES = 1 << 20
_MOST_WEIGHT = 1e15
"""Weights may be calls that a server has counted for years."""
_WEIGHTED = re.compile(r"(?P<path>.+)@(?P<weight>[^@]*)")


@dataclass(frozen=True, slots=True)
class ScriptText:
    """One transaction type as text.

    Attributes:
        label: its name in every figure.
        weight: how often it is chosen, relative to the others.
        text: SQL, or a pgbench script.
        source: where it stands, for messages.
    """

    label: str
    weight: float
    text: str
    source: str


def digest(scripts: Sequence[ScriptText]) -> str:
    """Eight hex digits that change when a script or a weight does."""
    content = repr([(script.label, script.weight, script.text) for script in scripts])
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def read_scripts(names: Sequence[object], directory: Path) -> list[ScriptText]:
    """The files, relative to `directory`; "a.sql@3" has the weight 3, as with pgbench.

    Raises:
        UsageError: a file that cannot be read, is too large or empty, a wrong weight, or one label twice.
    """
    scripts = [_read(name, directory) for name in names]
    labels = [script.label for script in scripts]
    for script in scripts:
        if labels.count(script.label) > 1:
            raise UsageError(
                f"two scripts have the label {script.label!r}", hint="rename a file: its name is the label"
            )
    return scripts


def _read(name: object, directory: Path) -> ScriptText:
    if not isinstance(name, str) or not name:
        raise UsageError(f"script={name!r} is not a file name", hint='for example: "new_order.sql@10"')
    match = _WEIGHTED.fullmatch(name)
    path, weight = (name, 1.0) if match is None else (match["path"], _weight(name, match["weight"]))
    file = directory / path
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise UsageError(f"script={path!r} is larger than 1 MiB", hint="a transaction has some dozen lines")
        text = file.read_text(encoding="utf-8-sig")  # a byte order mark would be a part of the first statement
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise UsageError(f"script={path!r} is not UTF-8 text: {error}", hint="write it as UTF-8") from error
        raise UsageError(
            f"cannot read script={path!r}: {getattr(error, 'strerror', None) or error}",
            hint="paths are relative to the study file",
        ) from error
    return ScriptText(file.stem, weight, text, path)


def _weight(name: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= _MOST_WEIGHT:
        raise UsageError(
            f"script={name!r} has no weight after '@'",
            hint=f'write a number from 0 to {_MOST_WEIGHT:g}: "new_order.sql@10"',
        )
    return weight


def with_weights(scripts: Sequence[ScriptText], weights: object) -> list[ScriptText]:
    """The scripts with the weights of a table by label; those it does not name keep theirs.

    Raises:
        UsageError: an unknown label, a wrong weight, or weights that sum to 0.
    """
    if not isinstance(weights, Mapping):
        raise UsageError(f"[workload.weights] is {weights!r} and no table", hint="for example: new_order = 10")
    labels = {script.label for script in scripts}
    for label, weight in weights.items():
        if label not in labels:
            raise UsageError(
                f"[workload.weights] names {label!r}, which is not a script",
                hint=f"there are: {', '.join(sorted(labels))}",
            )
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= _MOST_WEIGHT:
            raise UsageError(
                f"[workload.weights] {label}={weight!r} is not a weight",
                hint=f"use a number from 0 to {_MOST_WEIGHT:g}",
            )
    weighted = [ScriptText(s.label, float(weights.get(s.label, s.weight)), s.text, s.source) for s in scripts]
    if sum(script.weight for script in weighted) <= 0:
        raise UsageError("the weights of the scripts sum to 0", hint="give at least one script a weight above 0")
    return weighted
