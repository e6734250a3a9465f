"""Evaluation of a case without pytest."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tiny import write_dataset
from tiny_models import Net, outcome
from torch import Tensor
from torch_geometric.data import Data

import grb_check
from grb_check import datasets
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.cases.case import Case
from grb_check.cases.outcomes import UNDEFENDED
from grb_check.cases.repeat_results import outcome_of
from grb_check.datasets.dataset import Dataset
from grb_check.errors import BudgetError, ModelError, StoreWarning, UsageError
from grb_check.evaluation import harness_models, references, repeats, white_box
from grb_check.evaluation.evaluator import Evaluator
from grb_check.gradients.victim import Victim
from grb_check.models.reference.gat import GAT
from grb_check.models.reference.gcn import GCN
from grb_check.models.reference.gin import GIN
from grb_check.models.reference.sage import GraphSAGE
from grb_check.store.store import Store
from grb_check.victims.subject import as_subject

pytestmark = pytest.mark.usefixtures("short_trainings")


@dataclass(frozen=True)
class Spy:
    """Injects nothing and remembers what it was shown."""

    seen: list[Data]
    name: ClassVar[str] = "rnd"
    scenario: ClassVar[str] = "injection"
    knowledge: ClassVar[str] = "black-box"
    version: ClassVar[int] = 1

    def perturb(
        self, graph: Data, threat: Threat, model: object, generator: torch.Generator
    ) -> Perturbation:
        self.seen.append(graph)
        return Perturbation()


@dataclass(frozen=True)
class Greedy(Spy):
    """Injects one node more than it may."""

    def perturb(
        self, graph: Data, threat: Threat, model: object, generator: torch.Generator
    ) -> Perturbation:
        count = threat.injected_nodes + 1
        return Perturbation(
            injected_x=torch.zeros(count, graph.num_features),
            injected_edges=torch.zeros(2, 0, dtype=torch.int64),
        )


_TRAINED: dict[tuple[str, str, int], Victim] = {}


@pytest.fixture(autouse=True)
def trained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness's own models are trained once for all tests that have the same data."""
    train = harness_models.surrogate

    def trained(dataset: Dataset, *, kind: str, seed: int, device: torch.device) -> Victim:
        key = (dataset.fingerprint(), kind, seed)
        if key not in _TRAINED:
            _TRAINED[key] = train(dataset, kind=kind, seed=seed, device=device)
        return _TRAINED[key]

    monkeypatch.setattr(harness_models, "surrogate", trained)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "tiny")


@pytest.mark.slow
def test_the_accuracies_are_those_of_the_bits(tiny: Path) -> None:
    """Each accuracy is the mean of the packed bits."""
    case_outcome = outcome(tiny, repeats=2)
    assert case_outcome.case == Case("tiny", "easy", "injection", "rnd")
    assert case_outcome.targets == 16
    for repeat in case_outcome.repeats:
        for bits, figure in (
            (repeat.victim.right_before, repeat.victim.clean),
            (repeat.victim.right_after, repeat.victim.attacked),
        ):
            right = np.unpackbits(np.frombuffer(bits, np.uint8), count=case_outcome.targets)
            assert right.mean() == figure
    assert repeat.spent["injected_nodes"] > 0


@pytest.mark.slow
def test_the_same_call_gives_the_same_outcome(tiny: Path) -> None:
    """Every call trains with the same seeds."""
    one, two = outcome(tiny, repeats=2), outcome(tiny, repeats=2)
    assert [r.victim for r in one.repeats] == [r.victim for r in two.repeats]


class DrawsWhenCopied(Net):
    """As layers of PyG 2.5 do."""

    def __deepcopy__(self, memo: dict[int, object]) -> DrawsWhenCopied:
        torch.rand(1)
        copied = DrawsWhenCopied(self.conv.in_channels, self.conv.out_channels)
        copied.load_state_dict(self.state_dict())
        return copied.train(self.training)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["injection/rnd", "injection/fgsm+white-box"])
@pytest.mark.parametrize("model", [Net, DrawsWhenCopied])
def test_the_global_random_states_stay_untouched(tiny: Path, model: object, attack: str) -> None:
    """The harness restores them, even if the model draws from them."""
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    outcome(tiny, model, attack=attack)
    assert random.getstate() == states[0]
    assert (np.random.get_state()[1] == states[1]).all()
    assert torch.equal(torch.get_rng_state(), states[2])


