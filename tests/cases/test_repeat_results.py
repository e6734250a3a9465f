"""Results that cross processes, and the outcome that they make."""

from __future__ import annotations

from dataclasses import replace

import pytest
from outcome_factory import CASE, outcome

from grb_check.cases.repeat_results import CaseFacts, RepeatResult, outcome_of
from grb_check.errors import DataError

MADE = outcome([(0.9, 0.5), (0.8, 0.4)], [(0.9, 0.3), (0.8, 0.3)])
FACTS = CaseFacts(
    targets=MADE.targets,
    majority=MADE.majority,
    dataset=MADE.dataset,
    origin=MADE.origin,
    attack="",
    threat="",
)
RESULTS = [
    RepeatResult(
        facts=FACTS,
        measurement=repeat,
        warnings=("one", f"of {repeat.seed}"),
        attack="pgd",
        methods=("adaptive",),
        perturbation=b"\x00npz",
    )
    for repeat in MADE.repeats
]


def test_results_make_the_outcome() -> None:
    """Each warning once."""
    result = outcome_of(CASE, MADE.model, RESULTS)
    assert result == replace(MADE, warnings=("one", "of 0", "of 1"))


@pytest.mark.parametrize("field", ["dataset", "attack", "threat", "origin"])
def test_repeats_of_different_data_or_attacks_make_none(field: str) -> None:
    """As when a worker sees another file under the same path."""
    other = replace(RESULTS[1], facts=replace(FACTS, **{field: "another"}))
    with pytest.raises(DataError, match="measured on different data"):
        outcome_of(CASE, MADE.model, [RESULTS[0], other])
