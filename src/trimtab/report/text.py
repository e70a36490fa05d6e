"""The report on a terminal: what was found, how sure it is, what it changes, how to apply it and how to undo it."""

from __future__ import annotations

import io
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trimtab.history import is_same_host
from trimtab.records import Status, Trial
from trimtab.report.cycle_text import cycle_tables
from trimtab.report.explain import Explanation, explain
from trimtab.report.facts import Contender, Failure, Gain, LineWorth, Memory, TrialRow, danger_of
from trimtab.report.printing import PLAIN_WIDTH, plain_console, plain_lines, printing
from trimtab.report.summary import Summary, summarise
from trimtab.report.tables import make_table
from trimtab.report.words import clean, counted, ms_text, number_text, percent_text, ratio_text
from trimtab.units import format_duration, format_size

if TYPE_CHECKING:
    from trimtab.history import StudyRecord

__all__ = ["STATUS_STYLES", "print_report", "report_text"]

STATUS_STYLES: Mapping[Status, str] = {
    Status.OK: "green",
    Status.STOPPED_EARLY: "yellow",
    Status.INFRASTRUCTURE: "magenta",
}
"""Colour by status; what is not named is a fault of the config and red."""

_SHOWN_LOG_LINES = 8
_SHOWN_RANKS = 8
_SHOWN_NUMBERS = 7
_NAME_WIDTH = 44
"""Columns of settings that are not broken while other columns can be."""


def print_report(
    study: StudyRecord, trials: Sequence[Trial], *, console: Console | None = None, with_trials: bool = False
) -> None:
    """Prints the report (to stdout unless `console` says otherwise), with a table of all trials when asked for."""
    with printing(console) as out:
        summary = summarise(study, trials)
        out.print(Group(*_sections(summary, explain(study, trials), out.width)))
        if with_trials:
            out.width = max(out.width, PLAIN_WIDTH)  # a narrow terminal breaks the lines: figures are not cut off
            out.print(Group(Text("\nEvery trial", style="bold"), _trials_table(summary)))


def report_text(
    study: StudyRecord, trials: Sequence[Trial], *, width: int = PLAIN_WIDTH, with_trials: bool = False
) -> str:
    """The report as plain text, without colours."""
    out = io.StringIO()
    print_report(study, trials, console=plain_console(out, width), with_trials=with_trials)
    return plain_lines(out.getvalue())


def _sections(summary: Summary, explanation: Explanation, width: int) -> Iterator[RenderableType]:
    style = "bold green" if summary.result == "better" else "bold yellow"
    about = f": {summary.workload}" if summary.workload else ""  # an imported study may not tell it
    yield Text(f"Study {summary.name}{_elsewhere(summary.host)}{about}", style="dim")
    yield Text(summary.headline, style=style)
    if summary.slower:
        yield Text(summary.slower, style="yellow")
    yield from _warnings(summary)
    if summary.settings:
        yield from _titled("Settings", _settings_table(summary, width))
    yield from _worth(summary, width)
    if summary.contexts:
        yield from _titled("The contexts of the cycle", cycle_tables(summary))
    if summary.contenders:
        beside = [Text(summary.beside_advice)] if summary.beside_advice else []
        yield from _titled(f"Comparison by {summary.objective}", Group(_contenders_table(summary), *beside))
    if summary.conditions:
        yield from _titled("Acceptance conditions", _conditions(summary))
    if summary.is_comparison:
        yield from _titled("Which knobs explain the result", _explanation(explanation))
    yield from _search(summary, width)
    if summary.labels:
        yield from _titled(f"By operation: yours (before) and {summary.after_name} (after)", _labels_table(summary))
    if summary.memory is not None:
        yield from _titled("Memory", _memory_text(summary.memory, summary.after_name))
    if summary.failures:
        yield from _titled("What failed, and why", Group(*(_failure(failure) for failure in summary.failures)))
    if summary.log_lines:
        yield from _titled("The server's log", Text("\n".join(summary.log_lines)))
    if summary.wall:
        yield from _titled("Time", _time_text(summary))
    yield from _how_to(summary)


def _elsewhere(host: str) -> str:
    """On which host the study was made where that is not this one: machines may share a history."""
    return "" if is_same_host(host, platform.node()) else f" on host {host}"


def _titled(title: str, body: RenderableType) -> Iterator[RenderableType]:
    yield Text(f"\n{title}", style="bold")
    yield Padding(body, (0, 0, 0, 2))


