"""What `restrict` allows: additions and removals, or removals alone."""

from __future__ import annotations

from typing import Final

from grb_check.errors import choose

RESTRICTIONS: Final = ("none", "deletions")


def check_restrict(restrict: str) -> None:
    """Raise `UsageError` unless it is `none` or `deletions`."""
    choose("restrict", restrict, RESTRICTIONS)


def most_additions(restrict: str, budget: int) -> int:
    """How many edges may be added: the whole budget, or none."""
    return 0 if restrict == "deletions" else budget
