"""Adversarial training: the budget of its attacks, its seeds and its errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ranked_states import check_ranked_states
from small_graphs import community_dataset
from strategies import graphs
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv

import grb_check
from grb_check.attacks.injection.fgsm import InjectionFgsm
from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.modification.prbcd import ModificationPrbcd
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.datasets.views import training_view, validation_view
from grb_check.errors import DataError, GradientError, GrbCheckError, ModelError, UsageError
from grb_check.gradients.victim import Victim
from grb_check.models.defences.adversarial import paper_settings, settings_for
from grb_check.models.reference.gcn import GCN
from grb_check.models.reference.gin import GIN
from grb_check.training.adversarial import (
    AdversarialSettings,
    adversarial_training,
    attack_of,
    threat_to,
)
from grb_check.training.nodes import TrainingSettings
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention

DATASET = community_dataset()
VIEW, VALIDATION = training_view(DATASET), validation_view(DATASET)
SHORT = AdversarialSettings(
    steps=2,
    growth=2,
    measure_every=1,
    warmup=TrainingSettings(max_epochs=3),
    training=TrainingSettings(max_epochs=3, warmup_epochs=1),
)


class OnData(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GATConv(8, 3)

    def forward(self, data: Data) -> Tensor:
        return self.conv(data.x, data.edge_index)


class OnMatrix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(8, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.conv(a, b)


def fresh(seed: int = 0) -> GCN:
    torch.manual_seed(seed)
    return GCN(8, 3, (16,))


def state(module: nn.Module) -> Tensor:
    return torch.cat([value.detach().flatten().float() for value in module.state_dict().values()])


def test_another_attack_takes_the_place_of_fgsm() -> None:
    """Its nodes are injected in each iteration, with three times its steps to compare states."""
    calls: list[tuple[int, int]] = []

    @dataclass(frozen=True)
    class Counting(InjectionPgd):
        def perturb(
            self, graph: Data, threat: Threat, model: Any, generator: torch.Generator
        ) -> Perturbation:
            calls.append((self.iterations, threat.injected_nodes))
            return super().perturb(graph, threat, model, generator)

    attack = Counting(knowledge="white-box", iterations=2, patience=None)
    settings = replace(SHORT, attack=attack, injected_nodes=3, growth=0)
    adversarial_training(fresh(), VIEW, VALIDATION, settings=settings, seed=0)
    trial, *others = calls
    assert trial == (1, 1)
    assert (2, 3) in others
    assert {iterations for iterations, _ in others} == {2, 6}


@pytest.mark.parametrize("attack", [InjectionPgd(), ModificationPrbcd(), object()])
def test_an_attack_has_to_inject_and_to_know_the_model(attack: Any) -> None:
    """Others say nothing about the model that is trained."""
    with pytest.raises(UsageError, match="injection"):
        AdversarialSettings(attack=attack)


@pytest.mark.parametrize(
    ("make", "forward"),
    [(fresh, ""), (OnData, ""), (OnMatrix, "x, adj_t"), (lambda: GIN(8, 3, (8,)), "")],
    ids=["GCN", "data", "wrapped adj_t", "GIN"],
)
def test_a_model_of_any_convention_is_trained(make: Callable[[], nn.Module], forward: str) -> None:
    """In place; it ends in evaluation mode, finite, with trainable parameters."""
    torch.manual_seed(0)
    module = make()
    before = state(module)
    given_module = grb_check.wrap(module, forward=forward) if forward else module
    done = adversarial_training(given_module, VIEW, VALIDATION, settings=SHORT, seed=0)
    assert not torch.equal(before, state(module))
    assert state(module).isfinite().all()
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert not any(part.training for part in module.modules())
    assert 1 <= done.best_epoch <= done.epochs == 3
    assert 0 < done.accuracy <= 1


def test_the_seed_alone_decides() -> None:
    """The state of the global generators has no effect and is not changed."""
    weights = []
    for seed, noise in ((1, 0), (1, 99), (2, 0)):
        module = fresh()
        torch.manual_seed(noise)
        before = torch.get_rng_state()
        adversarial_training(module, VIEW, VALIDATION, settings=SHORT, seed=seed)
        assert torch.equal(before, torch.get_rng_state())
        weights.append(state(module))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_only_training_nodes_teach() -> None:
    """Labels of other nodes do not matter; the graph's val_mask chooses the state."""
    graph = DATASET.graph.clone()
    for mask, nodes in (("train_mask", DATASET.train), ("val_mask", DATASET.val)):
        graph[mask] = torch.zeros(DATASET.num_nodes, dtype=torch.bool)
        graph[mask][nodes] = True
    other = graph.clone()
    other.y = torch.where(graph.train_mask | graph.val_mask, graph.y, (graph.y + 1) % 3)
    weights = []
    for data in (graph, other):
        module = fresh()
        adversarial_training(module, data, settings=SHORT, seed=0)
        weights.append(state(module))
    assert torch.equal(*weights)


