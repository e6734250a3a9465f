"""The model that is trained anew on each graph, and its meta-gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.poisoning.retrained import MOMENTUM, RATE, retrained, training_nodes
from grb_check.attacks.threat import Threat

STEPS = (2, 4)


def model_of(graph: Data):  # type: ignore[no-untyped-def]
    """The model that learns the class of every other node, with a threat to the rest."""
    threat = Threat(scenario="modification", targets=torch.arange(0, graph.num_nodes, 2))
    return retrained(graph, threat, STEPS, torch.Generator().manual_seed(0)), threat


def dense_logits(model, weights: Tensor) -> list[Tensor]:  # type: ignore[no-untyped-def]
    """The same by autograd through every step, from a dense adjacency [N, N]."""
    loops = weights + torch.eye(len(weights), dtype=weights.dtype)
    features = twice_spread(loops, model.x)
    learnt = features
    if model.inductive:
        inside = torch.zeros_like(loops)
        inside[model.nodes[:, None], model.nodes] = 1
        learnt = twice_spread(loops * inside + torch.eye(len(loops)) * (1 - inside), model.x)
    first, second = (tensor.to(weights).requires_grad_() for tensor in model.start)
    speed = [torch.zeros_like(first), torch.zeros_like(second)]
    outputs = []
    for step in range(1, max(STEPS) + 1):
        loss = F.cross_entropy((learnt @ first @ second)[model.nodes], model.labels)
        slopes = torch.autograd.grad(loss, (first, second), create_graph=True)
        speed = [MOMENTUM * v + slope for v, slope in zip(speed, slopes, strict=True)]
        first, second = first - RATE * speed[0], second - RATE * speed[1]
        if step in STEPS:
            outputs.append(features @ first @ second)
    return outputs


def mean_of(logits: list[Tensor]) -> Tensor:
    return torch.stack([output.log_softmax(1) for output in logits]).mean(0)


def twice_spread(loops: Tensor, x: Tensor) -> Tensor:
    root = loops.sum(1).rsqrt()
    matrix = root[:, None] * loops * root
    return matrix @ matrix @ x.to(loops)


@given(graphs(), st.booleans(), st.booleans())
def test_the_gradient_is_that_through_every_step_of_the_training(
    graph: Data, wide: bool, inductive: bool
) -> None:
    """Of all pairs that it sees; also with more features than training nodes, and fewer."""
    graph.inductive = inductive
    if wide:
        more = [graph.x, graph.x.flip(0), graph.x**2, graph.x.flip(1)]
        graph.x = torch.cat(more, dim=1).repeat(1, 3)
    model, threat = model_of(graph)
    size = graph.num_nodes
    weights = torch.zeros(size, size, dtype=torch.float64)
    weights[graph.edge_index[0], graph.edge_index[1]] = 1
    weights.requires_grad_()
    labels = graph.y[threat.targets]
    expected = dense_logits(model, weights)
    torch.testing.assert_close(
        model(graph.x, graph.edge_index), mean_of(expected).float(), atol=1e-4, rtol=1e-3
    )
    values = [F.cross_entropy(output[threat.targets], labels) for output in expected]
    (slopes,) = torch.autograd.grad(sum(values) / len(values), weights)
    gradients = model.pair_gradients(
        graph.x, graph.edge_index, threat.targets, lambda logits: F.cross_entropy(logits, labels)
    )
    every = torch.combinations(model.nodes if inductive else torch.arange(size)).T.reshape(2, -1)
    both = (slopes + slopes.T)[every[0], every[1]].float()
    torch.testing.assert_close(gradients.at(every), both, atol=1e-4, rtol=1e-3)


@given(graphs(), st.randoms(use_true_random=False))
def test_weights_of_pairs_have_the_same_gradient(graph: Data, random) -> None:  # type: ignore[no-untyped-def]
    """At any weights between 0 and 1, of edges and of other pairs, in any order."""
    model, threat = model_of(graph)
    every = torch.combinations(torch.arange(graph.num_nodes)).T.reshape(2, -1)
    chosen = [k for k in range(every.shape[1]) if random.random() < 0.5]
    random.shuffle(chosen)
    pairs = every[:, chosen]
    given_weights = torch.tensor([random.random() for _ in chosen]).requires_grad_()
    logits = model.with_pairs(graph.x, graph.edge_index, pairs, threat.targets)(given_weights)
    weights = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    weights[graph.edge_index[0], graph.edge_index[1]] = 1
    exact = given_weights.detach().double().requires_grad_()
    for first, second in (pairs, pairs.flip(0)):
        weights = weights.index_put((first, second), exact)
    expected = mean_of(dense_logits(model, weights))[threat.targets]
    torch.testing.assert_close(logits, expected.float(), atol=1e-4, rtol=1e-3)
    if chosen:
        # Large terms that cancel leave their rounding.
        scale = max(1.0, float(expected.detach().abs().max()))
        (gradient,) = torch.autograd.grad((logits / scale).square().sum(), given_weights)
        (slopes,) = torch.autograd.grad((expected / scale).square().sum(), exact)
        torch.testing.assert_close(gradient, slopes.float(), atol=1e-4, rtol=1e-3)


def test_it_learns_from_the_training_nodes_or_from_all_that_are_not_attacked() -> None:
    """Of all nodes, if all are attacked."""
    graph = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.arange(4) % 2)
    threat = Threat(scenario="modification", targets=torch.tensor([1, 2]))
    assert training_nodes(graph, threat).tolist() == [0, 3]
    all_of_them = Threat(scenario="modification", targets=torch.arange(4))
    assert training_nodes(graph, all_of_them).tolist() == [0, 1, 2, 3]
    graph.train_mask = torch.tensor([True, False, False, False])
    assert training_nodes(graph, threat).tolist() == [0]
    assert edge_set(graph).codes.tolist() == [1]
