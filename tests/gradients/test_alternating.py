"""Only unchanged modules whose own class declares its layers are alternating."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from alternating import DEPTHS, gcn_of, gin_of, victim_of
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs, pairs, undirected
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from grb_check.gradients.alternating import (
    Alternating,
    as_alternating,
    injected_logits,
    linked_logits,
    pair_gradients,
    pair_logits,
)
from grb_check.gradients.normalisation import Normalisation
from grb_check.models.reference.gcn import GCN
from grb_check.models.reference.gin import GIN

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


class Declared(nn.Module):
    """A user's class: means over neighbours and the node itself, then a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    @property
    def normalisation(self) -> Normalisation:
        return Normalisation(-0.5, -0.5, 2.0)

    def stages(self) -> list[Callable[[Tensor], Tensor]]:
        return [lambda x: x, self.linear]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.linear(self.normalisation.fixed(edge_index, x.shape[0])(x))


class Inheriting(GCN):
    """A subclass that overrides nothing."""


class Overriding(GCN):
    """A subclass with a forward pass that the inherited `stages` do not describe."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return super().forward(x, edge_index, edge_weight).relu()


class Unrelated(nn.Module):
    """A class that uses the same names for something else."""

    normalisation = "batch"

    def stages(self) -> int:
        return 2

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize("module", [gcn_of(4, (3,)), gin_of(4, (3,)), Declared()])
def test_a_class_that_declares_its_layers_is_alternating(module: nn.Module) -> None:
    """The reference models, and a user's class."""
    assert as_alternating(module) is module


@pytest.mark.parametrize("module", [Inheriting(4, 3), Overriding(4, 3), Unrelated()])
def test_a_class_that_declares_nothing_is_not(module: nn.Module) -> None:
    """A subclass is not, because its forward pass may differ from its parent's."""
    assert as_alternating(module) is None


def test_a_changed_module_is_not() -> None:
    """Neither with a hook nor with a method set on the instance."""
    hooked, patched = gcn_of(4, (3,)), gcn_of(4, (3,))
    hooked.register_forward_hook(lambda *_: None)
    patched.forward = lambda x, edge_index: x  # type: ignore[method-assign,assignment]
    assert as_alternating(hooked) is None
    assert as_alternating(patched) is None


@pytest.mark.parametrize("kind", [Inheriting, Overriding])
def test_the_logits_of_a_subclass_are_its_own(kind: type[GCN]) -> None:
    """Attacks see what the subclass computes, also where GCN has a faster way."""
    torch.manual_seed(0)
    victim = victim_of(kind(4, 3).eval().requires_grad_(False))
    x, new = torch.randn(4, 4), torch.randn(1, 4)
    grown = torch.cat([EDGES, torch.tensor([[4, 0], [0, 4]])], dim=1)
    logits = victim.with_injected(x, grown, 1, torch.arange(4))(new)
    torch.testing.assert_close(logits, victim(torch.cat([x, new]), grown)[:4])


def test_a_declared_class_has_exact_gradients_of_all_pairs() -> None:
    """Those of autograd through the weights of pairs; no trial is needed."""
    torch.manual_seed(0)
    victim = victim_of(Declared().eval().requires_grad_(False))
    x, targets = torch.randn(4, 4), torch.arange(4)
    pairs = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 2]])
    gradients = victim.pair_gradients(x, EDGES, targets, lambda logits: logits.square().sum())
    logits_of = victim.with_pairs(x, EDGES, pairs, targets)
    assert gradients is not None
    assert logits_of is not None
    weights = torch.tensor([1.0, 0.0, 0.0, 1.0], requires_grad=True)
    (expected,) = torch.autograd.grad(logits_of(weights).square().sum(), weights)
    torch.testing.assert_close(gradients.at(pairs), expected)


Attacked = tuple[int, int, Tensor, Tensor]


@st.composite
def attacked_graphs(draw: st.DrawFn) -> Attacked:
    """Existing nodes, injected nodes, their edges, and targets: none linked, some, or all."""
    num_nodes, count = draw(st.integers(1, 14)), draw(st.integers(1, 4))
    old, any_node = st.integers(0, num_nodes - 1), st.integers(0, num_nodes + count - 1)
    new = st.integers(num_nodes, num_nodes + count - 1)
    ends = draw(st.lists(st.tuples(old, old), max_size=20))
    ends += draw(st.lists(st.tuples(new, any_node), max_size=8))
    edge_index = torch.tensor([pair for pair in ends if pair[0] != pair[1]], dtype=torch.int64)
    edge_index = edge_index.reshape(-1, 2).T
    if edge_index.shape[1]:
        edge_index = coalesce(to_undirected(edge_index, num_nodes=num_nodes + count))
    targets = draw(st.lists(old, unique=True, min_size=1))
    return num_nodes, count, edge_index, torch.tensor(targets)


