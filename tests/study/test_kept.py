"""What the history keeps of a study file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trimtab.study import load_study_file
from trimtab.study.kept import kept_settings

TEXT = """
[study]
name = "s"
{study}
[target.db]
kind = "postgresql"
embedded = "18"
[workload]
kind = "sql"
folder = "queries"
parameters = {{ name = {{ type = "choice", values = ["Ada"] }} }}
[workload.cycle]
contexts = [
  {{ name = "day", users = 3, parameters = {{ name = {{ type = "choice", values = ["Grace"] }}, town = "Rome" }} }},
  {{ name = "night", users = 1 }},
]
"""


@pytest.mark.parametrize(("study", "is_kept"), [("", False), ("keep_query_text = true", True)])
def test_the_values_in_queries_are_kept_only_where_that_is_asked_also_those_of_contexts(
    tmp_path: Path, study: str, is_kept: bool
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(TEXT.format(study=study))
    plain: Any = object()
    workload = kept_settings(load_study_file(path), plain)["workload"]
    assert [word in str(workload) for word in ("Ada", "Grace", "Rome")] == [is_kept] * 3
    day, night = workload["cycle"]["contexts"]
    assert (day["users"], day["parameters"]["name"]["type"], night) == (3, "choice", {"name": "night", "users": 1})
