"""What a bench shows at its end, and while it runs."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from trimtab.jsonable import strict
from trimtab.measure import Interval, Measurement, noise_floor, pooled_interval, summarise
from trimtab.records import Context, Objective, Role, Status, Trial
from trimtab.report import BenchProgress, bench_to_json, print_bench
from trimtab.report.printing import plain_console
from trimtab.report.search_bench import print_search_bench
from trimtab.space import Config
from trimtab.testing.fake_workload import FakeRatedRun
from trimtab.workload import Frame

OBJECTIVE = Objective("throughput")


def measured(rate: float = 0.0, error_share: float = 0.0, **log_changes: Any) -> Measurement:
    """Five seconds of a server that does 1000/s."""
    run = FakeRatedRun(rate, 1000.0, 5, error_share, "serialization", log_changes=log_changes)
    while run.frame(1.0):
        pass
    return summarise(run.stop(), (0.0, 5.0))


def trial(number: int, measurement: Measurement) -> Trial:
    return Trial(
        number=number,
        role=Role.BENCH,
        config=Config({}),
        context=Context("fake", 4),
        status=Status.OK,
        measurement=measurement,
        cost_s={"measure": 5.0, "reset": 0.25},
    )


def shown(*measurements: Measurement) -> str:
    out = io.StringIO()
    values = [m.throughput.estimate for m in measurements]
    trials = [trial(number, m) for number, m in enumerate(measurements)]
    print_bench(trials, OBJECTIVE, pooled_interval(values), noise_floor(values), Console(file=out, width=80))
    return out.getvalue()


def test_a_percentile_beyond_the_time_outs_is_at_least_its_lower_end() -> None:
    out = io.StringIO()
    infinite = Interval(math.inf, 5000.0, math.inf)
    print_bench(
        [trial(0, measured())], Objective("latency_p99"), infinite, noise_floor([1.0]), Console(file=out, width=80)
    )
    assert out.getvalue().startswith("latency_p99: ≥ 5,000ms (")


def test_names_in_a_comparison_of_searchers_are_no_markup() -> None:
    out = io.StringIO()
    score = {"searcher": "mine[/]", "share": {}, "failed": 0.0, "ask_s": 0.1, "p_value": None}
    found = {"study": "a[bold]b", "mode": "exact", "configs": 3, "failed_configs": 0, "noise": 0.01, "searchers": [score],
             "best": "mine[/]", "beaten": [], "trials": 6, "repeats": 2}  # fmt: skip
    print_search_bench(found, Console(file=out, width=100))
    assert out.getvalue().startswith("a[bold]b: 3 recorded configs")
    assert "mine[/] found most in 6 trials: it was alone" in out.getvalue()


@pytest.mark.parametrize("width", [60, 80])
def test_no_figure_of_a_comparison_of_searchers_is_cut_off(width: int) -> None:
    out = io.StringIO()
    share = {"10": [0.1, 0.52, 0.99], "30": [0.7, 0.82, 0.99], "50": [0.9, 0.95, 1.0]}
    score = {"searcher": "nelder-mead", "share": share, "failed": 0.125, "ask_s": 0.1, "p_value": 0.031}
    found = {"study": "tpch", "mode": "exact", "configs": 3, "failed_configs": 0, "noise": 0.01, "searchers": [score],
             "best": "nelder-mead", "beaten": [], "trials": 50, "repeats": 8}  # fmt: skip
    print_search_bench(found, plain_console(out, width))
    assert "…" not in out.getvalue()
    (row,) = (line for line in out.getvalue().splitlines() if "12.5 %" in line)
    cells = "nelder-mead  0.52 (0.10–0.99)  0.82 (0.70–0.99)  0.95 (0.90–1.00)  12.5 %  0.100   0.031"
    assert row.split() == cells.split()


def test_table_has_all_labels_with_intervals() -> None:
    text = shown(measured(), measured())
    assert text.startswith("throughput: 900/s (95 % interval 900 to 900, 2 runs)\n")
    assert "run 1: 5s after 0s of warm-up, closed loop over 4 users\n" in text
    rows = {line.split()[0]: line for line in text.splitlines() if "  " in line and line.split()[0].isalpha()}
    assert rows["all"].split()[1:3] == ["900", "(900–900)"]
    assert rows["read"].split()[1:3] == ["810", "(810–810)"]
    assert rows["update"].split()[-3:] == ["450", "0", "0"]
    assert rows["service"].split()[-1] == "45.51"
    assert "noise of this machine: 0.0 % from run to run (standard deviation)" in text
    assert "…" not in text


def test_large_figures_have_no_exponent_and_one_run_is_one() -> None:
    m = measured()
    text = shown(
        replace(m, throughput=replace(m.throughput, estimate=75_690.4, low=75_100.0, high=76_280.0), n_ok=378_450)
    )
    assert text.startswith("throughput: 75,690/s (")
    assert text.splitlines()[0].endswith(", 1 run)")
    (row,) = (line for line in text.splitlines() if line.startswith("all "))
    assert row.split()[1:3] == ["75,690", "(75,100–76,280)"]
    assert row.split()[-3] == "378,450"
    assert "e+0" not in text


def test_generator_speaks_of_itself() -> None:
    line = "generator: CPU 1 % of 1 thread, late by 0.1 ms (p99), waiting for a free connection 0 ms (p99), "
    line += "stolen by the hypervisor 0 % of a core, memory 1MiB: not the bottleneck"
    assert line in shown(measured())
    assert "warning" not in shown(measured())
    m = replace(measured(), wakeup_p99_ms=0.25, wait_share=0.31, priority="short slices",
                generator_waited="waited for a core 31 % of the time (limit 5 %)")  # fmt: skip
    line = "late by 0.1 ms (p99), woken late by 0.25 ms (p99), waiting for a core 31 % of the time, "
    assert line + "normal priority in short slices" in shown(m)
    warning = "warning: the generator waited for a core 31 % of the time (limit 5 %): latencies include these waits; "
    assert warning + "give it free cores, or compare throughput only" in shown(m)
    assert ", real-time priority, " in shown(replace(m, priority="real-time"))
    limited = shown(measured(client_cpu_s=np.full(5, 1.8), n_threads=2))
    assert "CPU 90 % of 2 threads" in limited
    assert ": the load generator used 90 % of the 2 cores of its threads (limit 80 %)" in limited


def test_in_a_pipe_no_line_ends_in_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    m = measured()
    assert m.service_ms, "its row has empty cells at the end"
    print_bench([trial(0, m)], OBJECTIVE, m.throughput, noise_floor([1000.0]))
    out = capsys.readouterr().out
    assert "service" in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_a_kernel_that_gives_no_precedence_is_told_once() -> None:
    warning = (
        "neither real-time priority nor short time slices (Linux 6.12 or later): while its cores are busy, requests"
    )
    m = replace(measured(1000.0), priority="normal")
    out = io.StringIO()
    print_bench([trial(0, m), trial(1, m)], OBJECTIVE, m.throughput, noise_floor([1000.0]), Console(file=out))
    assert out.getvalue().count(warning) == 1
    assert warning not in shown(measured(priority="normal"))
    assert warning not in shown(replace(m, priority="short slices"))


def test_errors_by_class_and_first_texts() -> None:
    text = shown(measured(error_share=0.01))
    assert "  errors of the whole run: serialization 45\n  error: read: made to fail (serialization)\n" in text


def test_overload_shows_at_least() -> None:
    text = shown(measured(2000.0))
    assert "open loop of 2,000/s over 4 users" in text
    assert "≥ " in text
    assert (
        "overloaded: 50.0 % of the requests were dropped (limit 0.1 %); latencies grow with the length of the run"
        in text
    )
    assert "5,000 requests dropped, 0 retries" in text


def test_what_the_sample_does_not_bound_says_so() -> None:
    assert "∞)" in shown(measured(3.0))


def test_runs_of_an_older_version_are_shown() -> None:
    """Long queries, or what was stored before: no service times, no lateness, no intervals by label."""
    m = measured()
    bare = {label: replace(stats, throughput=None, latency_ms={}) for label, stats in m.by_label.items()}
    text = shown(replace(m, by_label=bare, service_ms={}, lateness_p99_ms=None, queue_p99_ms=None, steal_share=None,
                         memory_bytes=0, users=0))  # fmt: skip
    assert "service" not in text
    assert "generator: CPU 1 % of 1 thread: not the bottleneck" in text


def test_observed_traffic_has_no_generator() -> None:
    text = shown(replace(measured(), is_observed=True, is_open=False))
    assert "observed traffic of 4 users" in text
    assert "generator" not in text


def test_json_has_everything() -> None:
    m = measured(2000.0, 0.01)
    data = bench_to_json(Config({"cache": 5}), [trial(0, m)], OBJECTIVE, m.throughput, noise_floor([1000.0]))
    printed = strict(data)
    assert json.loads(json.dumps(printed, allow_nan=False)) == printed
    (run,) = data["runs"]
    assert data["config"] == {"cache": 5}
    assert run["throughput"] == run["intervals"]["throughput"]["estimate"] == pytest.approx(990)
    assert run["latency_p99_ms"] == math.inf
    assert run["service_p99_ms"] > 1000
    assert (run["is_open"], run["offered_per_s"], run["n_shed"], run["users"]) == (True, 2000.0, 5000, 4)
    assert run["error_classes"] == {"serialization": 50}
    assert run["overload"].startswith("50.0 % of the requests were dropped")
    assert run["by_label"]["read"]["latency_ms"]["p50"]["low"] > 0
    assert set(run["generator"]) == {"n_threads", "lateness_p99_ms", "wakeup_p99_ms", "wait_share", "waited", "priority", "from",
                                     "steal_share", "memory_bytes", "limited"}  # fmt: skip
    assert run["series_per_s"] == [990.0] * 5
    assert run["cost_s"] == {"measure": 5.0, "reset": 0.25}
    assert run["remarks"] == []


def test_what_the_workload_remarks_is_shown() -> None:
    m = measured()
    noise, lines, out = noise_floor([m.throughput.estimate]), (("WIPS=12, within the band",),), io.StringIO()
    print_bench([trial(0, m)], OBJECTIVE, m.throughput, noise, Console(file=out), remarks=lines)
    assert "  WIPS=12, within the band\n" in out.getvalue()
    data = bench_to_json(Config({}), [trial(0, m)], OBJECTIVE, m.throughput, noise, lines)
    assert data["runs"][0]["remarks"] == ["WIPS=12, within the band"]


FRAME = Frame(4, 90, 6, 89.5, 4, 3, 1500, 9000, 20_000, 120, 7, 0.25)


def progress_of(*frames: Frame, every_second: bool = False, terminal: bool = False, width: int = 140) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None)
    with BenchProgress(console, every_second=every_second) as progress:
        progress.say("run 1 of 1:\x1b[31m red")
        progress.step("load")
        for frame in frames:
            progress.second(frame)
    return out.getvalue()


LINE = (
    "second 4: 100/s done, goodput 89.5/s, p50/p95/p99 1.5/9/20 ms, 6 failed, 4 timed out, 3 dropped, 7 waiting, "
    "generator: CPU 25 %, late by 0.12 ms\n"
)


def test_piped_it_writes_every_fifth_second() -> None:
    frames = [replace(FRAME, second=second) for second in range(10)]
    lines = progress_of(*frames).splitlines(keepends=True)
    assert lines[1:] == [LINE, LINE.replace("second 4", "second 9")]


def test_every_second_on_request_even_on_a_terminal() -> None:
    text = progress_of(replace(FRAME, second=3), FRAME, every_second=True, terminal=True)
    assert text.count("/s done") == 2


def test_escape_sequences_of_others_do_not_pass() -> None:
    assert "\x1b" not in progress_of()


def test_an_engine_without_percentiles() -> None:
    text = progress_of(Frame(4, 9, 0, 9.5))
    assert text.endswith("second 4: 9/s done, goodput 9.5/s, generator: CPU 0 %, late by 0 ms\n")


def test_a_second_tells_what_the_hypervisor_took() -> None:
    line = LINE.replace("late by 0.12 ms", "late by 0.12 ms, stolen by the hypervisor 31 % of a core")
    assert progress_of(replace(FRAME, steal_s=0.31)).endswith(line)
    assert progress_of(replace(FRAME, steal_s=0.004)).endswith(LINE)


def test_a_terminal_gets_a_live_table() -> None:
    text = progress_of(replace(FRAME, steal_s=0.31), terminal=True)
    assert "goodput/s" in text
    assert "/s done" not in text
    for cell in ("89.5", "1.5", "20", "0.12", "25 %", "steal", "31 %"):
        assert cell in text


@pytest.mark.parametrize(("width", "n_shown"), [(140, 13), (80, 9), (60, 7)])
def test_no_figure_of_the_live_table_is_cut_off(width: int, n_shown: int) -> None:
    """Where there is no room for all columns the last ones are left out."""
    frame = replace(FRAME, n_ok=1_234_567, credited=1_234_567.0)
    (row,) = {
        line.strip() for line in progress_of(frame, terminal=True, width=width).splitlines() if "1,234,577" in line
    }
    cells = ["4", "1,234,577", "1,234,567", "1.5", "9", "20", "10", "3", "7", "0.12", "25 %", "–", "0 %"]
    assert re.split(" {2,}", row) == cells[:n_shown]
