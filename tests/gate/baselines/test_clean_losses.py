"""What is lost without attack has a test of its own, and cases are blamed for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from baseline_factory import accuracies, entry
from outcome_factory import outcome

from grb_check.cases.case import Case
from grb_check.cases.verdicts import Comparison
from grb_check.gate.baselines.baseline import Baseline
from grb_check.gate.baselines.compare import compare, compare_jointly
from grb_check.gate.baselines.files import BaselineCase, BaselineFile
from grb_check.gate.baselines.joint import JointComparison
from grb_check.gate.baselines.pairs import Pair

NOISE = np.array([0.0, 0.02, 0.01, -0.01, 0.0, 0.01, 0.02, 0.0, -0.01, 0.01])
LEVELS = ("easy", "medium", "hard")


def trained(
    clean: float, attacked: float, name: str = "w", noise: Sequence[float] = NOISE
) -> BaselineCase:
    """A model with these mean accuracies in ten trainings."""
    under = accuracies(attacked + np.array(noise), 1000, name)
    return replace(under, before=accuracies(clean + np.array(noise), 1000, name).after)


def finished(clean: float, attacked: float, name: str = "w") -> BaselineCase:
    """A model that is not trained, on 1000 targets."""
    ranks = np.arange(1000)
    baseline_entry = entry([ranks < 1000 * attacked], weights=[name], pretrained=True)
    return replace(baseline_entry, before=entry([ranks < 1000 * clean]).after)


def later(make: object, clean: float, attacked: float) -> BaselineCase:
    """The model of this run."""
    if make is finished:
        return finished(clean, attacked, "v")
    return trained(clean, attacked, "v", NOISE[::-1])


@pytest.mark.parametrize("make", [trained, finished])
@pytest.mark.parametrize(
    ("clean", "attacked", "result", "explained"),
    [
        (0.57, 0.568, "pass", True),  # the attack takes no more than before
        (0.80, 0.568, "fail", False),  # it takes most of it
        (0.90, 0.70, "fail", False),  # a gain without attack excuses nothing
        (0.78, 0.90, "pass", False),  # a model that ignores its graph
    ],
)
def test_a_loss_of_clean_accuracy_is_not_blamed_on_the_attack(
    make: type[BaselineCase], clean: float, attacked: float, result: str, explained: bool
) -> None:
    """The clean accuracy was 88 %, and 87 % were left."""
    pair = Pair(
        Case("cora", "easy", "injection", "pgd"), make(0.88, 0.87), later(make, clean, attacked)
    )
    for comparison in (compare(pair, 2.0, 0.01), compare_jointly([pair], 2.0, 0.01)):
        assert comparison is not None
        assert (comparison.result, comparison.explained) == (result, explained)
        assert comparison.clean_loss == pytest.approx(88 - 100 * clean, abs=0.2)
        assert comparison.loss == pytest.approx(87 - 100 * attacked, abs=0.2)
        assert f"({comparison.clean_loss:.1f} without attack, " in comparison.text


def joint(
    before: dict[Case, BaselineCase],
    now: dict[Case, BaselineCase],
    explained: Sequence[tuple[str, str]] = (),
) -> dict[str, JointComparison]:
    baseline = Baseline(
        path=Path("b.json"),
        margin=2.0,
        saved=BaselineFile(entries={c.id: e for c, e in before.items()}),
    )
    comparisons = baseline.compare_jointly(now, now, explained)
    return {comparison.accuracy: comparison for comparison in comparisons}


def cells(
    make: object, clean: float, attacked: float, *, now: bool = False
) -> dict[Case, BaselineCase]:
    """Two attacks at three difficulties."""
    baseline_entry = later(make, clean, attacked) if now else make(clean, attacked)  # type: ignore[operator]
    return {
        Case("cora", level, "injection", attack): baseline_entry
        for level in LEVELS
        for attack in ("rnd", "pgd")
    }


@pytest.mark.parametrize("make", [trained, finished])
def test_one_test_fails_for_clean_accuracy(make: object) -> None:
    """And not the one of all cases, nor any of them."""
    results = joint(cells(make, 0.88, 0.87), cells(make, 0.57, 0.568, now=True))
    assert not results["attacked"].failed
    assert results["clean"].failed
    assert results["clean"].comparison.loss == pytest.approx(31, abs=0.2)
    assert results["clean"].compared == 3
    same = joint(cells(make, 0.88, 0.87), cells(make, 0.88, 0.57, now=True))
    assert same["attacked"].failed
    assert not same["clean"].failed


def test_a_loss_that_is_blamed_on_clean_accuracy_fails_somewhere() -> None:
    """Also if the test of clean accuracy alone would not show it."""
    before, now = cells(trained, 0.88, 0.87), cells(trained, 0.88, 0.87, now=True)
    assert not joint(before, now)["clean"].failed
    clean = joint(before, now, [("", "cora")])["clean"]
    assert clean.failed
    assert "explains a loss under attack" in clean.comparison.text


def test_what_has_no_such_test_fails_itself() -> None:
    """A user's own test."""
    case_outcome = outcome([(0.57, 0.56)] * 8, [(0.8, 0.4)] * 8)
    case_outcome = replace(
        case_outcome,
        repeats=tuple(
            replace(repeat, weights=f"{n}") for n, repeat in enumerate(case_outcome.repeats)
        ),
    )
    was = accuracies([0.87] * 8)
    was = replace(
        was,
        before=accuracies([0.88] * 8).after,
        dataset=case_outcome.dataset[:16],
        attack="",
        threat="",
    )
    for key, result in ((case_outcome.case.id, "pass"), ("test_own.py::test_mine", "fail")):
        baseline = Baseline(path=Path("b.json"), margin=2.0, saved=BaselineFile(entries={key: was}))
        comparison = baseline.compare(key, case_outcome)
        assert isinstance(comparison, Comparison)
        assert (comparison.result, comparison.explained) == (result, True)


