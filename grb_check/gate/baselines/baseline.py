"""The baseline of a run: a saved run, the comparison of another with it, and writing it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from grb_check.cases.case import Case
from grb_check.cases.expected_cases import Row
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.errors import UsageError
from grb_check.files.versions import MEASURED
from grb_check.gate.baselines.compare import compare, compare_jointly
from grb_check.gate.baselines.comparison import Comparison
from grb_check.gate.baselines.files import Entry, entry_of, read_baseline, write_baseline
from grb_check.gate.baselines.pair import Pair

LOSS_MARGIN: Final = 2.0  # default of the tolerated loss of accuracy, in percentage points
ALPHA: Final = 0.05  # family-wise error rate of all tests of a run
JOINT_SHARE: Final = 0.9  # share of ALPHA for the tests at the end of a run
REPEATS: Final = 20  # of a new baseline; with fewer, a loss of 3 points is often not detected

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
        return f"{self.model}@{self.dataset}" if self.model else self.dataset


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A saved run, and the rule by which another is compared with it.

    The family-wise error rate `ALPHA` is divided before the run (Bonferroni): `JOINT_SHARE` of it
    among the models and datasets, the rest among the entries of the file. So each case is judged
    when it has run, with the same result in every order, on every worker and in every shard.

    Attributes:
        path: of the file.
        margin: tolerated loss of accuracy, in percentage points.
        entries: by the key of the case; empty if there is no file yet.
        digest: of the content of the file; empty if there is no file yet.
        versions: of the packages that it was measured with, and the processor, by name.
        strict_environment: whether a run in another environment fails.
        writes: whether this run writes the file, on request or because there is none.
        requested: whether writing was requested.
        notes: to report.
    """

    path: Path
    margin: float
    entries: Mapping[str, Entry] = field(default_factory=dict)
    digest: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    strict_environment: bool = False
    writes: bool = False
    requested: bool = False
    notes: tuple[str, ...] = ()

    @property
    def repeats(self) -> int:
        """Default number of repeats of a run: that of the baseline's built-in cases.

        Users' own tests may have another number.
        """
        built_in = [each.repeats for key, each in self.entries.items() if not is_own_test(key)]
        every = [each.repeats for each in self.entries.values()]
        return max(built_in or every, default=REPEATS)

    @property
    def alpha(self) -> float:
        """The significance level of the test of one case."""
        return ALPHA * (1.0 - JOINT_SHARE) / max(len(self.entries), 1)

    def compare(self, key: str, outcome: Outcome) -> Comparison | None:
        """Compare one case; None if this run writes the file."""
        if self.writes:
            return None
        before = self.entries.get(key)
        if before is None:
            text = "not in the baseline: a new case; --grb-update-baseline adds it"
            return Comparison(result="new", text=text, margin=self.margin)
        pair = Pair(outcome.case, before, entry_of(outcome))
        return compare(pair, self.margin, self.alpha)

    def compare_jointly(
        self, rows: Sequence[Row], planned: Iterable[Case]
    ) -> tuple[JointComparison, ...]:
        """Compare all reported cases of each model and dataset together.

        Args:
            rows: of the run.
            planned: the cases of the whole run, whose models and datasets share the error rate.
        """
        groups: dict[ModelOnDataset, list[Pair]] = {
            (case.model, case.dataset): [] for case in planned if case.id in self.entries
        }
        for row in rows:
            group = (row.case.model, row.case.dataset)
            before = self.entries.get(key_of(row.node_id, row.case))
            built_in = is_node_id(row.node_id)
            if built_in and row.outcome is not None and before is not None and group in groups:
                groups[group].append(Pair(row.case, before, entry_of(row.outcome)))
        alpha = ALPHA * JOINT_SHARE / max(len(groups), 1)
        found = [
            (group, compare_jointly(pairs, self.margin, alpha)) for group, pairs in groups.items()
        ]
        return tuple(
            JointComparison(model=model, dataset=dataset, comparison=comparison)
            for (model, dataset), comparison in found
            if comparison is not None
        )

    def unused(self, keys: Collection[str]) -> list[str]:
        """Return the keys of the entries that no case of the run has."""
        return sorted(set(self.entries) - set(keys))

    def write(self, made: Mapping[str, Entry], environment: Mapping[str, str]) -> None:
        """Write the file; entries that were not made stay as they are.

        Args:
            made: entries of this run, by the key of the case.
            environment: of this run, by name.
        """
        named = {name: environment[name] for name in MEASURED if name in environment}
        write_baseline(self.path, {**self.entries, **made}, named)


def open_baseline(path: Path, margin: float, *, update: bool) -> Baseline:
    """Return the baseline that the options ask for.

    Args:
        path: of the file, which may not exist yet.
        margin: in percentage points.
        update: whether to write it, and to compare with nothing.

    Raises:
        UsageError: the file is damaged.
    """
    new = Baseline(path=path, margin=margin, requested=update, writes=update or not path.exists())
    if not path.exists():
        return new
    try:
        saved = read_baseline(path)
    except UsageError as error:
        if not update:
            raise
        lost = "entries of cases that this run does not have are lost"
        return replace(new, notes=(f"the file is replaced, and {lost}: {error}",))
    return replace(new, entries=saved.entries, digest=saved.digest, versions=saved.versions)


def key_of(node_id: str, case: Case) -> str:
    """Return the key of a case in the file: its id, or the node id of a user's own test."""
    return case.id if is_node_id(node_id) else node_id


def is_own_test(key: str) -> bool:
    """Whether an entry is of a user's own test, which not every run has."""
    return "::" in key and not is_node_id(key)
