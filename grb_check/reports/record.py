"""The run record: what `--grb-json` writes, and all that reports, `merge` and shards read of a run.

Parts of it are the frozen dataclasses that cases, gate and ranking work with, under their own field
names. Loads neither torch nor numpy.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from grb_check.cases.case_record import CaseRecord, Name, Part
from grb_check.cases.shards import MOST_SHARDS
from grb_check.datasets.places import FeatureRule, SplitRule
from grb_check.gate.baselines.joint import JointComparison
from grb_check.gate.baselines.pin import UpdateLoss
from grb_check.gate.expected_failures import ExpectedFailure
from grb_check.gate.limits import Gate
from grb_check.ranking.ranks import Ranks

Share: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
NotNegative: TypeAlias = Annotated[float, Meta(ge=0.0)]
Number: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]


class ModelSettings(Part, frozen=True):
    """A model of the run.

    Attributes:
        label: its name.
        target: what is imported.
        args: of the factory.
        source: digest of the Python files of its package; empty if unknown.
        file: path in the repository where its factory is defined; empty if unknown or outside.
        line: of the definition, counted from 1; 0 if there is no file.
    """

    label: str
    target: str
    args: str
    source: str
    file: str
    line: Number


class RunSettings(Part, frozen=True):
    """The settings in force.

    Attributes:
        given: option -> its value as it was given, of those that figures and verdicts depend on.
        origins: option -> where its value came from.
    """

    models: tuple[ModelSettings, ...]
    suite: str
    datasets: tuple[str, ...]
    graph_sets: tuple[str, ...]
    split: SplitRule | None
    training: Literal["inductive", "transductive"]
    features: FeatureRule | None
    data: tuple[str, ...]
    download: bool
    difficulties: tuple[str, ...]
    attacks: tuple[str, ...]
    budgets: tuple[float, ...]
    patterns: tuple[str, ...]
    repeats: Positive
    gate: Gate
    rank_against: str
    expected_failures: tuple[ExpectedFailure, ...]
    device: str
    given: dict[str, str]
    origins: dict[str, str]


class PinRecord(Part, frozen=True):
    """The pin of the baseline file, as it was before the run.

    Attributes:
        label: such as a release; may be empty.
        changed: number of entries of the baseline that are not the pin's.
        alpha: family-wise error rate of the tests against the pin.
        together: verdicts on all cases of each model and dataset with such an entry.
    """

    label: str
    changed: Number
    alpha: Share
    together: tuple[JointComparison, ...]

    @property
    def name(self) -> str:
        """`pin`, and its label if it has one."""
        return f"pin {self.label}".rstrip()


class BaselineRecord(Part, frozen=True):
    """The baseline of the run.

    Attributes:
        path: of the file.
        margin: tolerated loss of accuracy, in percentage points.
        alpha: family-wise error rate of all tests of the run.
        tests: number of entries, which share a part of `alpha`.
        digest: of the entries.
        written: whether this run wrote the file, or would have if it were not the same.
        asked: whether it was asked to.
        unused: entries without a case in this run.
        environment: checks of the environment of each dataset, if it has to be the baseline's.
        together: verdicts on all cases of each model and dataset.
        pin: None if there was no file before the run.
        losses: that this run accepted by writing the file.
        notes: for people.
    """

    path: str
    margin: NotNegative
    alpha: Share
    tests: Number
    digest: str
    written: bool
    asked: bool
    unused: tuple[str, ...]
    together: tuple[JointComparison, ...]
    pin: PinRecord | None
    losses: tuple[UpdateLoss, ...]
    notes: tuple[str, ...]

    @property
    def joint_tests(self) -> list[tuple[str, JointComparison]]:
        """The verdicts on all cases, each after its name: `baseline`, `clean` or `pin`."""
        pinned = self.pin.together if self.pin is not None else ()
        names = {"attacked": "baseline", "clean": "clean"}
        found = [(names[each.accuracy], each) for each in self.together]
        return found + [("pin", each) for each in pinned]


class PlannedCase(Part, frozen=True):
    """A case of the whole run."""

    id: Name
    node_id: Name


class ShardRecord(Part, frozen=True):
    """The part `index` of `count` of a run; `plan` is the digest of the partition."""

    index: Positive
    count: Annotated[int, Meta(ge=1, le=MOST_SHARDS)]
    plan: str


class RunRecord(Part, frozen=True):
    """Everything that a run planned, measured, judged and lost; see `summary` for what follows.

    Attributes:
        environment: versions, of grb_check first.
        settings: in force.
        cases: that came back, in the order of reports.
        baseline: None if the run has none.
        missing: node ids of cases that were to run and got no verdict.
        planned: all cases of the whole run.
        deselected: ids of planned cases that pytest left out, as for `-k`.
        shard: None if this is the whole run.
        ranks: on leaderboards, which the record does not hold.
        notes: on the whole run, such as how the parts of a merge differ.
        date: of its end, as in `2026-03-01 14:05 UTC`; empty if unknown.
        commit: of the repository, shortened; empty if unknown.
    """

    environment: dict[str, str]
    settings: RunSettings
    cases: tuple[CaseRecord, ...]
    baseline: BaselineRecord | None
    missing: tuple[str, ...]
    planned: tuple[PlannedCase, ...]
    deselected: tuple[str, ...]
    shard: ShardRecord | None
    ranks: Ranks
    notes: tuple[str, ...]
    date: str = ""
    commit: str = ""

    @property
    def release(self) -> str:
        """The version of grb_check that wrote it."""
        return self.environment["grb_check"]
