"""The study file: good ones are read, bad ones say which key and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.study import Budget, build_workload, load_study_file
from trimtab.study.begin import require_enough_time
from trimtab.study.file import guarding_of, plan_of
from trimtab.workload import arrivals_s

GOOD = """
[study]
name = "tpch"
objective = "throughput"
budget = "5m"

[target.db]
kind = "postgresql"
embedded = "18"

[workload]
kind = "tpch"
scale = 0.1
mix = { q6 = 4 }
"""


def _write(path: Path, text: str) -> Path:
    file = path / "study.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_good_file_has_all_defaults(tmp_path: Path) -> None:
    file = load_study_file(_write(tmp_path, GOOD + "[search]\nsearcher = 'gp'\ninitial = 5\n"))
    assert file.budget == Budget(seconds=300.0)
    assert file.search.options == {"initial": 5}
    assert plan_of(file).window_s == 10.0


@pytest.mark.parametrize(
    ("measure", "arrivals_s", "floor_s", "cap_s"),
    [
        ("", 0.0, 2.0, 15.0),
        ("", 20.0, 20.0, 35.0),
        ("warmup_floor = '25s'\nwarmup_cap = '30s'\n", 20.0, 25.0, 30.0),
        ("warmup_cap = '20s'\n", 20.0, 20.0, 20.0),
    ],
)
def test_the_window_begins_when_all_users_are_there(
    tmp_path: Path, measure: str, arrivals_s: float, floor_s: float, cap_s: float
) -> None:
    file = load_study_file(_write(tmp_path, f"{GOOD}[measure]\n{measure}"))
    plan = plan_of(file, arrivals_s=arrivals_s)
    assert (plan.warmup_floor_s, plan.warmup_cap_s) == (floor_s, cap_s)


def test_a_warm_up_that_ends_before_all_users_are_there_is_refused(tmp_path: Path) -> None:
    file = load_study_file(_write(tmp_path, f"{GOOD}[measure]\nwarmup_cap = '15s'\n"))
    with pytest.raises(UsageError) as told:
        plan_of(file, arrivals_s=40.0)
    assert told.value.message == (
        "measure.warmup_cap='15s' is too short: the users of the load are there, and do what they do on average, after 40s"
    )
    assert told.value.hint == (
        "raise warmup_cap, or shorten that: in a closed loop by [workload.load] start or a smaller think_scale; in an open loop "
        'by fewer users or a higher rate, and with rate_of="sessions" by a smaller think_scale'
    )


def test_of_a_cycle_the_users_who_take_longest_to_come_count(tmp_path: Path) -> None:
    cycle = """kind = "ycsb"
