"""REPEAT: the off-line loop from a study file to a proven config; here search meets trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred

if TYPE_CHECKING:
    from trimtab.study.begin import TuneListener
    from trimtab.study.benching import BenchResult, bench
    from trimtab.study.change import Change, Proposal, RolledBack, apply_winner, rollback, winner_of
    from trimtab.study.checks import Check, checks_of
    from trimtab.study.demo import demo_file
    from trimtab.study.design import run_design
    from trimtab.study.discovery import embedded_server, found_servers, usable_server
    from trimtab.study.file import Budget, StudyFile, load_study_file
    from trimtab.study.grant import Grant, grant_sql
    from trimtab.study.in_engine import engine_advice, engine_classes, hint_engine, install_engine, switch_engine
    from trimtab.study.rank import Ranked, design_name, make_rankers, rank_study
    from trimtab.study.rate_search import RateResult, Slo, find_rate, rate_to_json
    from trimtab.study.recovery import (
        Recovered,
        Stuck,
        applied,
        extract,
        leave,
        leave_applied,
        open_changes,
        recover,
        shown,
    )
    from trimtab.study.remembered import history_of, only_history_of, remember_file, remembered_file
    from trimtab.study.running import ask_to_stop, running_now
    from trimtab.study.stage import Stage, build_stack, build_target, build_workload, open_stage
    from trimtab.study.template import study_text
    from trimtab.study.tuning import tune
else:
    __getattr__ = deferred(
        __name__,
        {
            "begin": "TuneListener",
            "benching": "BenchResult bench",
            "change": "Change Proposal RolledBack apply_winner rollback winner_of",
            "checks": "Check checks_of",
            "demo": "demo_file",
            "design": "run_design",
            "discovery": "embedded_server found_servers usable_server",
            "file": "Budget StudyFile load_study_file",
            "grant": "Grant grant_sql",
            "in_engine": "engine_advice engine_classes hint_engine install_engine switch_engine",
            "running": "ask_to_stop running_now",
            "rank": "Ranked design_name make_rankers rank_study",
            "rate_search": "RateResult Slo find_rate rate_to_json",
            "recovery": "Recovered Stuck applied extract leave leave_applied open_changes recover shown",
            "remembered": "history_of only_history_of remember_file remembered_file",
            "stage": "Stage build_stack build_target build_workload open_stage",
            "template": "study_text",
            "tuning": "tune",
        },
    )

__all__ = [
    "BenchResult",
    "Budget",
    "Change",
    "Check",
    "Grant",
    "Proposal",
    "Ranked",
    "RateResult",
    "Recovered",
    "RolledBack",
    "Slo",
    "Stage",
    "Stuck",
    "StudyFile",
    "TuneListener",
    "applied",
    "apply_winner",
    "ask_to_stop",
    "bench",
    "build_stack",
    "build_target",
    "build_workload",
    "checks_of",
    "demo_file",
    "design_name",
    "embedded_server",
    "engine_advice",
    "engine_classes",
    "extract",
    "find_rate",
    "found_servers",
    "grant_sql",
    "hint_engine",
    "history_of",
    "install_engine",
    "leave",
    "leave_applied",
    "load_study_file",
    "make_rankers",
    "only_history_of",
    "open_changes",
    "open_stage",
    "rank_study",
    "rate_to_json",
    "recover",
    "remember_file",
    "remembered_file",
    "rollback",
    "run_design",
    "running_now",
    "shown",
    "study_text",
    "switch_engine",
    "tune",
    "usable_server",
    "winner_of",
]
