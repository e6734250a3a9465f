"""Weights of pairs: the model's own logits for 0 and 1, and gradients for all pairs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from alternating import DEPTHS, gcn_of, gin_of
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs, pairs, undirected
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.gradients.alternating import pair_gradients, pair_logits
from grb_check.models.reference.gcn import GCN
from grb_check.models.reference.gin import GIN

Model = GCN | GIN
Objective = Callable[[Tensor], Tensor]


@st.composite
def models(draw: st.DrawFn, width: int) -> Model:
    """GCN with 1 to 4 layers, with and without layer normalisation, and GIN with 1 to 3."""
    torch.manual_seed(draw(st.integers(0, 99)))
    if draw(st.booleans()):
        return gin_of(width, draw(st.sampled_from(DEPTHS)), eps=draw(st.sampled_from([0.0, 0.5])))
    # A single column is only rounding after the normalisation, which amplifies it.
    layer_norm = width > 1 and draw(st.booleans())
    return gcn_of(width, draw(st.sampled_from([(), *DEPTHS])), layer_norm=layer_norm)


@st.composite
def targets_of(draw: st.DrawFn, graph: Data) -> Tensor:
    """Some nodes, in any order."""
    node = st.integers(0, graph.num_nodes - 1)
    return torch.tensor(draw(st.lists(node, unique=True, min_size=1)))


@st.composite
def pairs_of(draw: st.DrawFn, graph: Data) -> Tensor:
    """Some pairs of nodes in any order, edges and others; possibly none."""
    every = list(combinations(range(graph.num_nodes), 2))
    return pairs(draw(st.lists(st.sampled_from(every), unique=True)) if every else [])


def edges_of(present: set[tuple[int, int]]) -> Tensor:
    one_way = pairs(sorted(present))
    return torch.cat([one_way, one_way.flip(0)], dim=1)


def size_of(values: Tensor) -> float:
    return max([1.0, *values.detach().abs().flatten().tolist()])


def objective_to(targets: Tensor) -> Objective:
    labels = torch.arange(targets.numel()) % 3
    return lambda logits: F.cross_entropy(logits, labels)


def by_autograd(
    model: Model, x: Tensor, weights: Tensor, targets: Tensor, objective: Objective
) -> Tensor:
    """The module's own gradient in the weights [n, n] of all pairs, on the complete graph."""
    every = torch.triu_indices(x.shape[0], x.shape[0], offset=1)
    given = weights[every[0], every[1]].requires_grad_()
    complete = torch.cat([every, every.flip(0)], dim=1)
    value = objective(model(x, complete, given.repeat(2))[targets])
    gradient = torch.zeros_like(weights)
    (gradient[every[0], every[1]],) = torch.autograd.grad(value, given)
    return gradient + gradient.T


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_gradients_of_all_pairs_are_the_modules_own(data: st.DataObject) -> None:
    """For edges and others; single blocks and single pairs agree with the whole."""
    graph = data.draw(graphs())
    model = data.draw(models(graph.x.shape[1])).double()
    targets, num_nodes = data.draw(targets_of(graph)), graph.num_nodes
    x, weights = graph.x.double(), torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    weighted = data.draw(st.booleans())
    drawn = torch.rand_like(weights) if weighted else torch.ones_like(weights)
    source, target = graph.edge_index
    weights[source, target] = (drawn + drawn.T)[source, target] / 2
    objective = objective_to(targets)

    expected = by_autograd(model, x, weights, targets, objective)
    given = weights[source, target] if weighted else None
    gradients = pair_gradients(model, x, graph.edge_index, targets, objective, given)

    nodes = torch.arange(num_nodes)
    different = nodes[:, None] != nodes  # a node with itself is not a pair
    assert torch.allclose(gradients.block(nodes, nodes)[different], expected[different], atol=1e-9)
    chosen = torch.triu_indices(num_nodes, num_nodes, offset=1)
    torch.testing.assert_close(gradients.at(chosen), expected[chosen[0], chosen[1]])
    assert not any(
        part.requires_grad for part in (gradients.inputs, gradients.outputs, gradients.degrees)
    )


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_weights_of_zero_and_one_give_the_models_logits(data: st.DataObject) -> None:
    """On the graph with the pairs of weight 1 and without those of weight 0."""
    graph = data.draw(graphs())
    model, targets = data.draw(models(graph.x.shape[1])), data.draw(targets_of(graph))
    chosen = data.draw(pairs_of(graph))
    bits = data.draw(st.lists(st.booleans(), min_size=chosen.shape[1], max_size=chosen.shape[1]))
    listed = [tuple(pair) for pair in chosen.T.tolist()]
    there = {pair for pair, bit in zip(listed, bits, strict=True) if bit}
    attacked = edges_of((undirected(graph) - set(listed)) | there)

    logits_of = pair_logits(model, graph.x, graph.edge_index, chosen, targets)
    expected = model(graph.x, attacked)[targets]
    logits = logits_of(torch.tensor(bits).float())
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5 * size_of(expected))


@pytest.mark.parametrize("make", [gcn_of, gin_of])
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_gradients_are_those_of_finite_differences(make, data: st.DataObject) -> None:
    """For weights in float64, at the clean graph and between 0 and 1."""
    graph = data.draw(graphs(max_nodes=5))
    torch.manual_seed(data.draw(st.integers(0, 99)))
    model = make(graph.x.shape[1], (3, 2)).double()
    chosen, targets = data.draw(pairs_of(graph)), data.draw(targets_of(graph))
    logits_of = pair_logits(model, graph.x.double(), graph.edge_index, chosen, targets)
    between = torch.rand(chosen.shape[1], dtype=torch.float64)
    for start in (between, between.round()):
        assert torch.autograd.gradcheck(logits_of, (start.requires_grad_(),))


@settings(deadline=None, max_examples=20)
@given(st.data())
def test_both_ways_to_the_gradient_agree(data: st.DataObject) -> None:
    """The gradient of chosen weights is the part of that of all pairs, on the same graph."""
    graph = data.draw(graphs())
    model = data.draw(models(graph.x.shape[1])).double()
    chosen, targets = data.draw(pairs_of(graph)), data.draw(targets_of(graph))
    x, objective = graph.x.double(), objective_to(targets)
    weights = torch.rand(chosen.shape[1], dtype=torch.float64)
    listed = [tuple(pair) for pair in chosen.T.tolist()]
    others = pairs(sorted(undirected(graph) - set(listed)))
    one_way = torch.cat([others, chosen], dim=1)
    edges = torch.cat([one_way, one_way.flip(0)], dim=1)
    values = torch.cat([weights.new_ones(others.shape[1]), weights]).repeat(2)
    every = pair_gradients(model, x, edges, targets, objective, values)

    weights.requires_grad_()
    value = objective(pair_logits(model, x, graph.edge_index, chosen, targets)(weights))
    (gradient,) = torch.autograd.grad(value, weights)
    torch.testing.assert_close(gradient, every.at(chosen))
