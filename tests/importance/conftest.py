"""The quick form of the rankers' conformance suite: what rankers share is tried on one of those that share it."""

from __future__ import annotations

import pytest

OF_THE_SAMPLES = (
    "test_failures_teach_nothing_of_the_objective", "test_no_finite_loss_is_left_out", "test_order_of_trials_does_not_matter",
    "test_stopped_early_counts", "test_the_same_trial_twice_counts_once",
)  # fmt: skip
"""What trials a ranker sees: decided before it ranks, in `trimtab.importance.samples`."""

SHARING = ("fanova", "forest", "permutation", "shapley")
"""Modules of rankers that take their samples from there, as "lasso" does, which stands for them in the quick form."""

BY_REPETITION = "test_noise_is_called_noise"
"""Shared as well: when ranks that come from resamples may be believed is decided in `trimtab.importance.resample`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what the quick form leaves out `full` (tests/rules.py drops it), and the rest of these rankers `slow`."""
    for item in items:
        made_by = getattr(getattr(item, "cls", None), "ranker_class", None)
        test = getattr(item, "originalname", None)
        if made_by and made_by.__module__.rpartition(".")[2] in SHARING:
            item.add_marker(pytest.mark.full if test in (*OF_THE_SAMPLES, BY_REPETITION) else pytest.mark.slow)
