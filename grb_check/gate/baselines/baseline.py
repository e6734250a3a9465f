"""The baseline of a run: a saved run, the comparison of another with it, and writing it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from grb_check.cases.case import Case
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.cases.verdicts import Comparison
from grb_check.errors import UsageError
from grb_check.files.versions import MEASURED, PACK
from grb_check.gate.baselines.clean_losses import compare_clean
from grb_check.gate.baselines.compare import compare
from grb_check.gate.baselines.files import (
    BaselineCase,
    BaselineFile,
    entry_of,
    is_user_test,
    read_baseline,
    write_baseline,
)
from grb_check.gate.baselines.joint import (
    Group,
    JointComparison,
    ModelOnDataset,
    compare_groups,
    groups_with_entries,
    updated,
)
from grb_check.gate.baselines.looks import ONLY, Look
from grb_check.gate.baselines.pairs import Pair

LOSS_MARGIN: Final = 2.0  # default of the tolerated loss of accuracy, in percentage points
ALPHA: Final = 0.05  # family-wise error rate of all tests of a run
JOINT_SHARE: Final = 0.8  # share of ALPHA for the tests at the end of a run
CLEAN_SHARE: Final = 1 / 8  # share of these for clean accuracy
BASE_REPEATS: Final = 5  # of both sides, if a revision is measured in the same job
REPEATS: Final = 20  # of a new baseline; with fewer, a loss of 3 points is often not detected


@dataclass(frozen=True, kw_only=True)
class Written:
    """An update of the file.

    Attributes:
        unchanged: whether the file was the same before.
        retained: number of entries of the file that the run did not make.
    """

    unchanged: bool
    retained: int


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A saved run, and the rule by which another is compared with it.

    The family-wise error rate `ALPHA` is divided before the run (Bonferroni): `JOINT_SHARE` of it
    among the models and datasets, the rest among the entries of the file. So each case is judged
    when it has run, with the same result in every order, on every worker and in every shard.

    Attributes:
        path: of the file.
        margin: tolerated loss of accuracy, in percentage points.
        model: label of the only model of the run, which its case ids lack; empty if there are
            several.
        saved: the content of the file, whose keys always name the model.
        writes: whether this run writes the file, on request or because there is none.
        requested: whether writing was requested.
        notes: to report.
        revision: that was measured in the same job; empty for a file.
        same: whether that has the files of the working tree, so that it is not measured.
        stored: whether all entries of that revision were in the store.
        failures: label of a model -> why it has no figures at that revision.
        unmeasured: key of a case -> why it was not measured at that revision.
        run_size: number of cases of the whole run, of which a part has that revision's entries.
        first: repeats of the first look at a case of that revision, see `looks`; 0 for a file,
            whose repeats are those that it has.
        joint_looks: the look at all cases of a model and dataset; without one it is the only look,
            at the first repeats.
    """

    path: Path
    margin: float
    model: str = ""
    saved: BaselineFile = field(default_factory=BaselineFile)
    writes: bool = False
    requested: bool = False
    notes: tuple[str, ...] = ()
    revision: str = ""
    same: bool = False
    stored: bool = False
    failures: Mapping[str, str] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    run_size: int = 0
    first: int = 0
    joint_looks: Mapping[ModelOnDataset, Look] = field(default_factory=dict)

    @property
    def tests(self) -> int:
        """Number of cases that share the level of their tests: of the file, or of the run."""
        return max(self.run_size, len(self.entries))

    @property
    def compared_model(self) -> str:
        """The model in the file that the only model of the run is compared with.

        The one with its label; or the only one in the file, since a factory may have another name
        than before, or another model is compared on purpose.
        """
        models = self.saved.models
        return models[0] if self.model and len(models) == 1 else self.model

    @cached_property
    def seen(self) -> BaselineFile:
        """The content of the file, with the ids that cases have in this run."""
        return self.saved.with_prefix(f"{self.compared_model}@", "") if self.model else self.saved

    @property
    def entries(self) -> Mapping[str, BaselineCase]:
        """The entries of the file, by the key that the case has in this run."""
        return self.seen.entries

    @property
    def repeats(self) -> int:
        """Default number of repeats of a run: that of the baseline's built-in cases.

        Users' own tests may have another number, and cases in doubt have more.
        """
        built_in = [entry.repeats for key, entry in self.entries.items() if not is_user_test(key)]
        every = [entry.repeats for entry in self.entries.values()]
        return min(built_in or every, default=REPEATS)

    @property
    def alpha(self) -> float:
        """The significance level of the test of one case."""
        return ALPHA * (1.0 - JOINT_SHARE) / max(self.tests, 1)

    def compare(self, key: str, outcome: Outcome, look: Look | None = None) -> Comparison | None:
        """Compare one case; None if this run writes the file.

        Args:
            key: of the case.
            outcome: of this run.
            look: at its first repeats; None for one look at all that both sides have.
        """
        if self.writes:
            return None
        before = entry_of(outcome) if self.same else self.entries.get(key)
        before = None if key in self.unmeasured else before
        if before is None:
            text = "not in the baseline: a new case; --grb-update-baseline adds it"
            if self.revision:
                text = self.unmeasured.get(key, f"not at {self.revision}: a new case")
            return Comparison(result="new", text=text, margin=self.margin)
        pair = Pair(outcome.case, before, entry_of(outcome))
        if look is not None:
            pair = pair.of_first(look.repeats)
        result = compare(pair, self.margin, self.alpha, ONLY if look is None else look.share)
        if result.explained and is_user_test(key):  # no other test fails for its clean accuracy
            return replace(result, result="fail")
        return result

    def compare_jointly(
        self,
        now: Mapping[Case, BaselineCase],
        planned: Iterable[Case],
        explained: Collection[ModelOnDataset] = (),
    ) -> tuple[JointComparison, ...]:
        """Compare all cases of each model and dataset together, then its clean accuracy.

        Args:
            now: entries of the run.
            planned: the cases of the whole run, whose models and datasets share the error rate.
            explained: models and datasets with a case whose loss is one of clean accuracy.
        """
        margin, alpha = self.margin, ALPHA * JOINT_SHARE
        of_clean = alpha * CLEAN_SHARE
        only = Look(self.first, ONLY) if self.first else None
        groups = {
            group: Group(cases, self.joint_looks.get(group, only))
            for group, cases in groups_with_entries(planned, self.entries).items()
        }
        joint = compare_groups(self.entries, now, groups, margin=margin, alpha=alpha - of_clean)
        explained = {
            *explained,
            *((loss.model, loss.dataset) for loss in joint if loss.comparison.explained),
        }
        return joint + compare_clean(
            self.entries, now, groups, explained, margin=margin, alpha=of_clean
        )

    def without(self, unmeasured: Mapping[str, str]) -> Baseline:
        """Return it without the entries of these cases, unless the revision has the same files.

        Args:
            unmeasured: key of a case -> why it was not measured at that revision.
        """
        if self.same:
            return self
        prefix = f"{self.model}@" if self.model else ""
        gone = {key if is_user_test(key) else prefix + key for key in unmeasured}
        entries = {key: entry for key, entry in self.saved.entries.items() if key not in gone}
        return replace(self, saved=replace(self.saved, entries=entries), unmeasured=unmeasured)

    def completed(self, now: Mapping[str, BaselineCase]) -> Baseline:
        """Return it with these entries of the run, by key, if they are those of the base, too."""
        if not self.same:
            return self
        prefix = f"{self.model}@" if self.model else ""
        entries = {f"{prefix}{key}": entry for key, entry in now.items() if not is_user_test(key)}
        return replace(self, saved=BaselineFile(entries=entries))

    def unused(self, keys: Collection[str]) -> list[str]:
        """Return the keys of the entries that no case of the run has."""
        return sorted(set(self.entries) - set(keys))

    def write(
        self,
        measured: Mapping[str, BaselineCase],
        environment: Mapping[str, str],
    ) -> Written:
        """Write the file, unless it is the same; entries that the run did not make are left.

        Those of a model that the only model of this run is compared with are replaced if the run
        made all of them; otherwise both models are in the file.

        Args:
            measured: entries of the run, by the key that the case has in it.
            environment: of the run, by name.
        """
        named = {name: environment[name] for name in (*MEASURED, PACK) if name in environment}
        before = self.saved
        if self.model:
            prefix, theirs = f"{self.model}@", f"{self.compared_model}@"
            stored = {key.removeprefix(theirs) for key in before.entries if key.startswith(theirs)}
            if stored <= measured.keys():  # else another model's figures would get this one's name
                before = before.with_prefix(theirs, prefix)
            measured = {
                k if is_user_test(k) else prefix + k: entry for k, entry in measured.items()
            }
        new = updated(before, measured, named)
        if new != self.saved:
            write_baseline(self.path, new)
        retained = len(new.entries) - len(measured)
        return Written(unchanged=new == self.saved, retained=retained)


