"""Limits, the baseline and deltas that the options give."""

from __future__ import annotations

from pathlib import Path

import pytest
from settings_factory import settings

from grb_check.cases.attack_registry import AttackRegistry
from grb_check.errors import UsageError
from grb_check.settings.judging import check_thresholds


def test_a_threshold_may_name_an_attack_that_is_not_run_today(tmp_path: Path) -> None:
    """A variant always; an unknown one where the command line replaced the ini file's attacks."""
    limits = {"threshold": ["*/fgsm+iterations=5 = 0.3"]}
    check_thresholds(settings(tmp_path, ini=limits), AttackRegistry())
    unknown = {"threshold": ["*/injection/mine = 0.3"]}
    check_thresholds(settings(tmp_path, ini=unknown, attack=["rnd"]), AttackRegistry())
    with pytest.raises(UsageError, match="'\\*/injection/mine' matches no known case"):
        check_thresholds(settings(tmp_path, ini=unknown), AttackRegistry())
    with pytest.raises(UsageError, match="unknown modifier of attack injection/fgsm 'iteration=5'"):
        settings(tmp_path, threshold=["*/fgsm+iteration=5 = 0.3"])


def test_thresholds_know_budgets_and_the_worst(tmp_path: Path) -> None:
    """In any spelling of theirs."""
    limits = ["*/dice+budget=10%=0.3", "*/worst=0.5", "*/modification/worst+budget=.1 = 0.4"]
    made = settings(tmp_path, threshold=limits)
    check_thresholds(made, AttackRegistry())
    assert [each.pattern for each in made.gate.thresholds] == [
        "*/dice+budget=0.1",
        "*/worst",
        "*/modification/worst+budget=0.1",
    ]


def test_diagnostics_are_strict_where_asked(tmp_path: Path) -> None:
    """By the flag or the ini value."""
    assert not settings(tmp_path).gate.strict_diagnostics
    assert settings(tmp_path, strict_diagnostics=True).gate.strict_diagnostics
    assert settings(tmp_path, ini={"strict_diagnostics": True}).gate.strict_diagnostics
