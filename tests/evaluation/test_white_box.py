"""White-box attacks and their alternatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from trial_spies import (
    CASE,
    DATASET,
    THREAT,
    Linear,
    Seen,
    Spy,
    entries,
    ready,
    train_once,
    trial,
)

from grb_check.attacks.referee import verify
from grb_check.attacks.scenarios import Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat, apply
from grb_check.attacks.user_attacks import UserAttack
from grb_check.datasets.dataset import Dataset
from grb_check.errors import GradientError, ModelError
from grb_check.evaluation import harness_models
from grb_check.evaluation.black_box import black_box
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.white_box import white_box
from grb_check.gradients.victim import Victim
from grb_check.store.perturbation_bytes import from_bytes
from grb_check.store.store import Store
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN

pytestmark = pytest.mark.usefixtures("short_trainings")
REFERENCE = "reference GCN"


@pytest.fixture(autouse=True)
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kinds of the harness's own models in the order of their trainings."""
    kinds: list[str] = []

    def train(dataset: Dataset, *, kind: str, seed: int, device: torch.device) -> Victim:
        kinds.append(kind)
        return train_once(dataset, kind, seed)

    monkeypatch.setattr(harness_models, "surrogate", train)
    return kinds


@pytest.mark.slow
def test_a_white_box_attack_sees_the_victim_and_the_true_labels() -> None:
    """It sees the labels of all nodes of the split; references are attacked likewise."""
    attack, victim = Spy("white-box"), ready()
    measured = white_box(trial(attack), victim, ("gcn", "gat"))
    on_victim, *on_references = attack.seen
    assert on_victim.model is victim.victim
    assert [_name(model) for model in on_references] == [REFERENCE, "reference GAT"]
    for seen in attack.seen:
        assert torch.equal(seen.graph.y, DATASET.graph.y)
        assert seen.graph is not DATASET.graph
    assert not torch.equal(victim.predicted, DATASET.graph.y)
    assert not measured.measurement.from_store


def _name(seen: Seen) -> str:
    assert isinstance(seen.model, Victim)
    return seen.model.name


@pytest.mark.slow
def test_no_perturbation_of_a_victim_is_stored(tmp_path: Path) -> None:
    """Surrogates, transferred and random perturbations, references and their scores are stored, and
    serve another victim. It ignores its edges: it is searched, from all kinds of surrogates."""
    cold, warm = Spy("white-box"), Spy("white-box")
    first = white_box(trial(cold, tmp_path), ready())
    stored = entries(tmp_path)
    assert len(stored) == 9
    second = white_box(trial(warm, tmp_path), ready(noise=0.1))
    assert (len(cold.seen), len(warm.seen)) == (2, 1)
    assert entries(tmp_path) == stored
    assert second.measurement.references == first.measurement.references


def opaque(forward: Callable[[Linear, Tensor, Tensor], Tensor]) -> TrainedModel:
    """The victim that is often wrong, with another forward."""

    class Opaque(Linear):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return forward(self, x, edge_index)

    torch.manual_seed(0)
    victim = Victim(Adapter(Opaque().eval().requires_grad_(False), "opaque", PLAIN), 3)
    return TrainedModel(victim, predict(victim, DATASET.graph, 0))


def through_lists(model: Linear, x: Tensor, edge_index: Tensor) -> Tensor:
    """Logits of the mean over a node and its neighbours, without a gradient."""
    loops = torch.arange(x.shape[0])
    rows, columns = torch.cat([edge_index, torch.stack([loops, loops])], dim=1)
    total = torch.zeros_like(x).index_add(0, rows, torch.tensor(x.tolist())[columns])
    return model.layer(total / torch.bincount(rows)[:, None])


def through_numpy(model: Linear, x: Tensor, edge_index: Tensor) -> Tensor:
    return through_lists(model, torch.from_numpy(x.numpy()), edge_index)


