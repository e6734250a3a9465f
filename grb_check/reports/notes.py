"""Notes below the table: remarks of models, data, attacks, diagnostics and the gate, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from grb_check.cases.case_record import CaseRecord
from grb_check.cases.outcomes import Finding, Outcome
from grb_check.cases.verdicts import VerdictResult
from grb_check.errors import count
from grb_check.evaluation.diagnostics import anchor

SHOWN: Final = 2  # cases named if a note concerns more
_REASONS: Final[Mapping[VerdictResult, str]] = {
    "warn": "the drop is over a threshold that only warns",
    "not judged": "a model that predicts the majority class under attack would pass the default "
    "limit; set a limit, or take more --grb-repeats; --grb-strict-limits fails such cases",
    "not shown": "the interval of the default limit is wider than its margin, and the drop may be "
    "beyond that of the references and the margin; more --grb-repeats narrow it",
}


def notes(rows: Sequence[CaseRecord]) -> list[str]:
    """Return notes in alphabetical order; those of attacks name the cases that they concern."""
    outcomes = _outcomes(rows)
    said = {text for outcome in outcomes for text in outcome.warnings}
    concerned: dict[str, list[str]] = {}
    for outcome in outcomes:
        for text in dict.fromkeys(text for each in outcome.repeats for text in each.notes):
            concerned.setdefault(text, []).append(_name(outcome, outcomes))
    said |= {f"{text} ({_some(names)})" for text, names in concerned.items()}
    for outcome in outcomes:
        if outcome.per_target is not None:
            said.add(
                f"worst case per target: {outcome.per_target:.1%} of the targets stay right under "
                f"every one of these attacks ({_name(outcome, outcomes)})"
            )
    for result, why in _REASONS.items():
        found = [row.id for row in rows if row.verdict is not None and row.verdict.result == result]
        if found:
            said.add(f"{result}: {count(len(found), 'case')} ({_some(found)}): {why}")
    return sorted(said)


def diagnostic_notes(rows: Sequence[CaseRecord]) -> list[str]:
    """Return one line for each diagnostic with a finding, with its most extreme figure."""
    outcomes = _outcomes(rows)
    found: dict[str, list[tuple[Finding, str]]] = {}
    for outcome in outcomes:
        for finding in outcome.findings:
            found.setdefault(finding.name, []).append((finding, _name(outcome, outcomes)))
    lines = []
    for name, entries in sorted(found.items()):
        entries.sort(key=lambda entry: -abs(entry[0].figure - entry[0].limit))
        text = entries[0][0].text
        lines.append(f"{name} ({_some([case for _, case in entries])}): {text}; {anchor(name)}")
    return lines


def _outcomes(rows: Sequence[CaseRecord]) -> list[Outcome]:
    return [row.outcome for row in rows if row.outcome is not None]


def _name(outcome: Outcome, others: Sequence[Outcome]) -> str:
    """Its id, with the model in a run of several."""
    alone = len({each.model for each in others}) == 1 or outcome.case.model
    return outcome.case.id if alone else f"{outcome.model}@{outcome.case.id}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
