"""GRB's summaries of the attacks of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from outcome_factory import CASE
from record_factory import entry, measured, record, run_record

from grb_check.cases.case import Case
from grb_check.ranking.averages import averages

CASES = [replace(CASE, attack=name) for name in ("rnd", "fgsm", "pgd")]
DROPS = (0.1, 0.4, 0.5)


def entries(cases: list[Case] = CASES) -> list[dict[str, object]]:
    return [entry(case, measured(case, drop)) for case, drop in zip(cases, DROPS, strict=True)]


def test_the_accuracy_without_attack_is_part_of_them() -> None:
    """Clean 80 %, attacked 72, 48 and 40 %: by hand."""
    (average,) = averages(run_record(record(entries())).cases)
    assert (average.dataset, average.difficulty, average.budget) == ("synthetic-cora", "easy", None)
    assert average.attacks == 3
    assert average.clean.mean == pytest.approx(0.8)
    assert average.mean.mean == pytest.approx((0.8 + 0.72 + 0.48 + 0.4) / 4, abs=0.005)
    assert average.three_lowest.mean == pytest.approx((0.72 + 0.48 + 0.4) / 3, abs=0.005)
    weights = [1, 1 / 4, 1 / 9, 1 / 16]
    weighted = sum(w * a for w, a in zip(weights, (0.4, 0.48, 0.72, 0.8), strict=True))
    assert average.weighted.mean == pytest.approx(weighted / sum(weights), abs=0.005)


def test_a_case_without_figures_leaves_no_average() -> None:
    """It may be the strongest attack."""
    broken = entry(replace(CASE, attack="tdgia"), None)
    assert averages(run_record(record([*entries(), broken])).cases) == []


def test_attacks_of_gangs_have_averages_of_their_own() -> None:
    """Their targets are a few others."""
    names = ("rnd", "dice", "rnd+gang=10x3")
    cases = [replace(CASE, scenario="modification", attack=name) for name in names]
    found = averages(run_record(record(entries(cases))).cases)
    assert [(mean.difficulty, mean.attacks) for mean in found] == [
        ("easy", 2),
        ("easy+gang=10x3", 1),
    ]