@dataclass(frozen=True)
class Gradual(Spy):
    """Takes one large step along the gradient with respect to the injected features."""

    knowledge: Knowledge = "white-box"
    name: ClassVar[str] = "gradual"

    def perturb(
        self, graph: Data, threat: Threat, model: Any, generator: torch.Generator
    ) -> Perturbation:
        perturbation = super().perturb(graph, threat, model, generator)
        logits_of = model.with_injected(
            graph.x, apply(graph, perturbation).edge_index, self.count, threat.targets
        )
        x = perturbation.injected_x.clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(logits_of(x), graph.y[threat.targets])
        if not loss.requires_grad:
            raise GradientError("no feature gradient of this model; remove detach")
        (gradient,) = torch.autograd.grad(loss, x)
        return replace(perturbation, injected_x=(4 * gradient.sign()).to(torch.float32))


def right(measured: Any) -> float:
    return measured.measurement.victim.attacked


@pytest.mark.slow
@pytest.mark.parametrize("forward", [through_lists, through_numpy])
def test_a_search_by_queries_replaces_the_attack_if_there_is_no_gradient(
    forward: Callable[[Linear, Tensor, Tensor], Tensor],
) -> None:
    """It is no weaker than the attack on any surrogate, and a note gives the reason."""
    victim, given = opaque(forward), trial(Gradual())
    result = white_box(given, victim)
    assert result.measurement.method == "score-based"
    (note,) = [text for text in result.measurement.notes if "score-based" in text]
    assert note.startswith("spy: ")
    assert note.endswith(": score-based search instead")
    verify(from_bytes(result.perturbation), DATASET.graph, THREAT)
    for kind in ("gcn", "gin", "gcn_ln"):
        moved = black_box(trial(Gradual("black-box", (kind,))), victim)
        assert right(result) <= right(moved)
    again = white_box(given, victim)
    for one, other in zip(
        from_bytes(result.perturbation).tensors(),
        from_bytes(again.perturbation).tensors(),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_what_else_is_wrong_with_a_victim_stays_an_error_of_the_case() -> None:
    """Only a missing gradient is replaced by a search."""

    @dataclass(frozen=True)
    class Failing(Spy):
        def perturb(self, *given: object) -> Perturbation:
            if self.knowledge == "white-box":
                raise ModelError("answers nonsense")
            return super().perturb(*given)  # type: ignore[arg-type]

    with pytest.raises(ModelError, match="answers nonsense"):
        white_box(trial(Failing("white-box")), ready())


@dataclass(frozen=True)
class Pushing(Spy):
    """Pushes targets of class 0 towards class 1, with a force that depends on its knowledge."""

    knowledge: Knowledge = "white-box"
    adaptive: float = 0.0
    transferred: float = 0.0

    def perturb(
        self, graph: Data, threat: Threat, model: object, generator: torch.Generator
    ) -> Perturbation:
        force = self.adaptive if self.knowledge == "white-box" else self.transferred
        zeros = threat.targets[DATASET.graph.y[threat.targets] == 0][:4]
        x = torch.zeros(2, 8)
        x[:, 0], x[:, 1] = -force, force
        injected = torch.arange(2).repeat_interleave(zeros.numel())
        return Perturbation(injected_x=x, injected_edges=torch.stack([injected, zeros.repeat(2)]))


def trained_victim() -> TrainedModel:
    """A GCN that is often right."""
    return trial(Spy()).harness.surrogate("gcn")


def test_the_stronger_one_counts() -> None:
    """The adaptive one wins a tie, without a note; otherwise a note names the winner.

    Where the transferred one is stronger, the search starts from there.
    """
    victim = trained_victim()
    weak, strong = 0.0, 4.0
    adaptive = white_box(trial(Pushing(adaptive=strong, transferred=weak)), victim)
    moved = white_box(trial(Pushing(adaptive=weak, transferred=strong)), victim)
    tied = white_box(trial(Pushing(adaptive=strong, transferred=strong)), victim)
    assert [result.measurement.method for result in (adaptive, moved, tied)] == [
        "adaptive",
        "score-based",
        "adaptive",
    ]
    assert right(moved) == right(adaptive) == right(tied) < victim_clean(victim)
    assert adaptive.measurement.notes == tied.measurement.notes == ()
    assert moved.measurement.notes == (
        "spy: a search by the model's answers beat its gradients, and counts",
    )
    left_by = moved.measurement.left_by
    assert left_by["score-based"] <= left_by["transferred"] < left_by["adaptive"]
    assert "transfer-stronger" in {finding.name for finding in moved.measurement.diagnostics}
    assert "transfer-stronger" not in {finding.name for finding in adaptive.measurement.diagnostics}


def victim_clean(victim: TrainedModel) -> float:
    targets = THREAT.targets
    return float((victim.predicted[targets] == DATASET.graph.y[targets]).float().mean())


def test_the_transferred_variant_is_the_black_box_case_of_the_attack(tmp_path: Path) -> None:
    """It comes from the store if that case has run, also for a user's attack."""
    alone = Pushing("black-box", transferred=4.0)
    black = black_box(trial(alone, tmp_path), trained_victim())
    stored = entries(tmp_path)
    for attack in (Pushing(transferred=4.0), UserAttack(Pushing(transferred=4.0))):
        result = white_box(trial(attack, tmp_path), trained_victim())
        assert result.measurement.left_by["transferred"] == right(black)
    new = entries(tmp_path) - stored
    made = [key for key in new if Store(tmp_path).load_perturbation(key) is not None]
    assert len(made) == 3  # a random injection, and those of the search on other surrogates


@dataclass(frozen=True)
class Flipping:
    """Needs a gradient of the edges, which it does not get from the victim."""

    isolate: bool = True
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "white-box"
    name: ClassVar[str] = "flipping"
    scenario: ClassVar[Scenario] = "modification"
    version: ClassVar[int] = 1

    def perturb(
        self, graph: Data, threat: Threat, model: object, generator: torch.Generator
    ) -> Perturbation:
        if self.knowledge == "white-box":
            raise GradientError("no structure gradient of this model")
        edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
        degrees = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)
        safe = edges[:, (degrees[edges] > 6).all(dim=0)]
        return Perturbation(removed_edges=safe[:, : threat.edge_budget])


