"""Compare all cases of each model and dataset with saved entries. Needs entries only, no run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from grb_check.cases.case import Case
from grb_check.gate.baselines.compare import compare_jointly
from grb_check.gate.baselines.comparison import Comparison
from grb_check.gate.baselines.files import Entry
from grb_check.gate.baselines.pair import Pair

ModelOnDataset: TypeAlias = tuple[str, str]  # label in case ids, dataset


@dataclass(frozen=True, kw_only=True)
class JointComparison:
    """The comparison of all cases of one model on one dataset.

    Attributes:
        model: its label in case ids; empty if the run has one model.
        dataset: name.
        comparison: of all its cases.
    """

    model: str
    dataset: str
    comparison: Comparison

    @property
    def name(self) -> str:
        """`[model@]dataset`."""
        return group_name((self.model, self.dataset))


def group_name(group: ModelOnDataset) -> str:
    """Return `[model@]dataset`."""
    model, dataset = group
    return f"{model}@{dataset}" if model else dataset


def groups_of(cases: Iterable[Case]) -> list[ModelOnDataset]:
    """Return the model and dataset of cases, each once, in their order."""
    return list(dict.fromkeys((case.model, case.dataset) for case in cases))


def compare_groups(
    before: Mapping[str, Entry],
    now: Mapping[Case, Entry],
    groups: Iterable[ModelOnDataset],
    *,
    margin: float,
    alpha: float,
) -> tuple[JointComparison, ...]:
    """Compare the cases of each model and dataset in one test.

    Args:
        before: saved entries, by case id.
        now: entries of a run; their order plays no part.
        groups: to compare; those without a comparable case are left out of the result.
        margin: tolerated loss of accuracy, in percentage points.
        alpha: family-wise error rate of all groups (Bonferroni).
    """
    pairs: dict[ModelOnDataset, list[Pair]] = {group: [] for group in groups}
    for case in sorted(now, key=lambda each: each.order):
        was = before.get(case.id)
        if was is not None and (case.model, case.dataset) in pairs:
            pairs[case.model, case.dataset].append(Pair(case, was, now[case]))
    share = alpha / max(len(pairs), 1)
    found = {group: compare_jointly(each, margin, share) for group, each in pairs.items()}
    return tuple(
        JointComparison(model=model, dataset=dataset, comparison=comparison)
        for (model, dataset), comparison in found.items()
        if comparison is not None
    )
