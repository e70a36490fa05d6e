"""/metrics: what this server and its sessions do, as Prometheus reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from trimtab.serve.hub import Hub

__all__ = ["metrics_text"]


def metrics_text(hub: Hub) -> str:
    """The metrics in the text format 0.0.4."""
    return "\n".join(_lines(hub)) + "\n"


def _lines(hub: Hub) -> Iterator[str]:
    summaries = hub.sessions.history.summaries()
    kinds = Counter((each.target or "unknown", each.status) for each in summaries)
    rows = [({"target": kind, "status": status}, n) for (kind, status), n in sorted(kinds.items())]
    yield from _metric("trimtab_studies", "gauge", "Studies of the history.", rows)
    live = sorted(hub.sessions.live(), key=lambda session: session.spec.name)
    statuses = [
        ({"session": session.spec.name, "status": status}, n)
        for session in live
        for status, n in sorted(Counter(str(trial.status) for trial in session.trials).items())
    ]
    yield from _metric("trimtab_session_trials_total", "counter", "Trials told, by status.", statuses)
    gains = [({"session": s.spec.name, "proven": str(s.is_proven).lower()}, s.best()[1]) for s in live]
    yield from _metric(
        "trimtab_session_gain", "gauge", "How many times better than the baseline the best config is.", gains
    )
    clients = [({"session": s.spec.name}, len(s.clients)) for s in live]
    yield from _metric("trimtab_session_clients", "gauge", "Clients that have joined and not left.", clients)
    out = [({"session": s.spec.name}, sum(bool(each["client"]) for each in s.running())) for s in live]
    yield from _metric("trimtab_session_points_out", "gauge", "Points that clients are measuring.", out)
    yield from _metric("trimtab_reports_total", "counter", "Reports taken.", [({}, hub.n_reports)])
    yield from _metric("trimtab_problems_total", "counter", "Requests that were refused.", [({}, hub.n_problems)])
    yield from _metric(
        "trimtab_ask_seconds_sum", "counter", "Seconds that fetches took, searchers' included.", [({}, hub.ask_s)]
    )
    yield from _metric("trimtab_ask_seconds_count", "counter", "Fetches.", [({}, hub.n_asks)])
    waiting = hub.sessions.keeper.n_waiting
    yield from _metric("trimtab_unwritten_rows", "gauge", "Rows that are not in the history yet.", [({}, waiting)])


def _metric(name: str, kind: str, text: str, rows: Iterable[tuple[dict[str, str], float]]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in rows:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{inner}}} {value:.15g}" if inner else f"{name} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
