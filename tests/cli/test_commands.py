"""Every command on the fakes: what it prints, where, and its exit code."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeStudy, tunes_its_queries
from trimtab.cli.group import COMMANDS, trimtab
from trimtab.errors import TargetError
from trimtab.history import History


@pytest.mark.slow
def test_tune_proves_reports_and_exits_0(run: Run, study: FakeStudy) -> None:
    ran = run("tune", "study.toml", "--html", "report.html")
    assert ran.code == 0
    assert "times as fast as yours" in ran.out
    assert "trial 0 (baseline): ok" in ran.err
    assert "trial" not in ran.out.splitlines()[0]
    page = (study.path / "report.html").read_text(encoding="utf-8")
    assert "times as fast as yours" in page
    assert (study.path / "state" / "results" / "fake.conf").read_text().strip()


def test_a_report_that_cannot_be_written_is_refused_before_the_study(run: Run, study: FakeStudy) -> None:
    for arguments in (["tune", "study.toml"], ["rank", "study.toml", "--design", "lhs"]):
        for page, why in (("no/such/x.html", "path='no/such/x.html': No such"), ("", "path='.': Is a directory")):
            ran = run(*arguments, "--html", page)
            assert ran.code == 2
            assert ran.err.startswith(f"error: cannot write the report: {why}")
    assert study.workload.seeds == []
    assert not (study.path / "state").exists()


def test_a_report_does_not_go_to_a_file_that_is_named_as_the_standard_output(run: Run, study: FakeStudy) -> None:
    for arguments in (["tune", "study.toml"], ["rank", "study.toml", "--design", "lhs"], ["report", "fake"]):
        ran = run(*arguments, "--html", "-")
        assert (ran.code, ran.err) == (
            2,
            "error: cannot write the report: path='-' would be a file of that name\n"
            "hint: give the name of a file, or /dev/stdout\n",
        )
    assert not (study.path / "-").exists()
    assert study.workload.seeds == []


@pytest.mark.slow
def test_tune_tells_what_the_server_has_learnt_of_its_queries(
    run: Run, study: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here nothing: no class came together in time, and the report says what was missing."""
    tunes_its_queries(study, monkeypatch, [])
    (study.path / "study.toml").write_text(study.written, encoding="utf-8")
    ran = run("tune", "study.toml", "--html", "report.html")
    text = "no classes yet: no statement has taken trimtab.min_duration often enough\n"
    assert f"Classes of queries that the server tunes itself, at the end of the study:\n{text}" in ran.out
    page = (study.path / "report.html").read_text(encoding="utf-8")
    assert "Queries that the server tunes itself" in page
    assert "No classes yet: no statement has taken trimtab.min_duration often enough." in page
    assert run("report", "fake").out.endswith(text)
    assert json.loads(run("tune", "study.toml", "--json").out)["query_classes"] == []


@pytest.mark.slow
def test_tune_without_improvement_exits_1(run: Run, study: FakeStudy) -> None:
    study.target._speed = lambda values: 1000.0
    ran = run("tune", "study.toml", "--quiet")
    assert ran.code == 1
    assert "No improvement" in ran.out
    assert ran.err == ""


@pytest.mark.slow
def test_json_goes_to_stdout_alone(run: Run, study: FakeStudy) -> None:
    data = json.loads(run("tune", "study.toml", "--json").out)
    assert data["schema_version"] == 1
    again = json.loads(run("report", "fake", "--json").out)
    assert again == data


@pytest.mark.slow
def test_budget_of_the_command_line_counts(run: Run, study: FakeStudy) -> None:
    run("tune", "study.toml", "--budget", "2 trials")
    assert sum(str(trial.role) in ("search", "advice") for trial in study.listener.ended) == 0
    listing = json.loads(run("report", "fake", "--json").out)
    assert sum(trial["role"] in ("search", "advice") for trial in listing["trials"]) == 2


def test_bad_budget_is_refused(run: Run, study: FakeStudy) -> None:
    ran = run("tune", "study.toml", "--budget", "a while")
    assert ran.code == 2
    assert ran.err == (
        "error: cannot read budget='a while'\n"
        'hint: write a duration such as "5m", or a number of trials such as "40 trials"\n'
    )


@pytest.mark.slow
def test_report_of_an_unknown_study_names_the_known_ones(run: Run, tuned: FakeStudy) -> None:
    ran = run("report", "fkae")
    assert ran.code == 2
    assert ran.err == "error: the history holds no study named 'fkae'\nhint: it holds: fake\n"


