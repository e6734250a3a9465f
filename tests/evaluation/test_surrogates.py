"""Surrogates are repeatable, described, storable, and several act as one model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from graph_unions import PooledGat, PooledGcn, union_of, victim_on
from numpy.typing import NDArray
from small_graphs import community_dataset, set_of_graphs
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.attacks.names import SURROGATES
from grb_check.cases.outcomes import NO_GRAPH
from grb_check.datasets.graph_dataset import graph_dataset
from grb_check.errors import DataError, UsageError
from grb_check.evaluation import surrogates
from grb_check.evaluation.surrogates import (
    GRAPH_REFERENCES,
    REFERENCES,
    Ensemble,
    check_kinds,
    first_on,
    from_arrays,
    recipe,
    references_on,
    surrogate,
    to_arrays,
)
from grb_check.gradients.victim import Victim
from grb_check.victims.conventions import Convention

DATASET = replace(community_dataset(), features="grb")
GRAPH = DATASET.graph
CPU = torch.device("cpu")
KINDS = tuple(dict.fromkeys((*SURROGATES, *REFERENCES)))
MODELS = {kind: surrogate(DATASET, kind=kind, seed=1, device=CPU) for kind in KINDS}
GCN = MODELS["gcn"]
MEMBERS = tuple(MODELS[kind] for kind in SURROGATES)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_surrogate() -> None:
    """The global random state has no effect and is unchanged."""
    torch.manual_seed(99)
    before = torch.get_rng_state()
    again = surrogate(DATASET, seed=1, device=CPU)
    other = surrogate(DATASET, seed=2, device=CPU)
    assert torch.equal(before, torch.get_rng_state())
    logits = GCN(GRAPH.x, GRAPH.edge_index)
    assert torch.equal(again(GRAPH.x, GRAPH.edge_index), logits)
    assert not torch.equal(other(GRAPH.x, GRAPH.edge_index), logits)


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_come_back_as_the_same_surrogate(kind: str) -> None:
    """Bit for bit, including running means and variances."""
    again = from_arrays(DATASET, kind, to_arrays(MODELS[kind]), CPU)
    expected = MODELS[kind](GRAPH.x, GRAPH.edge_index)
    assert torch.equal(again(GRAPH.x, GRAPH.edge_index), expected)
    assert not any(p.requires_grad for p in again.module.parameters())


def _nan(arrays: dict[str, NDArray[np.float32]]) -> None:
    arrays["layers.0.bias"] = np.full_like(arrays["layers.0.bias"], np.nan)


def _short(arrays: dict[str, NDArray[np.float32]]) -> None:
    arrays["layers.0.bias"] = arrays["layers.0.bias"][1:]


def _double(arrays: dict[str, NDArray[np.float32]]) -> None:
    arrays["layers.0.bias"] = arrays["layers.0.bias"].astype(np.float64)  # type: ignore[assignment]


def _lacking(arrays: dict[str, NDArray[np.float32]]) -> None:
    del arrays["layers.0.bias"]


@pytest.mark.parametrize("spoil", [_nan, _short, _double, _lacking])
def test_spoilt_arrays_are_refused(spoil: Callable[[dict[str, NDArray[np.float32]]], None]) -> None:
    """Stored arrays are checked before they are used."""
    arrays = to_arrays(GCN)
    spoil(arrays)
    with pytest.raises(DataError, match="stored GCN"):
        from_arrays(DATASET, "gcn", arrays, CPU)


def test_the_recipe_names_what_determines_the_surrogate() -> None:
    """It names model, layers and training; layers depend on the dataset."""
    assert len({recipe(DATASET, kind) for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        text = recipe(DATASET, kind)
        layers = ("[64, 64, 64]",) if kind != NO_GRAPH else ("mlp v1",)
        for part in (*layers, "lr=0.01", "patience=50"):
            assert part in text
    flickr = replace(DATASET, name="grb-flickr")
    assert "gcn v1 (hidden_sizes=[256, 128, 64], dropout=" in recipe(flickr, "gcn")
    assert "gin v1 (hidden_sizes=[128, 128, 128], dropout=" in recipe(flickr, "gin")


def _injected(seed: int) -> tuple[Tensor, Tensor]:
    """Features of two injected nodes, and the edges of the graph with them."""
    links = torch.tensor([[5, 6, 7], [120, 120, 121]])
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.cat([GRAPH.edge_index, links, links.flip(0)], dim=1)
    return torch.randn(2, 8, generator=generator), edge_index


def test_an_ensemble_takes_injected_nodes() -> None:
    """The same as on the whole graph, with a gradient."""
    ensemble, targets = Ensemble(MEMBERS), torch.tensor([7, 5, 30])
    injected, edge_index = _injected(seed=0)
    injected.requires_grad_()
    actual = ensemble.with_injected(GRAPH.x, edge_index, 2, targets)(injected)
    expected = ensemble(torch.cat([GRAPH.x, injected]), edge_index)[targets]
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    (gradient,) = torch.autograd.grad(actual[0, 0], injected)
    assert (gradient != 0).any()


def test_an_ensemble_takes_weights_of_pairs_if_all_members_do() -> None:
    """The same as on the graph without one edge and with another, with a gradient."""
    ensemble, targets = Ensemble(MEMBERS), torch.tensor([7, 5, 30])
    edge = GRAPH.edge_index[:, :1].sort(dim=0).values
    pairs = torch.cat([edge, torch.tensor([[5], [7]])], dim=1)
    logits_of = ensemble.with_pairs(GRAPH.x, GRAPH.edge_index, pairs, targets)
    assert logits_of is not None
    weights = torch.tensor([0.0, 1.0], requires_grad=True)
    others = (GRAPH.edge_index.sort(dim=0).values != edge).any(dim=0)
    new = pairs[:, 1:]
    edge_index = torch.cat([GRAPH.edge_index[:, others], new, new.flip(0)], dim=1)
    actual = logits_of(weights)
    expected = ensemble(GRAPH.x, edge_index)[targets]
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    assert torch.autograd.grad(actual[0, 0], weights)[0][1] != 0
    deaf = replace(GCN.adapter, module=nn.Linear(8, 3), convention=Convention(((None, "x"),)))
    mixed = Ensemble((GCN, Victim(deaf, 3)))
    assert mixed.with_pairs(GRAPH.x, GRAPH.edge_index, pairs, targets) is None


def test_an_ensemble_takes_edge_weights_if_all_members_do() -> None:
    """The output is differentiable with respect to them."""
    ensemble = Ensemble(MEMBERS)
    assert ensemble.takes_edge_weight
    weight = torch.ones(GRAPH.edge_index.shape[1], requires_grad=True)
    (gradient,) = torch.autograd.grad(ensemble(GRAPH.x, GRAPH.edge_index, weight).sum(), weight)
    assert torch.isfinite(gradient).all()
    plain = replace(GCN.adapter, convention=replace(GCN.adapter.convention, weight_name=None))
    assert not Ensemble((GCN, Victim(plain, 3))).takes_edge_weight


@dataclass(frozen=True)
class Asking:
    """An attack, reduced to its surrogates."""

    surrogates: tuple[str, ...]


def test_sets_of_graphs_lack_some_surrogates() -> None:
    """The error comes before any training and lists the allowed ones."""
    dataset = graph_dataset(set_of_graphs())
    check_kinds(Asking(("gin", "gcn")), dataset)
    check_kinds(Asking(("gcn_ln",)), community_dataset())
    assert recipe(dataset, "gin").startswith("graph_gin v1 (lr=")
    with pytest.raises(UsageError, match=r"'gcn_ln' classifies nodes.*allowed: gcn, gin"):
        check_kinds(Asking(("gcn", "gcn_ln")), dataset)


def test_references_are_undefended_models_that_the_dataset_can_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of three kinds for nodes, of two for graphs; on a large graph the GCN; and a perceptron."""
    assert references_on(DATASET) == REFERENCES == ("gcn", "mlp", "gat", "sage", "gin")
    assert references_on(graph_dataset(set_of_graphs())) == GRAPH_REFERENCES == ("gcn", "gin")
    monkeypatch.setattr(surrogates, "MAX_EDGES", DATASET.num_edges - 1)
    assert references_on(DATASET) == first_on(DATASET) == ("gcn", "mlp")


