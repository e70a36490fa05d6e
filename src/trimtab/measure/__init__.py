"""NUMBERS: from the log of a load run to measurements with intervals, and from measurements to verdicts."""

from trimtab.measure.measurement import Interval, LabelStats, Measurement, Outcome, QueryLog

__all__ = ["Interval", "LabelStats", "Measurement", "Outcome", "QueryLog"]
