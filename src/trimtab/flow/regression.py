"""The regression budget: what the search has cost the users of a live target so far, in seconds of their time.

symbol   meaning
T        seconds that a trial's load ran, warm-up included
u        users that wait for answers (connections)
x, x0    throughput of the trial and of the baseline
l, l0    mean response time of the trial and of the baseline, of its runs that were kept up with

closed loop     u T max(0, 1 - x / x0)    what the same users would have got done with the baseline, as their time
open loop       x T max(0, l - l0)        each request waits longer; so do those of observed traffic, where its latency is known
no measurement  u (apply + load + restore) where the config is to blame: nobody was served
"""

from __future__ import annotations

import math

from trimtab.records import BASELINE_ROLES, Trial, seconds_of

__all__ = ["RegressionMeter"]

_MS_PER_S = 1e3


class RegressionMeter:
    """Adds up the losses of trials against the baseline runs among them; gains do not pay losses back.

    Attributes:
        lost_s: user time lost so far, in seconds.
    """

    def __init__(self) -> None:
        self.lost_s = 0.0
        self._n_baselines, self._throughputs = 0, 0.0
        self._n_latencies, self._latencies_ms = 0, 0.0

    def take(self, trial: Trial) -> None:
        """Learns from a trial; those before the first baseline cost nothing, for nothing is known to compare them with."""
        if trial.role in BASELINE_ROLES:
            if trial.measurement is not None:
                m = trial.measurement
                self._n_baselines += 1
                self._throughputs += m.throughput.estimate
                latency_ms = m.latency_mean_ms.estimate
                if math.isfinite(latency_ms):  # not that of an open loop which the server did not keep up with
                    self._n_latencies += 1
                    self._latencies_ms += latency_ms
            return
        self.lost_s += self._loss_s(trial)

    def _loss_s(self, trial: Trial) -> float:
        m, cost = trial.measurement, trial.cost_s
        if m is None:
            steps = ("apply", "warmup", "measure", "failed", "restore")
            is_own = trial.status.is_config_fault
            return trial.context.clients * sum(seconds_of(cost, step) for step in steps) if is_own else 0.0
        if not self._n_baselines:
            return 0.0
        ran_s = seconds_of(cost, "warmup") + seconds_of(cost, "measure")
        is_timed = self._n_latencies > 0 and math.isfinite(m.latency_mean_ms.estimate)
        if not (m.is_open or (m.is_observed and is_timed)):
            users, throughput = m.users or trial.context.clients, self._throughputs / self._n_baselines
            return float(users * ran_s * max(0.0, 1 - m.throughput.estimate / throughput))
        if not self._n_latencies:
            return 0.0
        latency_ms = self._latencies_ms / self._n_latencies
        longer_s = (min(m.latency_mean_ms.estimate, _MS_PER_S * ran_s) - latency_ms) / _MS_PER_S
        return float(m.throughput.estimate * ran_s * max(0.0, longer_s))
