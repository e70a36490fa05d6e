"""What a command loads before it answers: who only reads the history does not wait for libraries that search and measure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.history.samples import make_trial, study_values

from trimtab.history import History

HEAVY = ("sklearn", "scipy.stats", "scipy.optimize", "optuna", "plotly", "pydantic", "psycopg")


def _loaded(code: str) -> set[str]:
    code = f"import sys\n{code}\nprint(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stderr.splitlines()[-1].strip("[]").replace("'", "").replace(" ", "").split(",")) - {""}


@pytest.mark.parametrize(
    "command", [("report", "tpch"), ("report", "tpch", "--json"), ("history", "list"), ("history", "show", "tpch")]
)
def test_who_reads_does_not_load_what_searches(tmp_path: Path, command: tuple[str, ...]) -> None:
    place = tmp_path / "history.db"
    with History.open(place) as history:
        study = history.create_study(**study_values())
        for number in range(3):
            history.add_trial(study.id, make_trial(number))
    arguments = [*command, "--history", str(place)]
    code = f"from trimtab.cli import main\ntry:\n    main({arguments!r})\nexcept SystemExit as end:\n    assert not end.code"
    assert _loaded(code) == set()


def test_what_measures_has_its_statistics_before_the_load_runs() -> None:
    """Loaded at first use they would take the processor for a second in the middle of the first measurement."""
    assert "scipy.stats" in _loaded("import trimtab.study")
