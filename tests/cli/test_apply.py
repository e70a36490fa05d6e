"""apply, rollback and recover on the fakes: what they print, where, and their exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeStudy
from trimtab.cli.apply_command import _show
from trimtab.history import History, StudyCopy
from trimtab.records import Verdict
from trimtab.report import Progress
from trimtab.study import Change, Proposal

pytestmark = pytest.mark.slow


def test_report_apply_rollback(run: Run, study: FakeStudy) -> None:
    found = dict(study.target.values)
    run("tune", "study.toml", "--quiet")
    assert "times as fast as yours" in run("report", "fake").out
    applied = run("apply", "fake", "--yes")
    assert applied.code == 0
    assert re.fullmatch(r"applied (1 setting|\d+ settings); undo: trimtab rollback fake\n", applied.out)
    assert "→" in applied.err
    assert dict(study.target.values) != found
    assert (
        run("rollback", "fake").out == "target db: all settings that Trimtab changed have their former values again\n"
    )
    assert dict(study.target.values) == found
    assert run("rollback", "fake").code == 2


def test_a_winner_proven_before_ctrl_c_is_applied(run: Run, study: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: Progress, text: str) -> None:
        if text == "measuring the gain more closely":
            os.kill(os.getpid(), signal.SIGINT)

    study.workload.noise_sd = 0.03
    study.is_ablated = True
    (study.path / "study.toml").write_text(study.written, encoding="utf-8")
    with monkeypatch.context() as stopping:
        stopping.setattr(Progress, "phase", stop)
        ran = run("tune", "study.toml", "--quiet")
    assert ran.code == 130, "what waits for a gain does not follow a Ctrl-C"
    assert "times as fast as yours" in ran.out
    assert "ended because: stopped by the user" in ran.out
    assert ran.err.endswith("the same command resumes this study\n")
    assert run("apply", "fake", "--yes").code == 0
    assert run("rollback", "fake").code == 0
    resumed = run("tune", "study.toml", "--quiet")
    assert resumed.code == 0
    assert "stopped by the user" not in resumed.out


def test_what_a_shared_history_says_hides_nothing_of_what_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """Of whom the history has come from, nothing is known but that they could write it."""
    foreign = "Fake 1\x1b[1A\x1b[2K\n  cache: 128MB → 256MB"
    _show(Proposal((Change("cache", "128MB", "1TB\r", needs_restart=True),), {"differs from the study": foreign}))
    assert capsys.readouterr().err == (
        "differs from the study: Fake 1\ufffd  cache: 128MB → 256MB\n  cache: 128MB → 1TB\ufffd (restart)\n"
    )


def test_apply_takes_the_target_from_a_study_file_of_the_users_own(run: Run, tuned: FakeStudy) -> None:
    ran = run("apply", "study.toml", "--yes")
    assert ran.code == 0, ran.err
    assert "server: a fake named db" in ran.err
    again = run("apply", "fake", "--yes").err
    assert again.startswith("error: study='fake' is already applied, since ")
    assert f" at {again.splitlines()[0].split()[-1]}\n" in run("recover", "--show").out
    assert run("report", "study.toml").out == run("report", "fake").out
    assert run("rollback", "study.toml").code == 0
    (tuned.path / "study.toml").rename(tuned.path / "moved.toml")
    gone = run("apply", "fake", "--yes")
    assert gone.code == 2
    assert "of study='fake' is no longer there\nhint: give it: trimtab apply fake --study FILE" in gone.err
    assert run("apply", "moved.toml", "--yes", "--study", "moved.toml").code == 0
    assert run("rollback", "fake").code == 0


def test_the_target_of_an_imported_study_is_not_obeyed(run: Run, tuned: FakeStudy) -> None:
    with sqlite3.connect(tuned.path / "state" / "history.db") as database:
        database.execute("UPDATE trimtab_study SET origin = 'theirs.jsonl'")
    found = dict(tuned.target.values)
    name = "fake"
    ran = run("apply", name, "--yes")
    assert (ran.code, dict(tuned.target.values)) == (2, found)
    assert f"error: study='{name}' was imported: its target is not obeyed" in ran.err
    assert f"hint: give your own study file: trimtab apply {name} --study FILE" in ran.err
    hint = run("apply", name, "--yes", "--history", "state/history.db").err.splitlines()[-1]
    assert hint.endswith(f"trimtab apply {name} --study FILE --history state/history.db")


def test_a_winner_that_does_not_fit_the_server_of_now_is_refused(run: Run, tuned: FakeStudy) -> None:
    tuned.target.disk.running["sort_memory"] = 200  # somebody else has taken the memory that the winner needs
    found = dict(tuned.target.values)
    tuned.target._memory_mib = 100  # less than the cache as found, which no winner makes smaller
    ran = run("apply", "fake", "--yes")
    assert ran.code in (2, 3)
    assert dict(tuned.target.values) == found


def test_rollbacks_form_a_stack(run: Run, tuned: FakeStudy) -> None:
    found = dict(tuned.target.values)
    run("apply", "fake", "--yes")
    first = dict(tuned.target.values)
    tuned.text = tuned.text.replace('name = "fake"', 'name = "second"')
    tuned.target._speed = lambda values: 3000.0 if values["method"] == "sync" else 1000.0
    tuned.tune()
    applied = run("apply", "second", "--yes", "--study", "study.toml")
    assert applied.code == 0, applied.err
    second = dict(tuned.target.values)
    assert second != first
    ran = run("rollback", "fake")
    assert ran.code == 2
    assert "study='second' was applied to the same server after study='fake'" in ran.err
    assert "(trimtab rollback second), or keep it for good (trimtab rollback second --leave)" in ran.err
    assert dict(tuned.target.values) == second
    assert run("rollback", "second").code == 0
    assert dict(tuned.target.values) == first
    assert run("rollback", "fake").code == 0
    assert dict(tuned.target.values) == found


def test_what_is_kept_for_good_is_in_nobodys_way(run: Run, tuned: FakeStudy) -> None:
    run("apply", "fake", "--yes")
    now = dict(tuned.target.values)
    ran = run("rollback", "fake", "--leave")
    assert ran.out.startswith("study fake is not rolled back any more; the files as found lie in ")
    assert dict(tuned.target.values) == now
    assert run("rollback", "fake").code == 2
    assert run("rollback", "fake", "--leave").code == 2


@pytest.mark.parametrize("name", ["../x", "a/b", ".."])
def test_a_name_in_a_path_is_a_word(run: Run, study: FakeStudy, name: str) -> None:
    ran = run("rollback", name)
    assert ran.code == 2
    assert "is not the name of a study" in ran.err


@pytest.mark.needs("root")  # gives a file to another user
def test_state_files_that_others_may_write_are_not_obeyed(run: Run, tuned: FakeStudy) -> None:
    run("apply", "fake", "--yes")
    now = dict(tuned.target.values)
    (path,) = (tuned.path / "state" / "rollback").glob("*.json")
    path.chmod(0o666)
    ran = run("rollback", "fake")
    assert (ran.code, dict(tuned.target.values)) == (2, now)
    assert "is not obeyed: others may write it (mode=666)" in ran.err
    path.chmod(0o600)
    os.chown(path, 12345, -1)
    assert "is not obeyed: it belongs to user=12345, and this is root" in run("rollback", "fake").err
    os.chown(path, 0, -1)
    moved = path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(moved)
    assert "is not obeyed: it is a symbolic link" in run("rollback", "fake").err
    path.unlink()
    moved.rename(path)
    for content in (b"", path.read_bytes()[:100], b"x" + path.read_bytes()):
        kept = path.read_bytes()
        path.write_bytes(content)
        assert "cannot be used: it is damaged" in run("rollback", "fake").err
        path.write_bytes(kept)
    assert run("rollback", "fake").code == 0


def test_what_is_open_is_shown_retried_left_and_written_out(run: Run, study: FakeStudy) -> None:
    assert run("recover", "--show").out == "nothing is open\n"
    assert run("recover", "--extract", "out").out == "nothing is open, and nothing is applied\n"
    for option in ("--retry", "--leave"):
        ran = run("recover", option, "fake")
        assert (ran.code, ran.err) == (2, "error: nothing of study='fake' is open\nhint: nothing is open at all\n")
    run("tune", "study.toml", "--quiet")
    run("apply", "fake", "--yes")
    shown = run("recover", "--show").out
    assert re.match(r"nothing is open\nstudy fake: applied to db at \d{4}-\S+Z\n  \w+: set to \S+, found \S+\n", shown)
    assert shown.endswith("  ways out: trimtab rollback fake | trimtab rollback fake --leave\n")
    assert "README.txt" in run("recover", "--extract", "out").out
    assert (study.path / "out" / "fake-applied-db" / "1-fake.conf").exists()


def test_apply_asks_and_a_no_changes_nothing(run: Run, tuned: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict(tuned.target.values)
    monkeypatch.setattr("builtins.input", lambda prompt="": "n")
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt="": "n")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    ran = run("apply", "fake")
    assert ran.code == 130
    assert ran.err.endswith("nothing was changed\n")
    assert dict(tuned.target.values) == found


def test_a_study_given_by_its_number_is_undone_by_its_name(
    run: Run, tuned: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as closed:
        closed.setattr("sys.stdin", None)
        assert "hint: to apply without a question: trimtab apply '#1' --yes\n" in run("apply", "#1").err
    found = dict(tuned.target.values)
    applied = run("apply", "#1", "--yes")
    assert applied.out.endswith("undo: trimtab rollback fake\n"), applied.err
    assert run("rollback", "fake").code == 0
    assert dict(tuned.target.values) == found
    assert json.loads(run("apply", "#1", "--yes", "--json").out)["undo"] == "trimtab rollback fake"


def test_where_the_newest_study_has_no_winner_that_of_an_older_one_is_named(run: Run, tuned: FakeStudy) -> None:
    with History.open(tuned.path / "state" / "history.db") as history:
        won = history.study(1)
        history.add_copies([StudyCopy(replace(won, status="stopped", verdict=Verdict()), [], [])])
    ran = run("apply", "fake", "--yes")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "error: study='fake' has no proven winner: its status is 'stopped'\n"
        "hint: an older study of this name has one; to apply it: trimtab apply '#1'\n"
    )
    assert "apply it: trimtab apply '#1' --study study.toml\n" in run("apply", "study.toml").err
    assert run("apply", "#1", "--yes").code == 0


def test_it_is_told_beforehand_that_a_power_cut_would_take_the_rollback_point(
    run: Run, tuned: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trimtab.study.first.mount_of", lambda folder: SimpleNamespace(kind="tmpfs"))
    ran = run("apply", "fake", "--yes")
    assert f"note: state={str(tuned.path / 'state')!r} lies in memory (tmpfs): a power cut" in ran.err


@pytest.mark.parametrize("suffix", [".csv", ".xml"])
def test_what_came_without_its_verdict_has_no_winner(run: Run, tuned: FakeStudy, suffix: str) -> None:
    found = dict(tuned.target.values)
    assert run("history", "export", "fake", "--to", f"x{suffix}").code == 0
    came = run("history", "import", f"x{suffix}")
    assert came.out == "fake: imported as fake-2 (name in use)\n"
    assert f"note: {suffix[1:]}: status=proven was read as stopped, because the file does not hold" in came.err
    for status, why in (("stopped", "its status is 'stopped'"), ("proven", "the history does not hold its verdict")):
        with sqlite3.connect(tuned.path / "state" / "history.db") as database:  # as earlier versions took it in
            database.execute(f"UPDATE trimtab_study SET status = '{status}' WHERE name = 'fake-2'")
        ran = run("apply", "fake-2", "--yes", "--study", "study.toml")
        assert (ran.code, dict(tuned.target.values)) == (2, found)
        assert f"error: study='fake-2' has no proven winner: {why}" in ran.err


@pytest.mark.parametrize("stdin", [None, io.StringIO("y\n")], ids=["closed", "a pipe"])
def test_apply_that_nobody_can_answer_is_refused(
    run: Run, tuned: FakeStudy, monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO | None
) -> None:
    found = dict(tuned.target.values)
    monkeypatch.setattr("sys.stdin", stdin)
    ran = run("apply", "fake")
    assert (ran.code, ran.out) == (2, "")
    assert "→" in ran.err
    assert ran.err.endswith(
        "error: cannot ask for confirmation: stdin is not a terminal; nothing was changed\n"
        "hint: to apply without a question: trimtab apply fake --yes\n"
    )
    assert dict(tuned.target.values) == found


def test_the_proposed_command_is_for_the_server_that_was_asked_about(
    run: Run, tuned: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the file it would be the one of the study file that `tune` was given."""
    monkeypatch.setattr("sys.stdin", None)
    (tuned.path / "the other.toml").write_text(tuned.written)
    for given in (["fake", "--study", "the other.toml"], ["the other.toml"], ["fake", "--history", "state/history.db"]):
        (proposed,) = re.findall("hint: to apply without a question: trimtab (.*)\n", run("apply", *given).err)
        assert shlex.split(proposed) == ["apply", *given, "--yes"]


