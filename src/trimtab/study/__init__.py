"""REPEAT: the off-line loop from a study file to a proven config; here search meets trial."""

from trimtab.study.bench import BenchResult, bench
from trimtab.study.change import apply_winner, find_study, open_changes, recover, rollback, winner_of
from trimtab.study.file import Budget, StudyFile, load_study_file
from trimtab.study.rate_search import RateResult, Slo, find_rate
from trimtab.study.stage import Stage, build_target, build_workload, open_stage
from trimtab.study.tune import TuneListener, open_history_at, tune
from trimtab.study.verdict import make_verdict

__all__ = [
    "BenchResult",
    "Budget",
    "RateResult",
    "Slo",
    "Stage",
    "StudyFile",
    "TuneListener",
    "apply_winner",
    "bench",
    "build_target",
    "build_workload",
    "find_rate",
    "find_study",
    "load_study_file",
    "make_verdict",
    "open_changes",
    "open_history_at",
    "open_stage",
    "recover",
    "rollback",
    "tune",
    "winner_of",
]
