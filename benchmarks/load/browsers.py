"""Part "browsers": 2,000 emulated browsers that think for 7 s on average, from one thread; how late is the engine itself?"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

from clients import run_ours
from pairs import rounded, spread
from plan import Plan

from servers import AbsentError, httpd
from trimtab.workload.site.file import load_site
from trimtab.workload.site.plan import plain_site

GOAL_US = 2_000
_SITE = Path(__file__).parent / "site" / "files.toml"
_IMAGES = '<img src="/logo.png"><img src="/bar.png">'
_ITEMS = 20
_TIMES = ("response", "lateness", "wakeup")


def _page(state: str, text: str = "") -> bytes:
    return f"<!DOCTYPE html><html><body>{_IMAGES}{text}</body></html>\n<!-- {state} ok -->\n".encode()


def _files() -> dict[str, bytes]:
    links = "".join(f'<a href="/item/{n}.html">Item {n}</a>\n' for n in range(_ITEMS))
    items = {f"/item/{n}.html": _page("Item", "<p>A thing for sale.</p>" * 100) for n in range(_ITEMS)}
    images = {"/logo.png": bytes(6 * 1024), "/bar.png": bytes(1024)}
    return {"/home.html": _page("Home"), "/list.html": _page("List", links), **items, **images}


def _let_open(n_files: int) -> None:
    """Also for the processes that are started from here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < n_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (n_files, hard))


def _kept(found: dict[str, Any]) -> dict[str, Any]:
    """What the result keeps of a run."""
    cpu_us = (found["user_s"] + found["system_s"]) / found["ok"] * 1e6
    rate = found["ok"] / found["duration_s"]
    times = {name: found[name] for name in _TIMES}
    return {
        "ok": found["ok"],
        "memory_bytes": found["memory_bytes"],
        **times,
        "client_cpu_us": rounded(cpu_us),
        "rate": rounded(rate),
    }


def run(plan: Plan) -> dict[str, Any]:
    """Some runs with other random choices."""
    _let_open(2 * plan.browsers + 100)
    facts = {"users": plan.browsers, "start_s": plan.browsers_start_s, "run_s": plan.browsers_s, "goal_us": GOAL_US}
    source = plain_site(load_site(_SITE), "all", numbers={})
    try:
        with httpd(_files()) as web:
            spec = {
                "driver": web.driver(), "source": source, "users": plan.browsers, "start_s": plan.browsers_start_s,
                "duration_s": float(plan.browsers_s),
            }  # fmt: skip
            runs = [_kept(run_ours({**spec, "seed": seed})) for seed in range(1, plan.stalls + 1)]
            p99 = spread(run["lateness"]["p99"] for run in runs)
            return {**facts, "server": web.name, "lateness_p99_us": p99, "runs": runs}
    except AbsentError as absent:
        return {**facts, "missing": str(absent), "runs": []}
