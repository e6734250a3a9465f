"""GRB's split keeps its published laws on any degree sequence."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.datasets.splits import Int64Array, Split, given_split, grb_split, rank_by_degree
from grb_check.errors import DataError, count

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def degree_sequences(draw: st.DrawFn) -> Int64Array:
    """Degrees with many ties, or a few hubs, or hardly any tie."""
    highest = draw(st.sampled_from([1, 6, 1000]))
    size = draw(st.integers(10, 400))
    return np.array(draw(st.lists(st.integers(0, highest), min_size=size, max_size=size)))


@st.composite
def splits(draw: st.DrawFn) -> tuple[Int64Array, Split]:
    """Degrees and their split."""
    degrees = draw(degree_sequences())
    return degrees, grb_split(degrees, draw(SEEDS))


@settings(deadline=None, max_examples=40)
@given(splits())
def test_parts_cover_every_node_once(drawn: tuple[Int64Array, Split]) -> None:
    """Train, validation and the three levels are disjoint, and their union is all nodes."""
    degrees, split = drawn
    parts = [split.train, split.val, split.easy, split.medium, split.hard]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(degrees.size))


@settings(deadline=None, max_examples=40)
@given(splits())
def test_shares_are_the_published_ones(drawn: tuple[Int64Array, Split]) -> None:
    """A tenth of the nodes a level, six tenths for training, rounded down; the rest validates."""
    degrees, split = drawn
    tenth = int(degrees.size * 0.1)
    assert [tenth] * 3 == [split.easy.size, split.medium.size, split.hard.size]
    assert int(degrees.size * 0.6) == split.train.size
    assert split.val.size >= 1


@settings(deadline=None, max_examples=40)
@given(splits())
def test_levels_follow_degree(drawn: tuple[Int64Array, Split]) -> None:
    """No easy node has a higher degree than a medium one, no medium one than a hard one."""
    degrees, split = drawn
    assert degrees[split.easy].max() <= degrees[split.medium].min()
    assert degrees[split.medium].max() <= degrees[split.hard].min()


@settings(deadline=None, max_examples=40)
@given(splits())
def test_both_ends_are_never_tested(drawn: tuple[Int64Array, Split]) -> None:
    """Test degrees lie inside the ranks that remain when 5 % are cut at either end."""
    degrees, split = drawn
    ranked = np.sort(degrees)
    cut = degrees.size // 20
    assert ranked[cut] <= degrees[split.full].min()
    assert degrees[split.full].max() <= ranked[degrees.size - cut - 1]


def test_ties_come_in_the_order_of_the_quicksort_of_numpy() -> None:
    """The expected order is that of numpy 1.19.5's `argsort` for these int32 degrees."""
    degrees = np.array([3, 1, 2, 1, 3, 2, 1, 1, 2, 3, 1, 2, 2, 1, 3, 1, 2, 1, 1, 3, 2, 1])
    expected = [10, 18, 17, 15, 13, 7, 21, 3, 1, 6, 5, 8, 20, 11, 12, 16, 2, 9, 4, 14, 19, 0]
    assert expected == rank_by_degree(degrees).tolist()


def test_rising_and_falling_degrees_end_in_the_heapsort_of_numpy() -> None:
    """Median of three fails on such a sequence; the digest is that of numpy 1.19.5's result."""
    rising = np.arange(3000)
    ranked = rank_by_degree(np.concatenate([rising, rising[::-1]]))
    digest = hashlib.sha256(ranked.astype("<i8").tobytes()).hexdigest()
    assert digest == "45e4bd35473e5bcde3069f5af0de4696750d5d88f6e03064ad55f6fddd9fb98c"


@settings(deadline=None, max_examples=60)
@given(data=st.data(), degrees=degree_sequences())
def test_given_split_keeps_the_parts_and_ranks_the_test_nodes(
    data: st.DataObject, degrees: Int64Array
) -> None:
    """Training and validation stay as given; the levels are thirds of the test nodes by degree."""
    order = np.array(data.draw(st.permutations(range(degrees.size))))
    first = data.draw(st.integers(1, degrees.size - 4))
    second = data.draw(st.integers(first + 1, degrees.size - 3))
    train, val, test = np.split(order, [first, second])
    split = given_split(train, val, test, degrees, "here")
    np.testing.assert_array_equal(split.train, np.sort(train))
    np.testing.assert_array_equal(split.val, np.sort(val))
    np.testing.assert_array_equal(split.full, np.sort(test))
    levels = [split.easy, split.medium, split.hard]
    np.testing.assert_array_equal(np.sort(np.concatenate(levels)), split.full)
    sizes = [level.size for level in levels]
    assert max(sizes) - min(sizes) <= 1
    assert degrees[split.easy].max() <= degrees[split.medium].min()
    assert degrees[split.medium].max() <= degrees[split.hard].min()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([], [1], [2, 3, 4]), "no training nodes"),
        (([0], [], [2, 3, 4]), "no validation nodes"),
        (([0], [1], []), "no test nodes"),
        (([0, 2], [1], [2, 3, 4]), "share 1 node;"),
        (([0], [1], [2, 3]), "2 test nodes, 3 are needed"),
    ],
)
def test_given_split_that_cannot_be_used_is_refused(
    parts: tuple[list[int], ...], message: str
) -> None:
    """The message says which part is at fault."""
    train, val, test = (np.array(part, dtype=np.int64) for part in parts)
    with pytest.raises(DataError, match=f"^here: .*{message}"):
        given_split(train, val, test, np.ones(6, dtype=np.int64), "here")


@pytest.mark.parametrize("size", [0, 1, 9])
def test_too_small_graph_is_refused(size: int) -> None:
    """Under ten nodes a level would be empty."""
    with pytest.raises(DataError, match=f"a graph of {count(size, 'node')} is too small"):
        grb_split(np.ones(size, dtype=np.int64), 0)
