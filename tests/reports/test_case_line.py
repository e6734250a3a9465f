"""A case as a line of a report."""

from __future__ import annotations

import pytest
from outcome_factory import CASE
from record_factory import entry, measured, record, view


@pytest.mark.parametrize(
    ("node_id", "shown"),
    [
        (f"grb::cora::test_attack[{CASE.cell}]", ""),
        ("test_own.py::test_mine", "test_own.py::test_mine"),
        (f"test_own.py::test_mine[{CASE.id}]", "test_own.py::test_mine"),
        (f"test_own.py::test_mine[{CASE.id}-2]", "test_own.py::test_mine[2]"),
        (f"test_own.py::test_mine[wide-{CASE.id}-2]", "test_own.py::test_mine[wide-2]"),
        (f"test_own.py::test_mine[wide-{CASE.id}]", "test_own.py::test_mine[wide]"),
        ("test_own.py::test_mine[wide]", "test_own.py::test_mine[wide]"),
    ],
)
def test_an_own_test_is_shown_with_what_its_case_does_not_tell(node_id: str, shown: str) -> None:
    (line,) = view(record([entry(CASE, measured(CASE, 0.1), node_id=node_id)])).lines
    assert line.test == shown
