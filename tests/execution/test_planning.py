"""Dividing a run into tasks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.case import Case
from grb_check.execution.planning import Durations, end, plan, victim_name

ATTACKS = ("rnd", "pgd", "dice", "worst", "worst+white-box")
CASES = [
    Case(dataset, level, scenario, attack, model)
    for model in ("a", "b")
    for dataset in ("one", "two")
    for level in ("easy", "full")
    for scenario in ("injection", "modification")
    for attack in ATTACKS
]

seconds = st.floats(0, 1e4, allow_subnormal=False)
runs = st.dictionaries(st.sampled_from(CASES), st.integers(1, 6), min_size=1)
durations = st.builds(
    Durations,
    cases=st.dictionaries(st.sampled_from([each.id for each in CASES]), seconds),
    training=st.dictionaries(st.sampled_from(["a@one", "a@two", "b@one"]), seconds),
)


@given(runs, durations, st.integers(1, 100))
def test_every_case_and_repeat_is_in_one_part(
    repeats: dict[Case, int], known: Durations, workers: int
) -> None:
    """A part is about one victim; those that take longest come first."""
    parts = plan(repeats, known, workers)
    planned = Counter((case, part.seed) for part in parts for case in part.cases)
    assert planned == Counter((case, seed) for case in repeats for seed in range(repeats[case]))
    for part in parts:
        assert len({victim_name(case) for case in part.cases}) == 1
    assert parts == sorted(parts, key=lambda part: -round(part.seconds, 3))


@pytest.mark.parametrize("workers", [2, 8, 64])
def test_no_part_is_much_longer_than_what_a_worker_has_to_do(workers: int) -> None:
    """But for a case, which cannot be divided."""
    cases = [case for case in CASES if "worst" not in case.attack]
    known = Durations(
        cases={case.id: 1.0 for case in cases},
        training=dict.fromkeys(("a@one", "a@two", "b@one", "b@two"), 0.1),
    )
    parts = plan(dict.fromkeys(cases, 20), known, workers)
    total = sum(part.seconds for part in parts)
    assert end([part.seconds for part in parts], workers) <= 1.2 * max(total / workers, 1.1)