def test_accuracies_of_several_cases_are_plain_means() -> None:
    """A case that varies much has less weight in the test, which says so."""
    steady = Pair(
        Case("cora", "easy", "injection", "pgd"), trained(0.9, 0.8), later(trained, 0.9, 0.8)
    )
    wild = trained(0.9, 0.5, "v", 10 * NOISE)
    other = Pair(Case("cora", "hard", "injection", "pgd"), trained(0.9, 0.6), wild)
    comparison = compare_jointly([steady, other], 2.0, 0.04)
    assert comparison is not None
    assert comparison.before == pytest.approx(0.705)
    assert comparison.loss == pytest.approx(100 * (comparison.before - (comparison.after or 0)))
    assert "weighted by the inverse variance of their losses: mean " in comparison.text


def test_each_target_counts_once_in_the_test_of_clean_accuracy() -> None:
    """Whatever attacks a difficulty has, and if one of them has a part of its targets."""
    levels = {level: finished(0.88, 0.87) for level in LEVELS}
    before = {
        Case("cora", level, "injection", "rnd"): case_entry for level, case_entry in levels.items()
    }
    before[Case("cora", "full", "modification", "prbcd")] = finished(0.88, 0.87)
    part = entry([[True] * 10], weights=["w"], pretrained=True)
    before[Case("cora", "easy", "modification", "nettack")] = part
    now = {
        case: replace(case_entry, weights=("v",), before=later(finished, 0.87, 0.87).before)
        for case, case_entry in before.items()
        if case_entry.targets > 10
    }
    now[Case("cora", "easy", "modification", "nettack")] = replace(part, weights=("v",))
    comparison = joint(before, now)["clean"].comparison
    assert comparison.n == 3000
    assert comparison.loss == pytest.approx(1.0, abs=0.1)
