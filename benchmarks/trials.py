"""The open trial set: every trial of an experiment as JSON lines and Parquet, without what belongs to the machine's owner.

    python benchmarks/trials.py STATE FOLDER NAME...

writes the own studies whose names begin with NAME, of the history in STATE, to FOLDER/NAME.jsonl and FOLDER/NAME.parquet. Paths
of this machine are replaced (`~` for the home directory, and so on), its name is left out.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from trimtab.errors import HistoryError
from trimtab.history import StudyQuery, export_studies, load_format, open_history_at
from trimtab.workload.cache import cache_directory

__all__ = ["own_paths", "publish"]


def own_paths(state: Path) -> Mapping[str, str]:
    """What stands for each path of this machine, the longest first."""
    found = {
        str(state.resolve()): "STATE",
        str(Path.cwd()): ".",
        str(Path.home()): "~",
        str(cache_directory()): "CACHE",
        tempfile.gettempdir(): "TEMP",
    }
    return {path: found[path] for path in sorted(found, key=len, reverse=True) if path not in ("", "/")}


def publish(state: Path, folder: Path, name: str) -> int:
    """Writes the studies of that name; how many there are.

    Raises:
        HistoryError: there is none, or a file cannot be written.
    """
    lines, columns = load_format("jsonl", ""), load_format("parquet", "")
    with open_history_at(None, state) as history, tempfile.TemporaryDirectory() as temporary:
        ids = [study.id for study in history.summaries(StudyQuery(name=f"{name}*", is_own=True))]
        if not ids:
            raise HistoryError(
                f"no study in {state} has a name that begins with name={name!r}", hint="see trimtab history list"
            )
        written = Path(temporary) / f"{name}.jsonl"
        export_studies(history, ids, lines, str(written))
        text = written.read_text(encoding="utf-8")
        for path, word in own_paths(state).items():
            text = text.replace(path, word)
        text = re.sub(r'"hostname":"[^"]*"', '"hostname":""', text)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    columns.write(lines.read(str(folder / f"{name}.jsonl")).studies, str(folder / f"{name}.parquet"))
    return len(ids)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("state", type=Path, help="directory of the history")
    parser.add_argument("folder", type=Path, help="for the files; made where it is missing")
    parser.add_argument("name", nargs="+", help="how the studies' names begin; one pair of files for each")
    arguments = parser.parse_args()
    for name in arguments.name:
        try:
            n = publish(arguments.state, arguments.folder, name)
        except HistoryError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        print(f"{name}: {n} studies")
    return 0


if __name__ == "__main__":
    sys.exit(main())
