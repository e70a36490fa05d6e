"""Where a history is: what a command was given means the same from another folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import HistoryError
from trimtab.history import History, fixed_place


@pytest.mark.parametrize("given", ["h.db", "sqlite:///h.db", "a/../h.db", "sqlite:///a/../h.db"])
def test_a_relative_file_is_the_one_of_its_folder(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    History.open(tmp_path / "h.db").close()
    place = fixed_place(given, tmp_path)
    monkeypatch.chdir("/")
    History.open(place, is_there=True).close()
    assert fixed_place(place, Path("/elsewhere")) == place


@pytest.mark.parametrize("given", ["~/h.db", "sqlite:///~/h.db"])
def test_a_home_directory_is_one_in_a_url_too(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for place in (given, fixed_place(given, tmp_path)):
        History.open(place).close()
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home" / "h.db").is_file()


def test_the_home_of_a_user_that_does_not_exist_is_a_name_like_any_other(tmp_path: Path) -> None:
    place = fixed_place("~no-such-user/h.db", tmp_path)
    assert place == str(tmp_path / "~no-such-user" / "h.db")
    for given in (place, "~no-such-user/h.db"):
        with pytest.raises(HistoryError, match="there is no history="):
            History.open(given, is_there=True)


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
