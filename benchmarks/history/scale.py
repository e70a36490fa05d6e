"""How a history of 100,000 trials answers: seconds for what people wait for, in SQLite and in PostgreSQL.

    python benchmarks/history/scale.py [--quick] [--postgresql URL]

The studies are made from one real study (tests/history/real.db.gz): every trial is a real one, with its series, figures by
label and histogram; configs and losses are varied. Each question is asked of a history that was just opened, three times;
the median counts. Writes benchmarks/history/results.json.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import stamp

from trimtab.history import History, StudyCopy, StudyQuery, back_up, check, import_file, load_format, read_space
from trimtab.records import Objective, Trial
from trimtab.report import report_text
from trimtab.search import SearchProblem
from trimtab.search.warm import WarmLog, warmed
from trimtab.space import Space
from trimtab.study.near import Task, nearest
from trimtab.study.warm_start import take_over

ROOT = Path(__file__).parents[2]
REAL = ROOT / "tests" / "history" / "real.db.gz"
RESULTS = Path(__file__).with_name("results.json")

N_TRIALS = 100_000
N_STUDIES = 1_000
REPEATS = 3
ASK_S: list[float] = []
"""Of asks with a warm start, the finding of what is near excluded."""

LIMIT_S = 1.0
"""What list, query and the reading of a report may take. (The report itself also ranks knobs: that is not the history's.)"""


def real_study(directory: Path) -> StudyCopy:
    """A study of a real server with its 30 trials."""
    path = directory / "real.db"
    path.write_bytes(gzip.decompress(REAL.read_bytes()))
    with History.open(path) as history:
        return history.copy(history.summaries()[0].id)


def studies(real: StudyCopy, n_studies: int, n_each: int, rng: np.random.Generator) -> Iterator[StudyCopy]:
    """Variations of one study; its trials come round until there are enough."""
    space = read_space(real.record)
    for index in range(n_studies):
        record = replace(
            real.record,
            name=f"study-{index}",
            created_at=real.record.created_at + 3600.0 * index,
            machine=replace(real.record.machine, cores=2 ** int(rng.integers(1, 7))),
            context=replace(real.record.context, workload=f"tpch mix {index % 50}"),
        )
        yield StudyCopy(record, list(trials(real, space, n_each, rng)))


def trials(real: StudyCopy, space: Space, n: int, rng: np.random.Generator) -> Iterator[Trial]:
    """Real trials under other numbers, with other configs and losses."""
    configs = space.decode_many(rng.random((n, space.n_dims)))
    for number, config in enumerate(configs):
        trial = real.trials[number % len(real.trials)]
        loss = None if trial.loss is None else trial.loss + float(rng.normal(0.0, 0.05))
        # The first rounds keep their configs, so that baselines, finalists and proof are those of a whole study.
        kept = trial.config if number < len(real.trials) else config
        yield replace(trial, number=number, config=kept, loss=loss, started_at=trial.started_at + number)


def fill(place: str, real: StudyCopy, n_studies: int, n_each: int) -> float:
    """Seconds to store everything, in batches of ten studies."""
    rng = np.random.default_rng(1)
    source = studies(real, n_studies, n_each, rng)
    spent = 0.0
    with History.open(place) as history:
        while batch := [study for _, study in zip(range(10), source, strict=False)]:
            started = time.perf_counter()
            history.add_copies(batch)
            spent += time.perf_counter() - started
    return spent


def timed(place: str, ask: Callable[[History], Any], repeats: int = REPEATS) -> float:
    """Median seconds, opening the history included."""
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        with History.open(place) as history:
            ask(history)
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def read_of(history: History, name: str) -> StudyCopy:
    """What `trimtab report` reads."""
    record = history.find_study(name)
    if record is None:
        raise LookupError(name)
    return history.copy(record.id)


def report_of(history: History, name: str) -> None:
    """What `trimtab report` does."""
    study = read_of(history, name)
    report_text(study.record, study.trials)


def questions(name: str) -> Mapping[str, Callable[[History], Any]]:
    """What people ask."""
    query = StudyQuery(target="postgresql", workload="mix 7", since=1.0, version="18")
    return {
        "open": lambda history: None,
        "list": lambda history: history.summaries(),
        "query": lambda history: history.summaries(query),
        "report_read": lambda history: read_of(history, name),
        "report": lambda history: report_of(history, name),
        "trial_summaries_of_10_studies": lambda history: history.trial_summaries(range(1, 11)),
        "trial_summaries_of_all": lambda history: history.trial_summaries(range(1, len(history.summaries()) + 1)),
        "warm_settle": warm_start,
        "add_trial": lambda history: add_trial(history, name),
    }


def warm_start(history: History) -> None:
    """Once a study: find the nearest of all, take over their trials, make the searcher; and two asks with that prior."""
    record = history.study(1)
    space = read_space(record)
    task = Task(
        target="postgresql", space=space, objective=Objective.parse(record.objective), machine=record.machine,
        context=record.context, trials=history.trials(1)[:3],
    )  # fmt: skip
    warm = take_over(history, space, record.baseline, nearest(history, task, except_id=1))
    if not warm.past:
        raise LookupError("nothing is near")
    problem = SearchProblem(space=space, baseline=record.baseline, starts=warm.starts, past=warm.past)
    searcher = warmed("auto", problem, WarmLog())
    for trial in task.trials:
        searcher.tell(trial)
    for _ in range(2):
        started = time.perf_counter()
        searcher.tell(replace(task.trials[0], number=99, config=searcher.ask()[0], loss=-0.1))
        ASK_S.append(time.perf_counter() - started)


def add_trial(history: History, name: str) -> None:
    """One more trial, durable."""
    study = read_of(history, name)
    last = study.trials[-1]
    history.add_trial(study.record.id, replace(last, number=last.number + 1))


def size_of(place: str) -> int:
    path = Path(place)
    return path.stat().st_size if path.is_file() else 0


def measure(place: str, directory: Path, real: StudyCopy, n_studies: int, n_each: int) -> dict[str, Any]:
    """Every figure of one kind of database."""
    found: dict[str, Any] = {"n_studies": n_studies, "n_trials": n_studies * n_each}
    found["store_s"] = fill(place, real, n_studies, n_each)
    found["bytes"] = size_of(place)
    for name, ask in questions(f"study-{n_studies // 2}").items():
        found[f"{name}_s"] = timed(place, ask)
    found["warm_ask_s"] = max(ASK_S)
    started = time.perf_counter()
    health = check(place)
    if health.findings:
        raise ValueError(health.findings[0])
    found["check_s"] = time.perf_counter() - started
    started = time.perf_counter()
    back_up(place, directory / f"backup-{len(list(directory.iterdir()))}.db")
    found["backup_s"] = time.perf_counter() - started
    return found


def exchanged(place: str, directory: Path) -> dict[str, float]:
    """Seconds to write and read ten studies in every format."""
    found = {}
    with History.open(place) as history:
        copies = [history.copy(study.id) for study in history.summaries()[:10]]
    for name in ("jsonl", "parquet", "taudb", "csv", "xml", "text"):
        target = load_format(name, "")
        file = str(directory / f"x{target.suffixes[0]}")
        started = time.perf_counter()
        target.write(copies, file)
        written = time.perf_counter()
        with History.open(directory / f"{name}.db") as history, contextlib.redirect_stderr(io.StringIO()):
            import_file(history, target, file)
        found[f"{name}_export_s"], found[f"{name}_import_s"] = written - started, time.perf_counter() - written
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the studies; writes no results")
    parser.add_argument("--postgresql", metavar="URL", help="an empty database to be measured as well")
    options = parser.parse_args()
    n_studies = N_STUDIES // 100 if options.quick else N_STUDIES
    n_each = N_TRIALS // N_STUDIES
    making = stamp.Making()
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as name:
        directory = Path(name)
        real = real_study(directory)
        sqlite = str(directory / "history.db")
        found: dict[str, Any] = {"sqlite": measure(sqlite, directory, real, n_studies, n_each)}
        found["formats_10_studies"] = exchanged(sqlite, directory)
        if options.postgresql:
            found["postgresql"] = measure(options.postgresql, directory, real, n_studies, n_each)
    print(json.dumps(found, indent=2))
    if not options.quick:
        before = stamp.former(RESULTS)
        made = {**before.get("made", {}), **dict.fromkeys(found, making.stamp())}
        found = {**before, **found}
        stamp.write(RESULTS, found, made)
    limited = ("list_s", "query_s", "report_read_s", "warm_ask_s")
    slow = [key for kind in ("sqlite", "postgresql") for key in limited if found.get(kind, {}).get(key, 0.0) > LIMIT_S]
    print(f"slower than {LIMIT_S:g} s: {', '.join(slow) or 'nothing'}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
