"""REPEAT: the off-line loop from a study file to a proven config; here search meets trial."""

from trimtab.study.begin import TuneListener
from trimtab.study.bench import BenchResult, bench
from trimtab.study.change import (
    Change,
    Recovered,
    apply_winner,
    open_changes,
    recover,
    rollback,
    winner_of,
)
from trimtab.study.design import run_design
from trimtab.study.discovery import embedded_server, found_servers
from trimtab.study.file import Budget, StudyFile, load_study_file
from trimtab.study.grant import grant_sql
from trimtab.study.rank import Ranked, design_name, make_rankers, rank_study
from trimtab.study.rate_search import RateResult, Slo, find_rate
from trimtab.study.stage import Stage, build_target, build_workload, open_stage
from trimtab.study.tune import tune
from trimtab.study.verdict import make_verdict

__all__ = [
    "BenchResult",
    "Budget",
    "Change",
    "Ranked",
    "RateResult",
    "Recovered",
    "Slo",
    "Stage",
    "StudyFile",
    "TuneListener",
    "apply_winner",
    "bench",
    "build_target",
    "build_workload",
    "design_name",
    "embedded_server",
    "find_rate",
    "found_servers",
    "grant_sql",
    "load_study_file",
    "make_rankers",
    "make_verdict",
    "open_changes",
    "open_stage",
    "rank_study",
    "recover",
    "rollback",
    "run_design",
    "tune",
    "winner_of",
]