def _warnings(summary: Summary) -> Iterator[RenderableType]:
    for name in summary.opened:
        knobs = ", ".join(setting.knob for setting in summary.settings if setting.safety == name)
        used = f"this config uses it: {knobs}" if knobs else "this config does not use it"
        yield Text(
            f"WARNING: the safety class {name.upper()} was unlocked; {danger_of(name)}; {used}.", style="bold red"
        )


def _keep_whole(table: Table, index: int, texts: Iterable[str]) -> None:
    """What a column holds is not broken, unless one of its `texts` takes too much of a line."""
    table.columns[index].no_wrap = max(map(cell_len, texts), default=0) <= _NAME_WIDTH


def _settings_table(summary: Summary, width: int) -> Table:
    """One row a setting; where there are few columns, what it does is below its name."""
    is_narrow = width < PLAIN_WIDTH
    effect = ["takes\neffect" if is_narrow else "takes effect"] if summary.has_restarts else []
    table = make_table("knob", "yours", "tuned", *effect, *([] if is_narrow else ["what it does"]))
    if not is_narrow:
        _keep_whole(table, 0, (setting.knob for setting in summary.settings if not setting.is_opened))
    for setting in summary.settings:
        knob = Text(setting.knob, style="bold")
        if setting.is_opened:
            knob.append(f" [{setting.safety.upper()}]", style="bold red")
        when = [Text(f"on {setting.restart}" if setting.restart else "")] if summary.has_restarts else []
        cells = (Text(setting.old), Text(setting.new, style="bold green"), *when)
        if is_narrow:
            below = [Padding(Text(setting.doc), (0, 0, 0, 4))] if setting.doc else []
            table.add_row(Group(knob, *below), *cells)
        else:
            table.add_row(knob, *cells, Text(setting.doc))
    return table


def _worth(summary: Summary, width: int) -> Iterator[RenderableType]:
    """What each setting brings, how the number of settings was found, and what was left out."""
    lines = summary.measured_lines
    untold = [f"Not measured, because {reason}: {', '.join(knobs)}." for reason, knobs in summary.unmeasured]
    if lines:
        yield from _titled("What each setting is worth", _lines_table(lines, width))
    elif untold:
        yield from _titled("What each setting is worth", Text("\n".join(untold)))
    remarks = [f"{line.knob}: {why}" for line in lines if (why := _why(line))]
    remarks += [*(untold if lines else []), *filter(None, (summary.ablation, summary.undecided))]
    if len(summary.path) > 2 and summary.lines:
        remarks.append(_by_number(summary))
    remarks += [f"Left unchanged: {knobs} ({reason})" for knobs, reason in summary.dropped]
    if remarks:
        yield Padding(Text("\n".join(remarks)), (1, 0, 0, 2))


def _by_number(summary: Summary) -> str:
    """The gain by number of settings: of the config that is printed as proven, of the others as they look."""
    shown = [point for i, point in enumerate(summary.path[1:]) if i < _SHOWN_NUMBERS or point.is_winner]
    steps = (
        f"{point.n_knobs}: {ratio_text(point.gain.estimate)}{' (this config, proven)' if point.is_winner else ''}"
        for point in shown
    )
    return (
        f"{summary.times.capitalize()} by number of settings (best measured): {', '.join(steps)}. All but this config are the "
        "best of a few runs, which look better than they are."
    )


def _lines_table(lines: Sequence[LineWorth], width: int) -> Table:
    """One row a setting; where there are few columns, its effect is below its name."""
    is_narrow, figures = width < PLAIN_WIDTH, ("with the others", "alone")
    table = make_table("knob", *figures, *([] if is_narrow else ["effect"]), right=figures)
    for line in lines:
        style = {"proven": "green", "undecided": "yellow"}.get(line.verdict, "dim")
        knob, effect = Text(line.knob, style="bold"), Text(line.words, style=style)
        worth = (Text(_worth_text(line.without)), Text(_worth_text(line.alone)))
        if is_narrow:
            table.add_row(Text("\n  ").join([knob, effect]), *worth)
        else:
            table.add_row(knob, *worth, effect)
    return table


def _worth_text(gain: Gain | None) -> str:
    return "" if gain is None else gain.short_text


def _why(line: LineWorth) -> str:
    """What the figures do not say themselves."""
    if line.without is not None and line.beside:
        return f"measured with {counted(line.beside, 'setting')} more, dropped later"
    return line.reason if line.verdict != "proven" or line.without is None else ""


