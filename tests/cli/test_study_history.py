"""Commands that are given a study by name find it in the history that its file, or `tune --history`, has named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeStudy
from trimtab.errors import TargetError
from trimtab.history import History
from trimtab.study import history_of, remembered_file
from trimtab.trial.lines import encode_line

pytestmark = pytest.mark.slow


def _named(study: FakeStudy, place: str) -> None:
    study.text = study.text.replace('name = "fake"\n', f'name = "fake"\nhistory = "{place}"\n', 1)
    (study.path / "study.toml").write_text(study.written, encoding="utf-8")


def test_apply_takes_the_winner_of_the_history_that_the_file_names(run: Run, study: FakeStudy) -> None:
    """An older winner of the same name lies in the state directory."""
    study.target._speed = lambda values: 3000.0 if values["method"] == "sync" else 1000.0
    assert run("tune", "study.toml", "--quiet").code == 0
    _named(study, "shared.db")
    study.target._speed = lambda values: 1000.0 if values["compile"] else 3000.0
    assert run("tune", "study.toml", "--quiet").code == 0
    assert "compile" in run("report", "fake").out
    there = run("report", "fake", "--history", "state/history.db").out
    assert "method" in there
    assert "to apply: trimtab apply fake --history state/history.db\n" in there, "it is the winner of that report"
    assert run("apply", "fake", "--yes").code == 0
    assert (study.target.values["compile"], study.target.values["method"]) == (False, "worker")


def test_tune_takes_a_history_and_others_remember_it(run: Run, study: FakeStudy) -> None:
    assert run("tune", "study.toml", "--quiet", "--history", "there.db").code == 0
    assert not (study.path / "state" / "history.db").exists()
    place = str(study.path / "there.db")
    assert history_of(study.path / "state", "fake") == place
    assert "times as fast as yours" in run("report", "fake").out
    exported = run("history", "export", "fake", "--to", "-", "--format", "jsonl")
    assert exported.code == 0, exported.err
    assert '"fake"' in exported.out
    again = run("tune", "study.toml", "--quiet", "--history", "there.db")
    assert again.code == 0, "the same study, whatever names its history"


def test_a_history_that_cannot_be_used_is_not_remembered(run: Run, tuned: FakeStudy) -> None:
    ran = run("tune", "study.toml", "--quiet", "--history", "study.toml/x.db")
    assert ran.code == 2
    assert ran.err.startswith("error: cannot make the directory of the history: ")
    assert "times as fast as yours" in run("report", "fake").out


def test_a_file_that_is_refused_is_not_the_one_that_apply_obeys(run: Run, tuned: FakeStudy) -> None:
    (tuned.path / "other.toml").write_text(tuned.text.replace('window = "5s"', 'window = "4s"'), encoding="utf-8")
    refused = run("tune", "other.toml", "--quiet", "--history", "state/history.db")
    assert refused.code == 2
    assert "error: the history holds another study named 'fake'" in refused.err
    assert remembered_file(tuned.path / "state", "fake") == tuned.path / "study.toml"
    (tuned.path / "study.toml").rename(tuned.path / "moved.toml")
    assert run("tune", "moved.toml", "--quiet").code == 0, "the study has ended, and the history holds it"
    assert remembered_file(tuned.path / "state", "fake") == tuned.path / "moved.toml"


def test_a_password_of_a_history_is_not_remembered(tmp_path: Path) -> None:
    from trimtab.study import remember_file

    (tmp_path / "x.toml").write_text("")
    remember_file(
        tmp_path / "state", "x", tmp_path / "x.toml", history="postgresql://u:s3cret@host/db?password=s3cret&a=b"
    )
    kept = history_of(tmp_path / "state", "x")
    assert kept == "postgresql://u@host/db?a=b"
    assert "s3cret" not in (tmp_path / "state" / "studies" / "x").read_text()


def test_a_study_that_an_error_ends_does_not_stay_running(run: Run, study: FakeStudy) -> None:
    def broken(number: int, *_: object) -> None:
        if number == 4:
            raise TargetError("the server is gone", hint="start it")

    study.listener.trial_started = broken  # type: ignore[method-assign]
    with pytest.raises(TargetError, match="the server is gone"):
        study.tune()
    with History.open(study.path / "state" / "history.db") as history:
        assert [each.status for each in history.summaries()] == ["interrupted"]
    study.listener.trial_started = lambda *_: None  # type: ignore[method-assign]
    record, trials = study.tune()
    assert record.verdict.result in ("better", "no_improvement")
    assert len(trials) > 4, "it was resumed"


def test_a_bench_reads_what_a_study_has_written(run: Run, tuned: FakeStudy) -> None:
    (written,) = (tuned.path / "state" / "results").glob("fake.conf")
    text = "[mysqld]\n# of a study\n" + written.read_text()
    (tuned.path / "with_section.cnf").write_text(text)
    ran = run("bench", "study.toml", "--config", "with_section.cnf", "--runs", "2", "--json")
    assert ran.code == 0, ran.err
    assert len(json.loads(ran.out)["runs"]) == 2
    (tuned.path / "of_a_tier.cnf").write_text("# [target.db]\ncache = 256MB\n")
    assert run("bench", "study.toml", "--config", "of_a_tier.cnf", "--runs", "2").code == 0


def test_a_config_that_is_no_text_is_refused(run: Run, study: FakeStudy) -> None:
    (study.path / "latin.cnf").write_bytes("cache = 256MB # größer".encode("latin-1"))
    ran = run("bench", "study.toml", "--config", "latin.cnf")
    assert ran.code == 2
    assert ran.err.startswith("error: config='latin.cnf' is not UTF-8 text: ")
    assert "\nhint: write it as UTF-8\n" in ran.err


def test_a_state_directory_that_cannot_be_made_is_no_bug(run: Run, study: FakeStudy) -> None:
    (study.path / "file").write_text("")
    ran = run("tune", "study.toml", "--state", "file/state")
    assert ran.code in (2, 3)
    assert "a bug in Trimtab" not in ran.err
    assert "file/state" in ran.err
    assert "hint: " in ran.err


@pytest.mark.parametrize("place", ["folder", "file/studies.jsonl"])
def test_an_export_that_cannot_be_written_is_no_bug(run: Run, tuned: FakeStudy, place: str) -> None:
    (tuned.path / "folder").mkdir()
    (tuned.path / "file").write_text("")
    ran = run("history", "export", "fake", "--to", place, "--format", "jsonl", "--force")
    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert "hint: " in ran.err
    assert "a bug in Trimtab" not in ran.err


def test_a_relative_history_lies_beside_its_study_file(
    run: Run, study: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    _named(study, "shared.db")
    assert run("tune", "study.toml", "--quiet").code == 0
    (study.path / "elsewhere").mkdir()
    monkeypatch.chdir(study.path / "elsewhere")
    again = run("tune", "../study.toml")
    assert "study fake has ended before" in again.err
    assert not list((study.path / "elsewhere").iterdir())
    assert "times as fast as yours" in run("report", "fake").out
    assert (study.path / "shared.db").exists()


def test_news_for_another_user_do_not_stand_before_the_history(run: Run, tuned: FakeStudy) -> None:
    news = tuned.path / "state" / "journal" / "news.jsonl"
    news.write_bytes(encode_line({"text": "study fake: put back"}))
    news.chmod(0o666)  # as little obeyed as a file of another user
    ran = run("report", "fake")
    assert (ran.code, ran.err) == (0, "")
    assert news.exists()
    news.chmod(0o600)
    assert run("report", "fake").err == "study fake: put back\n"
    assert not news.exists()
