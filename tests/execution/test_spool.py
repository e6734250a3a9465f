"""Results that wait for their turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.case import Case
from grb_check.execution.spool import Spool

CASES = [Case("tiny", level, "injection", "rnd") for level in ("easy", "full")]
puts = st.lists(st.tuples(st.sampled_from(CASES), st.integers(0, 2), st.binary(max_size=9)))


@given(puts)
def test_the_last_value_of_each_case_and_repeat_is_kept(
    values: list[tuple[Case, int, bytes]],
) -> None:
    """However often it was put."""
    spool = Spool()
    for case, seed, value in values:
        spool.put(case, seed, {"value": value})
    for (case, seed), value in {(case, seed): value for case, seed, value in values}.items():
        assert spool.get(case, seed) == {"value": value}
    spool.close()
