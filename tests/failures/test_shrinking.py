"""Delta debugging with known predicates."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from grb_check.failures.shrinking import Patience, Shrunk, shrink

sizes = st.integers(0, 40)


def patience(tests: int = 100_000, seconds: float = 1e9) -> Patience:
    return Patience(tests, seconds)


def one_minimal(found: Shrunk[int], breaks) -> bool:
    return not any(
        breaks([each for each in found.units if each != left_out]) for left_out in found.units
    )


@given(sizes, st.data())
def test_what_is_needed_is_all_that_is_left(size: int, data: st.DataObject) -> None:
    """If exactly the supersets of a set break, that set is the result, in its order."""
    units = data.draw(st.permutations(range(size)))
    needed = set(data.draw(st.lists(st.sampled_from(range(size)))) if size else [])
    found = shrink(units, lambda part: needed <= set(part), patience())
    assert found == Shrunk(tuple(each for each in units if each in needed), minimal=True)


@given(sizes, st.data())
def test_of_equal_units_the_first_are_kept(size: int, data: st.DataObject) -> None:
    """If any k units break, the first k are the result, found by bisection alone."""
    enough = data.draw(st.integers(0, size))
    found = shrink(range(size), lambda part: len(part) >= enough, patience())
    assert found == Shrunk(tuple(range(enough)), minimal=True)


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

    found = shrink(range(size), breaks, patience())
    assert breaks(found.units)
    assert found.minimal
    assert one_minimal(found, breaks)
    assert list(found.units) == sorted(found.units)


@given(st.integers(1, 30), st.integers(0, 40), st.data())
def test_a_search_that_is_stopped_says_so_and_has_something_that_breaks(
    size: int, tests: int, data: st.DataObject
) -> None:
    """It keeps its number of tests, and its result is minimal if it says so."""
    needed = set(data.draw(st.lists(st.sampled_from(range(size)))))
    limit, asked = patience(tests), []

    def breaks(part: Sequence[int]) -> bool:
        asked.append(part)
        return needed <= set(part)

    found = shrink(range(size), breaks, limit)
    assert limit.made == len(asked) <= tests
    assert needed <= set(found.units)
    if found.minimal:
        assert set(found.units) == needed


def test_time_ends_a_search_too() -> None:
    """No test begins after the end."""
    clock = iter(range(100))
    limit = Patience(1000, 5.0, clock=lambda: float(next(clock)))
    found = shrink(range(64), lambda part: 63 in part, limit)
    assert limit.made == 4
    assert not found.minimal
    assert 63 in found.units


def test_the_tests_of_two_searches_are_counted_together() -> None:
    """Two searches share one patience."""
    limit = patience(tests=8)
    assert shrink(range(4), lambda part: 0 in part, limit).minimal
    assert limit.made < 8
    assert not shrink(range(64), lambda part: 63 in part, limit).minimal
    assert limit.made == 8


def test_what_breaks_on_its_own_is_left_with_nothing() -> None:
    """The empty part is the smallest, and one test finds it."""
    limit = patience()
    assert shrink(range(50), lambda part: True, limit) == Shrunk((), minimal=True)
    assert limit.made == 1
