"""What the gate says of two sides of one run."""

from __future__ import annotations

import numpy as np
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.gate.baselines.burn_in import HEAD, burn_in, divide
from grb_check.gate.baselines.files import BaselineCase, entry_of

REFERENCE = [(0.8, 0.6)] * 20


def entries(attacked: np.ndarray, cases: int = 4) -> dict[Case, BaselineCase]:
    """Cases with these mean accuracies under attack, float64 [repeats]."""
    rng, found = np.random.default_rng(0), {}
    for number in range(cases):
        case = Case("cora", "easy", "injection", f"a{number}")
        own = [(0.8, float(each)) for each in attacked + rng.normal(0, 0.01, len(attacked))]
        found[case] = entry_of(outcome(own, REFERENCE[: len(own)], case, "gcn"))
    return found


def test_more_repeats_detect_less_and_nothing_is_a_loss() -> None:
    """A table of the sizes that the run has repeats for."""
    now = entries(np.full(20, 0.5))
    head, *rows = burn_in(now, [*now], 2.0)
    assert head == HEAD
    assert [row[:2] for row in rows] == [("cora", "3"), ("cora", "5"), ("cora", "10")]
    assert all(int(row[2].split()[0]) <= 5 for row in rows)
    detects = [float(row[3].split()[0]) for row in rows]
    assert detects == sorted(detects, reverse=True)
    assert detects[-1] > 2.0


def test_a_side_that_is_worse_is_found() -> None:
    """Sides are those that are given, in this direction."""
    now = entries(np.repeat([0.6, 0.4], 5))
    better, worse = range(5), range(5, 10)
    assert divide(now, [*now], 2.0, better, worse).failed == {("", "cora")}
    assert not divide(now, [*now], 2.0, worse, better).failed


def test_too_few_repeats_make_no_row() -> None:
    """As of a run whose cases failed."""
    assert burn_in({}, [], 2.0) == [HEAD]
    now = entries(np.full(5, 0.5))
    assert burn_in(now, [*now], 2.0) == [HEAD]
