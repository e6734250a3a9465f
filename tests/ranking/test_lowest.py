"""The lowest accuracy over attacks, and the delta to a reference."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from msgspec.structs import replace as replace_fields
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.expected_cases import ExpectedCases
from grb_check.cases.outcomes import Outcome
from grb_check.gate.limits import Gate, judge
from grb_check.ranking.lowest import deltas, lowest

Pairs = list[tuple[float, float]]


def rows(*entries: tuple[str, str, Pairs, Pairs], label: str = "") -> list[CaseRecord]:
    """Rows of (model, `dataset/difficulty/scenario/attack`, victim, reference)."""
    expected_cases = ExpectedCases()
    several = len({model for model, *_ in entries}) > 1
    for model, cell, victim, reference in entries:
        case = Case(*cell.split("/"), label or (model if several else ""))
        case_outcome = outcome(victim, reference, case, model)
        record = {"case": asdict(case), "outcome": case_outcome.to_dict()}
        record["verdict"] = asdict(judge(case_outcome, Gate()))
        expected_cases.enter(f"{model}@{cell}", record, "pass", "")
    return expected_cases.rows


TWO_DATASETS = (
    ("a", "cora/full/modification/prbcd", [(0.8, 0.6), (0.8, 0.56)], [(0.8, 0.4)] * 2),
    ("a", "cora/full/modification/grbcd", [(0.8, 0.7), (0.8, 0.5)], [(0.8, 0.3)] * 2),
    ("a", "cora/full/modification/random-flips", [(0.8, 0.8), (0.8, 0.78)], [(0.8, 0.8)] * 2),
    ("a", "citeseer/full/modification/prbcd", [(0.6, 0.3)] * 2, [(0.6, 0.3)] * 2),
    ("a", "citeseer/full/modification/grbcd", [(0.6, 0.45)] * 2, [(0.6, 0.48)] * 2),
)


def test_the_lowest_is_the_mean_over_repeats_of_the_strongest_attack() -> None:
    """Cora: 58 % under prbcd and 60 % under grbcd, which has the lowest single repeat."""
    citeseer, cora = lowest(rows(*TWO_DATASETS))
    strongest = cora.strongest
    assert (cora.id, strongest.attack) == ("cora/full/modification", "modification/prbcd")
    assert strongest.attacks == 3
    assert strongest.reference.mean == pytest.approx(0.3)  # under grbcd
    assert strongest.accuracy.mean == pytest.approx(0.58)
    assert strongest.accuracy.deviation == pytest.approx(0.02 * 2**0.5)
    assert strongest.drop.mean == pytest.approx(0.275)
    assert asdict(citeseer.strongest)["accuracy"] == {"mean": pytest.approx(0.3), "deviation": 0.0}


def test_attacks_that_see_the_model_are_apart_from_those_that_do_not() -> None:
    """So is the strongest of each, and what the first take beyond the second."""
    reference = [(0.8, 0.4)]
    records = rows(
        ("a", "d/easy/injection/rnd", [(0.8, 0.7)], reference),
        ("a", "d/easy/injection/pgd", [(0.8, 0.6)], reference),
        ("a", "d/easy/injection/pgd+white-box", [(0.8, 0.1)], reference),
    )
    records[2] = replace_fields(records[2], outcome=_adaptive(records[2].outcome))
    (lowest_row,) = lowest(records)
    assert lowest_row.black_box is not None
    assert lowest_row.adaptive is not None
    assert (lowest_row.black_box.attack, lowest_row.black_box.attacks) == ("injection/pgd", 2)
    assert (lowest_row.adaptive.attack, lowest_row.adaptive.attacks) == (
        "injection/pgd+white-box",
        1,
    )
    assert lowest_row.strongest == lowest_row.adaptive
    assert lowest_row.gap == pytest.approx(0.5)
    (alone,) = lowest(records[:2])
    assert (alone.adaptive, alone.gap) == (None, 0.0)


def _adaptive(outcome: Outcome | None) -> Outcome:
    assert outcome is not None
    repeats = tuple(replace(repeat, method="transferred") for repeat in outcome.repeats)
    return replace(outcome, repeats=repeats)


def test_delta_to_the_reference_is_of_the_largest_drops() -> None:
    """Cora 0.275 against 0.625 (the reference's under grbcd), Citeseer 0.5 against 0.5."""
    (delta,) = deltas(rows(*TWO_DATASETS))
    assert delta.value == pytest.approx((0.275 - 0.625 + 0.5 - 0.5) / 2)
    assert delta.groups == ("citeseer/full", "cora/full")
    assert delta.deviation == pytest.approx(0.025 / 2**0.5)
