"""Where the programs of a private system come from: what stands in the way is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import TargetError
from trimtab.systems import programs
from trimtab.systems.embedded_table import EmbeddedTable

TABLE = EmbeddedTable.model_construct(program="/bin/server", artifact="a:b:1:tar.gz", sha512="0")


def full_disk(label: str, table: EmbeddedTable, scratch: Path, root: Path) -> None:
    (root / "bin").mkdir()
    raise OSError(28, "No space left on device")


def test_a_cache_that_takes_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    monkeypatch.setattr(programs, "_fetch", full_disk)
    place = tmp_path / "programs"
    with pytest.raises(TargetError, match=f"^server-1 cannot be put into folder='{place}': No space left") as caught:
        programs.installation("server-1", TABLE)
    assert "TRIMTAB_CACHE" in str(caught.value.hint)
    assert list(place.iterdir()) == []
    place.rmdir()
    place.write_bytes(b"")
    with pytest.raises(TargetError, match=f"^server-1 cannot be put into folder='{place}': File exists"):
        programs.installation("server-1", TABLE)


def test_one_that_another_process_has_made_meanwhile_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made_twice(label: str, table: EmbeddedTable, scratch: Path, root: Path) -> None:
        for folder in (root, tmp_path / "programs" / label):
            (folder / "bin").mkdir(parents=True)
            (folder / "bin" / "server").write_bytes(b"")
        monkeypatch.setattr(Path, "exists", lambda path: path.is_file())  # it came just after it was looked for

    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    monkeypatch.setattr(programs, "_fetch", made_twice)
    assert programs.installation("server-1", TABLE) == tmp_path / "programs" / "server-1"