def flips(isolate: bool) -> Trial:
    threat = Threat(scenario="modification", targets=THREAT.targets, edge_budget=8)
    case = replace(CASE, scenario="modification", attack="flipping+budget=0.02")
    return replace(trial(Flipping(isolate)), threat=threat, case=case)


@pytest.mark.slow
@pytest.mark.parametrize("isolate", [True, False])
def test_the_search_keeps_what_the_attack_promises(isolate: bool) -> None:
    """No node loses its last edge if the attack has that setting; the note names the attack."""
    result = white_box(flips(isolate), opaque(through_lists))
    assert result.measurement.method == "score-based"
    assert result.measurement.notes[-1] == (
        "flipping: no structure gradient of this model: score-based search instead"
    )
    verify(from_bytes(result.perturbation), DATASET.graph, flips(isolate).threat)
    if not isolate:
        count = DATASET.num_nodes
        removed = torch.bincount(
            from_bytes(result.perturbation).removed_edges.flatten(), minlength=count
        )
        degrees = torch.bincount(DATASET.graph.edge_index[0], minlength=count)
        assert (removed[degrees > 0] < degrees[degrees > 0]).all()


def test_an_attack_that_refuses_to_be_black_box_has_no_transferred_variant() -> None:
    """Its black-box variant cannot be made."""

    @dataclass(frozen=True)
    class Proud(Spy):
        def __post_init__(self) -> None:
            if self.knowledge == "black-box":
                raise ValueError("knowledge is black-box, allowed is white-box")

    result = white_box(trial(UserAttack(Proud("white-box"))), ready())
    assert result.measurement.method == "adaptive"
    assert "transfer-stronger" not in {finding.name for finding in result.measurement.diagnostics}
