"""The cases that have to be reported, and the records of those that were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord, Result, inconsistent
from grb_check.cases.node_ids import NODE_PREFIX


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
        self.expected.update(
            node_id for node_id in node_ids if node_id.startswith(f"{NODE_PREFIX}::")
        )

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
