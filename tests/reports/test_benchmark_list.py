"""The list for github-action-benchmark."""

from __future__ import annotations

import json
from typing import Any

from record_factory import HOSTILE, entry, measured, record, view

from grb_check.cases.case import Case
from grb_check.reports.benchmark_list import benchmark_text

CASE = Case("synthetic-cora", "easy", "injection", "rnd")


def read(text: str) -> list[dict[str, Any]]:
    benchmarks: list[dict[str, Any]] = json.loads(text)
    return benchmarks


def test_any_name_makes_a_valid_list() -> None:
    """Quotes and control characters too."""
    (benchmark,) = read(benchmark_text([view(record([entry(CASE, measured(CASE, 0.1, HOSTILE))]))]))
    assert benchmark["name"].endswith("easy/injection/rnd")
