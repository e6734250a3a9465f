"""Looks at a run and its base, whose sides are made up here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import node_id_of
from grb_check.cases.outcomes import Outcome
from grb_check.cases.repeat_results import CaseResult
from grb_check.errors import UsageError
from grb_check.gate.baselines.baseline import Baseline
from grb_check.gate.baselines.files import BaselineCase, BaselineFile, entry_of
from grb_check.gate.baselines.looks import MOST
from grb_check.gate.limits import Gate, judge
from grb_check.runs.base import BaseCase, BaseSide
from grb_check.runs.looking import Looking
from grb_check.runs.measuring import Measuring

FIRST = 5
CASES = [Case("a", "easy", "injection", name) for name in ("rnd", "pgd", "fgsm")]


class Sides:
    """Both sides of a run: what each case leaves in any number of repeats, and what was asked."""

    def __init__(self, before: Mapping[Case, Sequence[float]], now: Mapping[Case, Any]) -> None:
        self.values = before, now
        self.asked: list[tuple[str, str, int]] = []

    def outcome(self, case: Case, repeats: int, side: int) -> Outcome:
        pairs = [(0.9, float(value)) for value in self.values[side][case][:repeats]]
        made = outcome(pairs, [(0.8, 0.2)] * len(pairs), case)
        named = (replace(r, weights=f"{side}-{n}") for n, r in enumerate(made.repeats))
        return replace(made, repeats=tuple(named), dataset="d" * 16)

    def entries(self, cases: Sequence[BaseCase]) -> dict[str, BaselineCase]:
        self.asked += [("base", asked.case.attack, asked.repeats) for asked in cases]
        return {
            asked.test or f"m@{asked.case.id}": entry_of(self.outcome(asked.case, asked.repeats, 0))
            for asked in cases
        }

    def result(self, case: Case, name: str, repeats: int) -> CaseResult:
        self.asked.append(("run", case.attack, repeats))
        made = self.outcome(case, repeats, 1)
        return CaseResult(outcome=made, results=(None,) * repeats, further=None)  # type: ignore[arg-type]

    def submit_all(self, repeats: Mapping[Case, int], seconds: Mapping[str, float]) -> None:
        """The workers are told before they are asked."""


def looking(sides: Sides, *, strict: bool = False) -> Looking:
    first = sides.entries([BaseCase(case=case, repeats=FIRST) for case in sides.values[0]])
    sides.asked.clear()
    baseline = Baseline(
        path=Path("main"),
        margin=2.0,
        model="m",
        saved=BaselineFile(entries=first),
        revision="main",
        run_size=len(first),
        first=FIRST,
    )
    base, measuring = cast(BaseSide, sides), cast(Measuring, sides)
    return Looking(base, measuring, baseline, strict=strict)


def spread(mean: float, width: float, seed: int) -> Sequence[float]:
    """MOST accuracies with exactly this mean at every look, that lie so far from it."""
    signs = np.random.default_rng(seed).permutation([1.0, -1.0] * (MOST // 2))
    return [mean + width * sign for sign in signs]


def compared(sides: Sides, case: Case, *, strict: bool = False) -> tuple[str, int]:
    """The result of a case, and its repeats."""
    first = sides.result(case, "m", FIRST)
    sides.asked.clear()
    comparison, result = looking(sides, strict=strict).compare(case.id, first)
    assert comparison is not None
    return comparison.result, len(result.results)


def test_a_case_in_doubt_is_measured_again_on_both_sides_until_it_is_decided() -> None:
    """Equal numbers of repeats, at the looks."""
    lost = [0.50, 0.41, 0.50, 0.41, 0.50] + [0.42] * 15
    sides = Sides({CASES[0]: [0.52] * MOST}, {CASES[0]: lost})
    assert compared(sides, CASES[0]) == ("fail", 13)
    by_side = {
        side: [repeats for name, _, repeats in sides.asked if name == side]
        for side in ("base", "run")
    }
    assert by_side == {"base": [8, 13], "run": [8, 13]}


@pytest.mark.parametrize(
    ("now", "result"),
    [
        ([0.50, 0.51, 0.49, 0.50, 0.50], "pass"),
        ([0.30, 0.31, 0.29, 0.30, 0.30], "fail"),
        ([0.53, 0.47, 0.54, 0.46, 0.50], "within"),
        ([0.50] * 5, "equal"),
    ],
)
def test_a_case_that_is_in_no_doubt_is_measured_no_more(now: list[float], result: str) -> None:
    """Nor one whose mean loss is within the margin."""
    sides = Sides({CASES[0]: [0.50] * 5}, {CASES[0]: now})
    assert compared(sides, CASES[0]) == (result, FIRST)
    assert sides.asked == []


def test_where_a_case_has_to_be_shown_no_worse_it_goes_on_within_the_margin() -> None:
    """Until a loss is excluded."""
    now = [0.53, 0.47, 0.54, 0.46, 0.50] + [0.52, 0.53, 0.54] * 5
    sides = Sides({CASES[0]: [0.50] * MOST}, {CASES[0]: now})
    assert compared(sides, CASES[0], strict=True)[0] == "pass"


def reported(looks_at: Looking, sides: Sides) -> list[CaseRecord]:
    rows = []
    for case in CASES:
        comparison, result = looks_at.compare(case.id, sides.result(case, "m", FIRST))
        verdict = judge(result.outcome, Gate(max_drop=0.9), comparison)
        row = CaseRecord(
            id=case.id,
            node_id=node_id_of(case),
            result="pass",
            outcome=result.outcome,
            verdict=verdict,
        )
        rows.append(row)
    return rows


def three_points_worse() -> Sides:
    before = {case: spread(0.60, 0.03, seed) for seed, case in enumerate(CASES)}
    now = {case: spread(0.565, 0.03, seed + 9) for seed, case in enumerate(CASES)}
    return Sides(before, now)


def test_all_cases_together_are_looked_at_in_more_repeats_that_their_tests_do_not_get() -> None:
    """A loss in each that no case shows is looked at until it is decided, or to the last look."""
    sides = three_points_worse()
    looks_at = looking(sides)
    rows = reported(looks_at, sides)
    looks_at.look_at_all(rows, CASES)
    (joint, _) = looks_at.baseline.compare_jointly(
        {row.case: entry_of(row.outcome) for row in rows if row.outcome} | looks_at.further, CASES
    )
    last = looks_at.baseline.joint_looks["", "a"]
    assert joint.comparison.n == last.repeats
    assert joint.comparison.result == "fail" or last.repeats == MOST
    assert all(entry.repeats >= last.repeats for entry in looks_at.baseline.entries.values())


def test_a_base_that_fails_in_further_repeats_loses_nothing() -> None:
    """The last look stands, and says why it is the last."""
    sides = three_points_worse()
    looks_at = looking(sides)

    def fails(cases: Sequence[BaseCase]) -> dict[str, BaselineCase]:
        raise UsageError("m: no figures at main: out of memory")

    sides.entries = fails  # type: ignore[method-assign]
    rows = reported(looks_at, sides)
    looks_at.look_at_all(rows, CASES)
    texts = [row.comparison.text for row in rows if row.comparison is not None]
    assert all(row.outcome is not None and len(row.outcome.repeats) == FIRST for row in rows)
    wording = "not measured in further repeats: m: no figures at main: out of memory"
    assert any(wording in text for text in texts)
    assert looks_at.baseline.notes == (f"all cases together: {wording}",)
    assert looks_at.baseline.joint_looks["", "a"].repeats == FIRST


def test_a_base_with_the_same_files_is_asked_nothing() -> None:
    """Its figures are those of the run."""
    sides = Sides({CASES[0]: [0.5] * 5}, {CASES[0]: [0.5] * 5})
    same = looking(sides)
    same.baseline = replace(same.baseline, same=True, saved=BaselineFile())
    comparison, _ = same.compare(CASES[0].id, sides.result(CASES[0], "m", FIRST))
    assert comparison is not None
    assert comparison.result == "equal"
    same.look_at_all([], [])
    assert [side for side, *_ in sides.asked] == ["run"]
