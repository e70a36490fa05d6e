"""Starting studies from `trimtab serve`: into which history they go, and which of several is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from trimtab.errors import HistoryError
from trimtab.history import PASSWORD
from trimtab.history.schema import make_engine
from trimtab.host import process_mark
from trimtab.redact import redact
from trimtab.serve.starts import Starts
from trimtab.session.refusal import ConflictError

STUDY = '[study]\nname = "x"\n[target.db]\nkind = "fake"\n[workload]\nkind = "fake"\n'


class Process:
    def __init__(self, words: list[str], *, env: dict[str, str] | None = None, **_: Any) -> None:
        self.words, self.environment, self.signals = words, env, list[int]()

    def poll(self) -> None:
        return None

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    found: list[Process] = []

    def start(words: list[str], **options: Any) -> Process:
        found.append(Process(words, **options))
        return found[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return found


def _folder(path: Path) -> Path:
    folder = path / "studies"
    folder.mkdir()
    (folder / "x.toml").write_text(STUDY)
    return folder


def _says_it_runs(state: Path, study_id: int, name: str, created_at: float) -> Path:
    path = state / "now" / f"{study_id}-{os.getpid()}.json"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    said = {
        "pid": os.getpid(),
        "mark": process_mark(os.getpid()),
        "study_id": study_id,
        "name": name,
        "created_at": created_at,
    }
    path.write_text(json.dumps(said))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("history", "words"), [(None, []), ("postgresql://u@host/db", ["--history", "postgresql://u@host/db"])]
)
def test_a_study_goes_into_the_history_of_the_server(
    tmp_path: Path, begun: list[Process], history: str | None, words: list[str]
) -> None:
    starts = Starts(_folder(tmp_path), tmp_path / "state", history)
    assert starts.start("x.toml") == "x"
    (process,) = begun
    at = process.words.index("--state")
    assert process.words[at + 2 :] == words


@pytest.mark.parametrize(
    ("given", "shown", "secrets"),
    [
        ("postgresql://u:s%40cret@host:1/db", "postgresql://u@host:1/db", {"password": "s@cret"}),
        (
            "postgresql://u@host/db?password=s3cret&sslmode=require",
            "postgresql://u@host/db?sslmode=require",
            {"password": "s3cret"},
        ),
        (
            "postgresql://u@host/db?sslkey=k.pem&sslpassword=of%26key",
            "postgresql://u@host/db?sslkey=k.pem",
            {"sslpassword": "of&key"},
        ),
        (
            "postgresql://u:s3cret@host/db?oauth_client_secret=of-client&sslpassword=ofkey",
            "postgresql://u@host/db",
            {"password": "s3cret", "oauth_client_secret": "of-client", "sslpassword": "ofkey"},
        ),
    ],
)
def test_no_command_line_holds_a_secret_of_the_history(
    tmp_path: Path,
    begun: list[Process],
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    shown: str,
    secrets: dict[str, str],
) -> None:
    """Everybody on the machine reads those of others."""
    monkeypatch.setattr("trimtab.redact._secrets", set[str]())
    Starts(_folder(tmp_path), tmp_path / "state", given).start("x.toml")
    (process,) = begun
    assert process.words[-2:] == ["--history", shown]
    assert process.environment is not None
    assert "PATH" in process.environment
    for name in process.environment.keys() - os.environ.keys():
        monkeypatch.setenv(name, process.environment[name])
    url = make_engine(shown).url
    found = {"password": url.password, **url.query}
    assert url.host == "host"
    assert {name: found.get(name) for name in secrets} == secrets
    for secret in secrets.values():
        assert redact(f"it was {secret} again") == "it was *** again"


def test_a_password_in_the_url_comes_before_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.redact._secrets", set[str]())
    monkeypatch.setenv(PASSWORD, "another")
    assert make_engine("postgresql://u:s3cret@host/db").url.password == "s3cret"
    assert make_engine("postgresql://u@host/db?password=s3cret").url.password is None
    monkeypatch.setenv("TRIMTAB_HISTORY_SSLPASSWORD", "another")
    assert make_engine("postgresql://u@host/db?sslpassword=s3cret").url.query["sslpassword"] == "s3cret"


def test_a_history_in_a_file_means_the_same_from_the_folder_of_the_studies(
    tmp_path: Path, begun: list[Process]
) -> None:
    starts = Starts(_folder(tmp_path), tmp_path / "state", "shared.db")
    starts.start("x.toml")
    assert begun[0].words[-1] == str(Path("shared.db").absolute())


def test_only_the_study_that_is_meant_is_stopped(tmp_path: Path, begun: list[Process]) -> None:
    """Row 7 of a shared history runs elsewhere; the one that runs here has id 7 in another."""
    starts = Starts(_folder(tmp_path), tmp_path / "state")
    path = _says_it_runs(tmp_path / "state", 7, "local", 5.0)
    with pytest.raises(ConflictError, match="study='theirs' does not run here"):
        starts.stop("theirs", 7, 5.0)
    with pytest.raises(ConflictError, match="study='local' does not run here"):
        starts.stop("local", 7, 6.0)
    assert not path.with_suffix(".stop").exists()
    starts.stop("local", 7, 5.0)
    assert path.with_suffix(".stop").exists()


def test_a_process_that_shows_no_study_yet_is_interrupted(tmp_path: Path, begun: list[Process]) -> None:
    starts = Starts(_folder(tmp_path), tmp_path / "state")
    starts.start("x.toml")
    starts.stop("x", 1, 5.0)
    assert begun[0].signals == [signal.SIGINT]


def test_a_study_whose_log_cannot_be_written_is_no_bug(tmp_path: Path, begun: list[Process]) -> None:
    (tmp_path / "state").write_text("no folder")
    starts = Starts(_folder(tmp_path), tmp_path / "state", None)
    with pytest.raises(
        HistoryError, match=r"cannot start study='x': .*state.*: Not a directory\nhint: is the state dir"
    ):
        starts.start("x.toml")
    assert begun == []
