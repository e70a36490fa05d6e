"""The settings of a config as text ready for configuration files: one text for each target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["as_one_text", "write_fragments"]


def as_one_text(fragments: Mapping[str, str], *, is_one: bool) -> str:
    """All fragments for people: that of a single target as it is, those of several under their names."""
    if is_one:
        return next(iter(fragments.values()), "")
    return "\n".join(f"{_mark(name)}{text}" for name, text in fragments.items())


def _mark(target: str) -> str:
    """The line by which `trimtab bench --config` knows whose settings follow."""
    return f"# [target.{target}]\n"


def write_fragments(state_dir: Path, study: str, fragments: Mapping[str, str], *, is_one: bool) -> list[Path]:
    """Writes results/STUDY.conf, or results/STUDY.TARGET.conf for each target where there are several; their paths."""
    paths = []
    for name, text in fragments.items():
        suffix = "conf" if is_one else f"{name}.conf"
        path = state_dir / "results" / f"{study}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if is_one else _mark(name) + text, encoding="utf-8")
        paths.append(path)
    return paths
