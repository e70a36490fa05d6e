"""trimtab history: every subcommand, what it prints, and its exit code."""

from __future__ import annotations

import datetime
import json
import os
import re
import resource
import shlex
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.history.real import unpack_real
from tests.history.samples import MACHINE, make_trial, study_values
from trimtab.cli import main
from trimtab.cli.history_command import SUBCOMMANDS
from trimtab.cli.history_options import table
from trimtab.errors import UsageError
from trimtab.history import History
from trimtab.host import read_limits
from trimtab.report import require_html_place
from trimtab.report.words import one_line
from trimtab.space import Config
from trimtab.units import format_size

Run = Callable[..., tuple[int, str, str]]
BEGUN = datetime.datetime(2026, 5, 31, 12, 30, tzinfo=datetime.UTC).timestamp()


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["history", *arguments])
        captured = capfdbinary.readouterr()
        return int(ended.value.code or 0), captured.out.decode(), captured.err.decode()

    return run


def test_columns_are_below_each_other_whatever_their_letters(capsys: pytest.CaptureFixture[str]) -> None:
    table(("name", "status"), [("在庫データベース", "proven"), ("cafe\u0301", "stopped"), ("shop", "running")])
    lines = capsys.readouterr().out.splitlines()
    words = ("status", "proven", "stopped", "running")
    assert {cell_len(line[: line.index(word)]) for line, word in zip(lines, words, strict=True)} == {18}


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    path = tmp_path / "state" / "history.db"
    postgresql = {"target": {"db": {"kind": "postgresql"}}}
    with History.open(path) as history:
        for name, at in (("tpch", BEGUN), ("shop", BEGUN + 86400)):
            study = history.create_study(**study_values(name=name, created_at=at, settings=postgresql))
            history.update_study(study.id, status="proven" if name == "tpch" else "stopped")
            for number in range(2):
                values = {"work_mem": 4096 * (1 + number), "jit": True}
                trial = make_trial(number, config=Config(values), counters_after={"wal.wal_bytes": 9.0})
                assert trial.measurement is not None
                history.add_trial(study.id, replace(trial, measurement=replace(trial.measurement, histogram=b"")))
            history.add_event(study.id, "warning", "slow disk", at)
    return path


def test_list(run: Run, filled: Path) -> None:
    assert run("list") == (
        0,
        "id  name  status   trials  begun                 objective   target      version  workload\n"
        "#1  tpch  proven   2       2026-05-31T12:30:00Z  throughput  postgresql  18.1     tpch 4Q6 scale 0.1\n"
        "#2  shop  stopped  2       2026-06-01T12:30:00Z  throughput  postgresql  18.1     tpch 4Q6 scale 0.1\n",
        "",
    )
    data = json.loads(run("list", "--json")[1])
    assert data["schema_version"] == 1
    assert data["studies"][0] == {
        "id": 1, "name": "tpch", "status": "proven", "n_trials": 2, "created_at": BEGUN, "objective": "throughput",
        "target": "postgresql", "server_version": "18.1", "workload": "tpch 4Q6 scale 0.1", "cores": 2,
        "memory_bytes": 8 << 30, "origin": "",
    }  # fmt: skip


