"""The figure beside the result of a test: `FAILED (-45.1%)`."""

from __future__ import annotations

from typing import TypeAlias

from grb_check.cases.outcomes import Outcome
from grb_check.cases.verdicts import Comparison, Verdict

# The figure of a test: short, so that a line of 80 columns has room for the id; and all. A plain
# tuple, since reports of tests travel between the processes of pytest-xdist as builtin types.
StatusWords: TypeAlias = tuple[str, str]


def words_of(outcome: Outcome, verdict: Verdict | None = None) -> StatusWords:
    """Return the figure for which a case failed, or else its drop.

    Args:
        outcome: of the case.
        verdict: on it; None if the test judges by itself.
    """
    short, full = f"{-outcome.drop:+.1%}", f"drop {outcome.drop:.1%}"
    if verdict is None:
        return short, full
    if verdict.below_floor:
        text = f"clean {outcome.clean:.1%}"
        return text, text
    if verdict.failed_diagnostics:
        text = ", ".join(verdict.failed_diagnostics)
        return text, text
    comparison = verdict.comparison
    if comparison is not None and comparison.detectable is not None:
        full += f", loss {comparison.loss:+.1f}, detects {comparison.detectable:.1f}"
    if comparison is not None and comparison.result == "fail":
        short = _lost(comparison) or short
    return short, f"{full}, warn" if verdict.result == "warn" else full


def words_of_all(comparison: Comparison) -> StatusWords:
    """Return those of a test of all cases together."""
    full: str = comparison.result
    if comparison.detectable is not None:
        full += f", detects {comparison.detectable:.1f}"
    return _lost(comparison) or comparison.result, full


def _lost(comparison: Comparison) -> str:
    """Points of accuracy lost to the baseline; empty if there is no figure."""
    return "" if comparison.loss is None else f"{-comparison.loss:+.1f}"
