"""Notes below the tables of a report: on attacks, limits, references and diagnostics."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from grb_check.attacks.names import split_budget
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.findings import Finding, anchor
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.cases.repeat_results import ENOUGH
from grb_check.errors import count

SHOWN: Final = 2  # cases named if a note concerns more
CHANCE: Final = 0.01  # of accuracy, by which what is left under two budgets may differ


def notes(rows: Sequence[CaseRecord], repeats: int) -> list[str]:
    """Return notes in alphabetical order; those of attacks name the cases that they concern.

    Args:
        rows: of the run.
        repeats: of the run, of which cases in doubt have more.
    """
    outcomes = _outcomes(rows)
    said = {text for outcome in outcomes for text in outcome.warnings}
    concerned: dict[str, list[str]] = {}
    for outcome in outcomes:
        for text in dict.fromkeys(text for repeat in outcome.repeats for text in repeat.notes):
            concerned.setdefault(text, []).append(_name(outcome, outcomes))
    said |= {f"{text} ({_some(names)})" for text, names in concerned.items()}
    for outcome in outcomes:
        if outcome.per_target is not None:
            said.add(
                f"worst case per target: {outcome.per_target:.1%} of the targets stay right under "
                f"every one of these attacks ({_name(outcome, outcomes)})"
            )
    said |= {text for outcome in outcomes for text in _unlearned(outcome)}
    said |= set(_more_for_more(outcomes))
    said |= _measured_before(outcomes)
    verdicts = [(row.id, row.verdict) for row in rows if row.verdict is not None]
    more = {
        row.id: row
        for row in rows
        if row.outcome and len(row.outcome.repeats) > repeats and is_node_id(row.node_id)
    }
    compared = [name for name, row in more.items() if row.comparison and row.comparison.method]
    most = max((len(row.outcome.repeats) for row in more.values() if row.outcome), default=0)
    for result, why in (
        (
            compared,
            f"measured in up to {most} repeats on both sides: the first {count(repeats, 'repeat')} "
            f"lost more than the margin, and did not show it",
        ),
        (
            [name for name in more if name not in compared],
            f"measured in {ENOUGH} repeats: in the first {count(repeats, 'repeat')} more was lost "
            f"than undefended models lose, and the margin",
        ),
        (
            [name for name, verdict in verdicts if verdict.result == "warn"],
            "over a threshold that only warns",
        ),
        (
            [name for name, verdict in verdicts if verdict.result == "measured"],
            "only measured: undefended models lose so much there or learn so little, or the "
            "repeats differ so much, that there is no limit; set one with --grb-max-drop or "
            "--grb-threshold, or compare with a --grb-baseline",
        ),
    ):
        if result:
            said.add(f"{count(len(result), 'case')} ({_some(result)}) {why}")
    return sorted(said)


def diagnostic_notes(rows: Sequence[CaseRecord]) -> list[str]:
    """Return one line for each diagnostic with a finding, with its most extreme figure."""
    outcomes = _outcomes(rows)
    result: dict[str, list[tuple[Finding, str]]] = {}
    for outcome in outcomes:
        for finding in outcome.findings:
            result.setdefault(finding.name, []).append((finding, _name(outcome, outcomes)))
    lines = []
    for name, entries in sorted(result.items()):
        entries.sort(key=lambda entry: -abs(entry[0].figure - entry[0].limit))
        text = entries[0][0].text
        lines.append(f"{name} ({_some([case for _, case in entries])}): {text}; {anchor(name)}")
    return lines


def _outcomes(rows: Sequence[CaseRecord]) -> list[Outcome]:
    return [row.outcome for row in rows if row.outcome is not None]


def _name(outcome: Outcome, others: Sequence[Outcome]) -> str:
    """Its id, with the model in a run of several."""
    alone = len({other.model for other in others}) == 1 or outcome.case.model
    return outcome.case.id if alone else f"{outcome.model}@{outcome.case.id}"


def _more_for_more(outcomes: Sequence[Outcome]) -> list[str]:
    """Attacks that know the model and leave more of it with a larger budget.

    They missed something: whatever is within a smaller budget is within a larger one.
    """
    curves: dict[tuple[str, str], dict[float, Outcome]] = {}
    for outcome in outcomes:
        attack, budget = split_budget(outcome.case.attack)
        if outcome.adaptive and budget is not None:
            bare = replace(outcome.case, attack=attack)
            curves.setdefault((outcome.model, bare.id), {})[budget] = outcome
    result = []
    for by_budget in curves.values():
        for smaller, larger in pairwise(sorted(by_budget)):
            less, more = by_budget[smaller], by_budget[larger]
            if more.attacked > less.attacked + CHANCE:
                result.append(
                    f"{_name(more, outcomes)} leaves {more.attacked:.1%}, and a budget of "
                    f"{smaller:g} no more than {less.attacked:.1%}: the larger one missed that"
                )
    return result


def _measured_before(outcomes: Sequence[Outcome]) -> set[str]:
    """What an earlier run has measured."""
    repeats = [repeat for outcome in outcomes for repeat in outcome.repeats]
    before = sum(repeat.measured_before for repeat in repeats)
    if not before:
        return set()
    return {
        f"{before} of {count(len(repeats), 'measurement')} from the store, where an earlier run of "
        f"the same model, files and data left them; --grb-store=off measures again"
    }


def _unlearned(outcome: Outcome) -> list[str]:
    """References that nothing is compared with."""
    if not outcome.unlearned:
        return []
    clean = [statistics.fmean(outcome.references[name].clean) for name in outcome.unlearned]
    chance = "nodes drawn at random" if outcome.recall else "the most frequent class"
    reported = ", ".join(
        f"{name.upper()} {share:.1%}" for name, share in zip(outcome.unlearned, clean, strict=True)
    )
    return [
        f"{outcome.case.dataset}/{outcome.case.difficulty}: clean {outcome.metric} of {reported}, "
        f"and of {chance} {outcome.majority:.1%}: such a reference has learned "
        f"nothing, makes no limit, and is not shown"
    ]


def _some(names: Sequence[str]) -> str:
    names = list(dict.fromkeys(names))  # own tests may have the same case
    more = len(names) - SHOWN
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