def test_printed_commands_work_where_they_are_printed(
    run: Run, study: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a state directory that is named on the command line only."""
    monkeypatch.delenv("TRIMTAB_STATE")
    there = str(study.path / "other state")
    tuned = run("tune", "study.toml", "--quiet", "--state", there)
    found = dict(study.target.values)
    (apply,) = re.findall("to apply: trimtab (.*)", tuned.out)
    (undo,) = re.findall("to undo: +trimtab (.*)", tuned.out)
    assert shlex.split(apply) == ["apply", "fake", "--state", there]
    assert run(*shlex.split(apply), "--yes").out.endswith(f"undo: trimtab {undo}\n")
    assert dict(study.target.values) != found
    shown = run("recover", "--show", "--state", there).out
    assert shown.endswith(f"  ways out: trimtab {undo} | trimtab {undo} --leave\n")
    assert run(*shlex.split(undo)).code == 0
    assert dict(study.target.values) == found
    assert f"trimtab {apply}" in run("report", "fake", "--state", there, "--json").out
    monkeypatch.setenv("TRIMTAB_STATE", there)
    assert "to apply: trimtab apply fake\n" in run("report", "fake").out


def test_the_result_is_shown_where_the_page_cannot_be_written(run: Run, study: FakeStudy) -> None:
    ran = run("tune", "study.toml", "--quiet", "--html", "/dev/full")
    assert ran.code == 3
    assert "times as fast as yours" in ran.out
    assert "no space left on the disk" in ran.err


def test_a_page_does_not_stand_in_the_way_of_the_trials(run: Run, tuned: FakeStudy) -> None:
    assert run("report", "fake", "--html", "page.html").out == ""
    assert "times as fast as yours" in run("report", "fake", "--html", "page.html", "--trials").out


def test_a_broken_study_file_does_not_hide_the_way_back(run: Run, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text("[study")
    ran = run("rollback", "study.toml")
    assert (ran.code, ran.out) == (2, "")
    assert "study file=study.toml is not TOML" in ran.err
    assert "hint: give the study's name instead of its file: trimtab rollback NAME (`trimtab recover --show`" in ran.err
