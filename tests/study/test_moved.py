"""A study file that is written into another folder means the same files there."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.study import load_study_file
from trimtab.study.moved import moved_text
from trimtab.study.stage import build_stack

CATALOG = Path(__file__).parents[2] / "examples" / "catalogs" / "zstd.toml"
WORKLOAD = '\n[workload]\nkind = "command"\ncommand = "true"\n'


def moved(folder: Path, text: str) -> str:
    """The text, written for the folder `folder/new` and read from there."""
    (folder / "study.toml").write_text(text)
    file = load_study_file(folder / "study.toml")
    found = moved_text(file, text)
    (folder / "new").mkdir()
    (folder / "new" / "study.toml").write_text(found)
    other = load_study_file(folder / "new" / "study.toml")
    for one, two in zip(build_stack(file, folder).tiers, build_stack(other, folder).tiers, strict=True):
        assert one.target.settings == two.target.settings  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    "files",
    [
        'files = { flags = "zstd.flags" }  # of mine\n',
        'files.flags = "zstd.flags"\n',
        '[target.flags.files]\nflags = "zstd.flags"\n',
    ],
)
def test_a_program_has_its_catalogue_files_and_folder(tmp_path: Path, files: str) -> None:
    (tmp_path / "mine.toml").write_text(CATALOG.read_text())
    text = f"""[study]
name = "s"   # its name
[target . "flags"]
kind = "program"
catalog = "mine.toml"
{files}{WORKLOAD}"""
    found = moved(tmp_path, text)
    assert f'catalog = "{tmp_path}/mine.toml"' in found
    assert f'folder = "{tmp_path}"' in found, "its commands run where they ran"
    assert "# its name" in found


def test_a_database_has_its_files_and_those_in_its_url(tmp_path: Path) -> None:
    text = f"""[study]
name = "s"
[target.db]
kind = "postgresql"
url = "postgresql://me:secret@h/db?sslrootcert=certs/ca.pem"
data_dir = "pg/data"
log_file = '~/pg.log'
restart = "true"
[guard]
stop_file = "stop"
{WORKLOAD.replace("command", "sql", 1)}"""
    (tmp_path / "study.toml").write_text(text)
    found = moved_text(load_study_file(tmp_path / "study.toml"), text)
    assert f'data_dir = "{tmp_path}/pg/data"' in found
    assert f"{tmp_path}/certs/ca.pem" in found
    assert "password=secret" in found, "the file held it"
    assert "log_file = '~/pg.log'" in found, "it means the same everywhere"
    assert f'stop_file = "{tmp_path}/stop"' in found


def test_the_history_beside_a_study_file_stays_the_same(tmp_path: Path) -> None:
    text = f'[study]\nname = "s"\nhistory = "kept.db"\n[target.db]\nkind = "postgresql"\nembedded = "18"\n{WORKLOAD}'
    (tmp_path / "study.toml").write_text(text)
    assert f'history = "{tmp_path}/kept.db"' in moved_text(load_study_file(tmp_path / "study.toml"), text)


@pytest.mark.parametrize("guard", ["", '[guard]\nstop_file = "~/stop"\n'])
def test_a_file_without_relative_paths_stays_as_it_is(tmp_path: Path, guard: str) -> None:
    text = f'[study]\nname = "s"\n[target.db]\nkind = "postgresql"\nembedded = "18"\n{guard}{WORKLOAD}'
    (tmp_path / "study.toml").write_text(text)
    assert moved_text(load_study_file(tmp_path / "study.toml"), text) == text


@pytest.mark.parametrize(
    "target",
    [
        'target = { db = { kind = "postgresql", url = "host=h", data_dir = "data" } }\n',
        '[target.db]\nkind = "postgresql"\nurl = """\nhost=h sslrootcert=ca.pem"""\n',  # of several lines
    ],
)
def test_what_cannot_be_rewritten_is_told(tmp_path: Path, target: str) -> None:
    text = f"""{target}
[study]
name = "s"
{WORKLOAD}"""
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(UsageError, match=r"\[target.db\] has relative paths that cannot be rewritten") as caught:
        moved_text(load_study_file(tmp_path / "study.toml"), text)
    assert "absolute path" in str(caught.value.hint)
