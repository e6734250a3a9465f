"""The list for github-action-benchmark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from record_factory import HOSTILE, entry, measured, record, rich, view

from grb_check.cases.case import Case
from grb_check.reports.benchmark_list import benchmark_text

CASE = Case("synthetic-cora", "easy", "injection", "rnd")


def read(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)
    return found


def test_each_case_with_figures_is_an_object_of_the_known_fields() -> None:
    """`value` is a number, all others are texts."""
    found = read(benchmark_text([view(rich())]))
    assert len(found) == 12  # of 15: an error, a skipped case, and one that never came back
    for each in found:
        assert list(each) == ["name", "unit", "value", "range", "extra"]
        assert isinstance(each["value"], float)
        assert {type(each[name]) for name in ("name", "unit", "range", "extra")} == {str}


def test_the_value_is_the_drop_in_percent() -> None:
    """With its deviation and the verdict."""
    (found,) = read(benchmark_text([view(record([entry(CASE, measured(CASE, 0.42))]))]))
    assert found["name"] == "synthetic-cora/easy/injection/rnd"
    assert found["unit"] == "% drop"
    assert found["value"] == pytest.approx(42, abs=1)
    assert found["extra"].splitlines()[1] == "limit 30.0%, failed"


def test_names_of_several_runs_and_models_differ() -> None:
    """The action draws a chart for each name."""
    cases = [entry(CASE, measured(CASE, 0.1))]
    both = [view(record(cases), "one"), view(record(cases), "two")]
    names = [each["name"] for each in read(benchmark_text(both))]
    assert names == [f"{run}: synthetic-cora/easy/injection/rnd" for run in ("one", "two")]


def test_any_name_makes_a_valid_list() -> None:
    """Quotes and control characters too."""
    (found,) = read(benchmark_text([view(record([entry(CASE, measured(CASE, 0.1, HOSTILE))]))]))
    assert found["name"].endswith("easy/injection/rnd")
