"""NUMBERS: from the log of a load run to measurements with intervals, and from measurements to verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.deferred import deferred

if TYPE_CHECKING:
    from trimtab.measure.compare import PairedComparison, compare_pairs, exp_interval
    from trimtab.measure.credit import credited_series
    from trimtab.measure.drift import BaselineTrack, Drift
    from trimtab.measure.histogram import decode_histogram, encode_latencies, merge_histograms
    from trimtab.measure.interval import batch_means_interval, floored, pooled_interval, positive, ratio_interval
    from trimtab.measure.measurement import Interval, LabelStats, Measurement, Outcome, QueryLog
    from trimtab.measure.mix import mix_shift
    from trimtab.measure.noise import NoiseFloor, noise_floor
    from trimtab.measure.percentile import percentile_interval
    from trimtab.measure.repeated import FIRST_LOOK, LEAST_KNOWN, Looks
    from trimtab.measure.second_log import Buckets, Latencies, SecondLog, merge_seconds
    from trimtab.measure.sequential import (
        EarlyStop,
        NoisePool,
        PairedSequence,
        Verdict,
        anytime_interval,
        expected_half_width,
        observations_needed,
    )
    from trimtab.measure.spread import (
        beside_neighbours,
        relative_range,
        spread_evidence,
        spread_p_value,
        spread_ratio,
        usual_sd,
    )
    from trimtab.measure.steady import SteadyDetector, warmup_end
    from trimtab.measure.summary import summarise
    from trimtab.measure.validity import cpu_limit
else:
    __getattr__ = deferred(
        __name__,
        {
            "compare": "PairedComparison compare_pairs exp_interval",
            "credit": "credited_series",
            "drift": "BaselineTrack Drift",
            "histogram": "decode_histogram encode_latencies merge_histograms",
            "interval": "batch_means_interval floored pooled_interval positive ratio_interval",
            "measurement": "Interval LabelStats Measurement Outcome QueryLog",
            "mix": "mix_shift",
            "noise": "NoiseFloor noise_floor",
            "percentile": "percentile_interval",
            "second_log": "Buckets Latencies SecondLog merge_seconds",
            "repeated": "FIRST_LOOK LEAST_KNOWN Looks",
            "sequential": "EarlyStop NoisePool PairedSequence Verdict anytime_interval expected_half_width observations_needed",
            "spread": "beside_neighbours relative_range spread_evidence spread_p_value spread_ratio usual_sd",
            "steady": "SteadyDetector warmup_end",
            "summary": "summarise",
            "validity": "cpu_limit",
        },
    )

__all__ = [
    "FIRST_LOOK",
    "LEAST_KNOWN",
    "BaselineTrack",
    "Buckets",
    "Drift",
    "EarlyStop",
    "Interval",
    "LabelStats",
    "Latencies",
    "Looks",
    "Measurement",
    "NoiseFloor",
    "NoisePool",
    "Outcome",
    "PairedComparison",
    "PairedSequence",
    "QueryLog",
    "SecondLog",
    "SteadyDetector",
    "Verdict",
    "anytime_interval",
    "batch_means_interval",
    "beside_neighbours",
    "compare_pairs",
    "cpu_limit",
    "credited_series",
    "decode_histogram",
    "encode_latencies",
    "exp_interval",
    "expected_half_width",
    "floored",
    "merge_histograms",
    "merge_seconds",
    "mix_shift",
    "noise_floor",
    "observations_needed",
    "percentile_interval",
    "pooled_interval",
    "positive",
    "ratio_interval",
    "relative_range",
    "spread_evidence",
    "spread_p_value",
    "spread_ratio",
    "summarise",
    "usual_sd",
    "warmup_end",
]