def _conditions(summary: Summary) -> Table:
    table = make_table("condition", "", "figures")
    for name, is_met, text in summary.conditions:
        mark = Text("met", style="green") if is_met else Text("not met", style="bold red")
        table.add_row(Text(name), mark, Text(text))
    return table


def _explanation(explanation: Explanation) -> RenderableType:
    consensus = explanation.consensus
    if consensus is None or not consensus.knee or len(consensus.knobs) == 1:  # the share of the only one says nothing
        return Text(explanation.text)
    table = make_table("rank", "knob", "share", "90 % interval", right=("rank", "share"))
    for entry in consensus.knobs[: min(consensus.knee, _SHOWN_RANKS)]:
        interval = f"{percent_text(entry.score_low)} to {percent_text(entry.score_high)}"
        table.add_row(f"{entry.rank:g}", Text(clean(entry.knob), style="bold"), percent_text(entry.score), interval)
    hidden = consensus.knee - _SHOWN_RANKS
    rest = [Text(f"and {counted(hidden, 'knob')} more of them", style="dim")] if hidden > 0 else []
    return Group(Text(explanation.text), table, *rest)


def _contenders_table(summary: Summary) -> Table:
    value = summary.metric_text
    columns = ("config", value, summary.times, summary.contenders_interval, "measured in")
    table = make_table(*columns, right=(value, summary.times))
    for contender in summary.contenders:
        table.add_row(*(Text(cell) for cell in _contender_cells(contender)))
    return table


def _contender_cells(contender: Contender) -> tuple[str, str, str, str, str]:
    gain = contender.gain
    times, interval = ("1", "") if gain is None else (f"{ratio_text(gain.estimate)}", gain.range_text or "unknown")
    return contender.name, number_text(contender.value), times, interval, contender.basis


def _plays(summary: Summary, width: int) -> RenderableType:
    """One row a play; where there are few columns, what belongs together is in one of them."""
    is_narrow = width < PLAIN_WIDTH
    columns = (
        ("play", "times as fast", "effect") if is_narrow else ("play", "settings", "times as fast", "effect", "remarks")
    )
    table = make_table(*columns, right=("times as fast",))
    if not is_narrow:
        _keep_whole(table, 1, (setting for row in summary.plays for setting in row.settings))
    for row in summary.plays:
        style = {"helps": "green", "harms": "red", "failed": "red"}.get(row.verdict, "dim")
        name, worth = Text(row.name, style="bold"), Text(_worth_text(row.worth))
        effect, remark = Text(row.words, style=style), Text(row.remark, style="dim")
        if is_narrow:
            below = Text("\n").join([effect, remark] if row.remark else [effect])
            table.add_row(Text("\n  ").join([name, *map(Text, row.settings)]), worth, below)
        else:
            table.add_row(name, Text("\n".join(row.settings)), worth, effect, remark)
    left_out = [f"Not tried ({reason}): {names}" for names, reason in summary.plays_left_out]
    return Group(table, Text("\n".join([summary.plays_note, *left_out]), style="dim"))


def _search(summary: Summary, width: int) -> Iterator[RenderableType]:
    """How the search went, for so many columns."""
    if summary.passes:
        yield from _titled("What each pass of the search brought and cost", _passes(summary))
    if summary.plays:
        yield from _titled("What was tried and what it brought", _plays(summary, width))
    yield from _titled("The trials", _tried(summary))


def _passes(summary: Summary) -> RenderableType:
    """One row a pass; each went on from the best config of those before it."""
    table = make_table("pass", "searched", "trials", "time", "brought", right=("trials", "time", "brought"))
    for row in summary.passes:
        table.add_row(
            Text(str(row.number)),
            Text(row.what),
            Text(str(row.trials)),
            Text(row.cost),
            Text(row.brought, style="green" if row.has_gained else "dim"),
        )
    note = "By the best config after the pass and before it, as the search measured them: an indication, not a proof."
    return Group(table, Text("\n".join(filter(None, [note, _ended(summary.passes_end)])), style="dim"))


def _ended(why: str) -> str:
    return f"No further pass: {why}." if why else ""


