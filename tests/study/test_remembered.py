"""Where study files lie: what is said where that is not known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.study import remember_file, remembered_file


def test_a_path_that_is_no_text_is_found_again(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"\xe4") / "s.toml"
    file.parent.mkdir()
    file.touch()
    remember_file(tmp_path, "s", file)
    assert remembered_file(tmp_path, "s") == file


@pytest.mark.parametrize(
    ("history", "given"),
    [
        (None, ""),
        ("other place.db", " --history 'other place.db'"),
        ("postgresql://u:secret@h/d", " --history postgresql://u@h/d"),
    ],
)
@pytest.mark.parametrize("is_gone", [False, True])
def test_the_hint_is_for_the_history_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history: str | None, given: str, is_gone: bool
) -> None:
    """Another study may have that name in the state directory's own history, or none."""
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path))
    if is_gone:
        remember_file(tmp_path, "s", tmp_path / "s.toml")
    with pytest.raises(UsageError) as caught:
        remembered_file(tmp_path, "s", history=history)
    assert caught.value.hint == f"give it: trimtab apply s --study FILE{given}"
