"""Where a history is: what a command was given means the same from another folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.history import History, fixed_place


@pytest.mark.parametrize("given", ["h.db", "sqlite:///h.db", "a/../h.db", "sqlite:///a/../h.db"])
def test_a_relative_file_is_the_one_of_its_folder(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    History.open(tmp_path / "h.db").close()
    place = fixed_place(given, tmp_path)
    monkeypatch.chdir("/")
    History.open(place, is_there=True).close()
    assert fixed_place(place, Path("/elsewhere")) == place


@pytest.mark.parametrize(
    "given",
    [
        "/x/h.db",
        "sqlite:////x/h.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "postgresql://a@b/c",
        "no://such",
    ],
)
def test_what_means_the_same_everywhere_stays_as_it_is(given: str) -> None:
    assert fixed_place(given, Path("/elsewhere")) == given
