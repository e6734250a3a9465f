"""The record of one case, from the report of its test to the run record and its readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from grb_check.cases.case import Case
from grb_check.cases.counter_example import CounterExample
from grb_check.cases.node_ids import case_of, is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.cases.verdicts import Comparison, Verdict, VerdictResult

Name: TypeAlias = Annotated[str, Meta(min_length=1)]
Result = Literal["pass", "fail", "error", "skip", "xfail", "xpass"]


class RecordPart(msgspec.Struct, frozen=True, kw_only=True):
    """An object of the file. Unknown fields are ignored: a later release may have added some.

    A field that is added has a default, so that earlier records are read.
    """


class Evidence(RecordPart, frozen=True):
    """The file with the perturbations of a failed case, and the command that replays it."""

    artifact: str
    replay: str
    smallest: CounterExample | None = None


class CaseRecord(RecordPart, frozen=True):
    """One case that came back.

    Attributes:
        id: `[model@]dataset/difficulty/scenario/attack`.
        node_id: of the test.
        result: of the test.
        message: of a failed test; the reason of a failure that is expected.
        verdict: of the gate; None if it was not asked.
        outcome: the figures; None if the case ended without.
        evidence: of a failed case; None if none was kept.
    """

    id: Name
    node_id: Name
    result: Result
    message: str = ""
    verdict: Verdict | None = None
    outcome: Outcome | None = None
    evidence: Evidence | None = None

    @property
    def case(self) -> Case:
        """The case, read from its id if there are no figures."""
        return self.outcome.case if self.outcome is not None else case_of_id(self.id)

    @property
    def comparison(self) -> Comparison | None:
        """The verdict of the baseline."""
        return self.verdict.comparison if self.verdict is not None else None

    @property
    def gate_result(self) -> VerdictResult:
        """The verdict of the gate on a test that passed.

        "pass" without one, and where a test of the user passed for reasons of its own.
        """
        verdict = "pass" if self.verdict is None else self.verdict.result
        own = verdict == "measured" and not is_node_id(self.node_id)
        return "pass" if own or verdict == "fail" else verdict

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


def with_lost(
    cases: Sequence[CaseRecord], missing: Iterable[str], message: str = ""
) -> list[CaseRecord]:
    """Return the cases, and records without figures of those that never came back.

    Args:
        cases: that came back.
        missing: node ids; those that name no case are passed over.
        message: of the records that are added.
    """
    back = {case.node_id for case in cases}
    lost = ((node_id, case_of(node_id)) for node_id in missing if node_id not in back)
    return [
        *cases,
        *(
            CaseRecord(id=case.id, node_id=node_id, result="error", message=message)
            for node_id, case in lost
            if case is not None
        ),
    ]


def case_of_id(text: str) -> Case:
    """Return the case of an id; one of no known difficulty if the text is not an id."""
    rest, *cell = text.rsplit("/", 3)
    if len(cell) != 3:
        return Case(text, "", "", "")
    model, at, dataset = rest.partition("@")
    difficulty, scenario, attack = cell
    return Case(dataset if at else rest, difficulty, scenario, attack, model if at else "")


def each_once(rows: Sequence[CaseRecord]) -> list[CaseRecord]:
    """Return the rows in order, with one of each model and case, for summaries.

    That of the built-in test if there is one, else the first of the users' own tests.
    """
    names = {row.case.model: row.outcome.model for row in rows if row.outcome is not None}
    chosen: dict[tuple[str, Case], CaseRecord] = {}
    for row in sorted(rows, key=lambda row: not is_node_id(row.node_id)):
        label = row.case.model
        model = names.get(label, label) if row.outcome is None else row.outcome.model
        chosen.setdefault((model, replace(row.case, model="")), row)
    selected = {row.node_id for row in chosen.values()}
    return [row for row in rows if row.node_id in selected]


def inconsistent(graphs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the names that stand for several graphs, in order.

    Args:
        graphs: name and fingerprint of the dataset of each case.
    """
    names = Counter(name for name, _ in set(graphs))
    return sorted(name for name, count in names.items() if count > 1)