def test_every_iteration_attacks_anew_with_a_growing_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each attack gets a frozen model in evaluation mode, new links and a larger budget."""
    seen: list[Perturbation] = []
    original = InjectionFgsm.perturb

    def spy(
        self: InjectionFgsm, graph: Data, threat: Threat, model: Any, generator: torch.Generator
    ) -> Perturbation:
        assert not any(p.requires_grad for p in model.module.parameters())
        assert not any(part.training for part in model.module.modules())
        done = original(self, graph, threat, model, generator)
        if graph is VIEW:
            seen.append(done)
        return done

    monkeypatch.setattr(InjectionFgsm, "perturb", spy)
    chosen = replace(SHORT, injected_nodes=4, growth=2)
    adversarial_training(fresh(), VIEW, VALIDATION, settings=chosen, seed=0)
    trial, *attacks = seen
    assert trial.injected_x.shape[0] == 1
    assert [perturbation.injected_x.shape[0] for perturbation in attacks] == [2, 4, 4]
    assert not torch.equal(attacks[1].injected_edges, attacks[2].injected_edges)


@given(
    data=st.data(),
    nodes=st.none() | st.integers(1, 5),
    edges=st.none() | st.integers(1, 5),
    steps=st.integers(1, 3),
    limits=st.none() | st.tuples(st.floats(-2, 0), st.floats(0.1, 2)) | st.just((1.0, 2.0)),
)
@settings(max_examples=25, deadline=None)
def test_the_attacks_of_training_keep_their_budget(
    data: st.DataObject,
    nodes: int | None,
    edges: int | None,
    steps: int,
    limits: tuple[float, float] | None,
) -> None:
    """For any graph and settings the referee accepts their perturbations."""
    graph = data.draw(graphs())
    columns = int(graph.y.max()) + 1
    chosen = AdversarialSettings(
        injected_nodes=nodes, edges_per_injected_node=edges, steps=steps, feature_range=limits
    )
    targets = torch.arange(graph.num_nodes)
    threat = threat_to(graph, targets, chosen)
    module = GCN(graph.x.shape[1], columns, (4,))
    module.eval().requires_grad_(False)
    victim = Victim(Adapter(module, "m", detect_convention(module, "forward", "m")), columns)
    generator = torch.Generator().manual_seed(0)
    done = attack_of(chosen, threat.feature_range).perturb(graph, threat, victim, generator)
    verify(done, graph, threat)
    assert done.injected_x.shape[0] == threat.injected_nodes >= 1
    assert nodes is None or threat.injected_nodes == nodes


@pytest.mark.parametrize(
    ("count", "nodes", "edges"), [(1608, 60, 20), (804, 30, 20), (10, 1, 10), (139_779, 874, 119)]
)
def test_the_budget_scales_with_the_training_nodes(count: int, nodes: int, edges: int) -> None:
    """60 x 20 for grb-cora's 1,608; larger graphs get relatively fewer nodes with more edges."""
    view = Data(x=torch.tensor([[-1.0], [2.0]]), edge_index=torch.zeros((2, 0), dtype=torch.int64))
    threat = threat_to(view, torch.arange(count), AdversarialSettings())
    assert (threat.injected_nodes, threat.edges_per_injected_node) == (nodes, edges)
    assert threat.feature_range == (-1.0, 2.0)


def test_grbs_datasets_have_the_published_row() -> None:
    """`paper_settings` is Table 5 exactly; `settings_for` has its edges and feature range."""
    paper, used = paper_settings("grb-flickr"), settings_for("grb-flickr", 500, lr=0.005)
    assert (paper.injected_nodes, paper.edges_per_injected_node) == (200, 100)
    assert (paper.steps, paper.step_size, paper.feature_range) == (10, 0.01, (-0.47, 0.99))
    assert (used.edges_per_injected_node, used.feature_range) == (100, (-0.47, 0.99))
    assert used.injected_nodes == 600
    assert used.warmup.lr == used.training.lr == 0.005
    elsewhere = AdversarialSettings().injected_nodes
    assert settings_for("grb-flickr", 7, lr=0.01).injected_nodes == elsewhere
    assert settings_for("mine", 7, lr=0.01).feature_range is None
    with pytest.raises(UsageError, match=r"'mine'.*grb-cora"):
        paper_settings("mine")


def _without(field: str) -> Data:
    return Data(**{key: VIEW[key] for key in ("x", "edge_index", "y") if key != field})


