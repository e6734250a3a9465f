"""Leaderboards of two tiny models: results that are evaluated, stored and used again."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import board_models
import numpy as np
import pytest
from board_bench import GOOD, POOR, Bench
from numpy.typing import NDArray
from strategies import LinearModel

from grb_check import datasets
from grb_check.attacks.threat import Perturbation
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Outcome
from grb_check.errors import ModelError, UsageError
from grb_check.evaluation.evaluator import Evaluator, evaluate
from grb_check.models import zoo
from grb_check.ranking.boards import results
from grb_check.ranking.boards.board import NO_ATTACK
from grb_check.ranking.boards.making import Made
from grb_check.store.store import Store


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


def test_a_board_says_how_it_was_made(bench: Bench) -> None:
    """Date, device, versions, data, repeats with seeds, users' models, attacks."""
    about = "\n".join(bench.maker(GOOD, repeats=2).make().board.about)
    assert "made 20" in about
    assert " on cpu with grb_check 0." in about
    for library in ("torch 2.", "torch_geometric 2.", "numpy ", "scipy ", "Python 3."):
        assert library in about
    assert "dataset tiny: " in about
    assert "160 nodes" in about
    assert "repeats: 2, each with its own training and attack (seeds 0, 1)" in about
    assert "model good: board_models:good" in about
    assert "attack injection/rnd: injection/rnd v" in about


def test_a_second_run_measures_nothing(bench: Bench, measured: list[tuple[str, str]]) -> None:
    """It gives the same board."""
    first = bench.maker(GOOD).make()
    assert len(measured) == 2
    said: list[str] = []
    second = bench.maker(GOOD, say=said.append).make()
    assert len(measured) == 2
    assert cells(first) == cells(second)
    assert said == ["results from an earlier run: 2 of 2 cases"]


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


def test_only_what_is_missing_is_measured(bench: Bench, measured: list[tuple[str, str]]) -> None:
    """After other models, attacks and difficulties were asked for."""
    bench.maker(GOOD, attacks=["injection/rnd"]).make()
    measured.clear()
    bench.maker(GOOD, POOR, attacks=["injection/rnd"]).make()
    assert measured == [("poor", "easy/injection/rnd")]
    measured.clear()
    bench.maker(GOOD, attacks=["injection/rnd"], difficulties=["easy,full"]).make()
    assert measured == [("good", "full/injection/rnd")]


def test_another_title_is_the_same_model(bench: Bench, measured: list[tuple[str, str]]) -> None:
    """Results belong to the factory."""
    first = bench.maker(GOOD).make()
    measured.clear()
    second = bench.maker(f"Other={GOOD}").make()
    assert measured == []
    assert second.board.defences == ("Other",)
    assert sorted(cells(first).values()) == sorted(cells(second).values())


