"""How the figures of a benchmark were measured: commit, version, machine, load and date. Every results.json has it.

`results.json["made"]` maps each part of the document to its stamp; the pages that show the figures print `line(stamp)`.
What is not known says "unknown".
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

Stamp = dict[str, Any]

FIELDS = ("commit", "version", "machine", "load", "date")
"""What every stamp has. `load` is the lowest and the highest share (0 to 1) of the CPU that others took, or "unknown"; the
rest is text. Where the commit that measured is unknown, `recorded_in` may name the one that added the figures."""

UNKNOWN = "unknown"

_SERVERS = ("postgres", "mariadbd", "mysqld", "apache2")
"""Processes of these names are the run's own: the server under test outlives the process that started it."""


class CpuShare:
    """Counts from its making on; Linux only (elsewhere the share is unknown)."""

    def __init__(self) -> None:
        self._start = _ticks()

    def of_others(self) -> float | None:
        """Share (0 to 1) of all cores' time that neither this process, its children nor the servers took; None when unknown."""
        now = _ticks()
        if self._start is None or now is None:
            return None
        busy, total, own = (b - a for a, b in zip(self._start, now, strict=True))
        # A server of somebody else's that ends meanwhile takes its ticks from `own`: hence the limit above as well.
        return min(1.0, max(0.0, (busy - own) / total)) if total > 0 else None


def _ticks() -> tuple[int, int, int] | None:
    """(busy, total, own) in ticks."""
    try:
        user, nice, system, idle, iowait, irq, softirq, steal = map(
            int, Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
        )
    except (OSError, ValueError):
        return None
    busy = user + nice + system + irq + softirq + steal
    return busy, busy + idle + iowait, _own()


def _own() -> int:
    """Ticks of this process, all below it and the servers, with those of their ended children."""
    parents, ticks, names = {}, {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            head, _, tail = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
        except OSError:
            continue
        fields = tail.split()
        pid = int(folder.name)
        parents[pid], names[pid] = int(fields[1]), head.partition("(")[2]
        ticks[pid] = sum(map(int, fields[11:15]))

    def is_own(pid: int) -> bool:
        while pid in parents:
            if pid == os.getpid() or names[pid] in _SERVERS:
                return True
            pid = parents[pid]
        return False

    return sum(count for pid, count in ticks.items() if is_own(pid))


class Making:
    """Begins with the measurement; `stamp()` ends it."""

    def __init__(self) -> None:
        self._cpu = CpuShare()

    def stamp(self) -> Stamp:
        """What the figures measured since then were made with."""
        share = self._cpu.of_others()
        load = UNKNOWN if share is None else [round(share, 2)] * 2
        return {"commit": commit(), "version": version("trimtab"), "machine": machine(), "load": load, "date": now()}


def now() -> str:
    """The date of a stamp."""
    return shown_date(datetime.now(UTC).timestamp())


def shown_date(at: float) -> str:
    """Unix seconds as the date of a stamp."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def commit() -> str:
    """The commit that is checked out, and whether tracked files (but for results and pages) differ from it."""
    root = Path(__file__).parents[1]
    said = []
    for command in (
        ("rev-parse", "--short", "HEAD"),
        ("status", "--porcelain", "--untracked-files=no", "--", ":!docs", ":!benchmarks/*/results.json"),
    ):
        try:
            done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return UNKNOWN
        if done.returncode:
            return UNKNOWN
        said.append(done.stdout.strip())
    return f"{said[0]} with changes" if said[1] else said[0]


def machine() -> str:
    """Cores, CPU, memory, system and Python of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = platform.machine()
    try:
        for row in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if row.startswith("model name"):
                model = row.partition(":")[2].strip()
                break
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0))
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{cores} cores of {model}, {memory:.1f} GiB, {system}"


def merged(stamps: Iterable[Stamp | None]) -> Stamp:
    """One stamp for figures that were measured at several times; None stands for one of which nothing is known."""
    every = [stamp or dict.fromkeys(FIELDS, UNKNOWN) for stamp in stamps]
    found: Stamp = {name: _joined(stamp[name] for stamp in every) for name in ("version", "machine")}
    found["commit"] = _joined(commit for stamp in every for commit in stamp["commit"].split(", "))
    loads = [stamp["load"] for stamp in every]
    known = [share for load in loads if load != UNKNOWN for share in load]
    found["load"] = [min(known), max(known)] if known and UNKNOWN not in loads else UNKNOWN
    ends = [end for stamp in every for end in stamp["date"].split(" to ")]
    dates = sorted(end for end in ends if end != UNKNOWN)
    first_and_last = dict.fromkeys((*dates[:1], *dates[-1:], *((UNKNOWN,) if len(dates) < len(ends) else ())))
    found["date"] = " to ".join(first_and_last) or UNKNOWN
    return found


def _joined(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values)) or UNKNOWN


def line(stamp: Stamp) -> str:
    """The stamp as one line of a page."""
    recorded = f", recorded in {stamp['recorded_in']}" if "recorded_in" in stamp else ""
    load = stamp["load"]
    if load != UNKNOWN:
        low, high = (f"{100 * share:.0f}" for share in load)
        load = f"others took {low if low == high else f'{low} to {high}'} % of the CPU"
    return (
        f"Measured: {stamp['date']}; commit: {stamp['commit']}{recorded}; version: {stamp['version']}; "
        f"machine: {stamp['machine']}; load: {load}."
    )


def lines(made: Mapping[str, Stamp]) -> str:
    """The stamps of a document, those that are alike in one line; a list where there are several."""
    alike: dict[str, list[str]] = {}
    for part, stamp in made.items():
        alike.setdefault(line(stamp), []).append(part)
    if len(alike) == 1:
        return next(iter(alike))
    return "\n".join(f"- {', '.join(parts)}: {shown}" for shown, parts in alike.items())


def former(path: Path) -> dict[str, Any]:
    """The document at `path`; empty when there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def write(
    path: Path, document: Mapping[str, Any], made: Mapping[str, Stamp], indent: int = 2, sort_keys: bool = False
) -> None:
    """Puts the document with its stamps in place of the former one, whole or not at all.

    Raises:
        ValueError: there is no stamp, or one lacks a field.
    """
    lacking = {part: [name for name in FIELDS if not stamp.get(name)] for part, stamp in made.items()}
    if not made or any(lacking.values()):
        raise ValueError(f"made={lacking}: results need a stamp with {', '.join(FIELDS)}")
    whole = {"schema_version": 1, **document, "made": dict(made)}
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(json.dumps(whole, indent=indent, sort_keys=sort_keys) + "\n")
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)