def test_attacks_never_see_true_labels_of_test_nodes(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With other true labels at the test nodes, the attack is shown the same graph."""
    seen: list[Data] = []
    monkeypatch.setattr(repeats, "load_attack", lambda *_: Spy(seen))
    outcome(tiny)
    test = np.load(tiny / "index.npz")["index_test"]
    labels = np.load(tiny / "labels.npz")["data"]
    labels[test] = (labels[test] + 1) % 3
    other = shutil.copytree(tiny, tiny.with_name("other"))
    np.savez(other / "labels.npz", data=labels)
    outcome(other)
    assert torch.equal(seen[0].y, seen[1].y)
    rest = np.setdiff1d(np.arange(len(labels)), test)
    assert np.array_equal(seen[0].y.numpy()[rest], labels[rest])


class Memory(list[Any]):
    """A list whose repr hides its content, since settings are part of the store's keys."""

    def __repr__(self) -> str:
        return "Memory"


@dataclass(frozen=True)
class Informed(Spy):
    """A white-box attack that remembers the model too."""

    models: Memory
    knowledge: ClassVar[str] = "white-box"

    def perturb(
        self, graph: Data, threat: Threat, model: object, generator: torch.Generator
    ) -> Perturbation:
        self.models.append(model)
        return super().perturb(graph, threat, model, generator)


def test_a_white_box_attack_is_given_the_model_under_test(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The victim is attacked in every run, the references only in the first."""
    references = (GCN, GAT, GIN, GraphSAGE)  # the perceptron is not touched by injected nodes
    attack = Informed(Memory(), Memory())
    monkeypatch.setattr(repeats, "load_attack", lambda *_: attack)
    monkeypatch.setattr(
        white_box, "description_of", lambda _: "informed v1"
    )  # its memory is no setting
    cold = outcome(tiny, store=tmp_path / "store")
    assert [type(model.module) for model in attack.models] == [Net, *references]
    assert np.array_equal(attack.seen[0].y.numpy(), np.load(tiny / "labels.npz")["data"])
    warm = outcome(tiny, store=tmp_path / "store")
    assert [type(model.module) for model in attack.models] == [Net, *references, Net]
    assert not warm.repeats[0].from_store
    assert warm.repeats[0].victim == cold.repeats[0].victim
    assert warm.repeats[0].references == cold.repeats[0].references


def test_an_unknown_surrogate_is_an_error_before_any_training(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The factory is not even called."""

    class Asking(Spy):
        surrogates = ("gcn", "gat")

    monkeypatch.setattr(repeats, "load_attack", lambda *_: Asking([]))
    with pytest.raises(UsageError, match=r"unknown surrogate 'gat'.*allowed: gcn, gcn_ln, gin"):
        outcome(tiny, lambda: pytest.fail("the model was built"))


def test_an_attack_over_its_budget_is_refused(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No figure is reported for a perturbation that does not verify."""
    monkeypatch.setattr(repeats, "load_attack", lambda *_: Greedy([]))
    with pytest.raises(BudgetError):
        outcome(tiny)


def test_a_stored_perturbation_that_does_not_verify_is_made_anew(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that someone tampered with cannot weaken or strengthen an attack."""
    store = tmp_path / "store"
    first = outcome(tiny, store=store)
    monkeypatch.setattr(
        Store,
        "load_perturbation",
        lambda self, key: Perturbation(
            injected_x=torch.full((1, 8), 9.0), injected_edges=torch.zeros(2, 0, dtype=torch.int64)
        ),
    )
    with pytest.warns(StoreWarning):
        second = outcome(tiny, store=store)
    assert not second.repeats[0].from_store
    assert second.repeats[0].victim == first.repeats[0].victim


def test_a_warm_store_gives_the_outcome_of_a_cold_one(tiny: Path, tmp_path: Path) -> None:
    """The outcome reports that the perturbation came from the store."""
    cold = outcome(tiny, store=tmp_path / "store")
    warm = outcome(tiny, store=tmp_path / "store")
    assert (cold.repeats[0].from_store, warm.repeats[0].from_store) == (False, True)
    assert warm.repeats[0].victim == cold.repeats[0].victim
    assert warm.repeats[0].references == cold.repeats[0].references


def calls_of(tiny: Path, result: Callable[[torch.nn.Module], object]) -> list[int]:
    """Seeds with which the factory was called over two cases of three repeats."""
    seeds: list[int] = []

    def factory(num_features: int, num_classes: int, seed: int) -> object:
        seeds.append(seed)
        return result(Net(num_features, num_classes))

    evaluator = Evaluator(store=Store(None), device="cpu")
    source = datasets.find(str(tiny))
    subject = as_subject(factory)
    evaluator.check(subject, source)
    for attack in ("rnd", "dice"):
        scenario = "injection" if attack == "rnd" else "modification"
        evaluator.outcome(subject, source, Case("tiny", "easy", scenario, attack), 3)
    return seeds


@pytest.mark.slow
def test_a_trained_model_is_built_once(tiny: Path) -> None:
    """It is the same for every seed."""
    assert calls_of(tiny, lambda module: grb_check.Trained(module.eval())) == [0]


@pytest.mark.slow
def test_only_a_model_that_is_declared_finished_counts_as_pretrained(tiny: Path) -> None:
    """Equal weights in all repeats may also come from a training that fixes its own seed."""

    class SelfSeeded(Net):
        def fit(self, data: Data) -> None:
            torch.manual_seed(42)
            torch.nn.init.normal_(self.conv.lin.weight)

    def pretrained(model: Any) -> tuple[set[bool], int]:
        outcome = grb_check.evaluate(model, dataset=tiny, attack="injection/rnd", repeats=2)
        results = outcome.repeats
        return {result.pretrained for result in results}, len(
            {result.weights for result in results}
        )

    assert pretrained(grb_check.Trained(Net(8, 3).eval())) == ({True}, 1)
    assert pretrained(lambda num_features, num_classes: SelfSeeded(8, 3)) == ({False}, 1)
    assert pretrained(lambda num_features, num_classes: Net(8, 3)) == ({False}, 2)


def test_a_model_that_fails_in_training_fails_in_every_case_alike(tiny: Path) -> None:
    """No later case goes on with a half-trained module."""

    class OneBadEpoch(Net):
        calls = 0

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            self.calls += self.training
            return super().forward(x, edge_index) * (math.nan if self.calls == 5 else 1.0)

    evaluator = Evaluator(store=Store(None), device="cpu")
    source, subject = datasets.find(str(tiny)), as_subject(OneBadEpoch)
    for difficulty in ("easy", "hard"):
        with pytest.raises(ModelError, match="NaN"):
            evaluator.outcome(subject, source, Case("tiny", difficulty, "injection", "rnd"), 1)


def test_a_factory_that_returns_one_module_for_all_seeds_is_an_error(tiny: Path) -> None:
    """The second training would change the first repeat's model."""
    module = Net(8, 3)
    with pytest.raises(ModelError, match="same module for another seed"):
        outcome(tiny, lambda: module, repeats=2)
    with pytest.raises(ModelError, match="same module for another seed"):
        outcome(tiny, lambda: grb_check.Encoder(module, lambda data: None), repeats=2)


@pytest.mark.slow
def test_a_model_that_writes_into_its_input_is_an_error(tiny: Path) -> None:
    """It would change the graph for every other model and every later case."""

    class InPlace(Net):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(torch.relu_(x), edge_index)

    evaluator = Evaluator(store=Store(None), device="cpu")
    source = datasets.find(str(tiny))
    case = Case("tiny", "easy", "injection", "rnd")
    with pytest.raises(ModelError, match="changes its input in place"):
        evaluator.outcome(as_subject(InPlace), source, case, 1)
    after = evaluator.outcome(as_subject(Net), source, case, 1)
    assert after.repeats[0].victim == outcome(tiny).repeats[0].victim


def untrained() -> grb_check.Trained:
    torch.manual_seed(0)
    return grb_check.Trained(Net(8, 3).eval())


def figures(case_outcome: grb_check.Outcome) -> list[grb_check.Measurement]:
    return [replace(repeat, seconds=0.0, training_seconds=0.0) for repeat in case_outcome.repeats]


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["rnd", "fga+steps=3+white-box"])
def test_references_that_are_added_later_are_as_those_of_the_first_time(
    tiny: Path, attack: str
) -> None:
    """After a black-box and after a white-box attack."""
    source, subject = datasets.find(str(tiny)), as_subject(untrained())
    case = Case("tiny", "full", "modification", attack)
    evaluator = Evaluator(store=Store(None), device="cpu")
    first = evaluator.repeat(subject, source, case, 1, repeats=2)
    later = evaluator.references(source, case, first, UNDEFENDED)
    at_once = evaluator.outcome(subject, source, case, 2)
    assert [*first.measurement.references] == ["gcn", "mlp"]
    assert figures(outcome_of(case, subject.name, [later])) == figures(at_once)[1:]
    assert later.perturbation == first.perturbation


@pytest.mark.parametrize(("learned", "kinds"), [(True, 5), (False, 2)])
def test_references_that_are_added_later_are_attacked_where_one_has_learned(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, learned: bool, kinds: int
) -> None:
    """Data that none learns cost four trainings, and no attack."""
    source, subject = datasets.find(str(tiny)), as_subject(untrained())
    case = Case("tiny", "full", "injection", "rnd")
    evaluator = Evaluator(store=Store(None), device="cpu")
    first = evaluator.repeat(subject, source, case, 0, repeats=1)
    monkeypatch.setattr(references, "learned", lambda *_: learned)
    later = evaluator.references(source, case, first, UNDEFENDED)
    assert len(first.measurement.references) == 2
    assert len(later.measurement.references) == kinds