READERS = (
    ("report", "any"), ("report", "any", "--json"), ("apply", "any"), ("rank", "any"), ("rank", "study.toml"),
    ("bench-search", "any"),
    ("history", "list"), ("history", "query"), ("history", "show", "any"), ("history", "export", "--to", "x.csv"),
    ("history", "check"), ("history", "compact"), ("history", "backup", "copy.db"),
)  # fmt: skip


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_who_reads_makes_nothing_where_there_is_no_history(
    run: Run, study: FakeStudy, command: tuple[str, ...]
) -> None:
    before = sorted(study.path.rglob("*"))
    ran = run(*command)
    assert (ran.code, ran.out, ran.err) == (
        2,
        "",
        f"error: there is no history={str(study.path / 'state' / 'history.db')!r}\n"
        "hint: `trimtab tune` makes one; --state or --history name another place\n",
    )
    assert sorted(study.path.rglob("*")) == before


def test_an_empty_file_is_no_history(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    ran = run("report", "any", "--history", "empty.db")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "error: there is no history='empty.db'")
    assert [path.name for path in tmp_path.iterdir()] == ["empty.db"]
    assert (tmp_path / "empty.db").stat().st_size == 0


def test_report_of_an_empty_history(run: Run, tmp_path: Path) -> None:
    History.open(tmp_path / "state" / "history.db").close()
    ran = run("report", "any")
    assert (ran.code, ran.err) == (
        2,
        "error: the history holds no study named 'any'\nhint: it is empty; run `trimtab tune` first\n",
    )


def test_recover_and_rollback_of_nothing_make_nothing(run: Run, tmp_path: Path) -> None:
    assert run("recover").code == run("recover", "--check").code == 0
    assert run("recover", "--state", "other").err.startswith(
        "note: there is no state directory 'other'; --state names the one"
    )
    assert run("rollback", "any").code == 2
    assert list(tmp_path.iterdir()) == []


def test_recover_with_nothing_to_do(run: Run) -> None:
    ran = run("recover")
    assert (ran.code, ran.out) == (0, "nothing to recover\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("recover --check --leave x", "--check and --leave exclude each other"),
        ("recover --show --retry x", "--show and --retry exclude each other"),
        ("bench study.toml --find-rate p99<=20ms --runs 5", "--find-rate and --runs exclude each other"),
        (
            "exec --server http://127.0.0.1:1 --history x.db --int level=1:9 -- gzip -{level}",
            "--server and --history exclude each other",
        ),
    ],
)
def test_options_that_exclude_each_other_are_refused(run: Run, study: FakeStudy, line: str, message: str) -> None:
    ran = run(*line.split())
    assert (ran.code, ran.out, ran.err) == (2, "", f"error: {message}\nhint: give one of them\n")
    assert study.workload.seeds == []


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("recover --leave=", "--leave"),
        ("recover --retry=", "--retry"),
        ("recover --state=", "--state"),
        ("tune study.toml --history=", "--history"),
        ("exec --server= --int level=1:9 -- gzip -{level}", "--server"),
    ],
)
def test_a_variable_that_is_not_set_does_not_mean_something_else(
    run: Run, study: FakeStudy, line: str, option: str
) -> None:
    """`--leave "$NAME"` would take back what is to stay, and `--history "$SHARED"` measure into the folder's own history."""
    ran = run(*line.split())
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"error: Invalid value for '{option}': it is empty: is a variable not set?\n"
        f"hint: see `trimtab {line.split()[0]} --help`\n"
    )
    assert not (study.path / "state").exists()


@pytest.mark.slow
def test_history_lists_studies(run: Run, tuned: FakeStudy) -> None:
    assert "\n#1  fake  proven  " in run("history", "list").out
    (row,) = json.loads(run("history", "list", "--json").out)["studies"]
    assert row["status"] == "proven"


@pytest.mark.slow
def test_a_study_that_has_ended_is_shown_and_said_to_have_ended(run: Run, tuned: FakeStudy) -> None:
    n_runs = len(tuned.workload.seeds)
    ran = run("tune", "study.toml", "--budget", "900 trials")
    assert (ran.code, len(tuned.workload.seeds)) == (0, n_runs)
    assert "study fake has ended before: this is its result; --again begins a new one" in ran.err


