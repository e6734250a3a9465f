"""Limits, the baseline and deltas that the options give."""

from __future__ import annotations

from pathlib import Path

from settings_factory import settings

from grb_check.cases.attack_registry import AttackRegistry
from grb_check.settings.judging import check_thresholds


def test_thresholds_know_budgets_and_the_worst(tmp_path: Path) -> None:
    """In any spelling of theirs."""
    limits = ["*/dice+budget=10%=0.3", "*/worst=0.5", "*/modification/worst+budget=.1 = 0.4"]
    options = settings(tmp_path, threshold=limits)
    check_thresholds(options, AttackRegistry())
    assert [threshold.pattern for threshold in options.gate.thresholds] == [
        "*/dice+budget=0.1",
        "*/worst",
        "*/modification/worst+budget=0.1",
    ]