def test_an_empty_history(run: Run, tmp_path: Path) -> None:
    History.open(tmp_path / "state" / "history.db").close()
    assert run("list")[:2] == (0, "no studies yet\n")
    assert run("query")[:2] == (1, "no study fits\n")
    code, out, _ = run("query", "--json")
    assert (code, json.loads(out)["studies"]) == (1, [])
    assert run("show", "x") == (
        2, "", "error: the history holds no study named 'x'\nhint: it is empty; run `trimtab tune` first\n",
    )  # fmt: skip
    assert run("export", "--to", "x.csv")[2] == (
        "error: no study fits: nothing was written\nhint: `trimtab history list` shows what there is\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--name", "tp*"], ["tpch"]),
        (["--status", "stopped"], ["shop"]),
        (["--since", "2026-06-01"], ["shop"]),
        (["--until", "2026-05-31T12:31"], ["tpch"]),
        (["--until", "2026-05-31T14:31+02:00"], ["tpch"]),
        (["--until", "2026-05-31T12:31+02:00"], []),
        (["--target", "postgresql", "--version", "18", "--workload", "TPCH"], ["tpch", "shop"]),
        (["--like-machine", "2x8GiB"], ["tpch", "shop"]),
        (["--like-machine", "64 x 512GiB"], []),
        (["--origin", "own"], ["tpch", "shop"]),
        (["--origin", "imported"], []),
    ],
)
def test_query(run: Run, filled: Path, options: list[str], names: list[str]) -> None:
    code, out, _ = run("query", *options, "--json")
    assert [study["name"] for study in json.loads(out)["studies"]] == names
    assert code == (0 if names else 1)


@pytest.mark.parametrize(("cores", "gib", "names"), [(2, 8, ["tpch", "shop"]), (64, 512, [])])
def test_query_like_here(
    run: Run, filled: Path, monkeypatch: pytest.MonkeyPatch, cores: int, gib: int, names: list[str]
) -> None:
    limits = replace(read_limits(), cores=cores, memory_bytes=gib << 30)
    monkeypatch.setattr("trimtab.host.read_limits", lambda: limits)
    code, out, _ = run("query", "--like-machine", "here", "--json")
    assert [study["name"] for study in json.loads(out)["studies"]] == names
    assert code == (0 if names else 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--status", "done"], "--status='done' is unknown\nhint: use one of: running, proven"),
        (["--since", "May"], "--since='May' is not a date\nhint: write it as 2026-05-31 or 2026-05-31T12:00"),
        (["--until", "0000-00-00"], "--until='0000-00-00' is not a date"),
        (["--like-machine", "big"], "--like-machine='big' is not a machine\nhint: write here, or as in \"8x32GiB\""),
        (["--like-machine", "8xlots"], "lots"),
        (["--like-machine", "0x8GiB"], "--like-machine='0x8GiB' is not a machine"),
        (["--like-machine", "8x0"], "--like-machine='8x0' is not a machine"),
        (["--like-machine", f"{'9' * 5000}x8GiB"], "--like-machine='999"),
        (["--origin", "mars"], "'mars' is not one of 'own', 'imported'"),
    ],
)
def test_queries_that_are_wrong(run: Run, options: list[str], message: str) -> None:
    code, out, err = run("query", *options)
    assert (code, out) == (2, "")
    assert message in err


def test_show(run: Run, filled: Path) -> None:
    code, out, _ = run("show", "tpch")
    assert code == 0
    assert out.splitlines()[:3] == ["study:     tpch (id 1)", "status:    proven", "begun:     2026-05-31T12:30:00Z"]
    assert "1      search  ok      -0.500  gp        work_mem=8192" in out
    data = json.loads(run("show", "#2", "--json")[1])
    assert (data["study"]["name"], len(data["trials"]), data["events"][0]["text"]) == ("shop", 2, "slow disk")


def test_show_writes_values_with_their_units(run: Run, tmp_path: Path) -> None:
    with History.open(tmp_path / "state" / "history.db") as history:
        space = {"knobs": [{"name": "work_mem", "unit": "kB"}], "constraints": []}
        study = history.create_study(**study_values(space=space))
        history.add_trial(study.id, make_trial(0, config=Config({"work_mem": 8192, "jit": True})))
    lines = run("show", "tpch")[1].splitlines()
    assert lines[-1].endswith("  work_mem=8MB")
    assert "events:    0" in lines


