"""Known failures: their lines, and the cases that these match."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.case import DIFFICULTIES
from grb_check.cases.selection import expand
from grb_check.errors import UsageError
from grb_check.gate.expected_failures import ExpectedFailure, parse_expected_failure, reasons

CASES = expand(
    ["", "gat"],
    ["grb-cora", "tiny"],
    DIFFICULTIES,
    [("injection", "tdgia"), ("injection", "tdgia+budget=0.1"), ("modification", "rnd")],
)
PARTS = (
    st.sampled_from(["*", "tiny", "grb-*", "gat@*", "gcn@tiny", "net@*"]),
    st.sampled_from(["*", "easy", "[eh]*"]),
    st.sampled_from(["*", "injection", "poisoning"]),
    st.sampled_from(["*", "tdgia", "tdgia+budget=0.1", "rnd", "*=0.1"]),
)
LINES = st.lists(
    st.builds(
        ExpectedFailure,
        st.tuples(*PARTS).map("/".join),
        st.sampled_from(["GAT, #12", "#12", "slow", "a: b"]),
    ),
    max_size=6,
)


@given(LINES, st.randoms())
def test_a_case_has_the_reasons_of_all_lines_that_match_it(
    lines: list[ExpectedFailure], shuffle: random.Random
) -> None:
    """In every order, and whether or not a line is given twice; a line alone says as much."""
    matched = reasons(lines, CASES, "gcn")
    mixed = [*lines, *lines]
    shuffle.shuffle(mixed)
    assert reasons(mixed, CASES, "gcn") == matched
    alone = [reasons([line], CASES, "gcn") for line in lines]
    for case in CASES:
        reasons_of_case = {one[case.id] for one in alone if case.id in one}
        assert matched.get(case.id, "") == "; ".join(sorted(reasons_of_case))


@given(LINES)
def test_a_line_matches_what_a_threshold_of_its_pattern_matches(
    lines: list[ExpectedFailure],
) -> None:
    """With its budget or without, and by the label of a model."""
    for line in lines:
        fitting = {case.id for case in CASES if case.model and case.fits(line.pattern)}
        matched = reasons([line], CASES)
        assert {case_id for case_id in matched if case_id.startswith("gat@")} == fitting


def test_a_single_model_is_known_by_its_label() -> None:
    """Though its case ids lack it."""
    line = [ExpectedFailure("gcn@tiny/easy/modification/rnd", "why")]
    assert reasons(line, CASES, "gcn") == {"tiny/easy/modification/rnd": "why"}
    assert reasons(line, CASES, "other") == {}


@pytest.mark.parametrize(
    ("line", "pattern", "reason"),
    [
        ("*/easy/injection/tdgia: GAT, #12", "*/easy/injection/tdgia", "GAT, #12"),
        ("  a/b :  why: because ", "a/b", "why: because"),
        ("pyg:Planetoid/Cora/easy/*/*: why", "pyg:Planetoid/Cora/easy/*/*", "why"),
    ],
)
def test_a_line_is_a_pattern_and_a_reason(line: str, pattern: str, reason: str) -> None:
    """A reason may have commas and colons, a pattern colons without a blank."""
    assert parse_expected_failure(line) == ExpectedFailure(pattern, reason)


@pytest.mark.parametrize("line", ["", ":", "*", "*:", "*: ", ": why", " : why", "*/tdgia = 0.3"])
def test_a_line_without_pattern_or_reason_is_refused(line: str) -> None:
    """The message has the line, the form and an example."""
    with pytest.raises(UsageError, match=r"must have the form 'pattern: reason', with a reason"):
        parse_expected_failure(line)
