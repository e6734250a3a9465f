"""The comparison of the clean accuracies of each model and dataset with saved ones."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from grb_check.cases.case import Case
from grb_check.gate.baselines.compare import compare_jointly
from grb_check.gate.baselines.files import BaselineCase
from grb_check.gate.baselines.joint import Group, JointComparison, ModelOnDataset, _pairs
from grb_check.gate.baselines.pairs import why_incomparable


def compare_clean(
    before: Mapping[str, BaselineCase],
    now: Mapping[Case, BaselineCase],
    groups: Mapping[ModelOnDataset, Group],
    explained: Container[ModelOnDataset],
    *,
    margin: float,
    alpha: float,
) -> tuple[JointComparison, ...]:
    """Compare the clean accuracies of each model and dataset, over its difficulties, in one test.

    Args:
        before: see `compare_groups`, for the others too.
        now: entries of a run.
        groups: to compare.
        explained: groups with a loss under attack that is one of clean accuracy: they fail.
        margin: tolerated loss of accuracy, in percentage points.
        alpha: family-wise error rate of all groups.
    """
    pairs = _pairs(before, now, groups)
    result = []
    for group, group_pairs in pairs.items():
        usable = [pair for pair in group_pairs if not why_incomparable(pair.before, pair.after)]
        # Of a difficulty one stays: attacks on single nodes may have a part of its targets alone.
        usable.sort(key=lambda pair: (pair.before.targets, pair.repeats))
        levels = {pair.case.difficulty: pair.clean for pair in usable}
        comparison = compare_jointly(
            [*levels.values()], margin, alpha / len(pairs), groups[group].share
        )
        if comparison is None:
            continue
        if group in explained and comparison.result != "fail":
            reported = f"{comparison.text}; it explains a loss under attack that is shown"
            comparison = replace(comparison, result="fail", text=reported)
        created = JointComparison(
            model=group[0],
            dataset=group[1],
            compared=len(levels),
            cases=len(levels),
            comparison=comparison,
            accuracy="clean",
        )
        result.append(created)
    return tuple(result)
