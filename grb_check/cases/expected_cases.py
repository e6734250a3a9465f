"""The cases that a run must report, and those that it reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from grb_check.cases.case import Case
from grb_check.cases.node_ids import NODE_PREFIX, is_node_id
from grb_check.cases.outcomes import Outcome

Result = Literal["pass", "fail", "error", "skip", "xfail", "xpass"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One reported case.

    `result` is `xfail` of a case that failed as expected and `xpass` of one that was expected to
    fail; `message` is then the reason. `verdict` has the gate's figures if the gate judged the
    case, `evidence` the path of the perturbation of a failed case and the command that replays it.
    """

    node_id: str
    case: Case
    result: Result
    outcome: Outcome | None
    verdict: Mapping[str, Any] | None
    message: str
    evidence: Mapping[str, Any] | None = None

    @property
    def below_floor(self) -> bool:
        """Whether its clean accuracy was too low for its drop to be meaningful."""
        return bool(self.verdict and self.verdict["below_floor"])

    @property
    def failed_diagnostics(self) -> tuple[str, ...]:
        """Return the diagnostics, if it failed for nothing else."""
        return tuple(self.verdict["failed_diagnostics"]) if self.verdict else ()


@dataclass
class ExpectedCases:
    """Rows by node id, and the node ids that are expected and that were reported.

    `collected` is whether the expected ones are known: every worker may have died before it
    collected.
    """

    entries: dict[str, Row] = field(default_factory=dict)
    expected: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)
    collected: bool = False

    def expect(self, node_ids: Iterable[str]) -> None:
        """Expect the built-in cases among these node ids."""
        self.collected = True
        self.expected.update(each for each in node_ids if each.startswith(f"{NODE_PREFIX}::"))

    @property
    def rows(self) -> list[Row]:
        """Return the rows in the order of the cases, whichever worker reported first."""
        return sorted(self.entries.values(), key=lambda row: (row.case.order, row.node_id))

    @property
    def missing(self) -> list[str]:
        """Return the expected node ids that were not reported; one may have killed its worker."""
        return sorted(self.expected - self.reported)

    @property
    def inconsistent(self) -> list[str]:
        """Datasets that were different graphs in different cases."""
        seen = [(row.case.dataset, row.outcome.dataset) for row in self.rows if row.outcome]
        return inconsistent(seen)

    def enter(self, node_id: str, record: Mapping[str, Any], result: Result, message: str) -> Row:
        """Add a case from the builtin types that its report carried, and return its row."""
        outcome = record.get("outcome")
        row = Row(
            node_id=node_id,
            case=Case(**record["case"]),
            result=result,
            outcome=None if outcome is None else Outcome.from_dict(outcome),
            verdict=record.get("verdict"),
            message=message,
            evidence=record.get("evidence"),
        )
        self.entries[node_id] = row
        return row


def each_once(rows: Sequence[Row]) -> list[Row]:
    """Return the rows in order, with one of each model and case, for summaries.

    That of the built-in test if there is one, else the first of the users' own tests.
    """
    names = {row.case.model: row.outcome.model for row in rows if row.outcome is not None}
    chosen: dict[tuple[str, Case], Row] = {}
    for row in sorted(rows, key=lambda row: not is_node_id(row.node_id)):
        label = row.case.model
        model = names.get(label, label) if row.outcome is None else row.outcome.model
        chosen.setdefault((model, replace(row.case, model="")), row)
    kept = {row.node_id for row in chosen.values()}
    return [row for row in rows if row.node_id in kept]


def inconsistent(graphs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the names that stand for several graphs, in order.

    Args:
        graphs: name and fingerprint of the dataset of each case.
    """
    names = Counter(name for name, _ in set(graphs))
    return sorted(name for name, count in names.items() if count > 1)
