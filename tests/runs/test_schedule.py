"""Dividing a run into tasks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.case import Case
from grb_check.runs.schedule import end, timed_parts

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
durations = st.dictionaries(st.sampled_from([case.id for case in CASES]), seconds)


@given(runs, durations, st.integers(1, 100))
def test_every_case_and_repeat_is_in_one_part(
    repeats: dict[Case, int], known: dict[str, float], workers: int
) -> None:
    """A part is about one victim; those that take longest come first."""
    parts = timed_parts(repeats, known, workers)
    planned = Counter((case, part.seed) for part in parts for case in part.cases)
    assert planned == Counter((case, seed) for case in repeats for seed in range(repeats[case]))
    for part in parts:
        assert len({(case.model, case.dataset) for case in part.cases}) == 1
    assert parts == sorted(parts, key=lambda part: -round(part.seconds, 3))


@pytest.mark.parametrize("workers", [2, 8, 40])
def test_no_part_is_much_longer_than_what_a_worker_has_to_do(workers: int) -> None:
    """But for a case, which cannot be divided."""
    cases = [case for case in CASES if "worst" not in case.attack]
    parts = timed_parts(dict.fromkeys(cases, 20), {}, workers)
    total = sum(part.seconds for part in parts)
    assert end([part.seconds for part in parts], workers) <= 1.2 * max(total / workers, 11)
