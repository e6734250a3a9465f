"""The number of repeats for a loss, from the figures of one run."""

from __future__ import annotations

import numpy as np
import pytest
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.outcomes import Outcome
from grb_check.cli.power import ALL_CASES, needed

REFERENCE = [(0.8, 0.6)] * 20


def measured(spreads: list[float]) -> list[Outcome]:
    """One case for each spread of the attacked accuracy, in points."""
    rng = np.random.default_rng(0)
    found = []
    for number, spread in enumerate(spreads):
        attacked = 0.5 + rng.normal(0, spread / 100, 20)
        own = [(0.8, float(each)) for each in attacked]
        case = Case("cora", "easy", "injection", f"a{number}")
        found.append(outcome(own, REFERENCE, case, "gcn"))
    return found


def test_all_cases_together_need_fewer_repeats_than_any_one() -> None:
    """The first line is that of the joint test, then there is one for each case."""
    joint, *single = needed(measured([2.0] * 6), 3.0, 2.0, 1, 6)
    assert joint.name == ALL_CASES
    assert [each.name for each in single] == [f"cora/easy/injection/a{n}" for n in range(6)]
    assert joint.repeats is not None
    assert all(each.repeats is not None and each.repeats > joint.repeats for each in single)


def test_more_spread_needs_more_repeats_and_a_larger_loss_fewer() -> None:
    """The deviation is that of the difference of two runs."""
    few, many = needed(measured([1.0, 4.0]), 5.0, 2.0, 1, 2)[1:]
    assert few.deviation == pytest.approx(np.sqrt(2.0), rel=0.4)
    assert few.repeats is not None
    assert many.repeats is not None
    assert few.repeats < many.repeats
    larger = needed(measured([1.0, 4.0]), 8.0, 2.0, 1, 2)[2]
    assert larger.repeats is not None
    assert larger.repeats < many.repeats
