"""The sixty rows of the fault matrix, which test holds each, and which no single machine can produce.

`python -m tests.faults.matrix` writes the table of README.md anew; a test compares. `Tally` collects outcomes by row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
README = FOLDER / "README.md"
START, END = "<!-- rows -->\n", "<!-- end -->\n"
ENGINE_START, ENGINE_END = "<!-- engine -->\n", "<!-- end of engine -->\n"
ENGINE = FOLDER.parent / "engine"

ROWS: Mapping[str, str] = {
    "T1": "kill -9 before apply",
    "T2": "kill -9 half way through a multi-knob apply",
    "T3": "kill -9 during measurement",
    "T4": "kill -9 during rollback",
    "T5": "SIGTERM and Ctrl-C, twice",
    "T6": "SIGSTOP for long, laptop sleep",
    "T7": "two tuners on one target",
    "T8": "the tuner's host reboots",
    "T9": "state or journal file truncated or bit-flipped",
    "T10": "state disk full",
    "T11": "newer or older state schema",
    "T12": "optimizer exception, NaN, duplicate, out-of-range suggestion",
    "T13": "memory and time of the tuner over 10,000 trials",
    "D1": "server refuses to start with a config",
    "D2": "server starts but nobody can log in",
    "D3": "kill -9 of the server in a trial",
    "D4": "crash loop under a candidate",
    "D5": "out-of-memory kill of server, tuner, load generator",
    "D6": "slow recovery",
    "D7": "zombie postmaster, stale pid file",
    "D8": "server hangs",
    "D9": "server restarted by somebody else in a trial",
    "D10": "failover, role change",
    "D11": "standby rejects a lower max_connections",
    "D12": "graceful stop takes for ever",
    "D13": "version differs from the catalogue",
    "D14": "knob silently clamped or rounded",
    "D15": "knob that waits for a restart is not in effect",
    "C1": "file corrupted by a third party in mid-session",
    "C2": "postgresql.auto.conf truncated, empty, missing",
    "C3": "partial write",
    "C4": "include order, later file, command line override",
    "C5": "file owned by configuration management",
    "C6": "symlink, read-only mount, wrong owner or mode",
    "C7": "encoding, line ends, quotes, units",
    "N1": "SQL connection lost during apply",
    "N2": "SSH lost in a trial, host key changed",
    "N3": "DNS change, packet loss, latency",
    "N4": "credentials expire or are revoked in mid-session",
    "N5": "permission missing for one knob",
    "N6": "port taken, max_connections reached",
    "R1": "disk full on the data volume, caused by the candidate",
    "R2": "disk full by others",
    "R3": "inodes or file descriptors used up",
    "R4": "memory pressure, swap storm",
    "R5": "CPU throttling, noisy neighbour",
    "R6": "clock step, daylight saving, slew",
    "W1": "trial hangs",
    "W2": "load generator crashes or reports 0, NaN, garbage",
    "W3": "errors counted as throughput",
    "W4": "workload drifts in the middle",
    "W5": "no traffic",
    "W6": "baseline itself unstable",
    "W7": "A/A, candidate identical to baseline",
    "W8": "warm cache against cold cache",
    "S1": "knob name or value with SQL, newline, shell, YAML, XML characters",
    "S2": "secrets in logs, reports, exceptions, ps, state",
    "S3": "dashboard without token, cross-site, DNS rebinding",
    "S4": "hostile state file, imported history, knob catalogue",
    "S5": "run as root",
}
"""Row -> fault, in the order of the matrix."""

NOT_HERE: Mapping[str, str] = {"N2": "no server behind SSH is tuned yet"}
"""Rows without a test, and why."""

ELSEWHERE: Mapping[str, Sequence[str]] = {
    "S3": (
        "tests/serve/test_security.py::test_everything_but_the_page_needs_the_token",
        "tests/serve/test_security.py::test_the_host_header_must_name_this_server",
        "tests/serve/test_security.py::test_pages_of_other_sites_are_refused",
    ),
}
"""Rows whose tests need no server that is tuned, and the tests."""

IN_ENGINE: Mapping[str, Sequence[str]] = {
    "kill -9 of a backend that is observed, looks at plans, runs a probe, proves, or runs with what was found": (
        "test_engine_killed.py::test_a_backend_is_killed",
    ),
    "kill -9 of a backend that writes the file": (
        "test_engine_killed.py::test_a_backend_is_killed_while_it_writes_the_file",
    ),
    "a shared block of another version, or of another build": (
        "test_engine_shared.py::test_a_block_of_another_version_is_not_read",
        "test_engine_faults.py::test_builds_of_two_versions_do_not_share_their_memory",
    ),
    "a damaged file, one of another version, of another server": (
        "test_engine_faults.py::test_a_file_that_must_not_be_used",
        "test_engine_faults.py::test_a_file_whose_checksum_is_right_and_whose_classes_are_nonsense",
    ),
    "two running servers with one file": ("test_engine_shared.py::test_two_running_servers_with_one_file",),
    "a file that cannot be written": ("test_engine_faults.py::test_a_file_that_cannot_be_written",),
    "a file that cannot be read": ("test_engine_faults.py::test_a_file_that_cannot_be_read_is_not_replaced",),
    "no memory for what is known": ("test_engine_faults.py::test_a_server_without_memory_for_what_is_known",),
    "a statement that waits for its client while others run": (
        "test_engine_inside.py::test_a_statement_that_waits_for_its_client_goes_on_after_others",
        "test_engine_safety.py::test_what_a_client_fetches_in_parts_is_left_alone",
    ),
    "several backends probe one class at once": (
        "test_engine_shared.py::test_two_backends_probe_one_class_at_once",
        "test_engine_shared.py::test_a_probe_that_is_under_way_is_not_made_by_another_backend",
    ),
    "an error, a cancel or no memory in a probe": (
        "test_engine_faults.py::test_statements_that_fail_in_a_probe_are_not_probed_so_again",
        "test_engine_plans.py::test_a_cancel_at_the_moment_when_a_probe_is_stopped_is_not_lost",
        "test_engine_plans.py::test_a_probe_that_runs_out_of_memory_fails_no_statement",
    ),
    "an error of any kind: settings end with the statement": (
        "test_engine.py::test_settings_end_with_the_statement_whatever_happens",
        "test_engine.py::test_after_an_error_of_any_kind_statements_are_measured_again",
    ),
    "secrets in statements": ("test_engine_faults.py::test_no_text_of_a_statement_is_kept",),
    "parameters that the user's own SET has set": (
        "test_engine.py::test_sessions_and_transactions_that_are_left_alone",
    ),
    "memory of all backends used up": ("test_engine.py::test_memory_of_all_backends_has_a_limit",),
    "a user without rights": (
        "test_engine.py::test_who_may_see_and_change",
        "test_engine_study.py::test_a_user_without_rights",
        "test_engine_study.py::test_a_user_who_may_not_load_it",
    ),
    "a library that cannot be built, or loaded": (
        "test_engine_study.py::test_what_cannot_be_built_is_said_and_changes_nothing",
        "test_engine_product.py::test_what_is_installed_is_loaded_when_it_is_switched_on",
    ),
    "kill -9 of a study that has loaded it": (
        "test_engine_study.py::test_a_private_server_is_watched_while_a_study_runs",
    ),
    "memory errors, and assertions of PostgreSQL": (
        "test_engine_sanitized.py::test_no_sanitizer_finds_anything",
        "test_engine_sanitized.py::test_a_server_with_assertions_finds_nothing",
    ),
}
"""Faults of the extension in PostgreSQL -> the tests of tests/engine that hold them."""

_TEST = re.compile(r"^\s*(?:async )?def (test_((?:[A-Z]\d+_)+)\w+)", re.MULTILINE)
"""A test of several rows bears all of their names: test_C1_C2_..."""


def rows_with_tests() -> dict[str, list[str]]:
    """Row -> "file::test" of every test that is named after it."""
    found: dict[str, list[str]] = {}
    for path in sorted(FOLDER.glob("test_*.py")):
        for match in _TEST.finditer(path.read_text(encoding="utf-8")):
            for row in match[2].rstrip("_").split("_"):
                found.setdefault(row, []).append(f"{path.name}::{match[1]}")
    return found


def table() -> str:
    """All rows as Markdown; a row with neither test nor reason is marked as missing."""
    tests = rows_with_tests()
    lines = ["| row | fault | held by |\n", "|---|---|---|\n"]
    for row, fault in ROWS.items():
        names = "<br>".join(f"`{name}`" for name in tests.get(row, ELSEWHERE.get(row, ())))
        reason = f"not tested: {NOT_HERE[row]}" if row in NOT_HERE else "**missing**"
        lines.append(f"| {row} | {fault} | {names or reason} |\n")
    return "".join(lines)


def engine_table() -> str:
    """The faults of the extension as Markdown."""
    rows = (f"| {fault} | {'<br>'.join(f'`{name}`' for name in names)} |\n" for fault, names in IN_ENGINE.items())
    return "".join(["| fault | held by |\n", "|---|---|\n", *rows])


def engine_tests() -> set[str]:
    """ "file::test" of every test of the extension."""
    defined = re.compile(r"^def (test_\w+)", re.MULTILINE)
    files = sorted(ENGINE.glob("test_*.py"))
    return {f"{path.name}::{name}" for path in files for name in defined.findall(path.read_text(encoding="utf-8"))}


def with_table(text: str) -> str:
    """`text` of the page with the tables as they are now."""
    for start, rows, end in ((START, table(), END), (ENGINE_START, engine_table(), ENGINE_END)):
        head, _, rest = text.partition(start)
        text = f"{head}{start}{rows}{end}{rest.partition(end)[2]}"
    return text


def rows_of(node: str) -> list[str]:
    """The rows that a test (its node id) is named after."""
    match = re.search(r"::test_((?:[A-Z]\d+_)+)", node)
    return [row for row in match[1].rstrip("_").split("_") if row in ROWS] if match is not None else []


def outcome_lines(outcomes: Iterable[tuple[str, str, str]]) -> list[str]:
    """One line a row from (node id, outcome, reason) of every test: failed beats skipped beats passed."""
    by_row: dict[str, list[tuple[str, str]]] = {}
    for node, outcome, reason in outcomes:
        for row in rows_of(node):
            by_row.setdefault(row, []).append((outcome, reason))
    lines = []
    for row, fault in ROWS.items():
        seen = by_row.get(row, [])
        kinds = {outcome for outcome, _ in seen}
        reasons = "; ".join(dict.fromkeys(reason for outcome, reason in seen if outcome == "skipped" and reason))
        if "failed" in kinds:
            result = "FAILED"
        elif "passed" in kinds:
            result = "passed" + (f" (partly skipped: {reasons})" if reasons else "")
        elif "skipped" in kinds:
            result = f"skipped ({reasons})"
        elif row in ELSEWHERE:
            result = f"tested in {ELSEWHERE[row][0].partition('::')[0]}"
        else:
            result = f"not tested ({NOT_HERE.get(row, 'no test ran')})"
        lines.append(f"{row:4} {fault:62} {result}")
    n_passed = sum(" passed" in line[60:] for line in lines)
    return [*lines, f"{n_passed} of {len(ROWS)} rows passed"]


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
