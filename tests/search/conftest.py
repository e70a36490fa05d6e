"""The quick form of the searchers' conformance suite: each promise on the spaces where it could break; the long form: on all."""

from __future__ import annotations

import pytest

QUICK_SPACES = ("constrained", "empty")
"""One with everything in it, and one without a knob."""

CHEAP_SPACES = ("constrained", "conditional", "tiny", "empty")
"""For searchers that fit no model; "single" has one config, as "empty" has, and "constrained" all that "mixed" has."""

OF_SMALL_SPACES = (
    "test_asks_feasible", "test_batch_differs_and_is_feasible", "test_batches_go_on", "test_pending_are_not_asked_again",
)  # fmt: skip
"""Promises in which fewer configs than are asked for play a part: tried on "tiny" with every searcher."""

OF_THE_LEDGER = (
    "test_answers_out_of_order", "test_batches_go_on", "test_best_meets_constraints_of_the_objective",
    "test_no_finite_loss_is_a_failure", "test_pending_are_not_asked_while_others_are_told",
    "test_resumes_in_the_middle_of_a_batch", "test_runs_dry_without_failing", "test_seed_matters",
    "test_survives_every_other_crash", "test_survives_when_everything_crashes",
    "test_the_same_trial_told_twice_changes_nothing",
)  # fmt: skip
"""Promises that a searcher keeps through the ledger that all share: the long form tries them with `COSTLY` ones too, the quick
form with those that fit no model and go by what they were told, and with auto and tpe."""

COSTLY = (
    "ContextualGaussianProcessSearcher", "EnsembleSearcher", "ForestSearcher", "GaussianProcessSearcher",
    "GaussianProcessWithoutDesign", "OptunaSearcher", "ProjectionSearcher", "SmacSearcher", "TrustRegionSearcher",
)  # fmt: skip
"""Classes, or the tests of a variant, whose asks take long: peers, and what `auto` is made of."""

LIKE_ANOTHER = ("LatinHypercubeSearcher", "NelderMeadFromRandomSimplex", "SobolSearcher")
"""The same of which another is cheap: points that were drawn before anything is told, as a grid's are, and one more simplex."""

OF_THE_CHECK = ("auto", "grid", "nelder_mead", "random")
"""Searchers that `make check` tries too: the default, and one of each family that fits no model; the others are marked `slow`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what the quick form leaves out `full` (tests/rules.py drops it), and costly searchers `slow`."""
    for item in items:
        made_by = getattr(getattr(item, "cls", None), "searcher_class", None)
        if made_by is None:
            continue
        module = made_by.__module__.rpartition(".")[2]
        if module not in OF_THE_CHECK or _space(item) in ("mixed", "conditional"):
            item.add_marker(pytest.mark.slow)
        names = {made_by.__name__, item.cls.__name__.removeprefix("Test")}  # type: ignore[attr-defined]
        is_left_out = not names.isdisjoint((*COSTLY, *LIKE_ANOTHER)) and item.originalname in OF_THE_LEDGER  # type: ignore[attr-defined]
        is_slow_ask = made_by.__name__ == "SmacSearcher" and _space(item) == "tiny"
        if is_left_out or is_slow_ask or not _is_quick(item, not getattr(made_by, "FITS_MODEL", True)):
            item.add_marker(pytest.mark.full)


def _space(item: pytest.Item) -> str | None:
    params = getattr(item, "callspec", None)
    return params.params.get("space") if params else None


def _is_quick(item: pytest.Item, is_cheap: bool) -> bool:
    test, space = item.originalname, _space(item)  # type: ignore[attr-defined]
    if space is None:
        # Every searcher keeps its trials in one ledger, which sorts out what has no finite loss.
        return test != "test_no_finite_loss_is_a_failure" or str(item.callspec.params["loss"]) in ("nan", "None")  # type: ignore[attr-defined]
    if test in ("test_is_deterministic", "test_asks_feasible") and space == "constrained":
        return False  # test_resumes_after_a_replay compares the same asks there, and looks whether they are feasible
    if space == "tiny" and test in OF_SMALL_SPACES:
        return True
    return space in (CHEAP_SPACES if is_cheap else QUICK_SPACES)
