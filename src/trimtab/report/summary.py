"""Summary: everything a report says, worked out once from a study and its trials, for text, HTML and JSON alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.records import BASELINE_ROLES, Context, MemoryUse, Objective, Role, Status, Trial, Verdict, in_hindsight
from trimtab.report.against_advice import advice_line
from trimtab.report.cycle import ContextRow, DifferingRow, are_of_several, context_rows, cycle_lines, differing_rows
from trimtab.report.facts import (
    Contender,
    Drift,
    Failure,
    Gain,
    LabelChange,
    LineWorth,
    Memory,
    PathPoint,
    SettingChange,
    TrialRow,
    interval_title,
)
from trimtab.report.headline import headline, times_of
from trimtab.report.lines import ablation_text, dropped_groups, line_worths, parted_lines, path_points, undecided_text
from trimtab.report.passes import PassRow, passes_note, passes_rows
from trimtab.report.plays import PlayRow, left_out_plays, play_rows, plays_note
from trimtab.report.pruned import pruned_lines
from trimtab.report.spent import TimeShare, time_shares
from trimtab.report.values import ValueTexts
from trimtab.report.warmed import warm_lines
from trimtab.report.words import clean, counted, first_line, number_text, workload_text
from trimtab.units import format_figure

if TYPE_CHECKING:
    from trimtab.history import StudyRecord

__all__ = ["Summary", "compared_trials", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a study showed.

    Attributes:
        name: the study's name; `host`: where it was made, "" when unknown.
        workload: what the server was asked, by how many clients, at which rate.
        result: that of the verdict ("better", "no_improvement", "interrupted", "design", "bench"); where it has none, the
            status of the study: "running", or how it ended without one.
        headline: the whole outcome in one sentence.
        metric, unit: of the objective; `objective` is its full text.
        times: what gains are called.
        gain: of the proven winner; None when there is none.
        settings: what the winner changes.
        passes: of a search in passes, what each brought and cost; `passes_end`: why there was no further one.
        plays: what an expert would try and what it brought, in the order tried; empty where no play was.
        plays_note: how they were measured, and what that is worth.
        plays_left_out: (plays, why they were not tried).
        lines: what each of them is worth, the most valuable first; empty when that was not measured.
        ablation: how the settings were chosen, in words; `undecided`: those that are neither proven nor needless.
        path: the gain by number of settings.
        conditions: (what had to hold for the winner to be accepted, whether it did, the figures).
        warm_start: which past studies served, and whose prior was dropped; empty without a warm start.
        pruned: of a pruned search, what was searched and what was left out.
        dropped: (knobs, why they were left out of the winner), knobs of one reason together.
        contexts: of a study over a cycle, what each showed; `differing`: knobs whose best values differ between them;
            `cycle_notes`: how to read both.
        contenders: yours, the rule-based advice, tuned.
        beside_advice: the last two of them beside each other, in a sentence; "" when that was not measured.
        by_status, by_role: counts of trials.
        best: the best trial so far, proven or not.
        drift: the baseline over time.
        noise_floor: relative standard deviation of the baseline; `delta`: what the gain's lower bound had to exceed.
        failures: trials that failed, grouped.
        labels: operation types before and after.
        memory: the memory budget; None when the target has none.
        wall: uses of the wall clock, largest first; `wall_total_s` without the preparation of the data (`prepare_s`).
        opened: safety classes that were opened.
        rows: all trials.
    """

    name: str
    host: str
    workload: str
    result: str
    headline: str
    objective: str
    metric: str
    unit: str
    times: str
    stop_reason: str
    warm_start: tuple[str, ...]
    pruned: tuple[str, ...]
    passes: tuple[PassRow, ...]
    passes_end: str
    plays: tuple[PlayRow, ...]
    plays_note: str
    plays_left_out: tuple[tuple[str, str], ...]
    gain: Gain | None
    settings: tuple[SettingChange, ...]
    lines: tuple[LineWorth, ...]
    ablation: str
    undecided: str
    path: tuple[PathPoint, ...]
    conditions: tuple[tuple[str, bool, str], ...]
    dropped: tuple[tuple[str, str], ...]
    contexts: tuple[ContextRow, ...]
    differing: tuple[DifferingRow, ...]
    cycle_notes: tuple[str, ...]
    contenders: tuple[Contender, ...]
    beside_advice: str
    by_status: Mapping[str, int]
    by_role: Mapping[str, int]
    best: TrialRow | None
    drift: Drift
    noise_floor: float | None
    delta: float | None
    pairs: tuple[tuple[float, float], ...]
    failures: tuple[Failure, ...]
    labels: tuple[LabelChange, ...]
    memory: Memory | None
    wall: tuple[TimeShare, ...]
    wall_total_s: float
    prepare_s: float
    opened: tuple[str, ...]
    log_lines: tuple[str, ...]
    apply_command: str
    undo_command: str
    fragment: str
    fragment_path: str
    rows: tuple[TrialRow, ...]

    @property
    def metric_text(self) -> str:
        """The metric with its unit, where it has one."""
        return f"{self.metric} ({self.unit})" if self.unit else self.metric

    @property
    def spent_text(self) -> str:
        """What the time that a trial took is called: not as the metric is."""
        return "time" if self.metric == "cost" else "cost"

    @property
    def is_comparison(self) -> bool:
        """Whether configs were compared: a bench measures one."""
        return any(row.role != Role.BENCH for row in self.rows)

    @property
    def has_restarts(self) -> bool:
        """Whether it is known when settings take effect."""
        return any(setting.restart for setting in self.settings)

    @property
    def measured_lines(self) -> tuple[LineWorth, ...]:
        """Those of `lines` that are shown one by one."""
        return parted_lines(self.lines)[0]

    @property
    def unmeasured(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """(reason, knobs) of the many of `lines` that were not measured for one reason."""
        return parted_lines(self.lines)[1]

    @property
    def contenders_interval(self) -> str:
        """What the intervals of the contenders are called."""
        return interval_title(contender.gain for contender in self.contenders)

    @property
    def after_name(self) -> str:
        """What stands beside "yours": "tuned" only when it is proven."""
        if self.result == "better":
            return "tuned"
        return "candidate" if self.pairs else "best so far"

    @property
    def slower(self) -> str:
        """A sentence naming the operation types that a proven winner made clearly slower; "" when there are none."""
        rows = [label for label in self.labels if label.is_slower]
        if self.result != "better" or not rows:
            return ""
        named = ", ".join(f"{label.label} ({label.times_faster:.2f} times as fast)" for label in rows)
        return f"Not everything gained: {named}."

    @property
    def measured_share(self) -> float:
        """Share of the wall clock that was measurement proper; NaN when no time was spent."""
        measured = sum(share.seconds for share in self.wall if share.name == "measure")
        return measured / self.wall_total_s if self.wall_total_s > 0 else math.nan


def _workload(study: StudyRecord) -> str:
    rate = study.context.features.get("rate_per_s", 0.0)
    return f"{workload_text(study.context)}{f', {format_figure(rate)}/s' if rate else ''}"


def summarise(study: StudyRecord, trials: Sequence[Trial]) -> Summary:
    """Works out everything that a report says. Reads its arguments only."""
    verdict, objective = study.verdict, Objective.parse(study.objective)
    trials, texts = in_hindsight(objective, trials), ValueTexts(study)
    rows = tuple(_row(trial, objective, study, texts) for trial in trials)
    failed = {trial.config for trial in trials if trial.status.is_config_fault}  # a lucky run before that shows nothing
    best = _best(row for row, trial in zip(rows, trials, strict=True) if trial.config not in failed)
    is_better = verdict.is_better
    wall, wall_total_s, prepare_s = time_shares(verdict, trials)
    return Summary(
        name=clean(study.name),
        host=first_line(study.machine.hostname),
        workload=_workload(study),
        result=clean(verdict.result or study.status),
        headline=headline(study, trials, best),
        objective=clean(study.objective),
        metric=objective.metric,
        unit=objective.unit,
        times=times_of(study),
        stop_reason=first_line(verdict.stop_reason),
        warm_start=warm_lines(verdict),
        pruned=pruned_lines(verdict),
        passes=passes_rows(verdict),
        passes_end=passes_note(verdict),
        plays=play_rows(verdict),
        plays_note=plays_note(verdict),
        plays_left_out=left_out_plays(verdict),
        gain=Gain.of(verdict.gain) if is_better else None,
        settings=texts.settings() if is_better else (),
        lines=line_worths(verdict) if is_better else (),
        ablation=ablation_text(verdict) if is_better else "",
        undecided=undecided_text(verdict) if is_better else "",
        path=path_points(study, trials),
        conditions=_conditions(verdict),
        dropped=dropped_groups(verdict) if is_better else (),
        contexts=context_rows(study),
        differing=differing_rows(study),
        cycle_notes=cycle_lines(verdict),
        contenders=() if verdict.cycle or are_of_several(trials) else _contenders(verdict, trials, objective),
        beside_advice=advice_line(verdict, trials),
        by_status=Counter(str(trial.status) for trial in trials),
        by_role=Counter(str(trial.role) for trial in trials),
        best=best,
        drift=_drift(verdict, trials, objective),
        noise_floor=verdict.noise_floor,
        delta=verdict.delta,
        pairs=verdict.pairs,
        failures=_failures(trials, rows),
        labels=_labels(*compared_trials(study, trials, best)),
        memory=_memory(verdict.memory),
        wall=wall,
        wall_total_s=wall_total_s,
        prepare_s=prepare_s,
        opened=tuple(clean(name) for name in verdict.unlocked),
        log_lines=tuple(clean(line) for line in verdict.log_lines),
        apply_command=first_line(verdict.apply_command),
        undo_command=first_line(verdict.undo_command),
        fragment=clean(verdict.fragment),
        fragment_path=first_line(verdict.fragment_path),
        rows=rows,
    )


def compared_trials(
    study: StudyRecord, trials: Sequence[Trial], best: TrialRow | None
) -> tuple[list[Trial], list[Trial]]:
    """Measured trials of (baseline, winner): the proof's where there was one, else the baseline's and the best one.

    None of a study over several contexts: each side would be another mix of them.
    """
    if are_of_several(trials):
        return [], []
    measured = [trial for trial in trials if trial.status is Status.OK and trial.measurement is not None]
    before = [trial for trial in measured if trial.role is Role.PROOF_BASELINE]
    after = [trial for trial in measured if trial.role is Role.PROOF_CANDIDATE]
    # Two configs were proven when the smaller one failed: only the printed one is compared.
    printed = study.verdict.candidate
    after = [trial for trial in after if printed is None or trial.config == printed] or after
    if not before or not after:
        before = [trial for trial in measured if trial.role is Role.BASELINE]
        after = [trial for trial in measured if best is not None and trial.number == best.number]
    return before, after


def _conditions(verdict: Verdict) -> tuple[tuple[str, bool, str], ...]:
    return tuple(
        (first_line(row.name).replace("_", " "), row.is_met, first_line(row.text)) for row in verdict.conditions
    )


def _row(trial: Trial, objective: Objective, study: StudyRecord, texts: ValueTexts) -> TrialRow:
    value = objective.value(trial.measurement) if trial.measurement is not None else None
    changed = trial.config.difference(study.baseline)
    return TrialRow(
        number=trial.number,
        role=str(trial.role).replace("_", " "),
        status=trial.status,
        value=None if value is None else value.estimate,
        low=None if value is None else value.low,
        high=None if value is None else value.high,
        gain=Gain.of_trial(trial),
        changed={clean(name): texts.of(name, trial.config[name]) for name in changed if name in trial.config},
        cost_s=sum(trial.cost_s.values()),
        started_at=trial.started_at,
        reason=first_line(trial.reason) or ("a constraint of the objective was missed" if trial.excess > 0 else ""),
        # A run that a guard has ended shows how fast it was until then, and not that the config holds.
        is_feasible=trial.status is Status.OK and trial.is_feasible and trial.role not in BASELINE_ROLES,
    )


def _best(rows: Iterable[TrialRow]) -> TrialRow | None:
    candidates = [row for row in rows if row.is_feasible and row.gain is not None]
    return max(candidates, key=lambda row: row.gain.estimate if row.gain else 0.0, default=None)


def _mean(values: Iterable[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else None


def _values(trials: Iterable[Trial], objective: Objective, *roles: Role) -> list[float]:
    return [objective.value(t.measurement).estimate for t in trials if t.role in roles and t.measurement is not None]


def _contenders(verdict: Verdict, trials: Sequence[Trial], objective: Objective) -> tuple[Contender, ...]:
    pairs = verdict.pairs
    yours = _mean(pair[0] for pair in pairs) if pairs else _mean(_values(trials, objective, Role.BASELINE))
    if yours is None:
        return ()
    found = [Contender("yours", yours, None, "the same pairs" if pairs else "baseline")]
    advice = _advice(verdict, trials, objective)
    if advice is not None:
        found.append(advice)
    gain = Gain.of(verdict.gain)
    if gain is not None:
        is_better = verdict.is_better
        state = "" if is_better else ", not finished" if verdict.result == "interrupted" else ", not accepted"
        basis = counted(len(pairs), "alternating pair") + state
        found.append(Contender("tuned" if is_better else "best candidate", _mean(p[1] for p in pairs), gain, basis))
    return tuple(found)


def _advice(verdict: Verdict, trials: Sequence[Trial], objective: Objective) -> Contender | None:
    name, gain = "rule-based advice", Gain.of(verdict.advice_gain)
    if gain is not None:
        pairs = verdict.advice_pairs
        value = _mean(pair[1] for pair in pairs)
        value = value if value is not None else _mean(_values(trials, objective, Role.ADVICE, Role.PROOF_ADVICE))
        return Contender(
            name, value, gain, counted(len(pairs), "alternating pair") if pairs else "the study's own trials"
        )
    tried = [trial for trial in trials if trial.role is Role.ADVICE and trial.status is Status.OK]
    if not tried:
        return None
    value, gain = _mean(_values(tried[:1], objective, Role.ADVICE)), Gain.of_trial(tried[0])
    return Contender(name, value, gain, f"one trial{_then(value, gain, objective)}")


def _then(value: float | None, gain: Gain | None, objective: Objective) -> str:
    """What the user's own config did at the time of a trial: the machine may have been another one than during the proof."""
    if value is None or gain is None or not 0 < gain.estimate < math.inf:
        return ""
    yours = value / gain.estimate if objective.is_maximised else value * gain.estimate
    return f", when yours did {number_text(yours)}"


def _drift(verdict: Verdict, trials: Sequence[Trial], objective: Objective) -> Drift:
    start = min((trial.started_at for trial in trials), default=0.0)
    points = []
    contexts: list[tuple[Context, list[float]]] = []
    for trial in trials:
        if trial.role in BASELINE_ROLES and trial.measurement is not None:
            value = objective.value(trial.measurement)
            if not math.isfinite(value.estimate):  # a percentile beyond the time-outs is only known to be large
                continue
            points.append((trial.number, trial.started_at - start, value.estimate, value.low, value.high))
            known = next((values for context, values in contexts if context == trial.context), None)
            if known is None:
                contexts.append((trial.context, known := []))
            known.append(value.estimate)
    spreads = [(max(values) - min(values)) / mean for _, values in contexts if (mean := _mean(values))]
    is_beyond = None if verdict.drift is None else verdict.drift.is_beyond_noise
    return Drift(tuple(points), max(spreads, default=None), is_beyond, max(1, len(contexts)))


def _failures(trials: Sequence[Trial], rows: Sequence[TrialRow]) -> tuple[Failure, ...]:
    groups: dict[tuple[Status, str], list[int]] = {}
    for index, (trial, row) in enumerate(zip(trials, rows, strict=True)):
        if not trial.status.is_measured or trial.excess > 0:
            groups.setdefault((trial.status, row.reason), []).append(index)
    found = []
    for (status, reason), indexes in groups.items():
        first = indexes[0]
        lines = [line.rstrip() for line in clean(trials[first].reason).splitlines() if line.strip()]
        numbers = tuple(trials[index].number for index in indexes)
        found.append(Failure(status, reason, numbers, tuple(lines[1:]), rows[first].changed))
    return tuple(sorted(found, key=lambda failure: -len(failure.numbers)))


def _labels(before: Sequence[Trial], after: Sequence[Trial]) -> tuple[LabelChange, ...]:
    names = sorted(_seen(before) & _seen(after))
    return tuple(
        LabelChange(
            clean(name),
            *(
                _weighted(side, name, figure)
                for figure in ("latency_mean_ms", "latency_p95_ms", "throughput_per_s")
                for side in (before, after)
            ),
        )
        for name in names
    )


def _seen(trials: Sequence[Trial]) -> set[str]:
    """Operations that ended in any way; a state of a site that no browser came to is none."""
    stats = [each for trial in trials for each in _by_label(trial).items()]
    return {label for label, of in stats if of.n_ok + of.n_error + of.n_timed_out}


def _by_label(trial: Trial) -> Mapping[str, Any]:
    return trial.measurement.by_label if trial.measurement is not None else {}


def _weighted(trials: Sequence[Trial], label: str, figure: str) -> float:
    found = [_by_label(trial)[label] for trial in trials if label in _by_label(trial)]
    pairs = [(getattr(stats, figure), stats.n_ok) for stats in found if math.isfinite(getattr(stats, figure))]
    if not pairs or not sum(weight for _, weight in pairs):
        return math.nan
    return float(np.average([value for value, _ in pairs], weights=[weight for _, weight in pairs]))


def _memory(use: MemoryUse | None) -> Memory | None:
    if use is None or not (use.baseline or use.winner):
        return None
    before, after = dict(use.baseline), dict(use.winner)
    budgets = [side.pop("budget", None) for side in (after, before)]
    names = dict.fromkeys([*before, *after])
    consumers = tuple((clean(name), before.get(name, 0.0), after.get(name, 0.0)) for name in names)
    return Memory(consumers, next((budget for budget in budgets if budget is not None), None))
