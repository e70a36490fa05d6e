"""NUMBERS: from the log of a load run to measurements with intervals, and from measurements to verdicts."""

from trimtab.measure.compare import PairedComparison, compare_pairs
from trimtab.measure.credit import credited_series
from trimtab.measure.histogram import decode_histogram, encode_latencies, merge_histograms
from trimtab.measure.interval import mean_interval, ratio_interval
from trimtab.measure.measurement import Interval, LabelStats, Measurement, Outcome, QueryLog
from trimtab.measure.percentile import percentile_interval
from trimtab.measure.steady import SteadyDetector, warmup_end
from trimtab.measure.summarise import summarise

__all__ = [
    "Interval",
    "LabelStats",
    "Measurement",
    "Outcome",
    "PairedComparison",
    "QueryLog",
    "SteadyDetector",
    "compare_pairs",
    "credited_series",
    "decode_histogram",
    "encode_latencies",
    "mean_interval",
    "merge_histograms",
    "percentile_interval",
    "ratio_interval",
    "summarise",
    "warmup_end",
]