@pytest.mark.parametrize(
    ("cores", "memory", "told"),
    [
        (8, 0, ["machine:   8 cores"]),
        (0, 1 << 30, ["machine:   1GiB of memory"]),
        (1, 1 << 30, ["machine:   1 core, 1GiB of memory"]),
        (0, 0, []),
    ],
)
def test_show_tells_what_is_known_of_a_machine(
    run: Run, tmp_path: Path, cores: int, memory: int, told: list[str]
) -> None:
    """A file that was imported need not have both."""
    with History.open(tmp_path / "state" / "history.db") as history:
        history.create_study(**study_values(machine=replace(MACHINE, cores=cores, memory_bytes=memory)))
    assert [line for line in run("show", "tpch")[1].splitlines() if line.startswith("machine:")] == told


def test_show_a_trial(run: Run, filled: Path) -> None:
    code, out, _ = run("show", "tpch", "--trial", "1")
    assert code == 0
    assert "config:\n  jit: True\n  work_mem: 8192\n" in out
    assert "counters_after:\n  wal.wal_bytes: 9.0\n" in out
    assert len(json.loads(run("show", "tpch", "--trial", "1", "--json")[1])["trials"]) == 1
    assert "study 'tpch' has no trial 7\nhint: it has 2" in run("show", "tpch", "--trial", "7")[2]
    there = ("--history", str(filled), "--state", "other")
    hint = run("show", "#1", "--trial", "7", *there)[2].partition("see `")[2].rstrip("`\n")
    assert shlex.split(hint) == ["trimtab", "history", "show", "#1", *there], "a shell takes a bare # for a comment"


def test_what_controls_a_terminal_is_not_printed(run: Run, tmp_path: Path) -> None:
    with History.open(tmp_path / "h.db") as history:
        study = history.create_study(**study_values(machine=MACHINE, objective="throughput"))
        history.add_trial(
            study.id, make_trial(0, searcher="\x1b[2J", reason="\x1b]0;x\x07", config=Config({"a": "\x1b[31m"}))
        )
    for arguments in (["show", "tpch"], ["show", "tpch", "--trial", "0"]):
        assert "\x1b" not in run(*arguments, "--history", str(tmp_path / "h.db"))[1]
    assert one_line("a\x07b\nc") == "a�b�c"


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".xml", ".log", ".parquet", ".taudb"])
def test_export_and_import(run: Run, tmp_path: Path, filled: Path, suffix: str) -> None:
    unpack_real(filled)
    for beside in filled.parent.glob("history.db-*"):
        beside.unlink()
    code, out, err = run("export", "demo", "ya", "--to", f"x{suffix}")
    assert (code, out) == (0, "")
    assert err.endswith("wrote 2 studies\n")
    assert ("note: " in err) == (suffix in (".csv", ".xml", ".log"))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    other = str(tmp_path / "other.db")
    code, out, err = run("import", f"x{suffix}", "--history", other)
    assert (code, out) == (0, "demo: imported\nya: imported\n")
    again = json.loads(run("import", f"x{suffix}", "--history", other, "--json")[1])
    assert again["studies"] == [{"name": "demo", "kept_as": None}, {"name": "ya", "kept_as": None}]
    assert run("query", "--origin", "imported", "--history", other)[0] == 0
    assert run("show", "demo", "--history", other)[0] == 0
    assert run("check", "--history", other)[:2] == (0, "sound: 2 studies with 39 trials\n")


def test_a_name_that_is_taken(run: Run, filled: Path) -> None:
    run("export", "tpch", "--to", "x.csv")
    assert run("import", "x.csv")[1] == "tpch: imported as tpch-2 (name in use)\n"
    run("export", "tpch", "--to", "y.jsonl")
    assert run("import", "y.jsonl")[1] == "tpch: already present, skipped\n"


