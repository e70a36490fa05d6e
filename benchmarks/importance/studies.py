"""The study files beside this one, with some keys changed, run to an end; what was measured already is not measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from trimtab.history import StudyRecord, open_history_at
from trimtab.importance import Consensus
from trimtab.records import Trial
from trimtab.report import Progress
from trimtab.study import StudyFile, load_study_file, rank_study, run_design, tune

HERE = Path(__file__).parent


def study(stem: str, *, knobs: list[str] | None = None, **tables: dict[str, Any]) -> StudyFile:
    """The file `stem`.toml with the keys of `tables` (study, workload, measure, proof, search) replaced."""
    file = load_study_file(HERE / f"{stem}.toml")
    data = file.model_dump(mode="json")
    for table, keys in tables.items():
        data[table] |= keys
    if knobs is not None:
        data["target"]["db"]["knobs"] = knobs
    return StudyFile.model_validate(data)


def designed(file: StudyFile, folder: Path, kind: str, runs: int | None, rankers: tuple[str, ...] = ()) -> Consensus:
    """The ranks by a design's runs, which are measured or gone on with."""
    with Progress(Console(stderr=True)) as progress:
        record, _ = run_design(file, folder, progress, kind=kind, runs=runs)
    with open_history_at(None, folder) as history:
        return rank_study(history, record.name, rankers=rankers).consensus


def tuned(file: StudyFile, folder: Path) -> tuple[StudyRecord, list[Trial]]:
    """A study from baseline to proof."""
    with Progress(Console(stderr=True)) as progress:
        return tune(file, folder, progress)


def machine_of(folder: Path, name: str) -> dict[str, Any]:
    """What the study ran on."""
    with open_history_at(None, folder) as history:
        found = history.find_study(name)
    if found is None:
        raise LookupError(name)
    machine = found.machine
    return {"cores": machine.cores, "memory_bytes": machine.memory_bytes, "cpu_model": machine.cpu_model,
            "kernel": machine.kernel, "server": machine.server_version}  # fmt: skip


def ranks(consensus: Consensus) -> dict[str, Any]:
    """The ranks as JSON values, with their intervals."""
    return {
        "n_trials": consensus.n_trials,
        "verdict": consensus.verdict,
        "knee": consensus.knee,
        "r2": consensus.r2 if consensus.r2 == consensus.r2 else None,
        "not_worth": dict(consensus.not_worth),
        "knobs": [
            {"knob": e.knob, "share": e.score, "share_low": e.score_low, "share_high": e.score_high,
             "rank": e.rank, "rank_low": e.rank_low, "rank_high": e.rank_high}
            for e in consensus.knobs
        ],
    }  # fmt: skip
