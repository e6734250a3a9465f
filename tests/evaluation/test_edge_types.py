"""Types of the edges that an attack adds: the weakest of a model's relations is found."""

from __future__ import annotations

import pytest
from one_repeat import outcomes_of

from grb_check.errors import GrbCheckError

pytestmark = pytest.mark.usefixtures("short_trainings")
ATTACK = "injection/pgd+iterations=20+white-box"


def attacked(dataset: str, attack: str, model: str = "deaf:build") -> tuple[float, list[str]]:
    """Return what is left, and the notes on types and findings that links have no effect."""
    (outcome,) = outcomes_of(model, dataset, attack)
    (repeat,) = outcome.repeats
    notes = [note for note in repeat.notes if "edge_type" in note]
    notes += [finding.name for finding in repeat.diagnostics if finding.name == "cut-off"]
    return repeat.victim.attacked, notes


@pytest.mark.slow
def test_edges_at_each_target_have_the_type_that_it_hears() -> None:
    """Edges of the type that is common there change nothing, and those of one type half of them."""
    left, notes = attacked("deaf:data", ATTACK)
    assert notes[:1] == ["new edges of edge_type 0, 1, by the model's answers"]
    of_one_type = [attacked(f"deaf:data#type{kind}", ATTACK)[0] for kind in (0, 1)]
    assert left < min(of_one_type)


@pytest.mark.slow
def test_searches_by_answers_choose_types_too() -> None:
    """Of a model without a gradient."""
    left, notes = attacked("deaf:data", "injection/pgd+iterations=10+white-box", "deaf:numb")
    assert left < 0.95
    assert notes


@pytest.mark.slow
def test_flips_and_gangs_choose_types_too() -> None:
    for attack in ("modification/prbcd+iterations=10", "modification/prbcd+iterations=10+gang=6x5"):
        left, notes = attacked("deaf:data", attack)
        assert notes, attack
        assert left < 1.0, attack


def test_an_attack_of_a_user_chooses_types_too() -> None:
    """Of the types that nodes hear; white-box attacks choose where it leaves that open."""
    left, _ = attacked("deaf:data", "deaf:chooses")
    assert left < 0.6  # of one class
    assert attacked("deaf:data", "deaf:leaves_open") == (1.0, [])
    assert attacked("deaf:data", "deaf:chooses_and_knows") == (left, [])
    by_answers, notes = attacked("deaf:data", "deaf:leaves_open_and_knows")
    assert (by_answers, len(notes)) == (left, 1)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(GrbCheckError, match="from 7 to 7, allowed are -1 to 1"):
        attacked("deaf:data", "deaf:unknown")


def test_who_does_not_know_the_model_chooses_no_types() -> None:
    left, notes = attacked("deaf:data", "injection/rnd")
    assert (left, notes) == (1.0, [])