def _gcn(hidden: tuple[int, ...], layer_norm: bool) -> Alternating:
    model = GCN(4, 3, hidden, layer_norm=layer_norm).eval().requires_grad_(False)
    for parameter in model.parameters():  # biases and scales that are neither 0 nor 1
        parameter.copy_(torch.randn_like(parameter) / 2)
    return model.double()


def _gin(hidden: tuple[int, ...], eps: float, layer_norm: bool) -> Alternating:
    model = GIN(4, 3, hidden, eps=eps, layer_norm=layer_norm).eval().requires_grad_(False)
    for norm in model.norms:  # as after some training
        norm.running_mean = torch.randn(norm.num_features) / 2
        norm.running_var = torch.rand(norm.num_features) + 0.5
    return model.double()


def _size(values: Tensor) -> float:
    return max(1.0, float(values.detach().abs().max()))


def _check_against_whole(model: Alternating, graph: Attacked) -> None:
    """Compare logits and gradients, to 1e-5 of the largest or of 1.

    In float64, because normalised rows of two or three columns amplify rounding.
    """
    num_nodes, count, edge_index, targets = graph
    x, injected = (torch.randn(n, 4, dtype=torch.float64) for n in (num_nodes, count))
    injected.requires_grad_()
    expected = model(torch.cat([x, injected]), edge_index)[targets]
    actual = injected_logits(model, x, edge_index, count, targets)(injected)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5 * _size(expected))
    direction = torch.randn_like(expected)
    gradients = [
        torch.autograd.grad((logits * direction).sum(), injected)[0]
        for logits in (actual, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5 * _size(gradients[1]))


@settings(deadline=None, max_examples=150)
@given(
    graph=attacked_graphs(),
    hidden=st.sampled_from([(), (3,), (8, 4), (2, 9, 5)]),
    layer_norm=st.booleans(),
    seed=st.integers(0, 99),
)
def test_equals_the_whole_forward_pass(
    graph: Attacked, hidden: tuple[int, ...], layer_norm: bool, seed: int
) -> None:
    """The GCN, depths 1 to 4."""
    torch.manual_seed(seed)
    _check_against_whole(_gcn(hidden, layer_norm), graph)


@settings(deadline=None, max_examples=80)
@given(
    graph=attacked_graphs(),
    hidden=st.sampled_from([(3,), (8, 4), (2, 9, 5)]),
    eps=st.sampled_from([0.0, 0.5]),
    layer_norm=st.booleans(),
    seed=st.integers(0, 99),
)
def test_equals_the_whole_forward_pass_of_the_gin(
    graph: Attacked, hidden: tuple[int, ...], eps: float, layer_norm: bool, seed: int
) -> None:
    """Depths 1 to 3, with and without layer normalisation."""
    torch.manual_seed(seed)
    _check_against_whole(_gin(hidden, eps, layer_norm), graph)


# Graph, weights of links [n, m], candidates [m], targets [t].
Relaxed = tuple[Data, Tensor, Tensor, Tensor]


@st.composite
def weighted_links(draw: st.DrawFn) -> Relaxed:
    """Candidates and targets, different nodes in any order; some injected nodes have no links."""
    graph = draw(graphs())
    node = st.integers(0, graph.num_nodes - 1)
    candidates = draw(st.lists(node, unique=True, min_size=1))
    targets = draw(st.lists(node, unique=True, min_size=1))
    count, width = draw(st.integers(1, 3)), len(candidates)
    bits = draw(st.lists(st.booleans(), min_size=count * width, max_size=count * width))
    weights = torch.tensor(bits).float().reshape(count, width)
    return graph, weights, torch.tensor(candidates), torch.tensor(targets)


def _gcn_of_links(width: int, hidden: tuple[int, ...], layer_norm: bool = False) -> GCN:
    model = GCN(width, 3, hidden, layer_norm=layer_norm).eval().requires_grad_(False)
    for parameter in model.parameters():  # biases and scales that are neither 0 nor 1
        parameter.copy_(torch.randn_like(parameter) / 2)
    return model


def _gin_of_links(width: int, hidden: tuple[int, ...], eps: float = 0.0) -> GIN:
    model = GIN(width, 3, hidden, eps=eps).eval().requires_grad_(False)
    for norm in model.norms:  # as after some training
        assert isinstance(norm, nn.BatchNorm1d)
        norm.running_mean = torch.randn(norm.num_features) / 2
        norm.running_var = torch.rand(norm.num_features) + 0.5
    return model


def _with_links(graph: Data, weights: Tensor, candidates: Tensor) -> Tensor:
    """The edges of the graph with the links of weight 1."""
    new, target_index = weights.nonzero().T
    links = torch.stack([new + graph.num_nodes, candidates[target_index]])
    return torch.cat([graph.edge_index, links, links.flip(0)], dim=1)


def _check_against_whole_of_links(model: Alternating, relaxed: Relaxed) -> None:
    """Compare logits and the gradient in the features, to 1e-5 of the largest or of 1."""
    graph, weights, candidates, targets = relaxed
    injected = torch.randn(weights.shape[0], graph.x.shape[1], requires_grad=True)
    whole = model(torch.cat([graph.x, injected]), _with_links(graph, weights, candidates))[targets]
    logits_of = linked_logits(model, graph.x, graph.edge_index, candidates, targets)
    actual = logits_of(injected, weights)
    torch.testing.assert_close(actual, whole, rtol=1e-5, atol=1e-5 * _size(whole))
    direction = torch.randn_like(whole)
    gradients = [
        torch.autograd.grad((logits * direction).sum(), injected)[0] for logits in (actual, whole)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5 * _size(gradients[1]))


@settings(deadline=None, max_examples=100)
@given(
    relaxed=weighted_links(),
    hidden=st.sampled_from([(), (3,), (8, 4), (2, 9, 5)]),
    layer_norm=st.booleans(),
    seed=st.integers(0, 99),
)
def test_weights_of_zero_and_one_give_the_gcns_logits(
    relaxed: Relaxed, hidden: tuple[int, ...], layer_norm: bool, seed: int
) -> None:
    """Depths 1 to 4, with and without layer normalisation."""
    torch.manual_seed(seed)
    width = relaxed[0].x.shape[1]
    # A single column is only rounding after the normalisation, which amplifies it.
    _check_against_whole_of_links(_gcn_of_links(width, hidden, layer_norm and width > 1), relaxed)


@settings(deadline=None, max_examples=60)
@given(
    relaxed=weighted_links(),
    hidden=st.sampled_from([(3,), (8, 4), (2, 9, 5)]),
    eps=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 99),
)
def test_weights_of_zero_and_one_give_the_gins_logits(
    relaxed: Relaxed, hidden: tuple[int, ...], eps: float, seed: int
) -> None:
    """Depths 1 to 3."""
    torch.manual_seed(seed)
    _check_against_whole_of_links(_gin_of_links(relaxed[0].x.shape[1], hidden, eps), relaxed)


