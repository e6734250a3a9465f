"""What was expected of a run and what came back: the controller's book of cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grb_check.cases.case import NODE_PREFIX, Case
from grb_check.cases.outcomes import Outcome

Result = Literal["pass", "fail", "error", "skip"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case as it came back from wherever it ran.

    `verdict` holds the gate's figures where the gate was asked, `evidence` where the perturbation
    of a failed case is kept and how to replay it.
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
        """Whether its clean accuracy was too low for its drop to mean anything."""
        return bool(self.verdict and self.verdict["below_floor"])

    @property
    def failed_diagnostics(self) -> tuple[str, ...]:
        """Names of the diagnostics for which alone it failed."""
        return tuple(self.verdict["failed_diagnostics"]) if self.verdict else ()


@dataclass
class Ledger:
    """Rows by node id, and the node ids that must come and that came.

    `collected` tells whether anybody said which must come: no worker may have lived so long.
    """

    entries: dict[str, Row] = field(default_factory=dict)
    expected: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)
    collected: bool = False

    def expect(self, node_ids: Iterable[str]) -> None:
        """Note the built-in cases among these node ids."""
        self.collected = True
        self.expected.update(each for each in node_ids if each.startswith(f"{NODE_PREFIX}::"))

    @property
    def rows(self) -> list[Row]:
        """In the order of the cases, whichever worker was first."""
        return sorted(self.entries.values(), key=lambda row: (row.case.order, row.node_id))

    @property
    def missing(self) -> list[str]:
        """Cases that were to run and got no verdict; some of them may have killed their worker."""
        return sorted(self.expected - self.reported)

    @property
    def inconsistent(self) -> list[str]:
        """Datasets that were different graphs in different cases."""
        seen = [(row.case.dataset, row.outcome.dataset) for row in self.rows if row.outcome]
        return inconsistent(seen)

    def enter(self, node_id: str, record: Mapping[str, Any], result: Result, message: str) -> None:
        """Book a case from the builtin types that travelled with its report."""
        outcome = record.get("outcome")
        self.entries[node_id] = Row(
            node_id=node_id,
            case=Case(**record["case"]),
            result=result,
            outcome=None if outcome is None else Outcome.from_dict(outcome),
            verdict=record.get("verdict"),
            message=message,
            evidence=record.get("evidence"),
        )


def inconsistent(graphs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the names that stand for several graphs, in order.

    Args:
        graphs: name and fingerprint of the dataset of each case.
    """
    names = Counter(name for name, _ in set(graphs))
    return sorted(name for name, count in names.items() if count > 1)