workload = "C"
[workload.cycle]
contexts = [{ name = "night", users = 2 }, { name = "day", load = { users = 9, start = "40s" } }]
"""
    text = GOOD.partition('kind = "tpch"')[0] + cycle
    workload = build_workload(file := load_study_file(_write(tmp_path, text.replace('"5m"', '"1h"'))))
    assert arrivals_s(workload) == 40.0
    require_enough_time(file, workload)
    short = load_study_file(_write(tmp_path, f"{text}[measure]\nwarmup_cap = '30s'\n"))
    with pytest.raises(
        UsageError, match=r"warmup_cap='30s' is too short: the users of the load are there, .* after 40s"
    ):
        require_enough_time(short, workload)


@pytest.mark.parametrize(("budget", "is_enough"), [("168s", False), ("169s", True)])
def test_a_long_warm_up_counts_once_where_the_server_stays_warm(tmp_path: Path, budget: str, is_enough: bool) -> None:
    """60 s and ten windows of 10 s, but a second before each of the nine that follow."""
    text = GOOD.replace('"5m"', f'"{budget}"') + "[measure]\nwarmup_floor = '60s'\n"
    workload = build_workload(file := load_study_file(_write(tmp_path, text)))
    if is_enough:
        require_enough_time(file, workload)
        return
    with pytest.raises(UsageError, match=r"budget=2min48s is too short: .* take at least 2min49s"):
        require_enough_time(file, workload)


@pytest.mark.parametrize(
    ("written", "place"),
    [("stop", "{folder}/stop"), ("~/stop", "/home/me/stop"), ("/run/stop", "/run/stop"), (None, "{folder}/state/stop")],
)
def test_the_stop_file_is_where_the_study_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str | None, place: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    file = load_study_file(_write(tmp_path, GOOD + (f"[guard]\nstop_file = '{written}'\n" if written else "")))
    assert str(guarding_of(file, tmp_path / "state").switch.path) == place.format(folder=tmp_path)


@pytest.mark.parametrize(
    ("tables", "options"),
    [
        ("", {}),
        ("[guard]\nregression_budget = '10min'\n", {"temper": "prudent"}),
        ("[guard]\nregression_budget = '10min'\n[search]\ntemper = 'even'\n", {"temper": "even"}),
        ("[guard]\nregression_budget = '10min'\n[search]\nsearcher = 'gp'\n", {}),
    ],
)
def test_a_server_with_users_is_searched_prudently(tmp_path: Path, tables: str, options: dict[str, str]) -> None:
    assert load_study_file(_write(tmp_path, GOOD + tables)).searcher_options == options


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (("[target.db]", '[target."my db"]'), "[target.'my db'] is not one word", "letters, digits"),
        (('"5m"', "00:05:00"), "study.budget=00:05:00 in study.toml: Input should be a valid string", "study.budget: "),
        (("budget", "budgett"), "unknown key 'study.budgett' in study.toml", "did you mean 'budget'?"),
        (("[workload]", "[work]"), "study.toml lacks 'workload'", "`trimtab init` writes"),
        (('"5m"', '"5 parsecs"'), "cannot read budget='5 parsecs'", "write a duration"),
        (('"5m"', '"0 trials"'), "budget='0 trials' holds no trial", "40 trials"),
        (('"throughput"', '"speed"'), "unknown metric='speed'", "use one of: throughput"),
        (('name = "tpch"', 'name = "../x"'), "study.name='../x' in study.toml: must be 1 to 64 letters", "study-file.md"),
        (('name = "tpch"', 'name = "a.bench"'), "study.name='a.bench' in study.toml: names that end in '.bench' are those of "
         "`trimtab bench` for another study; choose another", "study-file.md"),
        (('name = "tpch"', 'name = "x.rate"'), "study.name='x.rate' in study.toml: names that end in '.rate'", "study-file.md"),
        (("budget", 'seed = -1\nbudget'), "study.seed=-1 in study.toml: Input should be greater than or equal to 0", ""),
        (("[target.db]", "[target]"), "target.kind='postgresql' in study.toml is in a target without a name", "[target.db]"),
        (('kind = "postgresql"', ""), "lacks 'kind'", 'add kind = "postgresql"'),
        (("[workload]", "[stack]\nmemory = '1GiB'\n[workload]"), "[stack] has no effect on a single target", "memory"),
        (("[workload]", "[workload]\ntarget = 'web'"), "workload.target='web' is not a target of this", "the targets are: db"),
        (("[study]", "[study"), "is not TOML", "study-file.md"),
        (("[workload]", "[measure]\nwindow = '9s'\nwindow_max = '3s'\n[workload]"), "window='9s' is above", "raise window_max"),
        (("[workload]", "[measure]\nwindow = '100ms'\n[workload]"), "measure.window='100ms' is below one second", "at least"),
        (("[workload]", "[proof]\nmin_pairs = 25\n[workload]"), "proof.min_pairs=25 is above proof.max_pairs=24", "raise"),
        (("[workload]", "[measure]\nprecision = 2\n[workload]"), "measure.precision=2 in study.toml: Input should be less than 1",
         "measure.precision: half width of the 95 % interval"),
        (("[workload]", "[proof]\nadvice = 'nah'\n[workload]"), "proof.advice='nah' in study.toml: it takes no such value",
         'proof.advice: also measure the rule-based advice: true, false, or "near"'),
        (("[workload]", "[search]\nadvice = { jit = [1] }\n[workload]"), "search.advice.jit=[1] in study.toml: it takes no such",
         "search.advice: settings to measure"),
        (("[workload]", "[search]\nconstraints = ['a < b', 1]\n[workload]"), "search.constraints.1=1 in study.toml: Input",
         "search.constraints: further constraints"),
        (("[workload]", "[guard]\nlatency_factor = true\n[workload]"), "guard.latency_factor=True in study.toml: must be a",
         "guard.latency_factor: stop a trial"),
        (("[workload]", "[search]\npatience = true\n[workload]"), "search.patience=True in study.toml: must be a number", ""),
        (("[workload]", "[guard]\nstop_file = ''\n[workload]"), "guard.stop_file='' in study.toml: String should have at least 1",
         "guard.stop_file: stop file"),
        (('name = "tpch"', 'name = "tpch\\n"'), "study.name='tpch\\n' in study.toml: must be 1 to 64 letters", ""),
        (("[workload]", "[search]\nranges = { int = 5 }\n[workload]"), "search.ranges.int=5 in study.toml: Input should be", ""),
        (("[workload]", "[search]\nranges = { jit = [1] }\n[workload]"), "search.ranges.jit", "search.ranges: your own ranges"),
    ],
)  # fmt: skip
def test_bad_file_says_which_key(tmp_path: Path, change: tuple[str, str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_study_file(_write(tmp_path, GOOD.replace(*change)))
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.exit_code == 2


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no study file=") as caught:
        load_study_file(tmp_path / "none.toml")
    assert caught.value.hint == "`trimtab init` writes one"


def test_directory_in_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read study file=.*Is a directory"):
        load_study_file(tmp_path)


def test_binary_file(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"study file=study\.toml is not UTF-8 text"):
        load_study_file(tmp_path / "study.toml")


def test_a_file_of_another_system_is_the_same_file(tmp_path: Path) -> None:
    """With the mark that some editors begin a file with, and with their ends of lines."""
    file = load_study_file(_write(tmp_path, GOOD))
    (tmp_path / "study.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_study_file(tmp_path / "study.toml").fingerprint == file.fingerprint


def test_huge_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"study file=study\.toml is larger than 1 MiB"):
        load_study_file(_write(tmp_path, "#" * (1 << 20) + "\n"))


def test_fingerprint_ignores_the_budget_only(tmp_path: Path) -> None:
    file = load_study_file(_write(tmp_path, GOOD))
    assert load_study_file(_write(tmp_path, GOOD.replace("5m", "9m"))).fingerprint == file.fingerprint
    assert load_study_file(_write(tmp_path, GOOD.replace("0.1", "0.2"))).fingerprint != file.fingerprint


def test_fingerprint_does_not_know_where_the_history_is(tmp_path: Path) -> None:
    file = load_study_file(_write(tmp_path, GOOD))
    elsewhere = load_study_file(_write(tmp_path, GOOD.replace('budget = "5m"', 'budget = "5m"\nhistory = "there.db"')))
    assert elsewhere.fingerprint == file.fingerprint == file.earlier_fingerprint
    assert elsewhere.earlier_fingerprint != file.fingerprint


def test_fingerprint_knows_whether_there_is_a_budget_of_user_time(tmp_path: Path) -> None:
    """It makes the search prudent: a resume without it would ask for other configs from the first one on."""
    prints = [
        load_study_file(_write(tmp_path, GOOD + table)).fingerprint
        for table in ("", "[guard]\nregression_budget = '10min'\n", "[guard]\nregression_budget = '20min'\n")
    ]
    assert prints[0] != prints[1] == prints[2]


def test_fingerprint_knows_the_catalogue(tmp_path: Path) -> None:
    """A study must not go on over other ranges."""
    text = GOOD.replace('kind = "postgresql"\nembedded = "18"', 'kind = "program"\ncatalog = "own.toml"')
    prints = []
    for content in (None, "a = 1", "a = 2", "a = 1"):
        if content is not None:
            (tmp_path / "own.toml").write_text(content)
        prints.append(load_study_file(_write(tmp_path, text)).fingerprint)
    assert len(set(prints)) == 3
    assert prints[1] == prints[3]
