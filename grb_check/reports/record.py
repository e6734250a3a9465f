"""The run record: what `--grb-json` writes, and all that reports, `merge` and shards read of a run.

Parts of it are the frozen dataclasses that cases, gate and ranking work with, under their own field
names. Loads neither torch nor numpy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from grb_check.cases.case import Case
from grb_check.cases.expected_cases import Result, Row
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.cases.shards import MOST_SHARDS
from grb_check.failures.counter_example_text import CounterExample
from grb_check.gate.baselines.comparison import Comparison
from grb_check.gate.baselines.joint import JointComparison
from grb_check.gate.baselines.pin import UpdateLoss
from grb_check.gate.expected_failures import ExpectedFailure
from grb_check.gate.limits import Gate, Verdict
from grb_check.gate.rank_limits import RankLimit
from grb_check.ranking.standing import Place, Standing

Share: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
NotNegative: TypeAlias = Annotated[float, Meta(ge=0.0)]
Number: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Name: TypeAlias = Annotated[str, Meta(min_length=1)]


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """An object of the file. Unknown fields are ignored: a later release may have added some.

    A field that is added has a default, so that earlier records are read.
    """


class ModelSettings(_Part, frozen=True):
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


class RunSettings(_Part, frozen=True):
    """The settings in force.

    Attributes:
        given: option -> its value as it was given, of those that figures and verdicts depend on.
        origins: option -> where its value came from.
    """

    models: tuple[ModelSettings, ...]
    suite: str
    datasets: tuple[str, ...]
    graph_sets: tuple[str, ...]
    split: Literal["grb", "given"]
    training: Literal["inductive", "transductive"]
    features: Literal["grb", "rows"]
    data: tuple[str, ...]
    download: bool
    difficulties: tuple[str, ...]
    attacks: tuple[str, ...]
    budgets: tuple[float, ...]
    patterns: tuple[str, ...]
    repeats: Positive
    gate: Gate
    rank_against: str
    rank_limits: tuple[RankLimit, ...]
    expected_failures: tuple[ExpectedFailure, ...]
    device: str
    given: dict[str, str]
    origins: dict[str, str]


class Evidence(_Part, frozen=True):
    """The file with the perturbations of a failed case, and the command that replays it."""

    artifact: str
    replay: str
    smallest: CounterExample | None = None


class CaseRecord(_Part, frozen=True):
    """One case that came back.

    Attributes:
        id: `[model@]dataset/difficulty/scenario/attack`.
        node_id: of the test.
        result: of the test.
        message: of a failed test; the reason of a failure that is expected.
        verdict: of the gate; None if it was not asked.
        outcome: the figures; None if the case ended without.
        evidence: of a failed case; None if none was kept.
        standings: ranks under this attack, on each leaderboard that has it.
    """

    id: Name
    node_id: Name
    result: Result
    message: str
    verdict: Verdict | None
    outcome: Outcome | None
    evidence: Evidence | None
    standings: tuple[Standing, ...]

    @property
    def case(self) -> Case:
        """The case, read from its id if there are no figures."""
        return self.outcome.case if self.outcome is not None else _case(self.id)

    @property
    def comparison(self) -> Comparison | None:
        """The verdict of the baseline."""
        return self.verdict.comparison if self.verdict is not None else None

    @property
    def below_floor(self) -> bool:
        """Whether the clean accuracy was too low for the drop to mean anything."""
        return self.verdict is not None and self.verdict.below_floor

    @property
    def unexpected_pass(self) -> bool:
        """Whether a built-in case failed because it passed, and a failure is expected."""
        passed = self.verdict is not None and self.verdict.passed
        return self.result == "fail" and passed and is_node_id(self.node_id)

    @property
    def failed_diagnostics(self) -> tuple[str, ...]:
        """Names of the diagnostics for which alone the case failed."""
        return self.verdict.failed_diagnostics if self.verdict is not None else ()


class PinRecord(_Part, frozen=True):
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


class BaselineRecord(_Part, frozen=True):
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
        """The verdicts on all cases, each after its reference: `baseline` or `pin`."""
        pinned = self.pin.together if self.pin is not None else ()
        found = [("baseline", each) for each in self.together]
        return found + [("pin", each) for each in pinned]


class PlannedCase(_Part, frozen=True):
    """A case of the whole run."""

    id: Name
    node_id: Name


class ShardRecord(_Part, frozen=True):
    """The part `index` of `count` of a run; `plan` is the digest of the partition."""

    index: Positive
    count: Annotated[int, Meta(ge=1, le=MOST_SHARDS)]
    plan: str


class RankVerdictRecord(_Part, frozen=True):
    """The verdict on a rank; `passed` is None if it could not be judged."""

    group: str
    limit: Positive
    rank: Positive | None
    passed: bool | None
    message: str


class RanksRecord(_Part, frozen=True):
    """Ranks on leaderboards, which the record does not hold.

    Attributes:
        standings: of each model.
        verdicts: on limits.
        notes: for people.
    """

    standings: tuple[Place, ...]
    verdicts: tuple[RankVerdictRecord, ...]
    notes: tuple[str, ...]


class RunRecord(_Part, frozen=True):
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
        ranks: on leaderboards.
        notes: on the whole run, such as how the parts of a merge differ.
    """

    environment: dict[str, str]
    settings: RunSettings
    cases: tuple[CaseRecord, ...]
    baseline: BaselineRecord | None
    missing: tuple[str, ...]
    planned: tuple[PlannedCase, ...]
    deselected: tuple[str, ...]
    shard: ShardRecord | None
    ranks: RanksRecord
    notes: tuple[str, ...]

    @property
    def release(self) -> str:
        """The version of grb_check that wrote it."""
        return self.environment["grb_check"]


def rows_of(cases: Iterable[CaseRecord]) -> list[Row]:
    """Return cases as gate and ranking read them."""
    return [
        Row(
            node_id=each.node_id,
            case=each.case,
            result=each.result,
            outcome=each.outcome,
            verdict=msgspec.to_builtins(each.verdict),
            message=each.message,
            evidence=msgspec.to_builtins(each.evidence),
        )
        for each in cases
    ]


def _case(text: str) -> Case:
    """The case of an id; one of no known difficulty if the text is not an id."""
    rest, *cell = text.rsplit("/", 3)
    if len(cell) != 3:
        return Case(text, "", "", "")
    model, at, dataset = rest.partition("@")
    difficulty, scenario, attack = cell
    return Case(dataset if at else rest, difficulty, scenario, attack, model if at else "")
