"""Delta debugging with known predicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from grb_check.failures.shrinking import Shrunk, shrink

sizes = st.integers(0, 40)


def shrunk(
    units: Sequence[int], breaks: Callable[[Sequence[int]], bool], most_tests: int = 100_000
) -> Shrunk[int]:
    return shrink(units, breaks, most_tests=most_tests, most_seconds=1e9)


def one_minimal(result: Shrunk[int], breaks) -> bool:
    return not any(
        breaks([unit for unit in result.units if unit != left_out]) for left_out in result.units
    )


@given(sizes, st.data())
def test_what_is_needed_is_all_that_is_left(size: int, data: st.DataObject) -> None:
    """If exactly the supersets of a set break, that set is the result, in its order."""
    units = data.draw(st.permutations(range(size)))
    needed = set(data.draw(st.lists(st.sampled_from(range(size)))) if size else [])
    result = shrunk(units, lambda part: needed <= set(part))
    assert result.units == tuple(unit for unit in units if unit in needed)
    assert result.minimal


@given(st.integers(0, 9), st.data())
def test_any_predicate_is_still_broken_and_no_single_unit_can_go(
    size: int, data: st.DataObject
) -> None:
    """Even if `breaks` is not monotone."""
    parts = data.draw(
        st.lists(
            st.frozensets(st.sampled_from(range(size))) if size else st.just(frozenset()),
            max_size=12,
        )
    )
    breaking = {*parts, frozenset(range(size))}

    def breaks(part: Sequence[int]) -> bool:
        return frozenset(part) in breaking

    result = shrunk(range(size), breaks)
    assert breaks(result.units)
    assert result.minimal
    assert one_minimal(result, breaks)
    assert list(result.units) == sorted(result.units)
