"""Leaderboards of two tiny models: results that are evaluated, stored and used again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from board_bench import GOOD, POOR, Bench
from strategies import LinearModel

from grb_check.attacks.threat import Perturbation
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Outcome
from grb_check.evaluation.evaluator import Evaluator, evaluate
from grb_check.ranking.boards import results
from grb_check.ranking.boards.board import NO_ATTACK
from grb_check.ranking.boards.making import Made


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Model and case of each evaluation, as they are made."""
    calls: list[tuple[str, str]] = []
    real = Evaluator.outcome

    def spy(self: Evaluator, subject: Any, source: Any, case: Case, repeats: int) -> Outcome:
        calls.append((subject.name, case.cell))
        return real(self, subject, source, case, repeats)

    monkeypatch.setattr(Evaluator, "outcome", spy)
    return calls


def cells(made: Made) -> dict[tuple[str, str, str], tuple[float, ...]]:
    return {key: cell.repeats for key, cell in made.board.cells.items()}


def test_a_board_holds_what_evaluate_measures(bench: Bench) -> None:
    """Accuracy in each repeat under each attack, and without one."""
    made = bench.maker(GOOD, POOR, difficulties=["full,easy"], repeats=2).make()
    board = made.board
    assert made.failed == {}
    assert (board.name, board.dataset, board.split) == ("tiny", "tiny", "grb")
    assert board.defences == ("good", "poor")
    assert board.attacks == ("injection/rnd", "injection/fgsm+iterations=2")
    assert board.difficulties == ("easy", "full")
    assert len(board.cells) == 2 * 2 * 3
    outcome = evaluate(
        POOR,
        dataset=bench.dataset,
        difficulty="easy",
        attack="injection/fgsm+iterations=2",
        repeats=2,
        store=bench.store,
    )
    attacked = tuple(each.victim.attacked for each in outcome.repeats)
    assert cells(made)["injection/fgsm+iterations=2", "poor", "easy"] == attacked
    clean = tuple(each.victim.clean for each in outcome.repeats)
    assert cells(made)[NO_ATTACK, "poor", "easy"] == clean
    assert board.fingerprint == outcome.dataset


@pytest.mark.parametrize("stop", [2, 3])
def test_an_interrupted_run_is_resumed(
    bench: Bench, measured: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    """Each case is evaluated once, except the one that was interrupted."""
    spied = Evaluator.outcome

    def interrupting(self: Evaluator, *rest: Any) -> Outcome:
        outcome = spied(self, *rest)
        if len(measured) == stop:
            raise KeyboardInterrupt
        return outcome

    monkeypatch.setattr(Evaluator, "outcome", interrupting)
    maker = bench.maker(GOOD, POOR)
    with pytest.raises(KeyboardInterrupt):
        maker.make()
    assert (maker.done, maker.total) == (stop - 1, 4)
    monkeypatch.setattr(Evaluator, "outcome", spied)
    under_way = measured.pop()
    made = bench.maker(GOOD, POOR).make()
    assert measured[stop - 1] == under_way
    assert len(measured) == len(set(measured)) == 4
    assert len(made.board.cells) == 6


def test_a_warning_is_reported_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome of every case has it, and nothing else reports it."""
    real = Evaluator.outcome
    monkeypatch.setattr(
        Evaluator,
        "outcome",
        lambda self, *rest: replace(real(self, *rest), warnings=("mind this",)),
    )
    said: list[str] = []
    bench.maker(GOOD, say=said.append).make()
    assert said.count("note: mind this") == 1


class Unversioned:
    """A user's attack that does nothing."""

    name, scenario, knowledge = "nothing", "injection", "black-box"

    def perturb(self, graph: Any, threat: Any, model: LinearModel, generator: Any) -> Perturbation:
        return Perturbation()


def test_an_attack_without_a_version_is_never_taken_for_another(
    bench: Bench, measured: list[tuple[str, str]]
) -> None:
    """Whether it has changed is unknown."""
    for _ in range(2):
        made = bench.maker(GOOD, own=[Unversioned()], attacks=["injection/nothing"]).make()
    assert len(measured) == 2
    assert "attack injection/nothing: of unknown version" in made.board.about


def test_a_reference_model_is_stored_by_name_and_version() -> None:
    """Its files do not count; parts of grb_check without a version are not stored."""
    assert results.model_name("grb_check.models:gcn_ln") == "gcn_ln v1"
    assert results.model_name("grb_check.models:dgi") == "dgi v1"
    assert results.model_name(GOOD) == GOOD
    assert results.code_of("grb_check.models:gcn_ln") == ""
    assert results.code_of("grb_check.models.reference.gcn:GCN") is None
