"""The cases that a run must report, and those that it reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord, Result
from grb_check.cases.node_ids import NODE_PREFIX, is_node_id


@dataclass
class ExpectedCases:
    """Records by node id, and the node ids that are expected and that were reported.

    `collected` is whether the expected ones are known: every worker may have died before it
    collected.
    """

    entries: dict[str, CaseRecord] = field(default_factory=dict)
    expected: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)
    collected: bool = False

    def expect(self, node_ids: Iterable[str]) -> None:
        """Expect the built-in cases among these node ids."""
        self.collected = True
        self.expected.update(each for each in node_ids if each.startswith(f"{NODE_PREFIX}::"))

    @property
    def rows(self) -> list[CaseRecord]:
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

    def enter(
        self, node_id: str, report: Mapping[str, Any], result: Result, message: str
    ) -> CaseRecord:
        """Add a case from the builtin types that its report carried, and return its record."""
        fields = {name: report.get(name) for name in ("verdict", "outcome", "evidence")}
        case = Case(**report["case"])
        head = {"id": case.id, "node_id": node_id, "result": result, "message": message}
        record = msgspec.convert(head | fields, CaseRecord)
        self.entries[node_id] = record
        return record


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
    kept = {row.node_id for row in chosen.values()}
    return [row for row in rows if row.node_id in kept]


def inconsistent(graphs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the names that stand for several graphs, in order.

    Args:
        graphs: name and fingerprint of the dataset of each case.
    """
    names = Counter(name for name, _ in set(graphs))
    return sorted(name for name, count in names.items() if count > 1)