def _with(**changed: object) -> Data:
    return Data(**{**{key: VIEW[key] for key in ("x", "edge_index", "y")}, **changed})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DATASET, r"data is a Dataset; it must be a torch_geometric Data"),
        (_without("y"), r"data has no y"),
        (_without("edge_index"), r"data has no edge_index"),
        (_with(x=VIEW.x.long()), r"x is int64 \[60, 8\]; it must be a dense float"),
        (_with(y=VIEW.y[:-1]), r"y is int64 \[59\]; it must be int64 \[60\]"),
        (_with(y=VIEW.y - 1), r"y contains -1"),
        (_with(edge_index=VIEW.edge_index.T), r"edge_index is int64 .*int64 \[2, num_edges\]"),
        (_with(edge_index=VIEW.edge_index + 40), r"edge_index contains node .* to 59"),
        (_with(train_mask=torch.zeros(60)), r"train_mask is float32 \[60\]; it must be bool"),
        (_with(train_mask=torch.zeros(60, dtype=torch.bool)), r"train_mask is empty"),
        (_with(x=VIEW.x[:, :0]), r"x is float32 \[60, 0\]; it must be a dense float"),
        (_with(x=VIEW.x.to_sparse()), r"it must be a dense float"),
        (_with(x=VIEW.x / 0), r"x has NaN or infinite"),
        (_with(y=VIEW.y.to("meta")), r"edge_index and y are on \['cpu', 'meta'\]"),
        (_with(edge_index=torch.tensor([[3], [4]])), r"the edge from 3 to 4 but not its reverse"),
    ],
)
def test_data_that_is_no_labelled_graph_is_refused(data: Any, message: str) -> None:
    """Before any training; the message says what is wrong."""
    module = fresh()
    before = state(module)
    with pytest.raises(DataError, match=message):
        adversarial_training(module, data, settings=SHORT)
    assert torch.equal(before, state(module))


def test_labels_of_nodes_that_do_not_count_are_not_looked_at() -> None:
    """Many data sets have -1 there."""
    half = torch.arange(60) < 30
    data = _with(train_mask=half, y=torch.where(half, VIEW.y, -1))
    adversarial_training(fresh(), data, settings=SHORT)


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": "a"}, {"settings": {"steps": 3}}])
def test_other_arguments_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    """By name."""
    with pytest.raises(UsageError, match=next(iter(wrong))):
        adversarial_training(fresh(), VIEW, **wrong)


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(8, 3, cached=True)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


class NoGradient(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.linear(x.detach())


@pytest.mark.parametrize(
    ("module", "kind", "message"),
    [
        (object(), ModelError, "the model is a object; give a torch.nn.Module"),
        (GCN(8, 2, (4,)), ModelError, "2 outputs per node, but the labels go up to 2; give it 3"),
        (GCN(5, 3, (4,)), ModelError, "model GCN: .* raised when called"),
        (GCN(8, 3, (4,)).requires_grad_(False), ModelError, "cannot be trained"),
        (Cached(), ModelError, "cache"),
        (NoGradient(), GradientError, "its logits have no gradient in its features"),
    ],
    ids=["no module", "too few classes", "other features", "frozen", "cached", "no gradient"],
)
def test_models_that_cannot_be_trained_so_are_refused(
    module: Any, kind: type[GrbCheckError], message: str
) -> None:
    """Before any training; the message says what is wrong, and the module is not changed."""
    before = _all_of(module)
    with pytest.raises(kind, match=message):
        adversarial_training(module, VIEW, VALIDATION, settings=SHORT)
    assert before == _all_of(module)


def _all_of(module: object) -> list[object]:
    if not isinstance(module, nn.Module):
        return []
    return [module.training, *((p.requires_grad, p.tolist()) for p in module.parameters())]


@pytest.mark.parametrize(
    "wrong",
    [
        {"injected_nodes": 0},
        {"edges_per_injected_node": 0},
        {"steps": 0},
        {"step_size": 0.0},
        {"growth": -1},
        {"measure_every": 0},
        {"feature_range": (1.0, -1.0)},
        {"feature_range": (0.0, math.inf)},
        {"feature_range": (0.0, 1.0, 2.0)},
        {"objective": "nonsense"},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    """The message names the setting and the value."""
    ((name, value),) = wrong.items()
    with pytest.raises(UsageError) as caught:
        AdversarialSettings(**wrong)
    assert name in str(caught.value)
    assert str(value) in str(caught.value)


def test_where_figures_are_recalls_states_are_compared_by_average_precision() -> None:
    check_ranked_states(partial(adversarial_training, settings=SHORT, seed=0))