EDGES = [[(0, 1), (1, 2), (2, 3), (0, 3)], [(0, 1), (0, 2)], [(0, 1), (1, 2)]]
WHOLE = union_of([4, 3, 3], EDGES)
SECOND = Data(
    x=WHOLE.x[4:7],
    edge_index=union_of([3], EDGES[1:2]).edge_index,
    batch=torch.zeros(3, dtype=torch.int64),
    y=WHOLE.y[1:2],
)


def margin(logits: Tensor) -> Tensor:
    return (logits[:, 0] - logits[:, 1]).sum()


@pytest.mark.parametrize("module", [PooledGcn, PooledGat])
def test_a_graph_alone_has_the_logits_it_has_among_others(module) -> None:
    victim = victim_on(WHOLE, module)
    alone = victim.on_graphs(SECOND.batch)
    expected = victim(WHOLE.x, WHOLE.edge_index)
    assert expected.shape == (3, 2)
    assert torch.allclose(alone(SECOND.x, SECOND.edge_index), expected[1:2], atol=1e-6)
    assert torch.equal(victim(WHOLE.x, WHOLE.edge_index), expected)


def test_gradients_of_all_pairs_are_those_of_the_graph_alone() -> None:
    """Whether the model was tried on these graphs or on others."""
    victim = victim_on(WHOLE)
    pairs = torch.tensor([[0, 0, 1], [1, 2, 2]])
    fresh = victim.on_graphs(SECOND.batch)
    whole = victim.pair_gradients(WHOLE.x, WHOLE.edge_index, torch.tensor([1]), margin)
    tried = victim.on_graphs(SECOND.batch)
    assert whole is not None
    for candidate in (fresh, tried):
        gradients = candidate.pair_gradients(SECOND.x, SECOND.edge_index, torch.tensor([0]), margin)
        assert gradients is not None
        assert torch.allclose(gradients.at(pairs), whole.at(pairs + 4), atol=1e-5)
    assert torch.allclose(whole.at(torch.tensor([[0, 7], [1, 8]])), torch.zeros(2), atol=1e-6)


def test_members_of_an_ensemble_move_together() -> None:
    members = tuple(victim_on(WHOLE, seed=seed) for seed in (0, 1))
    moved = Ensemble(members).on_graphs(SECOND.batch)
    expected = Ensemble(members)(WHOLE.x, WHOLE.edge_index)[1:2]
    assert torch.allclose(moved(SECOND.x, SECOND.edge_index), expected, atol=1e-6)
    assert all(isinstance(member, Victim) for member in moved.members)
