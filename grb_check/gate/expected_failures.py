"""Known failures: cases that are expected to fail, each with the reason. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from grb_check.cases.case import Case
from grb_check.errors import UsageError

FLAG: Final = "--grb-expected-failure"
EXAMPLE: Final = "*/easy/injection/tdgia: GAT, #12"


@dataclass(frozen=True)
class ExpectedFailure:
    """A pattern of case ids, and the reason why the cases that match it fail."""

    pattern: str
    reason: str


def parse_expected_failure(line: str) -> ExpectedFailure:
    """Read `dataset/difficulty/scenario/attack: reason`, with shell wildcards in the pattern.

    Raises:
        UsageError: the line has no pattern or no reason.
    """
    match = re.fullmatch(r"\s*(\S.*?)\s*:\s+(\S.*)", line, re.DOTALL)
    if match is None:
        raise UsageError(
            f"{FLAG} {line!r} must have the form 'pattern: reason', with a reason that is not "
            f"empty, such as {EXAMPLE!r}"
        )
    return ExpectedFailure(match[1], match[2].rstrip())


def reasons(
    lines: Sequence[ExpectedFailure], cases: Sequence[Case], label: str = ""
) -> dict[str, str]:
    """Return id -> reason of the cases that are expected to fail, whatever the order of the lines.

    Args:
        lines: of expected failures; a case that several match has all their reasons.
        cases: of the run.
        label: of the model, for cases without one; patterns may begin with `label@`.
    """
    result = {}
    for case in cases:
        known = case if case.model else replace(case, model=label)
        if matching := {line.reason for line in lines if known.fits(line.pattern)}:
            result[case.id] = "; ".join(sorted(matching))
    return result