def test_recover_counts_what_it_has_recovered_beside_what_is_stuck(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done = SimpleNamespace(study="a", target="db", action="restored")
    stuck = SimpleNamespace(study="b", target="db", error=TargetError("it did not start", hint="start it"))
    for n, told in ((1, "1 other entry recovered"), (2, "2 other entries recovered")):
        monkeypatch.setattr("trimtab.study.recover", lambda *_, n=n, **__: ([done] * n, [stuck]))
        ran = run("recover")
        assert ran.code == 3
        assert f"error: study='b': it did not start ({told})\nhint: start it\n" in ran.err


def test_knobs_shows_values_ranges_and_locks(run: Run, study: FakeStudy) -> None:
    ran = run("knobs", "study.toml")
    assert "* cache" in ran.out
    assert "128MB" in ran.out
    assert "class durability is locked" in ran.out
    assert all(line == line.rstrip() for line in ran.out.splitlines())
    rows = {row["name"]: row for row in json.loads(run("knobs", "study.toml", "--json").out)["knobs"]}
    assert rows["cache"]["restart"] == "restart"
    assert rows["sync"]["safety"] == "durability"


def test_target_errors_exit_with_3(run: Run, study: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable() -> None:
        raise TargetError("the server at host=db port=5432 does not answer", hint="is it running?")

    monkeypatch.setattr(study.target, "open", unreachable)
    ran = run("doctor", "study.toml")
    assert ran.code == 3
    assert ran.err == "error: the server at host=db port=5432 does not answer\nhint: is it running?\n"


@pytest.mark.parametrize("more", ["", " --extract DIR"])
def test_a_way_back_that_an_error_proposes_names_the_state_directory(
    run: Run, study: FakeStudy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: str
) -> None:
    """Targets know no state directory."""

    def is_down() -> None:
        raise TargetError("the server is down", hint=f"start it by hand, then run `trimtab recover{more}`")

    monkeypatch.setattr(study.target, "open", is_down)
    other = tmp_path / "other place"
    told = run("doctor", "study.toml", "--state", str(other)).err.splitlines()[-1]
    assert told == f"hint: start it by hand, then run `trimtab recover{more} --state '{other}'`"
    assert run("doctor", "study.toml").err.endswith(f"`trimtab recover{more}`\n"), "the state of the environment"


def test_a_bug_shows_no_traceback_and_exits_with_70(
    run: Run, study: FakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug() -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(study.target, "open", bug)
    ran = run("doctor", "study.toml")
    assert ran.code == 70
    assert "error: a bug in Trimtab: ZeroDivisionError: by zero" in ran.err
    assert "Traceback" not in ran.err
    details = Path(ran.err.rsplit(" ", 1)[1].strip())
    assert "Traceback" in details.read_text()
    details.unlink()


def test_unknown_command_and_option_exit_with_2(run: Run) -> None:
    ran = run("tuna")
    assert ran.code == 2
    assert "error: No such command 'tuna'. Did you mean 'tune'?\nhint: see `trimtab --help`\n" in ran.err
    assert "No such command 'shw'. Did you mean 'show'?" in run("history", "shw").err
    assert "error: No such command 'optimise'.\n" in run("optimise").err
    assert run("tune", "--magic").code == 2


def test_whatever_is_wrong_with_an_option_names_the_help_of_its_command(run: Run) -> None:
    lacking = run("bench", "study.toml", "--set")
    assert lacking.code == 2
    assert lacking.err == "error: Option '--set' requires an argument.\nhint: see `trimtab bench --help`\n"
    assert run("history", "list", "--state").err.endswith("\nhint: see `trimtab history list --help`\n")
    assert run("tune", "study.toml", "--json=3").err.endswith("\nhint: see `trimtab tune --help`\n")


def test_init_writes_a_file_that_is_read_back_and_never_overwrites(run: Run, tmp_path: Path) -> None:
    from trimtab.study import build_target, build_workload, load_study_file

    ran = run("init", "mine.toml", "--embedded")
    assert ran.out == "wrote mine.toml: an embedded PostgreSQL 18\nnext: trimtab doctor mine.toml\n"
    file = load_study_file(tmp_path / "mine.toml")
    assert (file.study.name, build_target(file, tmp_path).kind, build_workload(file).kind) == (
        "mine",
        "postgresql",
        "tpch",
    )
    refused = run("init", "mine.toml", "--embedded")
    assert refused.code == 2
    assert refused.err == "error: file='mine.toml' exists already\nhint: choose another name, or use --force\n"
    written = json.loads(run("init", "mine.toml", "--embedded", "--force", "--json").out)
    assert (written["study_file"], written["url"]) == ("mine.toml", None)
    assert run("init", "none/mine.toml", "--embedded").code == 2


@pytest.mark.parametrize("workload", ["tpch", "ycsb", "pgbench", "oltp", "sql"])
def test_init_writes_a_workload_that_its_plug_in_takes(run: Run, tmp_path: Path, workload: str) -> None:
    from trimtab.study import build_workload, load_study_file

    assert run("init", "mine.toml", "--embedded", "--workload", workload).code == 0
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "one.sql").write_text("SELECT 1;")
    assert build_workload(load_study_file(tmp_path / "mine.toml")).kind == workload


def test_init_for_a_server_writes_a_readable_file(tmp_path: Path) -> None:
    from trimtab.study import build_target, load_study_file, study_text
    from trimtab.systems.discovery import target_lines
    from trimtab.systems.server_catalog import server_catalog

    texts = server_catalog("postgresql").discover
    assert texts is not None
    url, place = "host=/run/x port=5432 user=postgres", "/var/lib/postgresql/15/main"
    server = target_lines("postgresql", texts, url, "PostgreSQL 15.1", place)
    own = (
        "sudo -n systemctl restart postgresql@15-main"
        if os.path.exists("/run/systemd/system")
        else "pg_ctlcluster 15 main restart"
    )
    assert any(line.startswith(f'restart = "{own}"') for line in server.lines)
    assert 'data_dir = "/srv/pg"' not in target_lines("postgresql", texts, url, "PostgreSQL 15.1", "/srv/pg").lines
    (tmp_path / "s.toml").write_text(study_text("s.toml", server))
    assert build_target(load_study_file(tmp_path / "s.toml"), tmp_path).kind == "postgresql"


def test_plugins_lists_what_is_registered(run: Run) -> None:
    data = json.loads(run("plugins", "--json").out)
    assert {"auto", "gp", "lhs", "nelder-mead", "random"} <= set(data["searchers"])
    assert "postgresql" in data["targets"]
    text = run("plugins").out
    assert "searchers:" in text
    assert re.search(r"\n  auto: Advice, .* in turn; after plays the design has every second turn\.\n", text)
    assert "\n  site: Browsers on the user's own site.\n" in text
    assert "  postgresql: PostgreSQL 13 to 18: embedded, on this machine, or by connection alone.\n" in text
    assert "  redis: " in text
    assert "    points = true: whether points are written, too\n" in text
    assert " settings of version 7.0, by its catalogue.\n" in text
    entries = [found for group in data.values() if isinstance(group, dict) for found in group.items()]
    assert [name for name, entry in entries if not entry["doc"] and "problem" not in entry] == []
    assert not [name for name, entry in entries if re.search(r"`[A-Z]\w+[.`]", entry["doc"])], (
        "classes are for programmers"
    )
    assert "  text: One trial a line" in text


def test_a_study_file_in_the_place_of_a_name_is_told(run: Run, tmp_path: Path) -> None:
    History.open(tmp_path / "state" / "history.db").close()
    ran = run("history", "show", "study.toml")
    assert ran.code == 2
    assert "hint: give the study's name (`name` under [study] in the file) instead of the file" in ran.err


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_and_option_has_help(name: str) -> None:
    command = trimtab.get_command(click.Context(trimtab), name)
    assert command is not None
    for each in _with_subcommands(command):
        assert each.help
        for parameter in each.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{each.name} {parameter.name}"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_option_says_what_it_takes(name: str) -> None:
    command = trimtab.get_command(click.Context(trimtab), name)
    assert command is not None
    for each in _with_subcommands(command):
        for parameter in each.params:
            shown = parameter.make_metavar(click.Context(each))
            assert not re.search(r"TEXT|PATH|INTEGER|FLOAT|RANGE|_", shown), f"{each.name} {parameter.name} {shown}"


def _with_subcommands(command: click.Command) -> list[click.Command]:
    if not isinstance(command, click.Group):
        return [command]
    context = click.Context(command)
    found = [command.get_command(context, name) for name in command.list_commands(context)]
    assert all(found)
    return [each for each in found if each is not None]