@pytest.mark.parametrize(
    "change", ["repeats", "fresh", "code", "libraries", "training", "evaluation"]
)
def test_results_that_depend_on_something_else_are_measured_again(
    bench: Bench,
    measured: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    """More repeats, a request, other code, another library, another protocol."""
    bench.maker(GOOD).make()
    measured.clear()
    rest: dict[str, Any] = {}
    if change == "repeats":
        rest["repeats"] = 2
    if change == "fresh":
        bench.maker(GOOD, **rest).forget()
    if change == "code":
        monkeypatch.setattr(results, "code_of", lambda target: "another")
    if change == "libraries":
        monkeypatch.setattr(results, "libraries", lambda: "another")
    if change == "training":
        monkeypatch.setattr("grb_check.training.nodes.PROTOCOL", 99)
    if change == "evaluation":
        monkeypatch.setattr("grb_check.evaluation.trials.PROTOCOL", 99)
    bench.maker(GOOD, **rest).make()
    assert len(measured) == 2


@pytest.mark.parametrize(
    "damaged", [np.zeros((2, 2)), np.full((2, 1), 1.5), np.full((2, 1), np.nan)]
)
def test_invalid_results_are_measured_again(
    bench: Bench,
    measured: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    damaged: NDArray[Any],
) -> None:
    """Another number of repeats, or values that are not accuracies."""
    real = Store.save_arrays

    def save(self: Store, key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        real(self, key, {"accuracy": damaged} if "accuracy" in arrays else arrays)

    wanted = {"attacks": ["injection/rnd"]}
    with monkeypatch.context() as patch:
        patch.setattr(Store, "save_arrays", save)
        bench.maker(GOOD, **wanted).make()
    made = bench.maker(GOOD, **wanted).make()
    assert len(measured) == 2
    assert len(made.board.cells["injection/rnd", "good", "easy"].repeats) == 1


def test_a_model_that_fails_does_not_lose_the_others(
    bench: Bench, measured: list[tuple[str, str]]
) -> None:
    """It is left out, and the board says so."""
    said: list[str] = []
    made = bench.maker("board_models:broken", GOOD, say=said.append).make()
    assert made.board.defences == ("good",)
    assert list(made.failed) == ["broken"]
    assert "this one is broken" in made.failed["broken"]
    assert made.board.about[-1].startswith("left out broken: ")
    assert any(line.startswith("broken is left out: ") for line in said)
    assert [name for name, _ in measured] == ["broken", "good", "good"]
    assert said[-1].startswith("2/2 good easy/injection/fgsm")


def test_without_any_model_there_is_no_board(bench: Bench) -> None:
    """The error gives the reasons."""
    with pytest.raises(ModelError, match=r"no model is left .* this one is broken"):
        bench.maker("board_models:broken").make()


def test_progress_counts_the_cases_and_estimates_the_rest(bench: Bench) -> None:
    """A line before each case; the first has no estimate of the rest."""
    said: list[str] = []
    bench.maker(GOOD, say=said.append).make()
    assert len(said) == 2
    assert said[0].startswith("1/2 good easy/injection/rnd (")
    assert said[0].endswith(" s so far)")
    assert said[1].startswith("2/2 good easy/injection/fgsm+iterations=2 (")
    assert said[1].endswith(" left)")


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


def test_models_that_are_done_are_freed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is freed before the second is trained."""
    alive: list[weakref.ref[Any]] = []
    seen: list[int] = []

    def on_fit(module: Any) -> None:
        if alive:
            gc.collect()
        seen.append(sum(ref() is not None for ref in alive if ref() is not module))
        alive.append(weakref.ref(module))

    monkeypatch.setattr(board_models, "on_fit", on_fit)
    bench.maker(GOOD, POOR, attacks=["injection/rnd"]).make()
    assert seen == [0, 0]


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


def test_a_difficulty_that_the_dataset_lacks_is_an_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any model is trained."""
    real = datasets.load

    def load(source: datasets.Source) -> Any:
        dataset = real(source)
        dataset.test.pop("easy")  # type: ignore[attr-defined]
        return dataset

    monkeypatch.setattr(datasets, "load", load)
    with pytest.raises(UsageError, match=r"unknown difficulty of tiny 'easy'.*allowed: medium"):
        bench.maker(GOOD)


def test_the_code_of_a_model_is_that_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only changes in it count."""
    package = tmp_path / "some_models"
    (package / "deep").mkdir(parents=True)
    for path in ("__init__.py", "deep/__init__.py", "deep/layers.py"):
        (package / path).write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("some_models.deep")
    before = results.code_of("some_models.deep:build")
    (tmp_path / "other.py").write_text("")
    assert results.code_of("some_models.deep:build") == before
    (package / "deep" / "layers.py").write_text("SIZE = 1")
    assert results.code_of("some_models.deep:build") != before


def test_a_reference_model_is_stored_by_name_and_version() -> None:
    """Its files do not count; parts of grb_check without a version are not stored."""
    assert results.model_name("grb_check.models:gcn_ln") == "gcn_ln v1"
    assert results.model_name("grb_check.models:dgi") == "dgi v1"
    assert results.model_name(GOOD) == GOOD
    assert results.code_of("grb_check.models:gcn_ln") == ""
    assert results.code_of("grb_check.models.reference.gcn:GCN") is None


class Row(zoo.Entry):
    """A tiny model in the place of a reference model."""

    @property
    def target(self) -> str:
        return f"board_models:{self.name}"


OURS = {
    **zoo.ZOO,
    "good": Row("good", "own", "Good", ""),
    "poor": Row("poor", "own", "Poor", ""),
}
OURS_TARGETS = (f"Good={GOOD}", f"Poor={POOR}")


def test_a_new_model_leaves_stored_results(
    bench: Bench, measured: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a model with another version is evaluated again."""
    monkeypatch.setattr(zoo, "ZOO", OURS)
    bench.maker(*OURS_TARGETS).make()
    assert len(measured) == 4
    measured.clear()
    monkeypatch.setattr(zoo, "ZOO", {**OURS, "broken": Row("broken", "own", "Shield", "")})
    made = bench.maker(*OURS_TARGETS).make()
    assert measured == []
    assert made.board.models == {"Good": "good v1", "Poor": "poor v1"}
    monkeypatch.setattr(zoo, "ZOO", {**OURS, "poor": replace(OURS["poor"], version=2)})
    made = bench.maker(*OURS_TARGETS).make()
    assert [name for name, _ in measured] == ["Poor", "Poor"]
    assert made.board.models == {"Good": "good v1", "Poor": "poor v2"}
