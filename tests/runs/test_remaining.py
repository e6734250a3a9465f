"""How long the rest of a run may take."""

from __future__ import annotations

from dataclasses import replace

import pytest
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.repeat_results import CaseFacts, RepeatResult
from grb_check.runs.remaining import Remaining

FACTS = CaseFacts(targets=100, majority=0.1, dataset="f", origin="", attack="", threat="")
PGD = Case("cora", "full", "injection", "pgd")
WHITE = Case("cora", "full", "injection", "pgd+white-box")
PRBCD = Case("cora", "full", "modification", "prbcd")


def result(case: Case, seed: int, attack: float, training: float = 0.0) -> RepeatResult:
    """A repeat of a case that took so many seconds."""
    measured = replace(
        outcome([(0.8, 0.5)], [(0.8, 0.5)], case).repeats[0],
        seed=seed,
        seconds=attack + training,
        training_seconds=training,
    )
    return RepeatResult(
        facts=FACTS, measurement=measured, warnings=(), attack="", methods=(), perturbation=b""
    )


def test_nothing_is_said_before_anything_was_measured() -> None:
    """And no time once all is."""
    rest = Remaining({PGD: 1})
    rest.book({PGD: ValueError("it failed")})
    assert (rest.seconds, rest.text(0)) == (None, "")
    failed = Remaining({PGD: 1, WHITE: 1})
    failed.book({PGD: result(PGD, 0, 1.0)})
    failed.end(WHITE, 0)
    assert failed.text(0) == "2 of 2 repeats measured"
    rest.book({PGD: result(PGD, 0, 1.0)})
    assert (rest.seconds, rest.text(0)) == (0.0, "1 of 1 repeat measured")


def test_repeats_are_as_long_as_those_that_were_measured() -> None:
    """A victim is trained once for all of its cases; processes share the rest."""
    rest = Remaining({PGD: 4, WHITE: 4})
    for _ in range(2):  # what was booked before changes nothing
        rest.book({PGD: result(PGD, 0, 1.0, training=10.0), WHITE: result(WHITE, 0, 20.0)})
    assert rest.seconds == pytest.approx(3 * (10 + 1 + 20))
    assert rest.text(0) == "2 of 8 repeats measured, about 2 min left"
    assert rest.text(2) == "2 of 8 repeats measured, about 46 s left"


def test_attacks_that_know_a_slow_model_are_slow() -> None:
    """By its training if none was measured, then by the others; what does not know it is not."""
    rest = Remaining({PGD: 1, WHITE: 1, PRBCD: 1})
    rest.book({PGD: result(PGD, 0, 0.5, training=3.4)})
    fast = rest.seconds
    rest.book({PGD: result(PGD, 0, 0.5, training=34.0)})
    assert rest.seconds == pytest.approx(10 * (fast or 0.0))
    rest.book({WHITE: result(WHITE, 0, 170.0)})
    assert (rest.seconds or 0.0) > 5 * 18.0


def test_later_black_box_repeats_find_their_perturbations() -> None:
    """Repeat r has the perturbation of r mod 5."""
    rest = Remaining({PGD: 20})
    rest.book({PGD: result(PGD, 0, 6.0)})
    rest.book({PGD: result(PGD, 5, 0.1)})
    assert rest.seconds == pytest.approx(4 * 3.05 + 14 * 0.1)