def test_export_to_stdout(run: Run, filled: Path) -> None:
    code, out, _ = run("export", "--status", "proven", "--to", "-", "--format", "jsonl")
    assert code == 0
    assert [next(iter(json.loads(line))) for line in out.splitlines()] == ["format", "study", "trial", "trial", "event"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "--to", "-"], "--to - needs --format\nhint: add --format jsonl"),
        (["export", "--to", "x.zip"], "the format of 'x.zip' cannot be recognised from its name"),
        (["export", "--to", "x", "--format", "zip"], "no plug-in 'zip' in formats"),
        (["export", "tpch", "--status", "proven", "--to", "x.csv"], "names and filters are given at once"),
        (
            ["export", "nobody", "--to", "x.csv"],
            "the history holds no study named 'nobody'\nhint: it holds: shop, tpch",
        ),
        (["export", "--to", "none/x.csv"], "there is no directory"),
        (["export", "--to", "there.csv"], "file='there.csv' exists already\nhint: give another one, or --force"),
        (["export", "--to", "postgresql://x@127.0.0.1:1/y", "--format", "csv"], "cannot be written into a database"),
        (["export", "--to", "postgresql://x:hidden@127.0.0.1:1/y"], "TAUdb at '127.0.0.1:1/y' cannot be used"),
        (["export"], "Missing option '--to'"),
        (["show", "caf\udce9"], "the history holds no study named 'caf\\udce9'"),
        (["import", "none.csv"], "cannot read 'none.csv': No such file or directory"),
        (["import", "there.csv"], "cannot be imported: "),
        (["import"], "Missing argument 'FILE|URL'"),
        (["merge", "none.db"], "there is no history='none.db'"),
        (["merge", "there.csv"], "history='there.csv' cannot be used: file is not a database"),
        (["backup", "there.csv"], "backup='there.csv' exists already"),
        (["check", "--history", "none.db"], "there is no history='none.db'"),
        (["compact", "--history", "none.db"], "there is no history='none.db'"),
        (["forget"], "No such command 'forget'"),
    ],
)
def test_what_is_wrong(run: Run, filled: Path, arguments: list[str], message: str) -> None:
    Path("there.csv").write_text("x" * 3000)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "hidden" not in err
    assert Path("there.csv").read_text() == "x" * 3000
    assert not Path("none.db").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["import", "none.csv"],
        ["import", "there.jsonl"],
        ["merge", "none.db"],
        ["merge", "there.jsonl"],
        ["merge", "empty.db"],
        ["backup", "copy.db", "--history", "empty.db"],
    ],
)
def test_a_file_that_is_none_leaves_no_empty_history(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    Path("there.jsonl").write_text("x" * 3000)
    Path("empty.db").touch()
    before = set(tmp_path.iterdir())
    assert run(*arguments)[0] == 2
    assert set(tmp_path.iterdir()) == before
    assert run("list")[2].startswith("error: there is no history=")


def test_nothing_is_written_over_a_history(run: Run, filled: Path) -> None:
    before = filled.read_bytes()
    code, _, err = run("export", "--to", str(filled), "--force", "--format", "jsonl")
    assert (code, err.endswith("is a database, perhaps a history\nhint: give another one\n")) == (2, True)
    with pytest.raises(UsageError, match="it is a database, perhaps a history"):
        require_html_place(filled)
    assert filled.read_bytes() == before
    code, _, err = run("backup", "")
    assert (code, err) == (2, "error: backup='.' is not a file\nhint: give a path that you may write to\n")


def test_a_full_disk_is_told_by_the_name_that_was_given(run: Run, filled: Path) -> None:
    with History.open(filled) as history:
        history.add_trial(1, make_trial(2, reason="x" * 60_000))
    Path("x.jsonl").write_text("older")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))  # what SQLite makes beside a history is smaller
    try:
        code, _, err = run("export", "--to", "x.jsonl", "--force")
        piped = run("export", "--to", "-", "--format", "jsonl")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, err.splitlines()[0]) == (2, "error: cannot write 'x.jsonl': File too large")
    copied_to = f"error: cannot write {tempfile.gettempdir()!r}: File too large"
    assert (piped[:2], piped[2].splitlines()[0]) == ((2, ""), copied_to), "the output itself has room"
    assert Path("x.jsonl").read_text() == "older"