def _tried(summary: Summary) -> RenderableType:
    statuses = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in _by_count(summary.by_status))
    roles = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in _by_count(summary.by_role))
    lines = [f"{counted(len(summary.rows), 'trial')}: {statuses}" if summary.rows else "no trial"]
    if roles:
        lines.append(f"by role: {roles}")
    if summary.stop_reason:
        lines.append(f"ended because: {summary.stop_reason}")
    lines += [*summary.warm_start, *summary.pruned]
    if summary.best is not None and summary.best.gain is not None:
        gain = summary.best.gain
        lines.append(
            f"best single trial: {summary.best.number} ({summary.best.role}), {ratio_text(gain.estimate)} {summary.times} as "
            f"yours ({gain.interval_text}); a single best looks better than it is"
        )
    if summary.is_comparison:
        lines.append(summary.drift.text)
    if summary.noise_floor is not None:
        lines.append(f"noise of one measurement: {percent_text(summary.noise_floor)} (standard deviation)")
    return Text("\n".join(lines))


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _labels_table(summary: Summary) -> Table:
    numbers = ("mean before", "mean after", "p95 before", "p95 after", "times as fast")
    table = make_table("operation", *numbers, right=numbers)
    for label in summary.labels:
        latencies = (label.mean_before_ms, label.mean_after_ms, label.p95_before_ms, label.p95_after_ms)
        cells = [label.label, *map(ms_text, latencies), number_text(label.times_faster)]
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _memory_text(memory: Memory, after_name: str) -> Text:
    budget = memory.budget
    share = f" of the budget of {format_size(budget)}, {percent_text(memory.after / budget)}" if budget else ""
    style = "bold red" if budget and memory.after > budget else ""
    text = Text(f"{after_name} {format_size(memory.after)}{share}; yours {format_size(memory.before)}", style=style)
    unchanged = [f"{name} {format_size(before)}" for name, before, after in memory.consumers if before == after]
    for name, before, after in memory.consumers:
        if before != after:
            text.append(f"\n{name}: {format_size(before)} → {format_size(after)}", style="dim")
    if unchanged:
        text.append(f"\nunchanged: {', '.join(unchanged)}", style="dim")
    return text


def _failure(failure: Failure) -> Text:
    numbers = ", ".join(str(number) for number in failure.numbers[:12]) + (" …" if len(failure.numbers) > 12 else "")
    text = Text(failure.words, style=STATUS_STYLES.get(failure.status, "red"))
    noun = "trial" if len(failure.numbers) == 1 else "trials"
    text.append(f" ({noun} {numbers}): {failure.reason or 'no reason given'}", style="default")
    if failure.changed:
        text.append(f"\n  with {', '.join(f'{knob}={value}' for knob, value in failure.changed.items())}", style="dim")
    for line in failure.log[:_SHOWN_LOG_LINES]:
        text.append(f"\n  | {line}", style="dim")
    if len(failure.log) > _SHOWN_LOG_LINES:
        text.append(f"\n  | … {counted(len(failure.log) - _SHOWN_LOG_LINES, 'more line')}", style="dim")
    return text


def _time_text(summary: Summary) -> Text:
    shares = ", ".join(f"{share.words} {percent_text(share.share)}" for share in summary.wall)
    text = f"{format_duration(summary.wall_total_s)}: {shares}"
    if summary.prepare_s >= 1:
        text += f"\npreparing the data took {format_duration(summary.prepare_s)} more"
    return Text(text)


def _how_to(summary: Summary) -> Iterator[RenderableType]:
    if summary.result != "better" or not summary.apply_command:
        return
    text = Text()
    text.append("to apply: ").append(summary.apply_command, style="bold")
    if summary.undo_command:
        text.append("\nto undo:  ").append(summary.undo_command, style="bold")
    if summary.fragment_path:
        text.append(f"\nready to include: {summary.fragment_path}")
    if summary.fragment:
        text.append(f"\n\n{summary.fragment.rstrip()}", style="dim")
    yield from _titled("What to do now", text)


def _trials_table(summary: Summary) -> Table:
    value = summary.metric_text
    right = ("trial", value, summary.times, summary.spent_text)
    table = make_table("trial", "role", "status", value, summary.times, summary.spent_text, "changed", right=right)
    for row in summary.rows:
        table.add_row(*_trial_cells(row))
    return table


def _trial_cells(row: TrialRow) -> tuple[Text, ...]:
    style = STATUS_STYLES.get(row.status, "red")
    # with blanks, so that a narrow column breaks there and not within a value
    what = Text(", ".join(f"{knob} = {value}" for knob, value in row.changed.items()))
    if row.reason:
        what.append(("\n" if what else "") + row.reason, style=style)
    return (
        Text(str(row.number)),
        Text(row.role),
        Text(row.status.replace("_", " "), style=style),
        Text(number_text(row.value) if row.value is not None else ""),
        Text(row.gain.short_text if row.gain is not None else ""),
        Text(format_duration(row.cost_s)),
        what,
    )
