"""One case as reports show it: its status, figures and remarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from grb_check.cases.case_record import CaseRecord
from grb_check.cases.counter_example import CounterExample
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.verdicts import Comparison
from grb_check.errors import reason
from grb_check.files.text import fit
from grb_check.ranking.ranks import Standing

Status: TypeAlias = Literal[
    "fail",
    "error",
    "missing",
    "warn",
    "inconclusive",
    "xpass",
    "xfail",
    "skip",
    "measured",
    "pass",
]

# In the order of interest to people.
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
WORDS: Final[Mapping[Status, str]] = {
    "fail": "failed",
    "error": "ended in an error",
    "missing": "never came back",
    "warn": "warned",
    "inconclusive": "undecided",
    "xpass": "passed unexpectedly",
    "xfail": "failed as expected",
    "skip": "skipped",
    "measured": "measured",
    "pass": "passed",
}
FINE: Final[frozenset[Status]] = frozenset(("pass", "measured"))
BAD: Final[frozenset[Status]] = frozenset(("fail", "error", "missing"))

# Tests that pass, though nothing shows that the model is robust; the reason is in `Line.first`.
UNSURE: Final[frozenset[Status]] = frozenset(("warn", "inconclusive"))
LOST: Final = (
    "never came back: its worker died, its report could not travel, or the run was stopped"
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One case in the reports.

    Attributes:
        number: place in the reports, from 0.
        row: its record.
        model: name of the model.
        status: the verdict; those in `UNSURE` passed, and `inconclusive` is about the baseline;
            `xfail` and `xpass` are of cases that are expected to fail; nothing could have failed
            what was only `measured`.
        first: the reason in one line; empty for a case that passed.
        text: the whole message.
        standings: ranks under the attack, on each leaderboard that has it.
    """

    number: int
    row: CaseRecord
    model: str
    status: Status
    first: str
    text: str
    standings: tuple[Standing, ...] = ()

    @property
    def group(self) -> tuple[str, str]:
        """Model and dataset."""
        return self.model, self.row.case.dataset

    @property
    def attack(self) -> str:
        """`scenario/attack`."""
        return f"{self.row.case.scenario}/{self.row.case.attack}"

    @property
    def test(self) -> str:
        """Node id of a user's own test, without its case; empty for a built-in case."""
        if is_node_id(self.row.node_id):
            return ""
        name, _, parameters = self.row.node_id.removesuffix("]").partition("[")
        case = self.row.case.id
        for text in (f"{case}-", f"-{case}", case):
            parameters = parameters.replace(text, "")
        return fit(f"{name}[{parameters}]" if parameters else name)

    @property
    def limit(self) -> float | None:
        """The largest drop that passes."""
        return self.row.verdict.limit if self.row.verdict is not None else None

    @property
    def excess(self) -> float:
        """Return how far the drop exceeds its limit; 0 if the case failed for another reason."""
        if self.row.outcome is None or self.limit is None or self.row.below_floor:
            return 0.0
        return max(0.0, self.row.outcome.drop - self.limit)

    @property
    def severity(self) -> float:
        """Order of failures: the excess, else the accuracy lost to the baseline."""
        lost = self.comparison.loss if self.comparison is not None else None
        return self.excess or (lost or 0.0) / 100

    @property
    def comparison(self) -> Comparison | None:
        """The verdict of the baseline."""
        return self.row.comparison

    @property
    def replay(self) -> str:
        """The command that repeats the case; empty if nothing was kept."""
        return self.row.evidence.replay if self.row.evidence is not None else ""

    @property
    def smallest(self) -> CounterExample | None:
        """The smallest counter-example."""
        return self.row.evidence.smallest if self.row.evidence is not None else None


def _status(row: CaseRecord) -> Status:
    if row.result != "pass":
        return row.result
    status: Status = row.gate_result
    return min("inconclusive" if _is_inconclusive(row) else status, status, key=STATUSES.index)


def _is_inconclusive(row: CaseRecord) -> bool:
    compared = row.comparison
    return row.result == "pass" and compared is not None and compared.result == "inconclusive"


def _first(row: CaseRecord, status: Status) -> str:
    """The line that gives the reason: the gate's, an assertion's, or the first of the message."""
    reported = ""
    if row.result in ("xfail", "xpass"):
        reported = f"expected failure: {row.message}"
    elif row.unexpected_pass:
        reported = row.message
    elif status == "inconclusive" and row.comparison is not None:
        reported = row.comparison.text
    elif row.verdict is not None and row.verdict.result != "pass":
        reported = row.verdict.message
    lines = [line.strip() for line in row.message.splitlines()]
    raised = [line[1:] for line in lines if line.startswith("E ")]
    return reason(reported or "\n".join(raised or lines))
