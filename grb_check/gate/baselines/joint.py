"""Compare all cases of each model and dataset with saved entries. Needs entries only, no run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from grb_check.cases.case import Case
from grb_check.cases.verdicts import Comparison
from grb_check.errors import count
from grb_check.gate.baselines.compare import compare_jointly
from grb_check.gate.baselines.files import Accuracy, BaselineCase, BaselineFile
from grb_check.gate.baselines.looks import ONLY, Look
from grb_check.gate.baselines.pairs import Pair, why_incomparable

ModelOnDataset: TypeAlias = tuple[str, str]  # label in case ids, dataset


@dataclass(frozen=True, kw_only=True)
class JointComparison:
    """The comparison of all cases of one model on one dataset, or of its clean accuracy there.

    Attributes:
        accuracy: that is compared: under attack, or without.
        model: its label in case ids; empty if the run has one model.
        dataset: name.
        compared: number of its cases that were compared.
        cases: number of its cases in the whole run.
        comparison: of those that were compared; `incomparable` if there should have been some.
    """

    model: str
    dataset: str
    compared: int
    cases: int
    comparison: Comparison
    accuracy: Accuracy = "attacked"

    @property
    def failed(self) -> bool:
        """Whether the run fails by it: a loss is shown, or nothing could be compared."""
        return self.comparison.result in ("fail", "incomparable")

    @property
    def scope(self) -> str:
        """The cases that it is about: `all 15 cases of dataset`."""
        if self.accuracy == "clean":
            return self.name
        return scope(self.compared, self.cases, self.name)

    @property
    def name(self) -> str:
        """`[model@]dataset`."""
        return group_name((self.model, self.dataset))


def group_name(group: ModelOnDataset) -> str:
    """Return `[model@]dataset`."""
    model, dataset = group
    return f"{model}@{dataset}" if model else dataset


def scope(compared: int, cases: int, name: str) -> str:
    """Return `all 15 cases of NAME`, or `12 of 15 cases of NAME`."""
    if cases == 1:
        return f"{'the' if compared else '0 of 1'} case of {name}"
    share = "all" if compared == cases else f"{compared} of"
    return f"{share} {count(cases, 'case')} of {name}"


def groups_of(cases: Iterable[Case]) -> dict[ModelOnDataset, int]:
    """Return the models and datasets of cases, in their order, with their number of cases."""
    return dict(Counter((case.model, case.dataset) for case in cases))


def groups_with_entries(cases: Iterable[Case], keys: Container[str]) -> dict[ModelOnDataset, int]:
    """Return those of `groups_of` of which a case has an entry, with the number of all cases.

    Args:
        cases: of the whole run.
        keys: of the entries, as case ids.
    """
    every = list(cases)
    result = groups_of(case for case in every if case.id in keys)
    return {group: number for group, number in groups_of(every).items() if group in result}


@dataclass(frozen=True)
class Group:
    """A model on a dataset.

    Attributes:
        cases: number of its cases in the whole run.
        look: at the first repeats of its cases; None for one look at all that both sides have.
    """

    cases: int
    look: Look | None = None

    @property
    def share(self) -> float:
        """Share of the error rate of the look."""
        return ONLY if self.look is None else self.look.share

    def seen(self, pair: Pair) -> Pair:
        """Return the part of a pair that is looked at."""
        return pair if self.look is None else pair.of_first(self.look.repeats)


def compare_groups(
    before: Mapping[str, BaselineCase],
    now: Mapping[Case, BaselineCase],
    groups: Mapping[ModelOnDataset, Group],
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
    pairs = _pairs(before, now, groups)
    share = alpha / max(len(pairs), 1)
    result = {
        group: compare_jointly(group_pairs, margin, share, groups[group].share)
        for group, group_pairs in pairs.items()
    }
    return tuple(
        JointComparison(
            model=group[0],
            dataset=group[1],
            compared=sum(not why_incomparable(pair.before, pair.after) for pair in pairs[group]),
            cases=groups[group].cases,
            comparison=comparison,
        )
        for group, comparison in result.items()
        if comparison is not None
    )


def _pairs(
    before: Mapping[str, BaselineCase],
    now: Mapping[Case, BaselineCase],
    groups: Mapping[ModelOnDataset, Group],
) -> dict[ModelOnDataset, list[Pair]]:
    """The cases of each group that both have, in their order."""
    pairs: dict[ModelOnDataset, list[Pair]] = {group: [] for group in groups}
    for case in sorted(now, key=lambda case: case.order):
        was = before.get(case.id)
        if was is not None and (case.model, case.dataset) in pairs:
            group = (case.model, case.dataset)
            pairs[group].append(groups[group].seen(Pair(case, was, now[case])))
    return pairs


def updated(
    saved: BaselineFile,
    measured: Mapping[str, BaselineCase],
    versions: Mapping[str, str],
) -> BaselineFile:
    """Return the content of a baseline file after an update.

    An entry that differs in its time only is left as it was, so that an unchanged model gives the
    same file.

    Args:
        saved: the content before.
        measured: entries of the run, by their key in the file.
        versions: of the packages that the run was made with.
    """
    entries = dict(saved.entries)
    for key, entry in measured.items():
        was = entries.get(key)
        entries[key] = was if was is not None and _same(was, entry) else entry
    if (entries, dict(versions)) == (saved.entries, saved.versions):
        return saved
    return BaselineFile(entries=entries, versions=dict(versions))


def _same(one: BaselineCase, other: BaselineCase) -> bool:
    """Whether entries differ in their time at most."""
    return replace(one, seconds=other.seconds) == other