def test_force_replaces(run: Run, filled: Path) -> None:
    Path("x.csv").write_text("old")
    assert run("export", "--to", "x.csv", "--force")[0] == 0
    assert Path("x.csv").read_text().startswith("study,")


def test_what_is_no_file_is_written_to_and_stays(run: Run, filled: Path, tmp_path: Path) -> None:
    """As root, /dev/null would have become a file."""
    pipe, goal, link = tmp_path / "pipe", tmp_path / "goal.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(pipe)
    for more in ((), ("--force",)):
        with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
            assert run("export", "tpch", "--to", "pipe", "--format", "jsonl", *more)[:2] == (0, "")
            assert reader.read().startswith(b'{"format":"trimtab history"')
    assert pipe.is_fifo()
    goal.touch()
    goal.chmod(0o600)
    link.symlink_to(goal)
    assert run("export", "tpch", "--to", "link.jsonl")[0] == 2
    assert run("export", "tpch", "--to", "link.jsonl", "--force")[0] == 0
    assert link.is_symlink()
    assert goal.stat().st_mode & 0o777 == 0o600
    assert goal.read_text().startswith('{"format":"trimtab history"')


def test_merge_backup_check_and_compact(run: Run, filled: Path, tmp_path: Path) -> None:
    code, out, _ = run("backup", "copy.db")
    assert (code, out) == (0, f"wrote copy.db: {format_size(Path('copy.db').stat().st_size)}\n")
    assert json.loads(run("backup", "copy2.db", "--json")[1])["file"] == "copy2.db"
    assert run("merge", "copy.db")[1] == "tpch: already present, skipped\nshop: already present, skipped\n"
    assert run("merge", "copy.db", "--history", "new.db")[1] == "tpch: imported\nshop: imported\n"
    assert json.loads(run("compact", "--json")[1])["bytes_after"] > 0
    assert re.fullmatch(r"[\d.]+KiB before, [\d.]+KiB after\n", run("compact")[1])
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute("update trimtab_trial set histogram = x'00ff' where study_id = 1 and number = 0")
        connection.commit()
    code, out, err = run("check")
    assert code == 1
    assert out.startswith("trial 0 of study id=1 cannot be read: a stored latency histogram")
    assert "nothing was changed; restore a backup, or save what can be read with `trimtab history export`" in err
    assert json.loads(run("check", "--json")[1])["is_sound"] is False


def test_no_export_is_advised_of_a_file_that_none_can_open(run: Run, tmp_path: Path) -> None:
    (tmp_path / "torn.db").write_bytes(b"no database at all" * 100)
    code, out, err = run("check", "--history", "torn.db")
    assert (code, out) == (1, "the file cannot be read: file is not a database\n")
    assert err == "nothing was changed; restore a backup\n"
    assert run("export", "--to", "x.csv", "--history", "torn.db")[0] == 2


def test_a_time_that_damage_has_made_none_is_not_known(run: Run, filled: Path) -> None:
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute("update trimtab_study set created_at = 1e300 where id = 1")
    code, out, _ = run("list")
    assert (code, out.splitlines()[1].split()[:5]) == (0, ["#1", "tpch", "proven", "2", "unknown"])
    code, out, _ = run("show", "tpch")
    assert (code, "begun:     unknown\n" in out) == (0, True)


def test_every_subcommand_has_help(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for name, line in SUBCOMMANDS.items():
        assert f"{name}" in out
        assert line in out
        assert run(name, "--help")[0] == 0


def test_a_history_of_another_version_is_not_called_sound(run: Run, tmp_path: Path) -> None:
    History.open(tmp_path / "state" / "history.db").close()
    with closing(sqlite3.connect(tmp_path / "state" / "history.db")) as connection, connection:
        connection.execute("update trimtab_meta set value = '99'")
    code, out, err = run("check")
    assert (code, out) == (0, "no damage found, as far as this version can tell\n")
    assert err == "note: it has schema_version=99, this Trimtab reads 2: rows were not looked at\n"