def test_without_a_propagation_links_have_no_effect() -> None:
    class RowWise(Declared):
        def stages(self) -> list[Callable[[Tensor], Tensor]]:
            return [self.linear]

    model, x = RowWise().eval(), torch.randn(4, 4)
    logits_of = linked_logits(model, x, EDGES, torch.tensor([1, 2]), torch.tensor([2, 3]))
    assert torch.equal(logits_of(torch.randn(2, 4), torch.ones(2, 2)), model.linear(x[2:]))


@pytest.mark.slow
@pytest.mark.parametrize("make", [_gcn_of_links, _gin_of_links])
@settings(deadline=None, max_examples=15)
@given(relaxed=weighted_links(), seed=st.integers(0, 99))
def test_gradients_are_those_of_finite_differences(make, relaxed: Relaxed, seed: int) -> None:
    """For weights and features in float64, between 0 and 1 and for absent links."""
    graph, weights, candidates, targets = relaxed
    torch.manual_seed(seed)
    model = make(graph.x.shape[1], (3, 2)).double()
    x = graph.x.double()
    logits_of = linked_logits(model, x, graph.edge_index, candidates, targets)
    features = torch.randn(weights.shape[0], x.shape[1], dtype=torch.float64).requires_grad_()
    for start in (weights.double(), torch.rand_like(weights, dtype=torch.float64)):
        assert torch.autograd.gradcheck(logits_of, (features, start.requires_grad_()))


@settings(deadline=None, max_examples=20)
@given(relaxed=weighted_links(), seed=st.integers(0, 9))
def test_weights_between_are_weights_of_edges(relaxed: Relaxed, seed: int) -> None:
    """Equal to the GCN called with the same edge weights."""
    graph, weights, candidates, targets = relaxed
    torch.manual_seed(seed)
    model = _gcn_of_links(graph.x.shape[1], (4, 3))
    every, between = torch.ones_like(weights), torch.rand_like(weights)
    injected = torch.randn(weights.shape[0], graph.x.shape[1])
    values = torch.cat([torch.ones(graph.edge_index.shape[1]), between.flatten().repeat(2)])
    edges = _with_links(graph, every, candidates)
    whole = model(torch.cat([graph.x, injected]), edges, values)[targets]
    logits_of = linked_logits(model, graph.x, graph.edge_index, candidates, targets)
    torch.testing.assert_close(logits_of(injected, between), whole, rtol=1e-5, atol=1e-5)


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
def test_gradients_are_those_of_finite_differences_of_pair_weights(
    make, data: st.DataObject
) -> None:
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
