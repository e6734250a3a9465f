"""The baseline of one run: what is kept, what is compared with it, what is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from grb_check.cases.case import Case, is_node_id
from grb_check.cases.expected_cases import Row
from grb_check.cases.outcomes import Outcome
from grb_check.errors import UsageError
from grb_check.files.versions import versions
from grb_check.gate.baselines.compare import Pair, compare, compare_together
from grb_check.gate.baselines.comparison import Comparison
from grb_check.gate.baselines.files import (
    Entry,
    digest_of,
    entry_of,
    read_baseline,
    versions_of,
    write_baseline,
)

ALPHA: Final = 0.05  # of all tests of a run together: that any of them is a false alarm
JOINT_SHARE: Final = 0.8  # of it, for the tests of all cases together
REPEATS: Final = 20  # of a new baseline: with fewer a loss of 3 points is often not shown

Group: TypeAlias = tuple[str, str]  # label in case ids, dataset


@dataclass(frozen=True, kw_only=True)
class Together:
    """What all cases of one model on one dataset say together.

    Attributes:
        model: its label in case ids; empty where the run has one model.
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
    """A kept run, and the rule by which another is compared with it.

    The error `ALPHA` of the run is shared out before it begins (Bonferroni): `JOINT_SHARE` among
    the models and datasets, the rest among the entries of the file. So each case is judged as soon
    as it has run, alike in every order, on every worker and in every shard.

    Attributes:
        path: of the file.
        margin: loss in accuracy points that nobody minds.
        entries: by the key of the case; none where there is no file yet.
        writes: whether this run writes the file, because it was asked to, or there is none.
        asked: whether it was asked to.
        notes: on what it was made with.
    """

    path: Path
    margin: float
    entries: Mapping[str, Entry] = field(default_factory=dict)
    writes: bool = False
    asked: bool = False
    notes: tuple[str, ...] = ()

    @property
    def repeats(self) -> int:
        """That a run has by default: as many as the baseline's cases, whose tests by the user may
        have others."""
        built_in = [each.repeats for key, each in self.entries.items() if not is_own_test(key)]
        every = [each.repeats for each in self.entries.values()]
        return max(built_in or every, default=REPEATS)

    @property
    def digest(self) -> str:
        """Of the entries: parts of a run have to be compared with the same ones."""
        return digest_of(self.entries)

    @property
    def alpha(self) -> float:
        """The share of one case."""
        return ALPHA * (1.0 - JOINT_SHARE) / max(len(self.entries), 1)

    def compare(self, key: str, outcome: Outcome) -> Comparison | None:
        """The verdict on one case; None where this run writes the file."""
        if self.writes:
            return None
        before = self.entries.get(key)
        if before is None:
            text = "not in the baseline: a new case, which --grb-update-baseline adds"
            return Comparison(result="new", text=text, margin=self.margin)
        pair = Pair(outcome.case.difficulty, before, entry_of(outcome))
        return compare(pair, self.margin, self.alpha)

    def together(self, rows: Sequence[Row], planned: Iterable[Case]) -> list[Together]:
        """The verdicts on all cases of each model and dataset, over those that came back.

        Args:
            rows: of the run.
            planned: the cases of the whole run, whose models and datasets share the error.
        """
        groups: dict[Group, list[Pair]] = {
            (case.model, case.dataset): [] for case in planned if case.id in self.entries
        }
        for row in rows:
            group = (row.case.model, row.case.dataset)
            before = self.entries.get(key_of(row.node_id, row.case))
            built_in = is_node_id(row.node_id)
            if built_in and row.outcome is not None and before is not None and group in groups:
                groups[group].append(Pair(row.case.difficulty, before, entry_of(row.outcome)))
        alpha = ALPHA * JOINT_SHARE / max(len(groups), 1)
        found = [
            (group, compare_together(pairs, self.margin, alpha)) for group, pairs in groups.items()
        ]
        return [
            Together(model=model, dataset=dataset, comparison=comparison)
            for (model, dataset), comparison in found
            if comparison is not None
        ]

    def unused(self, keys: Collection[str]) -> list[str]:
        """Entries of which no case of the run has the key."""
        return sorted(set(self.entries) - set(keys))

    def write(self, rows: Sequence[Row]) -> int:
        """Write the file anew; entries that these rows do not make stay as they are.

        Returns:
            The number of entries that the rows made.
        """
        made = {
            key_of(row.node_id, row.case): entry_of(row.outcome)
            for row in rows
            if row.outcome is not None
        }
        write_baseline(self.path, {**self.entries, **made}, versions())
        return len(made)


def open_baseline(path: Path, margin: float, *, update: bool) -> Baseline:
    """What the options ask for.

    Args:
        path: of the file, which may not be there yet.
        margin: in points.
        update: whether to write it and compare with nothing.

    Raises:
        UsageError: the file is damaged.
    """
    baseline = Baseline(path=path, margin=margin, asked=update, writes=update or not path.exists())
    if not path.exists():
        return baseline
    try:
        entries = read_baseline(path)
    except UsageError:
        if not update:
            raise
        lost = "the file could not be read and is written anew: what this run has not made is lost"
        return replace(baseline, notes=(lost,))
    was, now = versions_of(path), versions()
    others = [name for name in now if was.get(name, now[name]) != now[name]]
    changed = ", ".join(f"{name} {was[name]}, now {now[name]}" for name in others)
    notes = (f"the baseline was made with other versions: {changed}",) if changed else ()
    return replace(baseline, entries=entries, notes=notes)


def key_of(node_id: str, case: Case) -> str:
    """What a case is kept under: its id; a test of the user's own is kept under the test's id."""
    return case.id if is_node_id(node_id) else node_id


def is_own_test(key: str) -> bool:
    """Whether an entry is of a test of the user's own, which not every run has."""
    return "::" in key and not is_node_id(key)