def open_baseline(path: Path, margin: float, model: str, *, update: bool) -> Baseline:
    """Return the baseline that the options ask for.

    Args:
        path: of the file, which may not exist yet.
        margin: in percentage points.
        model: label of the only model of the run; empty if there are several.
        update: whether to write it, and to compare with nothing.

    Raises:
        UsageError: the file is damaged.
    """
    new = Baseline(
        path=path,
        margin=margin,
        model=model,
        requested=update,
        writes=update or not path.exists(),
    )
    if not path.exists() or (update and not path.is_file()):  # reading a pipe would wait
        return new
    try:
        saved = read_baseline(path)
    except UsageError as error:
        if not update:
            raise
        lost = "entries of cases that this run does not have are lost"
        return replace(new, notes=(f"the file is replaced, and {lost}: {error}",))
    result = replace(new, saved=saved)
    if result.compared_model == model:
        return result
    theirs = result.compared_model
    note = f"{model}, the only model of this run, is compared with {theirs} of the baseline"
    if update:
        note = (
            f"{model}, the only model of this run, replaces {theirs} of the baseline if this run "
            f"has all of its cases"
        )
    return replace(result, notes=(note,))


def key_of(node_id: str, case: Case) -> str:
    """Return the key of an entry in a run: the case id, or the node id of a user's own test."""
    return case.id if is_node_id(node_id) else node_id
